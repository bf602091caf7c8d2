#include "base/number.h"

#include "base/check.h"
#include "base/compiler.h"

size_t number_from_u64(char *text, uint64_t number)
{
    char reversed[NUMBER_TEXT_BYTES_MAX];
    size_t length_bytes = 0;
    do {
        reversed[length_bytes++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    for (size_t i = 0; i < length_bytes; i++) {
        text[i] = reversed[length_bytes - 1 - i];
    }
    return length_bytes;
}

size_t number_from_i64(char *text, int64_t number)
{
    if (number >= 0) {
        return number_from_u64(text, (uint64_t)number);
    }
    text[0] = '-';
    return 1 + number_from_u64(text + 1, 0U - (uint64_t)number);
}

static bool find_unit(struct slice unit, uint64_t *factor_p)
{
    static const struct {
        const char *name;
        uint64_t factor;
    } units[] = {
        {"", 1},
        {"b", 1},
        {"k", 1000},
        {"kb", 1ULL << 10},
        {"m", 1000ULL * 1000},
        {"mb", 1ULL << 20},
        {"g", 1000ULL * 1000 * 1000},
        {"gb", 1ULL << 30},
        {"t", 1000ULL * 1000 * 1000 * 1000},
        {"tb", 1ULL << 40},
    };
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        if (slice_equal_nocase(unit, units[i].name)) {
            *factor_p = units[i].factor;
            return true;
        }
    }
    return false;
}

bool number_parse_bytes(struct slice text, uint64_t *bytes_p)
{
    size_t digit_count = 0;
    while (digit_count < text.length_bytes && text.data[digit_count] >= '0' &&
           text.data[digit_count] <= '9') {
        digit_count++;
    }
    uint64_t number;
    uint64_t factor;
    if (!slice_to_u64(slice_of(text.data, digit_count), &number)) {
        return false;
    }
    if (!find_unit(slice_of(text.data + digit_count, text.length_bytes - digit_count), &factor) ||
        number > UINT64_MAX / factor) {
        return false;
    }
    *bytes_p = number * factor;
    return true;
}

/* As much of the text as fits. */
static void write_text(char *text, size_t capacity, const char *full, size_t length_bytes)
{
    check(capacity > 0);
    if (length_bytes >= capacity) {
        length_bytes = capacity - 1;
    }
    memcpy(text, full, length_bytes);
    text[length_bytes] = '\0';
}

void number_format_size(char *text, size_t capacity, uint64_t bytes)
{
    static const char units[] = "kmgt";
    char full[NUMBER_TEXT_BYTES_MAX + 2];
    unsigned unit = 0;
    while (unit < sizeof(units) - 1 && bytes > 0 && (bytes & 1023U) == 0) {
        bytes >>= 10;
        unit++;
    }
    size_t length_bytes = number_from_u64(full, bytes);
    if (unit > 0) {
        full[length_bytes++] = units[unit - 1];
        full[length_bytes++] = 'b';
    }
    write_text(text, capacity, full, length_bytes);
}

void number_format_bytes(char *text, size_t capacity, uint64_t bytes)
{
    static const char units[] = "BKMGTP";
    char full[2 * NUMBER_TEXT_BYTES_MAX];
    unsigned unit = 0;
    while (unit + 2 < sizeof(units) && bytes >> 10 * (unit + 1) > 0) {
        unit++;
    }
    unsigned shift = 10 * unit;
    uint64_t rest = bytes - (bytes >> shift << shift);
    /* Rounded half up to hundredths; at most 2^50 * 100, which fits. */
    uint64_t hundredths = unit == 0 ? 0 : (rest * 100 + (1ULL << (shift - 1))) >> shift;
    uint64_t whole = (bytes >> shift) + hundredths / 100;
    hundredths %= 100;
    size_t length_bytes = number_from_u64(full, whole);
    if (unit > 0) {
        full[length_bytes++] = '.';
        full[length_bytes++] = (char)('0' + hundredths / 10);
        full[length_bytes++] = (char)('0' + hundredths % 10);
    }
    full[length_bytes++] = units[unit];
    write_text(text, capacity, full, length_bytes);
}
