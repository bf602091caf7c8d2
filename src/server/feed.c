#include "server/feed.h"

#include "base/check.h"
#include "server/gather.h"
#include "server/monitor.h"
#include "server/reactor.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_AT_FIRST 4096U

/* ---- collecting ---- */

/* False: no memory, or too much is held already. */
static bool grow(struct reactor *reactor, size_t needed_bytes)
{
    struct feed *feed = &reactor->feed;
    struct chunk_pool *pool = &reactor->chunks;
    size_t capacity = feed->capacity_bytes > 0 ? feed->capacity_bytes : CAPACITY_AT_FIRST;
    size_t more;
    uint8_t *bytes;
    while (capacity < needed_bytes) {
        capacity *= 2;
    }
    more = capacity - feed->capacity_bytes;
    if (feed->held_bytes + more > FEED_BYTES_MAX ||
        pool->large_bytes + more > pool->large_bytes_max) {
        return false;
    }
    bytes = realloc(feed->bytes, capacity);
    if (bytes == NULL) {
        return false;
    }
    pool->large_bytes += more;
    feed->held_bytes += more;
    feed->bytes = bytes;
    feed->capacity_bytes = capacity;
    return true;
}

static void release(struct reactor *reactor, size_t bytes)
{
    reactor->feed.held_bytes -= bytes;
    reactor->chunks.large_bytes -= bytes;
}

uint8_t *feed_reserve(struct reactor *reactor, size_t bytes_max)
{
    struct feed *feed = &reactor->feed;
    size_t needed_bytes = feed->length_bytes + sizeof(uint32_t) + bytes_max;
    check(bytes_max <= UINT32_MAX);
    if (needed_bytes > feed->capacity_bytes && !grow(reactor, needed_bytes)) {
        feed->lost = true;
        return NULL;
    }
    return feed->bytes + feed->length_bytes + sizeof(uint32_t);
}

void feed_add(struct reactor *reactor, size_t length_bytes)
{
    struct feed *feed = &reactor->feed;
    uint32_t length = (uint32_t)length_bytes;
    memcpy(feed->bytes + feed->length_bytes, &length, sizeof(length));
    feed->length_bytes += sizeof(length) + length_bytes;
    check(feed->length_bytes <= feed->capacity_bytes);
}

/* ---- on its way: the gather's pointer is the bytes, cursor their length, number their capacity, and
 * flags says that some are missing ---- */

static void deliver(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    const uint8_t *at = gather->pointer;
    const uint8_t *end = at + gather->cursor;
    (void)index;
    while (at < end) {
        uint32_t length;
        memcpy(&length, at, sizeof(length));
        at += sizeof(length);
        monitor_deliver(reactor, slice_of(at, length));
        at += length;
    }
    if (gather->flags != 0) {
        monitor_cut_all(reactor);
    }
}

static void delivered(struct reactor *reactor, struct gather *gather)
{
    free(gather->pointer);
    release(reactor, (size_t)gather->number);
    gather_destroy(&gather);
}

void feed_flush(struct reactor *reactor)
{
    struct feed *feed = &reactor->feed;
    struct gather *gather;
    if (feed_is_empty(feed)) {
        return;
    }
    gather = gather_create(reactor, deliver, delivered);
    if (gather == NULL) {
        return; /* the next turn tries again */
    }
    gather->pointer = feed->bytes;
    gather->cursor = feed->length_bytes;
    gather->number = (int64_t)feed->capacity_bytes;
    gather->flags = feed->lost;
    feed->bytes = NULL;
    feed->length_bytes = 0;
    feed->capacity_bytes = 0;
    feed->lost = false;
    (void)gather_start(reactor, gather, NULL);
}

void feed_fini(struct reactor *reactor)
{
    free(reactor->feed.bytes);
    release(reactor, reactor->feed.capacity_bytes);
    reactor->feed = (struct feed){0};
}
