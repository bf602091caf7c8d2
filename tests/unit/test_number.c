/* test_number – numbers and memory sizes to and from text. */

#include "base/number.h"

#include "base/random.h"
#include "test_seed.h"

#include <inttypes.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_i64_text(int64_t number)
{
    char text[NUMBER_TEXT_BYTES_MAX];
    char expected[NUMBER_TEXT_BYTES_MAX];
    int expected_length = snprintf(expected, sizeof(expected), "%" PRId64, number);
    size_t length_bytes = number_from_i64(text, number);
    assert_int_equal(length_bytes, expected_length);
    assert_memory_equal(text, expected, length_bytes);
}

static void test_number_from_i64_agrees_with_printf(void **state)
{
    (void)state;
    assert_i64_text(0);
    assert_i64_text(-1);
    assert_i64_text(INT64_MAX);
    assert_i64_text(INT64_MIN);
    struct random random;
    random_init(&random, test_seed());
    for (int i = 0; i < 10000; i++) {
        uint64_t drawn = random_u64(&random);
        assert_i64_text((int64_t)(drawn >> drawn % 64));
        assert_i64_text(-(int64_t)(drawn >> 1 >> drawn % 63));
    }
}

static void test_number_from_u64_takes_the_largest(void **state)
{
    (void)state;
    char text[NUMBER_TEXT_BYTES_MAX];
    assert_int_equal(number_from_u64(text, UINT64_MAX), 20);
    assert_memory_equal(text, "18446744073709551615", 20);
}

static void assert_bytes(const char *text, uint64_t expected)
{
    uint64_t bytes = 0;
    assert_true(number_parse_bytes(slice_of_text(text), &bytes));
    assert_true(bytes == expected);
}

static void test_number_parse_bytes_knows_the_units_of_redis(void **state)
{
    (void)state;
    assert_bytes("0", 0);
    assert_bytes("123", 123);
    assert_bytes("123B", 123);
    assert_bytes("2k", 2000);
    assert_bytes("2Kb", 2048);
    assert_bytes("3m", 3000000);
    assert_bytes("3MB", 3145728);
    assert_bytes("4g", 4000000000);
    assert_bytes("4gb", 4294967296);
    assert_bytes("1t", 1000000000000);
    assert_bytes("1tB", 1099511627776);
    assert_bytes("18446744073709551615", UINT64_MAX);
}

static void test_number_parse_bytes_refuses_anything_else(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "k",
        "kb",
        "1kk",
        "1 kb",
        " 1",
        "-1",
        "+1",
        "1.5gb",
        "1p",
        "1gib",
        "0x10",
        "1b ",
        "18446744073709551616",
        "18446744073709551615k",
        "16777216tb",
        "20000000t",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint64_t bytes = 42;
        assert_false(number_parse_bytes(slice_of_text(wrong[i]), &bytes));
        assert_int_equal(bytes, 42);
    }
}

static void assert_human(uint64_t bytes, const char *expected)
{
    char text[32];
    number_format_bytes(text, sizeof(text), bytes);
    assert_string_equal(text, expected);
}

static void test_number_format_bytes_is_for_people(void **state)
{
    (void)state;
    assert_human(0, "0B");
    assert_human(1023, "1023B");
    assert_human(1024, "1.00K");
    assert_human(1536, "1.50K");
    assert_human(1048575, "1024.00K");
    assert_human(1048576, "1.00M");
    assert_human(3ULL << 30, "3.00G");
    assert_human((1ULL << 40) + (1ULL << 39), "1.50T");
    assert_human(1ULL << 50, "1.00P");
    assert_human(UINT64_MAX, "16384.00P");
}

static void assert_size(uint64_t bytes, const char *expected)
{
    char text[32];
    uint64_t again = 0;
    number_format_size(text, sizeof(text), bytes);
    assert_string_equal(text, expected);
    assert_true(number_parse_bytes(slice_of_text(text), &again));
    assert_int_equal(again, bytes);
}

static void test_number_format_size_is_exact_and_can_be_read_again(void **state)
{
    (void)state;
    assert_size(0, "0");
    assert_size(1000, "1000");
    assert_size(1024, "1kb");
    assert_size(64 << 20, "64mb");
    assert_size((64 << 20) + 1, "67108865");
    assert_size(1536 << 10, "1536kb");
    assert_size(3ULL << 30, "3gb");
    assert_size(1ULL << 50, "1024tb");
    assert_size(UINT64_MAX, "18446744073709551615");
}

static void test_number_format_size_cuts_to_what_fits(void **state)
{
    (void)state;
    char text[3] = "xx";
    number_format_size(text, sizeof(text), 64 << 20);
    assert_string_equal(text, "64");
}

static void test_number_format_bytes_cuts_to_what_fits(void **state)
{
    (void)state;
    char text[4] = "xxx";
    number_format_bytes(text, sizeof(text), 1536);
    assert_string_equal(text, "1.5");
    number_format_bytes(text, 1, 1536);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_from_i64_agrees_with_printf),
        cmocka_unit_test(test_number_from_u64_takes_the_largest),
        cmocka_unit_test(test_number_parse_bytes_knows_the_units_of_redis),
        cmocka_unit_test(test_number_parse_bytes_refuses_anything_else),
        cmocka_unit_test(test_number_format_bytes_is_for_people),
        cmocka_unit_test(test_number_format_size_is_exact_and_can_be_read_again),
        cmocka_unit_test(test_number_format_size_cuts_to_what_fits),
        cmocka_unit_test(test_number_format_bytes_cuts_to_what_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
