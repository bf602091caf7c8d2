/* fuzz_rdb_string – any bytes are read as a dump without harm, and unpacked; a string that was read is
 * written, and read again, as the same. */
#include "proto/rdb_string.h"

#include "base/check.h"
#include "base/crc64.h"

#include <stdlib.h>
#include <string.h>

/* A longer value is not unpacked: it would only take its time. */
#define UNPACKED_BYTES_MAX (1U << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes);

static void write_again(const struct rdb_string *string)
{
    size_t bytes = string->bytes.length_bytes;
    uint8_t *dump = malloc(RDB_HEAD_BYTES_MAX + bytes + RDB_TRAILER_BYTES);
    size_t length;
    struct rdb_string read;
    check(dump != NULL && string->length_bytes == bytes);
    length = rdb_string_head(dump, bytes);
    if (bytes > 0) {
        memcpy(dump + length, string->bytes.data, bytes);
    }
    length += bytes;
    rdb_string_trailer(dump + length, 0);
    check(rdb_string_decode(slice_of(dump, length + RDB_TRAILER_BYTES), &read));
    check(read.form == RDB_PLAIN && slice_equal(read.bytes, string->bytes));
    free(dump);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes)
{
    struct slice dump = slice_of(data, length_bytes);
    struct rdb_string string;
    if (rdb_string_version_ok(dump)) {
        struct slice summed = slice_of(data, length_bytes - RDB_CHECKSUM_BYTES);
        (void)rdb_string_sum_ok(dump, crc64_add(0, summed));
    }
    if (!rdb_string_decode(dump, &string)) {
        return 0;
    }
    if (string.form == RDB_PLAIN) {
        write_again(&string);
    } else if (string.form == RDB_COMPRESSED && string.length_bytes <= UNPACKED_BYTES_MAX) {
        uint8_t *to = malloc((size_t)string.length_bytes + 1);
        check(to != NULL);
        /* Either answer may be right, but it is the same each time. */
        bool is_whole = rdb_string_decompress(string.bytes, to, (size_t)string.length_bytes);
        check(rdb_string_decompress(string.bytes, to, (size_t)string.length_bytes) == is_whole);
        free(to);
    } else if (string.form == RDB_NUMBER) {
        int64_t number;
        check(slice_to_i64(string.bytes, &number));
    }
    return 0;
}
