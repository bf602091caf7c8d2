#pragma once
/* text – bytes that grow at their end: for what is put together rarely and has no known length. One
 * thread. Owns its memory. After a failure (no memory, or longer than TEXT_BYTES_MAX) it takes nothing
 * more and says so, so that a row of additions is checked once. */

#include "base/slice.h"

#define TEXT_BYTES_MAX (64U << 20)

struct text {
    char *data; /* owned; NULL: empty */
    size_t length_bytes;
    size_t capacity_bytes;
    bool failed; /* something is missing: the text must not be used */
};

void text_add(struct text *text, struct slice bytes);
void text_add_text(struct text *text, const char *words);
static inline struct slice text_slice(const struct text *text)
{
    return slice_of(text->data, text->length_bytes);
}
/* Frees the memory and leaves an empty text. */
void text_fini(struct text *text);
