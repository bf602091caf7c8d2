#include "server/latency.h"

#include <string.h>

const char *latency_event_name(enum latency_event event)
{
    static const char *const names[LATENCY_EVENT_COUNT] = {
        [LATENCY_COMMAND] = "command",
        [LATENCY_FAST_COMMAND] = "fast-command",
        [LATENCY_EXPIRE_CYCLE] = "expire-cycle",
    };
    return names[event];
}

static void append(struct latency_history *history, struct latency_sample sample)
{
    struct latency_sample *last =
        &history->samples[(history->next + LATENCY_SAMPLES_MAX - 1) % LATENCY_SAMPLES_MAX];
    if (sample.duration_ms > history->max_ms) {
        history->max_ms = sample.duration_ms;
    }
    if (last->time_s == sample.time_s) {
        last->duration_ms =
            last->duration_ms > sample.duration_ms ? last->duration_ms : sample.duration_ms;
        return;
    }
    history->samples[history->next] = sample;
    history->next = (history->next + 1) % LATENCY_SAMPLES_MAX;
}

void latency_add(struct latency *latency, enum latency_event event, int64_t time_s,
                 uint32_t duration_ms)
{
    append(&latency->events[event],
           (struct latency_sample){.time_s = time_s, .duration_ms = duration_ms});
}

bool latency_reset(struct latency *latency, enum latency_event event)
{
    struct latency_history *history = &latency->events[event];
    bool had = latency_at(history, 0).time_s != 0;
    memset(history, 0, sizeof(*history));
    return had;
}

struct latency_sample latency_at(const struct latency_history *history, uint32_t index)
{
    /* The ring is full once the place that comes next is taken. */
    bool full = history->samples[history->next].time_s != 0;
    uint32_t count = full ? LATENCY_SAMPLES_MAX : history->next;
    if (index >= count) {
        return (struct latency_sample){0};
    }
    return history->samples[full ? (history->next + index) % LATENCY_SAMPLES_MAX : index];
}

void latency_merge(struct latency_history *to, const struct latency_history *from)
{
    struct latency_history merged = {0};
    uint32_t i = 0;
    uint32_t j = 0;
    struct latency_sample a = latency_at(to, i);
    struct latency_sample b = latency_at(from, j);
    while (a.time_s != 0 || b.time_s != 0) {
        if (b.time_s == 0 || (a.time_s != 0 && a.time_s <= b.time_s)) {
            append(&merged, a);
            a = latency_at(to, ++i);
        } else {
            append(&merged, b);
            b = latency_at(from, ++j);
        }
    }
    merged.max_ms = to->max_ms > from->max_ms ? to->max_ms : from->max_ms;
    *to = merged;
}
