/* test_glob – the pattern language, case by case and against a slow second way. */

#include "base/glob.h"

#include "base/random.h"
#include "test_seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool matches(const char *pattern, const char *text)
{
    return glob_match(slice_of_text(pattern), slice_of_text(text), false);
}

static void test_glob_plain_text_matches_itself(void **state)
{
    (void)state;
    assert_true(matches("", ""));
    assert_true(matches("key", "key"));
    assert_false(matches("key", "keys"));
    assert_false(matches("keys", "key"));
    assert_false(matches("", "a"));
    assert_false(matches("key", "KEY"));
    assert_true(glob_match(slice_of("a\0b", 3), slice_of("a\0b", 3), false));
    assert_false(glob_match(slice_of("a\0b", 3), slice_of("a\0c", 3), false));
}

static void test_glob_star_takes_any_run(void **state)
{
    (void)state;
    assert_true(matches("*", ""));
    assert_true(matches("*", "anything"));
    assert_true(matches("***", "x"));
    assert_true(matches("h*llo", "heeeello"));
    assert_true(matches("h*llo", "hllo"));
    assert_false(matches("h*llo", "hello!"));
    assert_true(matches("*a*b*c*", "xxaxxbxxcxx"));
    assert_false(matches("*a*b*c*", "xxaxxcxxbxx"));
    assert_true(matches("*ab", "aab"));
    assert_true(matches("a**", "a"));
}

static void test_glob_question_takes_exactly_one_byte(void **state)
{
    (void)state;
    assert_true(matches("h?llo", "hello"));
    assert_false(matches("h?llo", "hllo"));
    assert_false(matches("?", ""));
    assert_true(matches("*?", "a"));
    assert_false(matches("*?", ""));
}

static void test_glob_class_takes_members_ranges_and_negation(void **state)
{
    (void)state;
    assert_true(matches("h[ae]llo", "hello"));
    assert_false(matches("h[ae]llo", "hillo"));
    assert_true(matches("h[^e]llo", "hallo"));
    assert_false(matches("h[^e]llo", "hello"));
    assert_true(matches("[a-c]", "b"));
    assert_true(matches("[c-a]", "b"));
    assert_false(matches("[a-c]", "d"));
    assert_true(matches("[xa-c]", "x"));
    assert_true(matches("[\\]]", "]"));
    assert_true(matches("[\\-]", "-"));
    assert_false(matches("[]", "a"));
    assert_true(matches("[^]", "a"));
    assert_false(matches("[a]", ""));
}

static void test_glob_class_that_is_not_closed_ends_with_the_pattern(void **state)
{
    (void)state;
    assert_true(matches("[abc", "b"));
    assert_false(matches("[abc", "d"));
    assert_false(matches("[abc", "bb"));
    assert_false(matches("[", "["));
    assert_true(matches("[^", "["));
    assert_true(matches("[a-", "-"));
    assert_true(matches("[\\", "\\"));
}

static void test_glob_backslash_takes_the_next_byte_as_it_is(void **state)
{
    (void)state;
    assert_true(matches("\\*", "*"));
    assert_false(matches("\\*", "a"));
    assert_true(matches("h\\?llo", "h?llo"));
    assert_true(matches("\\[a]", "[a]"));
    assert_true(matches("a\\", "a\\"));
    assert_true(matches("\\\\", "\\"));
}

static void test_glob_ignores_case_on_demand(void **state)
{
    (void)state;
    assert_true(glob_match(slice_of_text("Max*[A-C]\\D"), slice_of_text("mAXmemoryBd"), true));
    assert_false(glob_match(slice_of_text("[a-c]"), slice_of_text("D"), true));
    assert_false(glob_match(slice_of_text("[^a-c]"), slice_of_text("B"), true));
}

static void test_glob_many_stars_stay_cheap(void **state)
{
    (void)state;
    /* By recursion over each star this takes longer than the machine will last. */
    char pattern[2 * 1000 + 2];
    char text[20000];
    memset(text, 'a', sizeof(text));
    for (int i = 0; i < 1000; i++) {
        memcpy(pattern + 2 * i, "a*", 2);
    }
    memcpy(pattern + 2000, "b", 2);
    uint64_t steps = 0;
    assert_false(
        glob_match_counted(slice_of(pattern, 2001), slice_of(text, sizeof(text)), false, &steps));
    assert_true(steps < 3 * sizeof(text));
}

