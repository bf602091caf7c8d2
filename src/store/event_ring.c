#include "store/event_ring.h"

#include "base/check.h"
#include "base/fault.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* So many marks say where to begin to look: a reader walks through one part of them at most. */
#define EVENT_RING_MARKS 64U
/* What is left at the end of the memory and too short for the event that came. */
#define EVENT_RING_FILLER UINT8_MAX

/* The first event that begins in a part of the memory. */
struct event_mark {
    uint64_t number;
    uint64_t offset; /* as head and tail; of an earlier round: nothing begins there */
};

struct event_ring {
    uint64_t head; /* bytes ever written; modulo capacity it is a place */
    uint64_t tail;
    uint64_t capacity_bytes;
    uint64_t part_bytes; /* of a mark */
    uint64_t lost_number;
    int64_t last_us;
    uint32_t shard;
    struct event_mark marks[EVENT_RING_MARKS];
    _Alignas(struct event) uint8_t bytes[];
};

static uint64_t event_ring_number(const struct event_ring *ring, int64_t us)
{
    return (uint64_t)us << EVENT_SHARD_BITS | ring->shard;
}

struct event_ring *event_ring_create(uint64_t capacity_bytes, uint32_t shard, int64_t now_us)
{
    check(shard < 1U << EVENT_SHARD_BITS);
    uint64_t part_bytes = capacity_bytes / EVENT_RING_MARKS & ~UINT64_C(7);
    capacity_bytes = part_bytes * EVENT_RING_MARKS;
    if (capacity_bytes < EVENT_RING_BYTES_MIN || fault_hit("store.events")) {
        return NULL;
    }
    struct event_ring *ring = malloc(sizeof(*ring) + capacity_bytes);
    if (ring == NULL) {
        return NULL;
    }
    *ring = (struct event_ring){
        .capacity_bytes = capacity_bytes,
        .part_bytes = part_bytes,
        .last_us = now_us,
        .shard = shard,
    };
    ring->lost_number = event_ring_number(ring, now_us);
    return ring;
}

void event_ring_destroy(struct event_ring **ring_p)
{
    free(*ring_p);
    *ring_p = NULL;
}

static struct event *event_ring_at(const struct event_ring *ring, uint64_t offset)
{
    const uint8_t *at = ring->bytes + offset % ring->capacity_bytes;
    return (struct event *)(uintptr_t)at;
}

static uint64_t event_ring_left(const struct event_ring *ring, uint64_t offset)
{
    return ring->capacity_bytes - offset % ring->capacity_bytes;
}

/* Over what is not an event: the rest of the memory, when the next one had no place there. */
static uint64_t event_ring_skip(const struct event_ring *ring, uint64_t offset)
{
    uint64_t left_bytes = event_ring_left(ring, offset);
    bool filler = offset < ring->head && (left_bytes < sizeof(struct event) ||
                                          event_ring_at(ring, offset)->kind == EVENT_RING_FILLER);
    return filler ? offset + left_bytes : offset;
}

static void event_ring_drop(struct event_ring *ring, uint64_t head)
{
    while (head - ring->tail > ring->capacity_bytes) {
        uint64_t at = event_ring_skip(ring, ring->tail);
        if (at == ring->tail) {
            ring->lost_number = event_ring_at(ring, at)->number;
            at += event_bytes(event_ring_at(ring, at));
        }
        ring->tail = at;
    }
}

static void event_ring_mark(struct event_ring *ring, uint64_t number)
{
    uint64_t part = ring->head / ring->part_bytes;
    struct event_mark *mark = &ring->marks[part % EVENT_RING_MARKS];
    if (mark->number == 0 || mark->offset / ring->part_bytes != part) {
        *mark = (struct event_mark){.number = number, .offset = ring->head};
    }
}

void event_ring_add(struct event_ring *ring, const struct event *event, struct slice key,
                    int64_t now_us)
{
    struct event added = *event;
    added.key_length_bytes = (uint16_t)key.length_bytes;
    uint64_t bytes = event_bytes(&added);
    uint64_t left_bytes = event_ring_left(ring, ring->head);
    if (left_bytes < bytes) {
        event_ring_drop(ring, ring->head + left_bytes);
        if (left_bytes >= sizeof(added)) {
            event_ring_at(ring, ring->head)->kind = EVENT_RING_FILLER;
        }
        ring->head += left_bytes;
    }
    event_ring_drop(ring, ring->head + bytes);
    ring->last_us = now_us > ring->last_us ? now_us : ring->last_us + 1;
    added.number = event_ring_number(ring, ring->last_us);
    struct event *to = event_ring_at(ring, ring->head);
    memcpy(to, &added, sizeof(added));
    if (key.length_bytes > 0) {
        memcpy(to->key, key.data, key.length_bytes);
    }
    event_ring_mark(ring, added.number);
    ring->head += bytes;
}

void event_ring_pass(struct event_ring *ring, int64_t until_us)
{
    if (ring->last_us < until_us - 1) {
        ring->last_us = until_us - 1;
    }
}

uint64_t event_ring_lost(const struct event_ring *ring)
{
    return ring->lost_number;
}

static const struct event *event_ring_peek(const struct event_ring *ring, uint64_t offset)
{
    offset = event_ring_skip(ring, offset);
    return offset < ring->head ? event_ring_at(ring, offset) : NULL;
}

const struct event *event_ring_after(const struct event_ring *ring, uint64_t number)
{
    uint64_t offset = ring->tail;
    for (unsigned i = 0; i < EVENT_RING_MARKS; i++) {
        const struct event_mark *mark = &ring->marks[i];
        if (mark->number != 0 && mark->number <= number && mark->offset > offset) {
            offset = mark->offset;
        }
    }
    const struct event *event = event_ring_peek(ring, offset);
    while (event != NULL && event->number <= number) {
        event = event_ring_next(ring, event);
    }
    return event;
}

const struct event *event_ring_next(const struct event_ring *ring, const struct event *event)
{
    /* Where it lies, in bytes ever written: in the round of tail, or in the one behind it. */
    uint64_t place = (uint64_t)((const uint8_t *)event - ring->bytes);
    uint64_t offset = ring->tail - ring->tail % ring->capacity_bytes + place;
    if (offset < ring->tail) {
        offset += ring->capacity_bytes;
    }
    return event_ring_peek(ring, offset + event_bytes(event));
}

uint64_t event_ring_capacity(const struct event_ring *ring)
{
    return ring->capacity_bytes;
}
