/* test_latency – samples of slow events: one a second, the last ones, merged from several. */

#include "server/latency.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_latency_keeps_the_worst_of_a_second(void **state)
{
    struct latency latency = {0};
    (void)state;
    latency_add(&latency, LATENCY_COMMAND, 100, 5);
    latency_add(&latency, LATENCY_COMMAND, 100, 9);
    latency_add(&latency, LATENCY_COMMAND, 100, 7);
    latency_add(&latency, LATENCY_COMMAND, 101, 1);
    const struct latency_history *history = &latency.events[LATENCY_COMMAND];
    assert_int_equal(latency_at(history, 0).duration_ms, 9);
    assert_int_equal(latency_at(history, 1).duration_ms, 1);
    assert_int_equal(latency_at(history, 2).time_s, 0);
    assert_int_equal(history->max_ms, 9);
    assert_int_equal(latency_at(&latency.events[LATENCY_FAST_COMMAND], 0).time_s, 0);
}

static void test_latency_forgets_the_oldest(void **state)
{
    struct latency latency = {0};
    (void)state;
    for (uint32_t i = 1; i <= LATENCY_SAMPLES_MAX + 10; i++) {
        latency_add(&latency, LATENCY_COMMAND, i, i);
    }
    const struct latency_history *history = &latency.events[LATENCY_COMMAND];
    assert_int_equal(latency_at(history, 0).time_s, 11);
    assert_int_equal(latency_at(history, LATENCY_SAMPLES_MAX - 1).time_s, LATENCY_SAMPLES_MAX + 10);
    assert_int_equal(latency_at(history, LATENCY_SAMPLES_MAX).time_s, 0);
    assert_true(latency_reset(&latency, LATENCY_COMMAND));
    assert_false(latency_reset(&latency, LATENCY_COMMAND));
}

static void test_latency_merges_by_time(void **state)
{
    struct latency a = {0};
    struct latency b = {0};
    (void)state;
    latency_add(&a, LATENCY_COMMAND, 1, 10);
    latency_add(&a, LATENCY_COMMAND, 3, 30);
    latency_add(&b, LATENCY_COMMAND, 2, 20);
    latency_add(&b, LATENCY_COMMAND, 3, 35);
    struct latency_history *history = &a.events[LATENCY_COMMAND];
    latency_merge(history, &b.events[LATENCY_COMMAND]);
    assert_int_equal(latency_at(history, 0).time_s, 1);
    assert_int_equal(latency_at(history, 1).time_s, 2);
    assert_int_equal(latency_at(history, 2).duration_ms, 35);
    assert_int_equal(latency_at(history, 3).time_s, 0);
    assert_int_equal(history->max_ms, 35);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latency_keeps_the_worst_of_a_second),
        cmocka_unit_test(test_latency_forgets_the_oldest),
        cmocka_unit_test(test_latency_merges_by_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