static void test_glob_gives_up_on_what_takes_quadratic_time(void **state)
{
    (void)state;
    static uint8_t pattern[30002];
    static uint8_t text[60000];
    uint64_t steps_max = GLOB_STEPS_MIN + GLOB_STEPS_PER_BYTE * (sizeof(pattern) + sizeof(text));
    uint64_t steps = 0;
    memset(text, 'a', sizeof(text));
    memset(pattern, 'a', sizeof(pattern));
    pattern[0] = '*';
    pattern[sizeof(pattern) - 1] = 'b';
    text[sizeof(text) - 1] = 'b';
    assert_false(glob_match_counted(slice_of(pattern, sizeof(pattern)),
                                    slice_of(text, sizeof(text)), false, &steps));
    assert_in_range(steps, steps_max, steps_max + sizeof(pattern));
    /* A class is not one step, however long it is. */
    steps = 0;
    memset(pattern, 'c', sizeof(pattern));
    memcpy(pattern, "*[", 2);
    memcpy(pattern + sizeof(pattern) - 2, "]b", 2);
    assert_false(glob_match_counted(slice_of(pattern, sizeof(pattern)),
                                    slice_of(text, sizeof(text)), false, &steps));
    assert_in_range(steps, steps_max, steps_max + sizeof(pattern));
}

static void test_glob_matches_what_is_long_and_simple(void **state)
{
    (void)state;
    static uint8_t pattern[100000];
    static uint8_t text[60000];
    uint64_t steps = 0;
    memset(text, 'a', sizeof(text));
    for (size_t i = 0; i < sizeof(pattern); i += 2) {
        memcpy(pattern + i, "*?", 2);
    }
    assert_true(glob_match_counted(slice_of(pattern, sizeof(pattern)), slice_of(text, sizeof(text)),
                                   false, &steps));
    assert_false(glob_match(slice_of(pattern, sizeof(pattern)),
                            slice_of(text, sizeof(pattern) / 2 - 1), false));
    assert_true(steps <= 3 * sizeof(text) + sizeof(pattern));
    /* Fifteen bytes and more are compared at each place in vain. */
    memcpy(text + sizeof(text) - 2, "bc", 2);
    assert_true(glob_match(slice_of_text("*aaaaaaaaaaaaab?"), slice_of(text, sizeof(text)), false));
}

/* Dynamic programming over all (pattern, text) places; no classes. */
static bool matches_slowly(struct slice pattern, struct slice text)
{
    bool table[16][16] = {{false}};
    table[0][0] = true;
    for (size_t p = 1; p <= pattern.length_bytes; p++) {
        uint8_t element = pattern.data[p - 1];
        for (size_t t = 0; t <= text.length_bytes; t++) {
            if (element == '*') {
                table[p][t] = table[p - 1][t] || (t > 0 && table[p][t - 1]);
            } else {
                table[p][t] =
                    t > 0 && table[p - 1][t - 1] && (element == '?' || element == text.data[t - 1]);
            }
        }
    }
    return table[pattern.length_bytes][text.length_bytes];
}

static void test_glob_agrees_with_dynamic_programming(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, test_seed());
    unsigned match_count = 0;
    for (int round = 0; round < 200000; round++) {
        uint8_t pattern[10];
        uint8_t text[12];
        size_t pattern_bytes = random_below(&random, sizeof(pattern) + 1);
        size_t text_bytes = random_below(&random, sizeof(text) + 1);
        for (size_t i = 0; i < pattern_bytes; i++) {
            pattern[i] = (uint8_t) "**?ab"[random_below(&random, 5)];
        }
        for (size_t i = 0; i < text_bytes; i++) {
            text[i] = (uint8_t) "ab"[random_below(&random, 2)];
        }
        struct slice p = slice_of(pattern, pattern_bytes);
        struct slice t = slice_of(text, text_bytes);
        bool expected = matches_slowly(p, t);
        match_count += expected;
        assert_int_equal(glob_match(p, t, false), expected);
    }
    /* Both answers were asked for often enough. */
    assert_in_range(match_count, 20000, 180000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glob_plain_text_matches_itself),
        cmocka_unit_test(test_glob_star_takes_any_run),
        cmocka_unit_test(test_glob_question_takes_exactly_one_byte),
        cmocka_unit_test(test_glob_class_takes_members_ranges_and_negation),
        cmocka_unit_test(test_glob_class_that_is_not_closed_ends_with_the_pattern),
        cmocka_unit_test(test_glob_backslash_takes_the_next_byte_as_it_is),
        cmocka_unit_test(test_glob_ignores_case_on_demand),
        cmocka_unit_test(test_glob_many_stars_stay_cheap),
        cmocka_unit_test(test_glob_gives_up_on_what_takes_quadratic_time),
        cmocka_unit_test(test_glob_matches_what_is_long_and_simple),
        cmocka_unit_test(test_glob_agrees_with_dynamic_programming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
