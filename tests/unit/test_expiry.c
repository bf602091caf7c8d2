/* test_expiry – times in commands, read into Unix milliseconds. */

#include "server/expiry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct moment NOW = {.wall_ms = 1000000};

static enum expiry_result parse(const char *text, enum expiry_unit unit, bool positive,
                                int64_t *at_ms)
{
    return expiry_parse(slice_of_text(text), unit, positive, &NOW, at_ms);
}

static void test_expiry_words_are_known_in_any_case(void **state)
{
    enum expiry_unit unit;
    (void)state;
    assert_true(expiry_unit_of_word(slice_of_text("EX"), &unit));
    assert_int_equal(unit, EXPIRY_SECONDS);
    assert_true(expiry_unit_of_word(slice_of_text("pXaT"), &unit));
    assert_int_equal(unit, EXPIRY_AT_MILLISECONDS);
    assert_false(expiry_unit_of_word(slice_of_text("EXA"), &unit));
    assert_false(expiry_unit_of_word(slice_of_text(""), &unit));
}

static void test_expiry_units_are_counted(void **state)
{
    int64_t at_ms = 0;
    (void)state;
    assert_int_equal(parse("7", EXPIRY_SECONDS, true, &at_ms), EXPIRY_OK);
    assert_int_equal(at_ms, 1007000);
    assert_int_equal(parse("7", EXPIRY_MILLISECONDS, true, &at_ms), EXPIRY_OK);
    assert_int_equal(at_ms, 1000007);
    assert_int_equal(parse("7", EXPIRY_AT_SECONDS, true, &at_ms), EXPIRY_OK);
    assert_int_equal(at_ms, 7000);
    assert_int_equal(parse("7", EXPIRY_AT_MILLISECONDS, true, &at_ms), EXPIRY_OK);
    assert_int_equal(at_ms, 7);
}

static void test_expiry_past_is_the_past_where_it_is_allowed(void **state)
{
    int64_t at_ms = 0;
    (void)state;
    assert_int_equal(parse("0", EXPIRY_SECONDS, true, &at_ms), EXPIRY_INVALID);
    assert_int_equal(parse("-1", EXPIRY_AT_SECONDS, true, &at_ms), EXPIRY_INVALID);
    assert_int_equal(parse("-1", EXPIRY_SECONDS, false, &at_ms), EXPIRY_OK);
    assert_int_equal(at_ms, 999000);
    /* Never 0, which means "never" to the store. */
    assert_int_equal(parse("-1000", EXPIRY_SECONDS, false, &at_ms), EXPIRY_OK);
    assert_int_equal(at_ms, 1);
    assert_int_equal(parse("0", EXPIRY_AT_MILLISECONDS, false, &at_ms), EXPIRY_OK);
    assert_int_equal(at_ms, 1);
}

static void test_expiry_overflow_is_refused(void **state)
{
    int64_t at_ms = 42;
    (void)state;
    assert_int_equal(parse("9223372036854775807", EXPIRY_SECONDS, false, &at_ms), EXPIRY_INVALID);
    assert_int_equal(parse("-9223372036854775808", EXPIRY_SECONDS, false, &at_ms), EXPIRY_INVALID);
    assert_int_equal(parse("9223372036854775807", EXPIRY_MILLISECONDS, true, &at_ms),
                     EXPIRY_INVALID);
    assert_int_equal(parse("9223372036854776", EXPIRY_AT_SECONDS, true, &at_ms), EXPIRY_INVALID);
    assert_int_equal(parse("9223372036854775808", EXPIRY_SECONDS, true, &at_ms),
                     EXPIRY_NOT_INTEGER);
    assert_int_equal(parse("1.5", EXPIRY_SECONDS, true, &at_ms), EXPIRY_NOT_INTEGER);
    assert_int_equal(parse("", EXPIRY_SECONDS, true, &at_ms), EXPIRY_NOT_INTEGER);
    assert_int_equal(at_ms, 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expiry_words_are_known_in_any_case),
        cmocka_unit_test(test_expiry_units_are_counted),
        cmocka_unit_test(test_expiry_past_is_the_past_where_it_is_allowed),
        cmocka_unit_test(test_expiry_overflow_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
