#pragma once
/* clock – reads the time once, for others to be handed it. Only loops and main read the clock;
 * everything below takes a struct moment as an argument, so that it can be simulated. Any thread. */

#include <stdint.h>

struct moment {
    int64_t wall_ms; /* Unix time: expiry of keys (EXPIREAT, TTL) */
    int64_t mono_us; /* CLOCK_MONOTONIC: leases, reservations, timeouts, latencies */
};

struct moment clock_moment(void);
int64_t clock_mono_us(void);
/* CLOCK_MONOTONIC, for short times. */
int64_t clock_mono_ns(void);
/* Unix time in microseconds (TIME). */
int64_t clock_wall_us(void);
/* Stops the calling thread; 0 lets another that waits for this core go first. Where a loop polls on
 * purpose, and for DEBUG SLEEP. */
void clock_sleep_us(int64_t duration_us);
