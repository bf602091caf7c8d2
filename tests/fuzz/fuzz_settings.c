/* fuzz_settings – any text as a configuration file: read, or refused with a sentence; what was read
 * keeps its bounds, and each option's own text sets it to the same value again. */

#include "server/settings.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes);

/* Writes every option as text and reads it into other. */
static void copy_by_text(const struct settings *settings, struct settings *other)
{
    char value[SETTINGS_TEXT_BYTES];
    char error[512];
    for (unsigned i = 0; i < settings_count(); i++) {
        const char *text = settings_value(settings, i, value);
        check(settings_set(other, slice_of_text(settings_name(i)), slice_of_text(text), false,
                           error, sizeof(error)) == KVASIR_OK);
    }
}

static void check_same(const struct settings *settings, const struct settings *other)
{
    char value[SETTINGS_TEXT_BYTES];
    char other_value[SETTINGS_TEXT_BYTES];
    for (unsigned i = 0; i < settings_count(); i++) {
        check(strcmp(settings_value(settings, i, value), settings_value(other, i, other_value)) ==
              0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes)
{
    struct settings settings;
    struct settings other;
    char error[320] = "";
    /* Exactly as long as the input, so that a read or write beyond it shows. */
    char *text = malloc(length_bytes > 0 ? length_bytes : 1);
    check(text != NULL);
    memcpy(text, data, length_bytes);
    settings_init(&settings);
    settings_init(&other);
    enum kvasir_status status =
        settings_read_text(&settings, text, length_bytes, error, sizeof(error));
    free(text);
    check(status == KVASIR_OK || status == KVASIR_INVALID);
    check((status == KVASIR_OK) == (error[0] == '\0'));
    check(memchr(error, '\0', sizeof(error)) != NULL);
    copy_by_text(&settings, &other);
    check_same(&settings, &other);
    error[0] = '\0';
    status = settings_verify(&settings, error, sizeof(error));
    check((status == KVASIR_OK) == (error[0] == '\0'));
    return 0;
}
