/* test_rdb_string – what is written is read again, what Redis packs is unpacked, the rest is refused. */

#include "proto/rdb_string.h"

#include "base/crc64.h"
#include "base/random.h"
#include "test_seed.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_crc64_of_the_usual_digits(void **state)
{
    uint64_t sum = crc64_add(0, slice_of_text("12345"));
    (void)state;
    assert_true(crc64_add(sum, slice_of_text("6789")) == 0xe9c6d914c4b8d9caU);
    assert_true(crc64_add(7, slice_of(NULL, 0)) == 7);
}

static size_t dump_of(uint8_t *to, struct slice value)
{
    size_t length = rdb_string_head(to, value.length_bytes);
    memcpy(to + length, value.data, value.length_bytes);
    length += value.length_bytes;
    rdb_string_trailer(to + length, 0);
    rdb_string_trailer(to + length,
                       crc64_add(0, slice_of(to, length + RDB_TRAILER_BYTES - RDB_CHECKSUM_BYTES)));
    return length + RDB_TRAILER_BYTES;
}

static void test_rdb_string_written_is_read(void **state)
{
    static uint8_t value[70000];
    static uint8_t dump[sizeof(value) + 64];
    static const size_t lengths[] = {0, 1, 63, 64, 16383, 16384, sizeof(value)};
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct rdb_string string;
        struct slice whole = slice_of(dump, dump_of(dump, slice_of(value, lengths[i])));
        struct slice summed = slice_of(dump, whole.length_bytes - RDB_CHECKSUM_BYTES);
        assert_true(rdb_string_version_ok(whole));
        assert_true(rdb_string_sum_ok(whole, crc64_add(0, summed)));
        assert_true(rdb_string_decode(whole, &string));
        assert_int_equal(string.form, RDB_PLAIN);
        assert_int_equal(string.bytes.length_bytes, lengths[i]);
        assert_int_equal(string.length_bytes, lengths[i]);
    }
}

static void test_rdb_string_numbers_are_text(void **state)
{
    static const struct {
        uint8_t body[6];
        size_t length;
        const char *text;
    } rows[] = {
        {{0, 0xc0, 0x80}, 3, "-128"},
        {{0, 0xc1, 0xff, 0x7f}, 4, "32767"},
        {{0, 0xc2, 0, 0, 0, 0x80}, 6, "-2147483648"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t dump[6 + RDB_TRAILER_BYTES] = {0};
        struct rdb_string string;
        memcpy(dump, rows[i].body, rows[i].length);
        assert_true(rdb_string_decode(slice_of(dump, rows[i].length + RDB_TRAILER_BYTES), &string));
        assert_int_equal(string.form, RDB_NUMBER);
        assert_true(slice_equal(string.bytes, slice_of_text(rows[i].text)));
    }
}

static void test_rdb_string_newer_versions_and_short_dumps_are_refused(void **state)
{
    uint8_t dump[16] = {0, 1, 'a', RDB_VERSION + 1, 0};
    struct rdb_string string;
    (void)state;
    assert_false(rdb_string_version_ok(slice_of(dump, 13)));
    assert_false(rdb_string_version_ok(slice_of(dump, RDB_TRAILER_BYTES - 1)));
    assert_false(rdb_string_decode(slice_of(dump, RDB_TRAILER_BYTES - 1), &string));
}

static void test_rdb_string_decompress_copies_overlap(void **state)
{
    /* "ab" as literals, then eight bytes from two back. */
    static const uint8_t packed[] = {1, 'a', 'b', 6U << 5, 1};
    uint8_t to[10];
    (void)state;
    assert_true(rdb_string_decompress(slice_of(packed, sizeof(packed)), to, sizeof(to)));
    assert_memory_equal(to, "ababababab", sizeof(to));
    assert_false(rdb_string_decompress(slice_of(packed, sizeof(packed)), to, sizeof(to) - 1));
    assert_false(rdb_string_decompress(slice_of(packed, sizeof(packed) - 1), to, sizeof(to)));
}

/* Whatever the bytes, nothing is read or written beyond them (the sanitizers look on). */
static void test_rdb_string_any_bytes_do_no_harm(void **state)
{
    struct random random;
    unsigned whole_count = 0;
    (void)state;
    random_init(&random, test_seed());
    for (unsigned i = 0; i < 20000; i++) {
        uint8_t dump[48];
        uint8_t to[300];
        size_t length = random_u64(&random) % sizeof(dump);
        struct rdb_string string;
        for (size_t b = 0; b < length; b++) {
            dump[b] = (uint8_t)random_u64(&random);
        }
        if (length > 1) {
            dump[0] = 0;
            dump[1] = random_u64(&random) % 2 == 0 ? 0xc3 : dump[1];
        }
        if (rdb_string_decode(slice_of(dump, length), &string) && string.form == RDB_COMPRESSED &&
            string.length_bytes <= sizeof(to)) {
            whole_count +=
                rdb_string_decompress(string.bytes, to, (size_t)string.length_bytes) ? 1 : 0;
        }
        whole_count += rdb_string_decompress(slice_of(dump, length), to, sizeof(to)) ? 1 : 0;
    }
    /* Not one in ten fills the whole of it. */
    assert_true(whole_count < 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc64_of_the_usual_digits),
        cmocka_unit_test(test_rdb_string_written_is_read),
        cmocka_unit_test(test_rdb_string_numbers_are_text),
        cmocka_unit_test(test_rdb_string_newer_versions_and_short_dumps_are_refused),
        cmocka_unit_test(test_rdb_string_decompress_copies_overlap),
        cmocka_unit_test(test_rdb_string_any_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
