#include "server/users_file.h"

#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool all_channels(const struct settings *settings)
{
    return strcmp(settings->acl_pubsub_default, "allchannels") == 0;
}

static void say(struct text *errors, const char *what, const char *path, const char *why)
{
    text_add_text(errors, what);
    text_add_text(errors, " '");
    text_add_text(errors, path);
    text_add_text(errors, "': ");
    text_add_text(errors, why);
}

/* The whole file; *length_p is at most ACL_FILE_BYTES_MAX. NULL: errors says why. */
static char *read_file(const char *path, size_t *length_p, struct text *errors)
{
    FILE *file = fopen(path, "re");
    char *bytes = NULL;
    size_t length = 0;
    if (file == NULL) {
        say(errors, "Error loading ACLs, opening file", path, strerror(errno));
        return NULL;
    }
    bytes = malloc(ACL_FILE_BYTES_MAX + 1);
    if (bytes != NULL) {
        length = fread(bytes, 1, ACL_FILE_BYTES_MAX + 1, file);
    }
    if (bytes == NULL || ferror(file) != 0 || length > ACL_FILE_BYTES_MAX) {
        say(errors, "Error loading ACLs, reading file", path,
            bytes == NULL       ? "out of memory"
            : ferror(file) != 0 ? "input/output error"
                                : "longer than 16 MiB");
        free(bytes);
        bytes = NULL;
    }
    (void)fclose(file);
    *length_p = length;
    return bytes;
}

bool users_file_load(const struct settings *settings, const struct acl_table *before,
                     struct acl_table **table_p, struct text *errors)
{
    size_t length = 0;
    struct acl_table *table;
    char *bytes = read_file(settings->aclfile, &length, errors);
    bool good;
    if (bytes == NULL) {
        return false;
    }
    table = acl_table_create_empty(before);
    good = table != NULL && acl_file_read(table, slice_of(bytes, length), settings->aclfile,
                                          all_channels(settings), errors);
    free(bytes);
    if (!good) {
        acl_table_destroy(&table);
        text_add_text(errors, "WARNING: ACL errors detected, no change to the previously active "
                              "ACL rules was performed");
        return false;
    }
    *table_p = table;
    return true;
}

/* The user lines among the options, if there are any, and requirepass. */
static bool start_from_options(const struct settings *settings, const struct acl_table *before,
                               struct acl_table **table_p, struct text *errors)
{
    const char *lines = settings->users != NULL ? settings->users : "";
    struct acl_table *table = acl_table_create_empty(before);
    if (table == NULL ||
        !acl_file_read(table, slice_of_text(lines), "user", all_channels(settings), errors)) {
        acl_table_destroy(&table);
        return false;
    }
    *table_p = table;
    return true;
}

bool users_file_start(const struct settings *settings, struct acl_table **table_p,
                      struct text *errors)
{
    struct acl_table *before = acl_table_create();
    bool good;
    if (settings->aclfile[0] != '\0' && settings->users != NULL) {
        text_add_text(errors, "both aclfile and user lines are given: keep the users in one place");
        acl_table_destroy(&before);
        return false;
    }
    if (before == NULL || !acl_table_require(before, slice_of_text(settings->requirepass))) {
        text_add_text(errors, "out of memory for users");
        acl_table_destroy(&before);
        return false;
    }
    good = settings->aclfile[0] != '\0' ? users_file_load(settings, before, table_p, errors)
                                        : start_from_options(settings, before, table_p, errors);
    acl_table_destroy(&before);
    return good;
}

bool users_file_save(const struct settings *settings, const struct acl_table *table,
                     uint32_t reactor)
{
    struct text lines = {0};
    bool good;
    acl_file_write(table, &lines);
    errno = ENOMEM;
    /* Only for the server's own eyes: hashes of weak passwords can be guessed. */
    good = !lines.failed && file_replace(settings->aclfile, text_slice(&lines), 0600, reactor);
    if (!good) {
        log_error("cannot write aclfile %s: %s", settings->aclfile, strerror(errno));
    }
    text_fini(&lines);
    return good;
}
