#pragma once
/* number – numbers and sizes to and from text. Any thread; owns nothing. */

#include "base/slice.h"

#define NUMBER_TEXT_BYTES_MAX 24

/* Decimal digits of a signed number into text (no terminator); returns how many bytes (≤ 20). */
size_t number_from_i64(char *text, int64_t number);
size_t number_from_u64(char *text, uint64_t number);

/* A memory size: digits with an optional unit b, k, kb, m, mb, g, gb, t, tb in any case, where as in
 * redis.conf k is 1000 and kb is 1024. False leaves *bytes_p alone. */
bool number_parse_bytes(struct slice text, uint64_t *bytes_p);

/* The exact number as number_parse_bytes reads it, in the largest unit that divides it: "64mb", "1000".
 * Always terminated. */
void number_format_size(char *text, size_t capacity, uint64_t bytes);

/* "1.50M" style text for people, as in Redis's used_memory_human. Always terminated. */
void number_format_bytes(char *text, size_t capacity, uint64_t bytes);
