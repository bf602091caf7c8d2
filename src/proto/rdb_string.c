#include "proto/rdb_string.h"

#include "base/number.h"

#include <string.h>

#define TYPE_STRING 0U

/* The first byte of a length: its two highest bits tell the form. */
#define LENGTH_14_BITS 0x40U
#define LENGTH_32_BITS 0x80U
#define LENGTH_64_BITS 0x81U
#define LENGTH_SPECIAL 0xc0U
#define SPECIAL_INT8   0U
#define SPECIAL_INT16  1U
#define SPECIAL_INT32  2U
#define SPECIAL_LZF    3U

/* A literal run has up to 32 bytes; a copy goes back up to 8192 bytes, for 3 to 264. */
#define LZF_LITERAL_BITS 5U
#define LZF_LONG_COPY    7U
#define LZF_COPY_MIN     2U

/* ---- writing ---- */

static void put_big_endian(uint8_t *to, uint64_t number, unsigned byte_count)
{
    for (unsigned i = 0; i < byte_count; i++) {
        to[i] = (uint8_t)(number >> (8 * (byte_count - 1 - i)));
    }
}

size_t rdb_string_head(uint8_t to[RDB_HEAD_BYTES_MAX], uint64_t length_bytes)
{
    to[0] = TYPE_STRING;
    if (length_bytes < 1U << 6) {
        to[1] = (uint8_t)length_bytes;
        return 2;
    }
    if (length_bytes < 1U << 14) {
        put_big_endian(to + 1, length_bytes | LENGTH_14_BITS << 8, 2);
        return 3;
    }
    if (length_bytes <= UINT32_MAX) {
        to[1] = LENGTH_32_BITS;
        put_big_endian(to + 2, length_bytes, 4);
        return 6;
    }
    to[1] = LENGTH_64_BITS;
    put_big_endian(to + 2, length_bytes, 8);
    return 10;
}

static void put_little_endian(uint8_t *to, uint64_t number, unsigned byte_count)
{
    for (unsigned i = 0; i < byte_count; i++) {
        to[i] = (uint8_t)(number >> (8 * i));
    }
}

static uint64_t get_little_endian(const uint8_t *from, unsigned byte_count)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < byte_count; i++) {
        number |= (uint64_t)from[i] << (8 * i);
    }
    return number;
}

void rdb_string_trailer(uint8_t to[RDB_TRAILER_BYTES], uint64_t sum)
{
    put_little_endian(to, RDB_VERSION, RDB_TRAILER_BYTES - RDB_CHECKSUM_BYTES);
    put_little_endian(to + RDB_TRAILER_BYTES - RDB_CHECKSUM_BYTES, sum, RDB_CHECKSUM_BYTES);
}

/* ---- reading ---- */

bool rdb_string_version_ok(struct slice dump)
{
    if (dump.length_bytes < RDB_TRAILER_BYTES) {
        return false;
    }
    return get_little_endian(dump.data + dump.length_bytes - RDB_TRAILER_BYTES,
                             RDB_TRAILER_BYTES - RDB_CHECKSUM_BYTES) <= RDB_VERSION;
}

bool rdb_string_sum_ok(struct slice dump, uint64_t sum)
{
    const uint8_t *checksum = dump.data + dump.length_bytes - RDB_CHECKSUM_BYTES;
    return get_little_endian(checksum, RDB_CHECKSUM_BYTES) == sum;
}

struct reading {
    const uint8_t *at;
    const uint8_t *end;
};

static size_t left(const struct reading *reading)
{
    return (size_t)(reading->end - reading->at);
}

/* False: there are not so many bytes. */
static bool take(struct reading *reading, size_t count, const uint8_t **bytes_p)
{
    if (left(reading) < count) {
        return false;
    }
    *bytes_p = reading->at;
    reading->at += count;
    return true;
}

static bool take_big_endian(struct reading *reading, unsigned byte_count, uint64_t *number_p)
{
    const uint8_t *bytes;
    if (!take(reading, byte_count, &bytes)) {
        return false;
    }
    *number_p = 0;
    for (unsigned i = 0; i < byte_count; i++) {
        *number_p = *number_p << 8 | bytes[i];
    }
    return true;
}

