/* Unit tests of proto/resp_encode. */
#include "proto/resp_encode.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define GUARD 0xA5

/* Room for the longest header and guard bytes behind it. */
struct room {
    uint8_t bytes[256];
};

static struct room room_make(void)
{
    struct room room;
    memset(room.bytes, GUARD, sizeof(room.bytes));
    return room;
}

/* Checks what was written, and that nothing was written behind it. */
static void assert_wrote(const struct room *room, size_t length_bytes, const char *expected)
{
    assert_int_equal(length_bytes, strlen(expected));
    assert_memory_equal(room->bytes, expected, length_bytes);
    assert_int_equal(room->bytes[length_bytes], GUARD);
}

#define ASSERT_ENCODES(call, expected)            \
    do {                                          \
        struct room room = room_make();           \
        uint8_t *to = room.bytes;                 \
        size_t length_ = (call);                  \
        assert_wrote(&room, length_, (expected)); \
    } while (0)

static void test_resp_encode_integers(void **state)
{
    (void)state;
    ASSERT_ENCODES(resp_encode_integer(to, 0), ":0\r\n");
    ASSERT_ENCODES(resp_encode_integer(to, 9), ":9\r\n");
    ASSERT_ENCODES(resp_encode_integer(to, 10), ":10\r\n");
    ASSERT_ENCODES(resp_encode_integer(to, -1), ":-1\r\n");
    ASSERT_ENCODES(resp_encode_integer(to, INT64_MAX), ":9223372036854775807\r\n");
    ASSERT_ENCODES(resp_encode_integer(to, INT64_MIN), ":-9223372036854775808\r\n");
}

static void test_resp_encode_headers(void **state)
{
    (void)state;
    ASSERT_ENCODES(resp_encode_bulk_header(to, 0), "$0\r\n");
    ASSERT_ENCODES(resp_encode_bulk_header(to, UINT64_MAX), "$18446744073709551615\r\n");
    ASSERT_ENCODES(resp_encode_array_header(to, 12), "*12\r\n");
    ASSERT_ENCODES(resp_encode_map_header(to, RESP_3, 7), "%7\r\n");
    ASSERT_ENCODES(resp_encode_map_header(to, RESP_2, 7), "*14\r\n");
    ASSERT_ENCODES(resp_encode_set_header(to, RESP_3, 3), "~3\r\n");
    ASSERT_ENCODES(resp_encode_set_header(to, RESP_2, 3), "*3\r\n");
    ASSERT_ENCODES(resp_encode_push_header(to, RESP_3, 2), ">2\r\n");
    ASSERT_ENCODES(resp_encode_push_header(to, RESP_2, 2), "*2\r\n");
    ASSERT_ENCODES(resp_encode_verbatim_header(to, RESP_3, 6), "=10\r\ntxt:");
    ASSERT_ENCODES(resp_encode_verbatim_header(to, RESP_2, 6), "$6\r\n");
}

static void test_resp_encode_nulls_and_bools(void **state)
{
    (void)state;
    ASSERT_ENCODES(resp_encode_null(to, RESP_3), "_\r\n");
    ASSERT_ENCODES(resp_encode_null(to, RESP_2), "$-1\r\n");
    ASSERT_ENCODES(resp_encode_null_array(to, RESP_3), "_\r\n");
    ASSERT_ENCODES(resp_encode_null_array(to, RESP_2), "*-1\r\n");
    ASSERT_ENCODES(resp_encode_bool(to, RESP_3, true), "#t\r\n");
    ASSERT_ENCODES(resp_encode_bool(to, RESP_3, false), "#f\r\n");
    ASSERT_ENCODES(resp_encode_bool(to, RESP_2, true), ":1\r\n");
    ASSERT_ENCODES(resp_encode_bool(to, RESP_2, false), ":0\r\n");
}

static void test_resp_encode_doubles(void **state)
{
    (void)state;
    ASSERT_ENCODES(resp_encode_double(to, RESP_3, 1.5), ",1.5\r\n");
    ASSERT_ENCODES(resp_encode_double(to, RESP_3, 10), ",10\r\n");
    ASSERT_ENCODES(resp_encode_double(to, RESP_2, 0.1), "$19\r\n0.10000000000000001\r\n");
    ASSERT_ENCODES(resp_encode_double(to, RESP_3, HUGE_VAL), ",inf\r\n");
    ASSERT_ENCODES(resp_encode_double(to, RESP_3, -HUGE_VAL), ",-inf\r\n");
    ASSERT_ENCODES(resp_encode_double(to, RESP_2, -HUGE_VAL), "$4\r\n-inf\r\n");
    ASSERT_ENCODES(resp_encode_double(to, RESP_3, (double)NAN), ",nan\r\n");
    ASSERT_ENCODES(resp_encode_double(to, RESP_3, -(double)NAN), ",nan\r\n");
    struct room room = room_make();
    size_t length = resp_encode_double(room.bytes, RESP_2, -DBL_MAX);
    assert_true(length <= RESP_HEADER_BYTES_MAX);
}

static void test_resp_encode_strings(void **state)
{
    (void)state;
    ASSERT_ENCODES(resp_encode_bulk(to, slice_of_text("hello")), "$5\r\nhello\r\n");
    ASSERT_ENCODES(resp_encode_bulk(to, slice_of(NULL, 0)), "$0\r\n\r\n");
    ASSERT_ENCODES(resp_encode_simple(to, slice_of_text("OK")), "+OK\r\n");
    ASSERT_ENCODES(resp_encode_simple(to, slice_of(NULL, 0)), "+\r\n");
    ASSERT_ENCODES(resp_encode_error(to, slice_of_text("ERR no")), "-ERR no\r\n");
}

static void test_resp_encode_error_keeps_to_one_line(void **state)
{
    (void)state;
    ASSERT_ENCODES(resp_encode_error(to, slice_of_text("ERR a\r\nb\n")), "-ERR a  b \r\n");
}

static void test_resp_encode_bulk_is_binary_safe(void **state)
{
    (void)state;
    struct room room = room_make();

    size_t length = resp_encode_bulk(room.bytes, slice_of("a\0\r\n", 4));

    assert_int_equal(length, 10);
    assert_memory_equal(room.bytes, "$4\r\na\0\r\n\r\n", 10);
    assert_int_equal(room.bytes[10], GUARD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resp_encode_integers),
        cmocka_unit_test(test_resp_encode_headers),
        cmocka_unit_test(test_resp_encode_nulls_and_bools),
        cmocka_unit_test(test_resp_encode_doubles),
        cmocka_unit_test(test_resp_encode_strings),
        cmocka_unit_test(test_resp_encode_error_keeps_to_one_line),
        cmocka_unit_test(test_resp_encode_bulk_is_binary_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
