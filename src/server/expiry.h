#pragma once
/* expiry – the many ways in which commands say when a key ends, read into Unix milliseconds. Any
 * thread; owns nothing. */

#include "base/clock.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum expiry_unit {
    EXPIRY_SECONDS,      /* EX, EXPIRE */
    EXPIRY_MILLISECONDS, /* PX, PEXPIRE */
    EXPIRY_AT_SECONDS,   /* EXAT, EXPIREAT */
    EXPIRY_AT_MILLISECONDS,
};

/* True when word is EX, PX, EXAT or PXAT. */
bool expiry_unit_of_word(struct slice word, enum expiry_unit *unit_p);

enum expiry_result {
    EXPIRY_OK,
    EXPIRY_NOT_INTEGER,
    EXPIRY_INVALID
};

/* positive: a time that is not in the future of zero is EXPIRY_INVALID (SET, GETEX); else any number
 * that does not overflow goes (EXPIRE). */
enum expiry_result expiry_parse(struct slice text, enum expiry_unit unit, bool positive,
                                const struct moment *now, int64_t *expires_at_ms_p);
