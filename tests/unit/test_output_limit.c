/* Unit tests of server/output_limit. */
#include "server/output_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_output_limits_change_only_the_classes_named(void **state)
{
    (void)state;
    struct output_limits limits = {0};
    char text[256];
    assert_true(output_limits_parse(
        &limits, slice_of_text("normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60")));
    assert_true(output_limits_parse(&limits, slice_of_text("  NORMAL 1mb 512kb  10 ")));
    output_limits_format(&limits, text, sizeof(text));
    assert_string_equal(text, "normal 1048576 524288 10 slave 268435456 67108864 60 "
                              "pubsub 33554432 8388608 60");
    assert_true(output_limits_parse(&limits, slice_of(NULL, 0)));
}

static void test_output_limits_refuse_what_is_malformed(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "normal",          "normal 1mb 1mb",   "normal 1mb 1mb x",       "other 1mb 1mb 1",
        "normal -1 1mb 1", "normal 1xb 1mb 1", "normal 1 1 99999999999", "normal 1 1 1 xyz",
    };
    struct output_limits limits = {.classes[OUTPUT_CLASS_NORMAL] = {.hard_bytes = 7}};
    for (unsigned i = 0; i < ARRAY_COUNT(wrong); i++) {
        assert_false(output_limits_parse(&limits, slice_of_text(wrong[i])));
        assert_int_equal(limits.classes[OUTPUT_CLASS_NORMAL].hard_bytes, 7);
    }
}

static void test_output_limit_hard_is_passed_at_once_soft_after_its_time(void **state)
{
    (void)state;
    const struct output_limit limit = {.hard_bytes = 100, .soft_bytes = 50, .soft_s = 2};
    const struct output_limit none = {0};
    int64_t since_us = 0;
    assert_false(output_limit_is_passed(&limit, 100, 1000000, &since_us));
    assert_true(output_limit_is_passed(&limit, 101, 1000000, &since_us));
    assert_false(output_limit_is_passed(&limit, 51, 3000000, &since_us));
    assert_true(output_limit_is_passed(&limit, 51, 3000001, &since_us));
    /* A break begins the time anew. */
    assert_false(output_limit_is_passed(&limit, 50, 4000000, &since_us));
    assert_false(output_limit_is_passed(&limit, 51, 9000000, &since_us));
    assert_false(output_limit_is_passed(&none, UINT64_MAX, 1, &since_us));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_limits_change_only_the_classes_named),
        cmocka_unit_test(test_output_limits_refuse_what_is_malformed),
        cmocka_unit_test(test_output_limit_hard_is_passed_at_once_soft_after_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
