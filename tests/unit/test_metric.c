/* test_metric – a counter of one writer. */

#include "base/metric.h"

#include <pthread.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ROUND_COUNT 200000

static void test_metric_adds_sets_and_keeps_the_maximum(void **state)
{
    (void)state;
    struct metric metric = {0};
    metric_add(&metric, 5);
    metric_sub(&metric, 2);
    assert_int_equal(metric_get(&metric), 3);
    metric_max(&metric, 2);
    assert_int_equal(metric_get(&metric), 3);
    metric_max(&metric, 9);
    assert_int_equal(metric_get(&metric), 9);
    metric_set(&metric, 1);
    assert_int_equal(metric_get(&metric), 1);
}

static void *count_up(void *argument)
{
    struct metric *metric = argument;
    for (int i = 0; i < ROUND_COUNT; i++) {
        /* Both halves change, so that a torn read would show. */
        metric_add(metric, 0x100000001U);
    }
    return NULL;
}

static void test_metric_is_never_torn_for_another_thread(void **state)
{
    (void)state;
    struct metric metric = {0};
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, count_up, &metric), 0);
    uint64_t before = 0;
    for (int i = 0; i < ROUND_COUNT; i++) {
        uint64_t value = metric_get(&metric);
        assert_true(value >> 32 == (value & UINT32_MAX));
        assert_true(value >= before);
        before = value;
    }
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_true(metric_get(&metric) == ROUND_COUNT * 0x100000001U);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metric_adds_sets_and_keeps_the_maximum),
        cmocka_unit_test(test_metric_is_never_torn_for_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
