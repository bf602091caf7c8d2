#pragma once
/* percentiles – the numbers of latency-tracking-info-percentiles: which percentiles INFO tells of the time
 * that commands took. Plain data; any thread. */

#include "base/compiler.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERCENTILES_MAX 16
/* "99.999" and its end. */
#define PERCENTILES_TEXT_BYTES 8

struct percentiles {
    uint32_t count;
    uint32_t per_100000[PERCENTILES_MAX];
};

/* Numbers from 0 to 100 with blanks between, of three digits behind the point at most. False: it is not
 * that. */
ATTR_MUST_USE bool percentiles_parse(struct percentiles *percentiles, struct slice text);
/* In the form that CONFIG GET shows: 50 99 99.9. */
void percentiles_format(const struct percentiles *percentiles, char *text, size_t capacity);
/* One of them in that form, in text of PERCENTILES_TEXT_BYTES. */
void percentiles_name(uint32_t per_100000, char *text);
