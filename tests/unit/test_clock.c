/* test_clock – the clocks run forward and agree with the system. */

#include "base/clock.h"

#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_clock_mono_never_runs_back(void **state)
{
    (void)state;
    int64_t before_us = clock_mono_us();
    for (int i = 0; i < 10000; i++) {
        int64_t now_us = clock_mono_us();
        assert_true(now_us >= before_us);
        before_us = now_us;
    }
}

static void test_clock_moment_lies_between_two_reads_of_the_system(void **state)
{
    (void)state;
    struct timespec low;
    struct timespec high;
    (void)clock_gettime(CLOCK_REALTIME, &low);
    int64_t low_us = clock_mono_us();
    struct moment now = clock_moment();
    int64_t high_us = clock_mono_us();
    (void)clock_gettime(CLOCK_REALTIME, &high);
    assert_true(now.mono_us >= low_us && now.mono_us <= high_us);
    assert_true(now.wall_ms >= (int64_t)low.tv_sec * 1000 + low.tv_nsec / 1000000);
    assert_true(now.wall_ms <= (int64_t)high.tv_sec * 1000 + high.tv_nsec / 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_mono_never_runs_back),
        cmocka_unit_test(test_clock_moment_lies_between_two_reads_of_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
