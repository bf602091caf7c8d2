#include "server/expiry.h"

#include "base/check.h"

bool expiry_unit_of_word(struct slice word, enum expiry_unit *unit_p)
{
    static const char *const words[] = {"ex", "px", "exat", "pxat"};
    for (unsigned i = 0; i < ARRAY_COUNT(words); i++) {
        if (slice_equal_nocase(word, words[i])) {
            *unit_p = (enum expiry_unit)i;
            return true;
        }
    }
    return false;
}

enum expiry_result expiry_parse(struct slice text, enum expiry_unit unit, bool positive,
                                const struct moment *now, int64_t *expires_at_ms_p)
{
    int64_t number;
    bool seconds = unit == EXPIRY_SECONDS || unit == EXPIRY_AT_SECONDS;
    bool relative = unit == EXPIRY_SECONDS || unit == EXPIRY_MILLISECONDS;
    if (!slice_to_i64(text, &number)) {
        return EXPIRY_NOT_INTEGER;
    }
    if (positive && number <= 0) {
        return EXPIRY_INVALID;
    }
    if (seconds && __builtin_mul_overflow(number, INT64_C(1000), &number)) {
        return EXPIRY_INVALID;
    }
    if (relative && __builtin_add_overflow(number, now->wall_ms, &number)) {
        return EXPIRY_INVALID;
    }
    /* 0 means "never" to the store; what ended at or before the epoch ended. */
    *expires_at_ms_p = number <= 0 ? 1 : number;
    return EXPIRY_OK;
}
