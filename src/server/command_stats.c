#include "server/command_stats.h"

#include <string.h>

/* Buckets 0 to 3 are 0 to 3 us; from there on each doubling has four. */
static uint32_t bucket_of(uint64_t microseconds)
{
    uint32_t power;
    uint64_t bucket;
    if (microseconds < 4) {
        return (uint32_t)microseconds;
    }
    power = 63 - (uint32_t)__builtin_clzll(microseconds);
    bucket = 4 * (uint64_t)(power - 1) + ((microseconds >> (power - 2)) & 3);
    return bucket < COMMAND_STATS_BUCKETS ? (uint32_t)bucket : COMMAND_STATS_BUCKETS - 1;
}

double command_stats_bucket_limit_us(uint32_t bucket)
{
    if (bucket < 4) {
        return bucket == 0 ? 1 : bucket;
    }
    return (double)((4 + (bucket & 3) + 1) * (UINT64_C(1) << (bucket / 4 - 1)) - 1);
}

void command_stats_reset(struct command_stats *stats)
{
    bool untimed = stats->untimed;
    memset(stats, 0, sizeof(*stats));
    stats->untimed = untimed;
}

void command_stats_ran(struct command_stats *stats, enum command_id id, uint64_t calls,
                       uint64_t nanoseconds, bool failed)
{
    struct command_stat *stat = &stats->commands[id];
    stat->calls += calls;
    stat->nanoseconds += calls * nanoseconds;
    stat->failed += failed ? calls : 0;
    if (LIKELY(!stats->untimed)) {
        stat->buckets[bucket_of(nanoseconds / 1000)] += calls;
    }
}

void command_stats_rejected(struct command_stats *stats, enum command_id id)
{
    stats->commands[id].rejected++;
}

static void count_error(struct command_stats *stats, const char *name, size_t length,
                        uint64_t count)
{
    static const char overflow[] = "ERRORSTATS_OVERFLOW";
    for (size_t i = 0; i < COMMAND_STATS_ERRORS; i++) {
        struct error_stat *error = &stats->errors[i];
        if (error->name[0] == '\0') {
            bool last = i == COMMAND_STATS_ERRORS - 1;
            memcpy(error->name, last ? overflow : name, last ? sizeof(overflow) - 1 : length);
        }
        if (i == COMMAND_STATS_ERRORS - 1 ||
            (strncmp(error->name, name, length) == 0 && error->name[length] == '\0')) {
            error->count += count;
            return;
        }
    }
}

void command_stats_error(struct command_stats *stats, const char *text)
{
    size_t length = strcspn(text, " \r\n");
    stats->errors_total++;
    if (length > 0 && length < COMMAND_STATS_ERROR_BYTES) {
        count_error(stats, text, length, 1);
    }
}

void command_stats_add(struct command_stats *to, const struct command_stats *from)
{
    for (size_t id = 0; id < COMMAND_COUNT; id++) {
        to->commands[id].calls += from->commands[id].calls;
        to->commands[id].nanoseconds += from->commands[id].nanoseconds;
        to->commands[id].rejected += from->commands[id].rejected;
        to->commands[id].failed += from->commands[id].failed;
        for (size_t i = 0; i < COMMAND_STATS_BUCKETS; i++) {
            to->commands[id].buckets[i] += from->commands[id].buckets[i];
        }
    }
    to->errors_total += from->errors_total;
    for (size_t i = 0; i < COMMAND_STATS_ERRORS && from->errors[i].name[0] != '\0'; i++) {
        count_error(to, from->errors[i].name, strlen(from->errors[i].name), from->errors[i].count);
    }
}

uint64_t command_stats_timed(const struct command_stat *stat)
{
    uint64_t timed = 0;
    for (uint32_t i = 0; i < COMMAND_STATS_BUCKETS; i++) {
        timed += stat->buckets[i];
    }
    return timed;
}

double command_stats_percentile(const struct command_stat *stat, uint32_t per_100000)
{
    uint64_t timed = command_stats_timed(stat);
    uint64_t wanted = (timed * per_100000 + 99999) / 100000;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < COMMAND_STATS_BUCKETS && timed > 0; i++) {
        seen += stat->buckets[i];
        /* The fastest of all is the one that 0 of them are faster than. */
        if (seen > 0 && seen >= wanted) {
            return command_stats_bucket_limit_us(i);
        }
    }
    return 0;
}
