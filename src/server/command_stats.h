#pragma once
/* command_stats – how often each command ran on one reactor, for how long, and how it failed. One
 * thread; others get copies by a gather. Embedded in the reactor; owns nothing.
 *
 * Commands that were served in one round are not timed one by one: each counts with its share of the
 * round. */

#include "proto/command_table.h"

/* Times are counted in buckets: four to each doubling of microseconds, so a percentile is at most a
 * fifth too high. The last one takes all from 2^31 us (36 minutes) on. */
#define COMMAND_STATS_BUCKETS 128
/* Redis's own limit (7.4); what is beyond counts as ERRORSTATS_OVERFLOW. */
#define COMMAND_STATS_ERRORS      64
#define COMMAND_STATS_ERROR_BYTES 32

struct command_stat {
    uint64_t calls, nanoseconds, rejected, failed;
    uint64_t buckets[COMMAND_STATS_BUCKETS];
};

struct error_stat {
    char name[COMMAND_STATS_ERROR_BYTES]; /* the error's first word; empty: none from here on */
    uint64_t count;
};

struct command_stats {
    struct command_stat commands[COMMAND_COUNT];
    struct error_stat errors[COMMAND_STATS_ERRORS];
    uint64_t errors_total;
    bool untimed; /* calls are counted, but not how long each took */
};

/* All but whether times are kept. */
void command_stats_reset(struct command_stats *stats);
/* calls of one command that took nanoseconds each. */
void command_stats_ran(struct command_stats *stats, enum command_id id, uint64_t calls,
                       uint64_t nanoseconds, bool failed);
void command_stats_rejected(struct command_stats *stats, enum command_id id);
/* The text of an error reply, without '-'. */
void command_stats_error(struct command_stats *stats, const char *text);
void command_stats_add(struct command_stats *to, const struct command_stats *from);

/* How many of the calls were timed. */
uint64_t command_stats_timed(const struct command_stat *stat);
/* The time in microseconds that so many of a hundred thousand of them took at most; 0: there are none. */
double command_stats_percentile(const struct command_stat *stat, uint32_t per_100000);
/* The longest time in microseconds that a bucket counts. */
double command_stats_bucket_limit_us(uint32_t bucket);
