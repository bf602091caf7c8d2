#pragma once
/* latency – what took longer than latency-monitor-threshold on one reactor: the last samples of each
 * kind of event, one a second at most (the worst of it), as in Redis. One thread; others get copies by
 * a gather. Plain data. */

#include <stdbool.h>
#include <stdint.h>

#define LATENCY_SAMPLES_MAX 160

enum latency_event {
    LATENCY_COMMAND,      /* a request */
    LATENCY_FAST_COMMAND, /* one of those that should always be fast */
    LATENCY_EXPIRE_CYCLE, /* the timer's work on the shard: expiry, flushes, memory */
    LATENCY_EVENT_COUNT,
};

struct latency_sample {
    int64_t time_s; /* Unix time; 0: none */
    uint32_t duration_ms;
};

struct latency_history {
    struct latency_sample samples[LATENCY_SAMPLES_MAX]; /* a ring */
    uint32_t next;
    uint32_t max_ms; /* since the last reset */
};

struct latency {
    struct latency_history events[LATENCY_EVENT_COUNT];
};

const char *latency_event_name(enum latency_event event);
void latency_add(struct latency *latency, enum latency_event event, int64_t time_s,
                 uint32_t duration_ms);
/* True: there was something. */
bool latency_reset(struct latency *latency, enum latency_event event);
/* Both histories in the order of time, as many of the latest as there is room for; seconds in which
 * both have a sample are one. */
void latency_merge(struct latency_history *to, const struct latency_history *from);
/* The i-th sample, oldest first; time_s 0: there are not so many. */
struct latency_sample latency_at(const struct latency_history *history, uint32_t index);
