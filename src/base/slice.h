#pragma once
/* slice – a borrowed run of bytes. Any thread; owns nothing. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const uint8_t *data; /* borrowed; may be NULL when length_bytes is 0 */
    size_t length_bytes;
};

static inline struct slice slice_of(const void *data, size_t length_bytes)
{
    return (struct slice){.data = data, .length_bytes = length_bytes};
}

static inline struct slice slice_of_text(const char *text)
{
    return (struct slice){.data = (const uint8_t *)text, .length_bytes = strlen(text)};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.length_bytes == b.length_bytes &&
           (a.length_bytes == 0 || memcmp(a.data, b.data, a.length_bytes) == 0);
}

/* ASCII case is ignored; text is a C string in any case. */
bool slice_equal_nocase(struct slice a, const char *text);

/* Strict decimal integer as Redis reads it: no blanks, no plus sign, no leading zeros, the whole
 * slice, within int64. False leaves *number_p alone. */
bool slice_to_i64(struct slice text, int64_t *number_p);

/* Whole unsigned decimal number (leading zeros allowed) within uint64. */
bool slice_to_u64(struct slice text, uint64_t *number_p);

/* Up to 16 hexadecimal digits, either case. */
bool slice_to_hex64(struct slice text, uint64_t *number_p);
