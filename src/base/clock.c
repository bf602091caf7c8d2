#include "base/clock.h"

#include "base/check.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

static int64_t read_clock(clockid_t id, int64_t units_per_second)
{
    struct timespec now;
    check(clock_gettime(id, &now) == 0);
    return (int64_t)now.tv_sec * units_per_second +
           (int64_t)now.tv_nsec / (1000000000 / units_per_second);
}

int64_t clock_mono_us(void)
{
    return read_clock(CLOCK_MONOTONIC, 1000000);
}

int64_t clock_mono_ns(void)
{
    return read_clock(CLOCK_MONOTONIC, 1000000000);
}

int64_t clock_wall_us(void)
{
    return read_clock(CLOCK_REALTIME, 1000000);
}

void clock_sleep_us(int64_t duration_us)
{
    struct timespec left = {.tv_sec = duration_us / 1000000,
                            .tv_nsec = duration_us % 1000000 * 1000};
    if (duration_us == 0) {
        (void)sched_yield();
        return;
    }
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

struct moment clock_moment(void)
{
    return (struct moment){.wall_ms = read_clock(CLOCK_REALTIME, 1000), .mono_us = clock_mono_us()};
}
