#include "proto/status_code.h"

#include "base/compiler.h"

struct code_row {
    const char *word;
    enum kvasir_status status;
};

/* The first row of a status is the word that is written; all are understood. */
static const struct code_row CODES[] = {
    {"OOM", KVASIR_NO_MEMORY},
    {"TOOLARGE", KVASIR_TOO_LARGE},
    {"DENIED", KVASIR_DENIED},
    {"UNSUPPORTED", KVASIR_UNSUPPORTED},
    {"NOTFOUND", KVASIR_NOT_FOUND},
    {"EXISTS", KVASIR_EXISTS},
    {"CORRUPT", KVASIR_CORRUPT},
    {"EXPIRED", KVASIR_EXPIRED},
    {"BUSY", KVASIR_BUSY},
    {"IO", KVASIR_IO},
    {"QUOTA", KVASIR_QUOTA},
    {"OVERRUN", KVASIR_OVERRUN},
    /* Redis's own. */
    {"NOAUTH", KVASIR_DENIED},
    {"WRONGPASS", KVASIR_DENIED},
    {"NOPERM", KVASIR_DENIED},
    {"LOADING", KVASIR_BUSY},
    {"TRYAGAIN", KVASIR_BUSY},
};

const char *status_code_word(enum kvasir_status status)
{
    for (size_t i = 0; i < ARRAY_COUNT(CODES); i++) {
        if (CODES[i].status == status) {
            return CODES[i].word;
        }
    }
    return "ERR";
}

enum kvasir_status status_code_parse(struct slice error_text)
{
    struct slice word = error_text;
    const uint8_t *blank = NULL;
    if (word.length_bytes > 0) {
        blank = memchr(word.data, ' ', word.length_bytes);
    }
    if (blank != NULL) {
        word.length_bytes = (size_t)(blank - word.data);
    }
    for (size_t i = 0; i < ARRAY_COUNT(CODES); i++) {
        if (slice_equal(word, slice_of_text(CODES[i].word))) {
            return CODES[i].status;
        }
    }
    return KVASIR_INVALID;
}