/* *special_p: it is no length, but says which special form follows. */
static bool take_length(struct reading *reading, uint64_t *length_p, bool *special_p)
{
    const uint8_t *first;
    *special_p = false;
    if (!take(reading, 1, &first)) {
        return false;
    }
    switch (*first & 0xc0U) {
    case 0:
        *length_p = *first;
        return true;
    case LENGTH_14_BITS:
        reading->at--;
        if (!take_big_endian(reading, 2, length_p)) {
            return false;
        }
        *length_p &= (1U << 14) - 1;
        return true;
    case LENGTH_32_BITS:
        return (*first == LENGTH_32_BITS && take_big_endian(reading, 4, length_p)) ||
               (*first == LENGTH_64_BITS && take_big_endian(reading, 8, length_p));
    default:
        *special_p = true;
        *length_p = *first & 0x3fU;
        return true;
    }
}

static bool take_plain_length(struct reading *reading, uint64_t *length_p)
{
    bool special;
    return take_length(reading, length_p, &special) && !special;
}

static bool decode_number(struct reading *reading, unsigned byte_count, struct rdb_string *string)
{
    const uint8_t *bytes;
    uint64_t number;
    unsigned unused_bits = 64 - 8 * byte_count;
    if (!take(reading, byte_count, &bytes)) {
        return false;
    }
    number = get_little_endian(bytes, byte_count) << unused_bits;
    string->form = RDB_NUMBER;
    string->length_bytes = number_from_i64(string->number_text, (int64_t)number >> unused_bits);
    string->bytes = slice_of(string->number_text, string->length_bytes);
    return true;
}

static bool decode_bytes(struct reading *reading, uint64_t length, struct slice *bytes_p)
{
    const uint8_t *bytes;
    if (length > SIZE_MAX || !take(reading, (size_t)length, &bytes)) {
        return false;
    }
    *bytes_p = slice_of(bytes, (size_t)length);
    return true;
}

static bool decode_compressed(struct reading *reading, struct rdb_string *string)
{
    uint64_t length;
    string->form = RDB_COMPRESSED;
    return take_plain_length(reading, &length) &&
           take_plain_length(reading, &string->length_bytes) &&
           decode_bytes(reading, length, &string->bytes);
}

static bool decode_special(struct reading *reading, uint64_t form, struct rdb_string *string)
{
    switch (form) {
    case SPECIAL_INT8:
        return decode_number(reading, 1, string);
    case SPECIAL_INT16:
        return decode_number(reading, 2, string);
    case SPECIAL_INT32:
        return decode_number(reading, 4, string);
    case SPECIAL_LZF:
        return decode_compressed(reading, string);
    default:
        return false;
    }
}

bool rdb_string_decode(struct slice dump, struct rdb_string *string)
{
    struct reading reading;
    const uint8_t *type;
    uint64_t length;
    bool special;
    if (dump.length_bytes < RDB_TRAILER_BYTES) {
        return false;
    }
    reading.at = dump.data;
    reading.end = dump.data + dump.length_bytes - RDB_TRAILER_BYTES;
    if (!take(&reading, 1, &type) || *type != TYPE_STRING ||
        !take_length(&reading, &length, &special)) {
        return false;
    }
    if (special) {
        return decode_special(&reading, length, string) && left(&reading) == 0;
    }
    string->form = RDB_PLAIN;
    string->length_bytes = length;
    return decode_bytes(&reading, length, &string->bytes) && left(&reading) == 0;
}

bool rdb_string_decompress(struct slice from, uint8_t *to, size_t length_bytes)
{
    struct reading reading = {.at = from.data, .end = from.data + from.length_bytes};
    size_t used = 0;
    while (left(&reading) > 0) {
        unsigned control = *reading.at++;
        size_t count = control >> LZF_LITERAL_BITS;
        if (count == 0) {
            const uint8_t *bytes;
            count = control + 1;
            if (length_bytes - used < count || !take(&reading, count, &bytes)) {
                return false;
            }
            memcpy(to + used, bytes, count);
        } else {
            size_t back = (size_t)(control & ((1U << LZF_LITERAL_BITS) - 1)) << 8;
            if (left(&reading) < (count == LZF_LONG_COPY ? 2U : 1U)) {
                return false;
            }
            count += LZF_COPY_MIN + (count == LZF_LONG_COPY ? *reading.at++ : 0U);
            back += 1U + *reading.at++;
            if (back > used || length_bytes - used < count) {
                return false;
            }
            for (size_t i = 0; i < count; i++) { /* it may reach into what it writes */
                to[used + i] = to[used + i - back];
            }
        }
        used += count;
    }
    return used == length_bytes;
}
