#include "server/feed.h"

#include "base/check.h"
#include "server/gather.h"
#include "server/key_notice.h"
#include "server/monitor.h"
#include "server/reactor.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_AT_FIRST 4096U

struct feed_head {
    uint32_t length_bytes;
    uint8_t kind; /* enum feed_kind */
};

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

uint8_t *feed_reserve(struct reactor *reactor, enum feed_kind kind, size_t bytes_max)
{
    struct feed *feed = &reactor->feed;
    struct feed_head head = {.kind = (uint8_t)kind};
    size_t needed_bytes = feed->length_bytes + sizeof(head) + bytes_max;
    check(bytes_max <= UINT32_MAX);
    if (needed_bytes > feed->capacity_bytes && !grow(reactor, needed_bytes)) {
        feed->lost = true;
        return NULL;
    }
    memcpy(feed->bytes + feed->length_bytes, &head, sizeof(head));
    return feed->bytes + feed->length_bytes + sizeof(head);
}

void feed_add(struct reactor *reactor, size_t length_bytes)
{
    struct feed *feed = &reactor->feed;
    uint32_t length = (uint32_t)length_bytes;
    memcpy(feed->bytes + feed->length_bytes + offsetof(struct feed_head, length_bytes), &length,
           sizeof(length));
    feed->length_bytes += sizeof(struct feed_head) + length_bytes;
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
        struct feed_head head;
        memcpy(&head, at, sizeof(head));
        at += sizeof(head);
        if (head.kind == FEED_MONITOR) {
            monitor_deliver(reactor, slice_of(at, head.length_bytes));
        } else {
            key_notice_deliver(reactor, slice_of(at, head.length_bytes));
        }
        at += head.length_bytes;
    }
    if (gather->flags != 0) {
        monitor_cut_all(reactor);
        key_notice_cut_all(reactor);
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
