#include "base/slice.h"

static uint8_t lower(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + ('a' - 'A')) : byte;
}

bool slice_equal_nocase(struct slice a, const char *text)
{
    size_t i = 0;
    for (; i < a.length_bytes && text[i] != '\0'; i++) {
        if (lower(a.data[i]) != lower((uint8_t)text[i])) {
            return false;
        }
    }
    return i == a.length_bytes && text[i] == '\0';
}

bool slice_to_u64(struct slice text, uint64_t *number_p)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.length_bytes; i++) {
        uint8_t digit = (uint8_t)(text.data[i] - '0');
        if (digit > 9 || number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    if (text.length_bytes == 0) {
        return false;
    }
    *number_p = number;
    return true;
}

bool slice_to_i64(struct slice text, int64_t *number_p)
{
    bool negative = text.length_bytes > 0 && text.data[0] == '-';
    struct slice digits = text;
    if (negative) {
        digits = slice_of(text.data + 1, text.length_bytes - 1);
    }
    /* A zero leads only where it is the whole number; "-0" is no number either. */
    if (digits.length_bytes > 0 && digits.data[0] == '0' && (digits.length_bytes > 1 || negative)) {
        return false;
    }
    uint64_t magnitude;
    if (!slice_to_u64(digits, &magnitude)) {
        return false;
    }
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1U : 0U)) {
        return false;
    }
    /* Negated as unsigned: INT64_MIN has no positive counterpart. */
    *number_p = (int64_t)(negative ? 0U - magnitude : magnitude);
    return true;
}

bool slice_to_hex64(struct slice text, uint64_t *number_p)
{
    if (text.length_bytes == 0 || text.length_bytes > 16) {
        return false;
    }
    uint64_t number = 0;
    for (size_t i = 0; i < text.length_bytes; i++) {
        uint8_t byte = lower(text.data[i]);
        uint8_t digit;
        if (byte >= '0' && byte <= '9') {
            digit = (uint8_t)(byte - '0');
        } else if (byte >= 'a' && byte <= 'f') {
            digit = (uint8_t)(byte - 'a' + 10);
        } else {
            return false;
        }
        number = number << 4 | digit;
    }
    *number_p = number;
    return true;
}
