/* test_command_stats – counts, percentiles and error names of commands. */

#include "server/command_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int set_up(void **state)
{
    *state = calloc(1, sizeof(struct command_stats));
    return *state == NULL;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static void test_command_stats_count_calls_and_failures(void **state)
{
    struct command_stats *stats = *state;
    command_stats_ran(stats, COMMAND_GET, 1, 1500, false);
    command_stats_ran(stats, COMMAND_GET, 1, 2500, true);
    command_stats_rejected(stats, COMMAND_SET);
    assert_int_equal(stats->commands[COMMAND_GET].calls, 2);
    assert_int_equal(stats->commands[COMMAND_GET].nanoseconds, 4000);
    assert_int_equal(stats->commands[COMMAND_GET].failed, 1);
    assert_int_equal(stats->commands[COMMAND_SET].calls, 0);
    assert_int_equal(stats->commands[COMMAND_SET].rejected, 1);
}

static void test_command_stats_percentiles_are_a_fifth_too_high_at_most(void **state)
{
    struct command_stats *stats = *state;
    assert_true(command_stats_percentile(&stats->commands[COMMAND_GET], 50000) == 0);
    for (uint64_t microseconds = 1; microseconds <= 1000; microseconds++) {
        command_stats_ran(stats, COMMAND_GET, 1, microseconds * 1000, false);
    }
    for (uint32_t percent = 1; percent <= 100; percent++) {
        double exact = percent * 10;
        double found = command_stats_percentile(&stats->commands[COMMAND_GET], percent * 1000);
        assert_true(found >= exact && found <= exact * 1.25 + 1);
    }
}

static void test_command_stats_untimed_calls_are_counted_alone(void **state)
{
    struct command_stats *stats = *state;
    stats->untimed = true;
    command_stats_ran(stats, COMMAND_GET, 3, 1500, false);
    command_stats_reset(stats);
    command_stats_ran(stats, COMMAND_GET, 2, 1500, false);
    assert_int_equal(stats->commands[COMMAND_GET].calls, 2);
    assert_int_equal(command_stats_timed(&stats->commands[COMMAND_GET]), 0);
    assert_true(command_stats_percentile(&stats->commands[COMMAND_GET], 50000) == 0);
    stats->untimed = false;
    command_stats_ran(stats, COMMAND_GET, 1, 7000, false);
    assert_int_equal(command_stats_timed(&stats->commands[COMMAND_GET]), 1);
    assert_true(command_stats_percentile(&stats->commands[COMMAND_GET], 0) >= 7);
}

static void test_command_stats_bucket_limits_grow_and_hold(void **state)
{
    struct command_stats *stats = *state;
    for (uint32_t bucket = 1; bucket < COMMAND_STATS_BUCKETS; bucket++) {
        double limit = command_stats_bucket_limit_us(bucket);
        assert_true(limit >= command_stats_bucket_limit_us(bucket - 1));
        memset(&stats->commands[COMMAND_GET], 0, sizeof(stats->commands[COMMAND_GET]));
        command_stats_ran(stats, COMMAND_GET, 1, (uint64_t)limit * 1000 + 999, false);
        assert_int_equal(stats->commands[COMMAND_GET].buckets[bucket], 1);
    }
    memset(&stats->commands[COMMAND_GET], 0, sizeof(stats->commands[COMMAND_GET]));
    command_stats_ran(stats, COMMAND_GET, 1, UINT64_MAX, false);
    assert_int_equal(stats->commands[COMMAND_GET].buckets[COMMAND_STATS_BUCKETS - 1], 1);
}

static void test_command_stats_errors_by_first_word(void **state)
{
    struct command_stats *stats = *state;
    command_stats_error(stats, "ERR syntax error");
    command_stats_error(stats, "ERR no");
    command_stats_error(stats, "OOM");
    assert_string_equal(stats->errors[0].name, "ERR");
    assert_int_equal(stats->errors[0].count, 2);
    assert_string_equal(stats->errors[1].name, "OOM");
    assert_int_equal(stats->errors_total, 3);
}

static void test_command_stats_errors_beyond_the_table_are_counted_together(void **state)
{
    struct command_stats *stats = *state;
    struct command_stats *sum = calloc(1, sizeof(*sum));
    char name[16];
    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof(name), "E%d text", i);
        command_stats_error(stats, name);
    }
    assert_string_equal(stats->errors[COMMAND_STATS_ERRORS - 1].name, "ERRORSTATS_OVERFLOW");
    assert_int_equal(stats->errors[COMMAND_STATS_ERRORS - 1].count,
                     200 - (COMMAND_STATS_ERRORS - 1));
    command_stats_ran(stats, COMMAND_GET, 1, 1000, false);
    command_stats_add(sum, stats);
    command_stats_add(sum, stats);
    assert_int_equal(sum->errors_total, 400);
    assert_int_equal(sum->errors[0].count, 2);
    assert_int_equal(sum->commands[COMMAND_GET].calls, 2);
    free(sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_command_stats_count_calls_and_failures, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_command_stats_percentiles_are_a_fifth_too_high_at_most,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_command_stats_untimed_calls_are_counted_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_command_stats_bucket_limits_grow_and_hold, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_command_stats_errors_by_first_word, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_command_stats_errors_beyond_the_table_are_counted_together, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
