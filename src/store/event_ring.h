#pragma once
/* event_ring – what happened to the keys of a shard of late, the oldest overwritten first. Each event
 * has a number: microseconds, the shard in the lowest bits; so the events of all shards have one
 * order without a counter that they share. Owns its memory. One thread; the shard's own, by its gate. */

#include "base/compiler.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* The lowest bits of a number: the shard. */
#define EVENT_SHARD_BITS 6
/* The longest key and its event take a quarter of it. */
#define EVENT_RING_BYTES_MIN (256U << 10)

enum event_kind {
    EVENT_NONE,    /* nothing that anybody is told */
    EVENT_SEALED,  /* the key has this value now, whatever it had before */
    EVENT_EVICTED, /* the value made room for others */
    EVENT_DELETED,
    EVENT_EXPIRED,
    EVENT_FLUSHED, /* all keys of the database that this shard had; no key is named */
};

/* Tiers as KV.STAT names them. */
enum event_tier {
    EVENT_TIER_DRAM,
};

struct event {
    uint64_t number;
    uint64_t length_bytes; /* of the value */
    uint16_t key_length_bytes;
    uint8_t kind; /* enum event_kind */
    uint8_t tier; /* enum event_tier */
    uint8_t database;
    uint8_t key[]; /* borrowed: until the ring is written again */
};

/* Events begin at multiples of 8; this one with its key takes so many bytes. */
static inline uint64_t event_bytes(const struct event *event)
{
    return (sizeof(*event) + event->key_length_bytes + 7) & ~UINT64_C(7);
}

struct event_ring;

/* Numbers begin at now_us. NULL: out of memory, or less than EVENT_RING_BYTES_MIN. */
struct event_ring *event_ring_create(uint64_t capacity_bytes, uint32_t shard, int64_t now_us);
void event_ring_destroy(struct event_ring **ring_p);

/* event: all but its number, which it gets here. */
void event_ring_add(struct event_ring *ring, const struct event *event, struct slice key,
                    int64_t now_us);

/* No event that is added after this gets a number of a time before until_us. */
void event_ring_pass(struct event_ring *ring, int64_t until_us);
/* The latest number that is not there any more, or may never have been. */
uint64_t event_ring_lost(const struct event_ring *ring);
/* The first event behind that number, borrowed; NULL: there is none. Then the one behind an event. */
const struct event *event_ring_after(const struct event_ring *ring, uint64_t number);
const struct event *event_ring_next(const struct event_ring *ring, const struct event *event);
uint64_t event_ring_capacity(const struct event_ring *ring);
