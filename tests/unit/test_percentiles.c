/* Unit tests of server/percentiles: which texts are taken, and how they are shown. */
#include "server/percentiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_percentiles_are_shown_in_their_shortest_form(void **state)
{
    static const struct {
        const char *given, *shown;
    } rows[] = {
        {"50 99 99.9", "50 99 99.9"},
        {"0.0 50.0 100.0", "0 50 100"},
        {"  99.999  ", "99.999"},
        {"", ""},
        {"00.10 5.", "0.1 5"},
        {".5", "0.5"},
        {"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct percentiles percentiles;
        char text[128];
        assert_true(percentiles_parse(&percentiles, slice_of_text(rows[i].given)));
        percentiles_format(&percentiles, text, sizeof(text));
        assert_string_equal(text, rows[i].shown);
    }
}

static void test_percentiles_that_are_none_are_refused(void **state)
{
    static const char *const wrong[] = {"a",       "10.0 50.0 a",
                                        "101",     "100.001",
                                        "-1",      "1e1",
                                        "99.9999", "1,2",
                                        "1..2",    ".",
                                        "nan",     "99999999999999999999",
                                        "50\t99",  "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"};
    struct percentiles percentiles = {.count = 1, .per_100000 = {7}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        assert_false(percentiles_parse(&percentiles, slice_of_text(wrong[i])));
    }
    assert_int_equal(percentiles.count, 1);
    assert_int_equal(percentiles.per_100000[0], 7);
}

static void test_percentiles_are_kept_as_parts_of_a_hundred_thousand(void **state)
{
    struct percentiles percentiles;
    (void)state;
    assert_true(percentiles_parse(&percentiles, slice_of_text("0.001 50 99.9 100")));
    assert_int_equal(percentiles.count, 4);
    assert_int_equal(percentiles.per_100000[0], 1);
    assert_int_equal(percentiles.per_100000[1], 50000);
    assert_int_equal(percentiles.per_100000[2], 99900);
    assert_int_equal(percentiles.per_100000[3], 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles_are_shown_in_their_shortest_form),
        cmocka_unit_test(test_percentiles_that_are_none_are_refused),
        cmocka_unit_test(test_percentiles_are_kept_as_parts_of_a_hundred_thousand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
