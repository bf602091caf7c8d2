#include "server/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

bool settings_split_line(struct slice line, struct slice *name, struct slice *value)
{
    const char *at = (const char *)line.data;
    const char *end = at + line.length_bytes;
    while (at < end && is_blank(*at)) {
        at++;
    }
    while (end > at && is_blank(end[-1])) {
        end--;
    }
    *name = slice_of(at, 0);
    *value = slice_of(at, 0);
    if (at == end || *at == '#') {
        return true;
    }
    while (at < end && !is_blank(*at)) {
        at++;
    }
    name->length_bytes = (size_t)(at - (const char *)name->data);
    while (at < end && is_blank(*at)) {
        at++;
    }
    if (end - at >= 2 && (*at == '"' || *at == '\'') && end[-1] == *at) {
        at++;
        end--;
    } else if (at == end) {
        return false;
    }
    *value = slice_of(at, (size_t)(end - at));
    return true;
}

enum kvasir_status settings_read_text(struct settings *settings, const char *text,
                                      size_t length_bytes, char *error, size_t error_capacity)
{
    unsigned number = 0;
    size_t start = 0;
    while (start < length_bytes) {
        const char *line = text + start;
        const char *end = memchr(line, '\n', length_bytes - start);
        size_t line_bytes = end != NULL ? (size_t)(end - line) : length_bytes - start;
        struct slice name;
        struct slice value;
        char reason[256];
        number++;
        start += line_bytes + 1;
        if (end == NULL && line_bytes == 0) {
            break;
        }
        if (memchr(line, '\0', line_bytes) != NULL ||
            !settings_split_line(slice_of(line, line_bytes), &name, &value)) {
            (void)snprintf(error, error_capacity, "line %u: expected 'name value'", number);
            return KVASIR_INVALID;
        }
        if (name.length_bytes > 0 &&
            settings_set(settings, name, value, false, reason, sizeof(reason)) != KVASIR_OK) {
            (void)snprintf(error, error_capacity, "line %u: %s", number, reason);
            return KVASIR_INVALID;
        }
    }
    return KVASIR_OK;
}

enum kvasir_status settings_read_file(struct settings *settings, const char *path, char *error,
                                      size_t error_capacity)
{
    char *text = NULL;
    char reason[320];
    size_t length;
    enum kvasir_status status;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)snprintf(error, error_capacity, "cannot read the configuration file %s: %s", path,
                       strerror(errno));
        return errno == ENOENT ? KVASIR_NOT_FOUND : KVASIR_IO;
    }
    text = malloc(SETTINGS_FILE_BYTES_MAX + 1);
    if (text == NULL) {
        (void)fclose(file);
        (void)snprintf(error, error_capacity, "no memory for the configuration file %s", path);
        return KVASIR_NO_MEMORY;
    }
    length = fread(text, 1, SETTINGS_FILE_BYTES_MAX + 1, file);
    if (ferror(file) != 0) {
        (void)snprintf(error, error_capacity, "cannot read the configuration file %s: %s", path,
                       strerror(errno));
        free(text);
        (void)fclose(file);
        return KVASIR_IO;
    }
    (void)fclose(file);
    if (length > SETTINGS_FILE_BYTES_MAX) {
        free(text);
        (void)snprintf(error, error_capacity, "the configuration file %s is longer than 1 MiB",
                       path);
        return KVASIR_TOO_LARGE;
    }
    status = settings_read_text(settings, text, length, reason, sizeof(reason));
    free(text);
    if (status != KVASIR_OK) {
        (void)snprintf(error, error_capacity, "%s %s", path, reason);
    }
    return status;
}

enum kvasir_status settings_read_arguments(struct settings *settings, int argc, char **argv,
                                           char *error, size_t error_capacity)
{
    int i = 1;
    if (i < argc && strncmp(argv[i], "--", 2) != 0) {
        enum kvasir_status status = settings_read_file(settings, argv[i], error, error_capacity);
        if (status != KVASIR_OK) {
            return status;
        }
        i++;
    }
    for (; i < argc; i++) {
        enum kvasir_status status;
        const char *name = argv[i] + 2;
        const char *equals;
        const char *value;
        if (strncmp(argv[i], "--", 2) != 0) {
            (void)snprintf(error, error_capacity,
                           "expected an option, not '%.64s' (a configuration file stands first); "
                           "--help lists them",
                           argv[i]);
            return KVASIR_INVALID;
        }
        equals = strchr(name, '=');
        value = equals != NULL ? equals + 1 : argv[i + 1];
        if (value == NULL) {
            (void)snprintf(error, error_capacity, "%.64s needs a value; --help lists the options",
                           argv[i]);
            return KVASIR_INVALID;
        }
        status = settings_set(
            settings, slice_of(name, equals != NULL ? (size_t)(equals - name) : strlen(name)),
            slice_of_text(value), false, error, error_capacity);
        if (status != KVASIR_OK) {
            return status;
        }
        i += equals == NULL ? 1 : 0;
    }
    return KVASIR_OK;
}
