/* test_slice – numbers and comparisons on borrowed bytes. */

#include "base/slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool to_i64(const char *text, int64_t *number_p)
{
    return slice_to_i64(slice_of_text(text), number_p);
}

static void test_slice_equal_compares_length_and_bytes(void **state)
{
    (void)state;
    assert_true(slice_equal(slice_of_text("abc"), slice_of_text("abc")));
    assert_false(slice_equal(slice_of_text("abc"), slice_of_text("abd")));
    assert_false(slice_equal(slice_of_text("abc"), slice_of_text("ab")));
    assert_true(slice_equal(slice_of(NULL, 0), slice_of_text("")));
    assert_false(slice_equal(slice_of("a\0b", 3), slice_of("a\0c", 3)));
}

static void test_slice_equal_nocase_folds_ascii_only(void **state)
{
    (void)state;
    assert_true(slice_equal_nocase(slice_of_text("GeT"), "gEt"));
    assert_true(slice_equal_nocase(slice_of(NULL, 0), ""));
    assert_false(slice_equal_nocase(slice_of_text("get"), "gets"));
    assert_false(slice_equal_nocase(slice_of_text("gets"), "get"));
    assert_false(slice_equal_nocase(slice_of("get\0", 4), "get"));
    assert_false(slice_equal_nocase(slice_of_text("@"), "`"));
    assert_false(slice_equal_nocase(slice_of_text("\xc4"), "\xe4"));
}

static void test_slice_to_i64_takes_the_whole_range(void **state)
{
    (void)state;
    int64_t number = 7;
    assert_true(to_i64("0", &number));
    assert_int_equal(number, 0);
    assert_true(to_i64("-1", &number));
    assert_int_equal(number, -1);
    assert_true(to_i64("9223372036854775807", &number));
    assert_true(number == INT64_MAX);
    assert_true(to_i64("-9223372036854775808", &number));
    assert_true(number == INT64_MIN);
}

static void test_slice_to_i64_refuses_what_redis_refuses(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "01",
        "-0",
        "-01",
        "00",
        "1.0",
        "1a",
        "0x1",
        "--1",
        "1e3",
        "\t1",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "99999999999999999999999999",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int64_t number = 42;
        assert_false(to_i64(wrong[i], &number));
        assert_int_equal(number, 42);
    }
}

static void test_slice_to_i64_reads_no_byte_past_its_end(void **state)
{
    (void)state;
    int64_t number = 0;
    assert_true(slice_to_i64(slice_of("1234", 2), &number));
    assert_int_equal(number, 12);
}

static void test_slice_to_u64_takes_leading_zeros(void **state)
{
    (void)state;
    uint64_t number = 0;
    assert_true(slice_to_u64(slice_of_text("0018446744073709551615"), &number));
    assert_true(number == UINT64_MAX);
    assert_false(slice_to_u64(slice_of_text("18446744073709551616"), &number));
    assert_false(slice_to_u64(slice_of_text("18446744073709551620"), &number));
    assert_false(slice_to_u64(slice_of_text("-1"), &number));
    assert_false(slice_to_u64(slice_of_text(""), &number));
    assert_true(number == UINT64_MAX);
}

static void test_slice_to_hex64_takes_one_to_sixteen_digits(void **state)
{
    (void)state;
    uint64_t number = 0;
    assert_true(slice_to_hex64(slice_of_text("fFfFfFfFfFfFfFfF"), &number));
    assert_true(number == UINT64_MAX);
    assert_true(slice_to_hex64(slice_of_text("0a"), &number));
    assert_int_equal(number, 10);
    assert_false(slice_to_hex64(slice_of_text("00000000000000000"), &number));
    assert_false(slice_to_hex64(slice_of_text(""), &number));
    assert_false(slice_to_hex64(slice_of_text("0x1"), &number));
    assert_false(slice_to_hex64(slice_of_text("g"), &number));
    assert_int_equal(number, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slice_equal_compares_length_and_bytes),
        cmocka_unit_test(test_slice_equal_nocase_folds_ascii_only),
        cmocka_unit_test(test_slice_to_i64_takes_the_whole_range),
        cmocka_unit_test(test_slice_to_i64_refuses_what_redis_refuses),
        cmocka_unit_test(test_slice_to_i64_reads_no_byte_past_its_end),
        cmocka_unit_test(test_slice_to_u64_takes_leading_zeros),
        cmocka_unit_test(test_slice_to_hex64_takes_one_to_sixteen_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
