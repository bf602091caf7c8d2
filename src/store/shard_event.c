/* What happened to keys, for those who ask (KV.EVENTS): kept from when somebody asks first. */

#include "store/shard_event.h"
#include "base/check.h"
#include "store/shard_impl.h"

/* Numbers are of Unix time, so that they grow from one life of the server to the next; but the clock that
 * counts is the one that nobody sets. */
static int64_t shard_event_us(const struct shard *shard)
{
    return shard->config.events_zero_us + shard->now.mono_us;
}

void shard_event_listeners(struct shard *shard)
{
    shard->tells = shard->events != NULL || shard->notices.classes != 0;
}

/* What is no op of its own, as notices name it. */
static void shard_event_notice(struct shard *shard, enum event_kind kind, const struct value *value)
{
    struct notice_queue *queue = &shard->notices;
    if (kind == EVENT_EVICTED) {
        notice_add(queue, NOTICE_EVICTED, shard->shown[value->database], value_key(value));
    } else if (kind == EVENT_EXPIRED && shard_value_expired(shard, value)) {
        notice_add(queue, NOTICE_EXPIRED, shard->shown[value->database], value_key(value));
    } else if (kind == EVENT_SEALED && value->generation == 1) {
        notice_add(queue, NOTICE_NEW, shard->shown[value->database], value_key(value));
    }
}

void shard_event_add(struct shard *shard, enum event_kind kind, const struct value *value)
{
    shard_event_notice(shard, kind, value);
    if (shard->events == NULL) {
        return;
    }
    const struct event event = {
        .length_bytes = value->length_bytes,
        .kind = (uint8_t)kind,
        .tier = EVENT_TIER_DRAM,
        .database = shard->shown[value->database],
    };
    event_ring_add(shard->events, &event, value_key(value), shard_event_us(shard));
}

void shard_event_flush(struct shard *shard, uint8_t database)
{
    const struct event event = {
        .kind = EVENT_FLUSHED, .tier = EVENT_TIER_DRAM, .database = shard->shown[database]};
    if (shard->events != NULL && shard->spaces[database].key_count > 0) {
        event_ring_add(shard->events, &event, slice_of(NULL, 0), shard_event_us(shard));
    }
}

bool shard_events_keep(struct shard *shard, uint64_t capacity_bytes, int64_t from_us)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    if (shard->events_asked_bytes == capacity_bytes) {
        return true;
    }
    event_ring_destroy(&shard->events);
    shard_event_listeners(shard);
    shard->events_asked_bytes = 0;
    if (capacity_bytes > 0) {
        shard->events = event_ring_create(capacity_bytes, shard->config.index, from_us - 1);
        if (shard->events == NULL) {
            return false;
        }
        shard_event_listeners(shard);
        shard->events_asked_bytes = capacity_bytes;
        shard->events_read_us = shard->now.mono_us;
    }
    return true;
}

uint64_t shard_events_bytes(const struct shard *shard)
{
    return shard->events != NULL ? event_ring_capacity(shard->events) : 0;
}

int64_t shard_events_idle_us(const struct shard *shard, const struct moment *now)
{
    return shard->events != NULL ? now->mono_us - shard->events_read_us : 0;
}

void shard_events_read(struct shard *shard, const struct shard_events_query *query,
                       const struct moment *now, shard_event_fn *visit, void *argument,
                       struct shard_events_state *state_p)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    shard_set_now(shard, now);
    *state_p = (struct shard_events_state){.capacity_bytes = shard_events_bytes(shard)};
    if (shard->events == NULL) {
        return;
    }
    shard->events_read_us = now->mono_us;
    uint64_t until = (uint64_t)query->until_us << EVENT_SHARD_BITS;
    uint64_t bytes = 0;
    uint32_t count = 0;
    event_ring_pass(shard->events, query->until_us);
    state_p->lost = event_ring_lost(shard->events);
    state_p->reached = until > 0 ? until - 1 : 0;
    const struct event *event = event_ring_after(shard->events, query->since);
    uint64_t before = query->since;
    for (; event != NULL && event->number < until; event = event_ring_next(shard->events, event)) {
        if (count >= query->count_max || bytes >= query->bytes_max || !visit(argument, event)) {
            state_p->reached = before;
            return;
        }
        before = event->number;
        bytes += event_bytes(event);
        count++;
    }
}
