/* Room for a value that comes: what is free but scattered is brought together by moving values, and what
 * is not free is made so by evicting. A value of several pages may take several turns for it, and
 * keeps the pages that came free meanwhile in the shard's hoard. */

#include "base/check.h"
#include "mem/drain.h"
#include "store/shard_impl.h"

/* One op copies and evicts so much before it lets others have their turn: about half a millisecond. */
#define SHARD_ROOM_COPY_BYTES (1U << 20)
#define SHARD_ROOM_EVICTIONS  512U
/* A short value is stored at once: it moves only so much, and then evicts. */
#define SHARD_ROOM_SHORT_COPY_BYTES (128U << 10)
/* Short values have others moved when more than this part of the pages held is scattered … */
#define SHARD_ROOM_SLACK_DIVISOR 64U
/* … and some page is less full than this (64ths): else moving gains little for what it copies. */
#define SHARD_ROOM_SHORT_LEVEL 58U
#define SHARD_ROOM_LONG_LEVEL  62U
/* In the background: when less than this part of the pool is free, and a page is so sparse. */
#define SHARD_ROOM_FREE_DIVISOR     64U
#define SHARD_ROOM_TICK_LEVEL       48U
#define SHARD_ROOM_TICK_BYTES       (512U << 10)
#define SHARD_ROOM_LOOK_AGAIN_MAX   64U
#define SHARD_ROOM_RECLAIM_FACTOR   8U
#define SHARD_RECLAIM_BALANCE_STEPS 1024U
/* Pages that were given up are tried again when so much was evicted. */
#define SHARD_ROOM_LOOK_AGAIN_PAGES 16U
/* A hoard that nobody asked for in this time goes back: its value has gone elsewhere. */
#define SHARD_ROOM_HOARD_US 200000

struct shard_room shard_room_begin(uint32_t tenant)
{
    return (struct shard_room){
        .copy_bytes = SHARD_ROOM_COPY_BYTES,
        .evictions = SHARD_ROOM_EVICTIONS,
        .tenant = tenant,
    };
}

/* What is leased or hard-pinned cannot make room: then nothing is evicted in vain. */
static bool shard_room_hopeless(const struct shard *shard, uint64_t length_bytes)
{
    uint64_t pool_bytes = (uint64_t)pages_page_bytes(shard->config.payload) *
                          pages_present_count(shard->config.payload);
    /* The pool may have shrunk below what is held. */
    return pool_bytes < shard->held_bytes || length_bytes > pool_bytes - shard->held_bytes;
}

void shard_room_release(struct shard *shard)
{
    struct pages *pages = shard->config.payload;
    while (shard->hoard_count > 0) {
        uint32_t page = shard->hoard_first;
        shard->hoard_first = pages_find(pages, page)->next;
        shard->hoard_count--;
        pages_give(pages, page);
    }
}

/* Free pages are put aside before another can take them. Returns how many of page_count are missing. */
static uint32_t shard_room_hoard(struct shard *shard, uint32_t page_count)
{
    struct pages *pages = shard->config.payload;
    uint32_t page;
    shard->hoard_us = shard->now.mono_us;
    while (shard->hoard_count < page_count && pages_take(pages, shard->config.node, &page)) {
        pages_find(pages, page)->next = shard->hoard_first;
        shard->hoard_first = page;
        shard->hoard_count++;
    }
    return shard->hoard_count < page_count ? page_count - shard->hoard_count : 0;
}

/* Is there enough scattered free memory to make that many pages of it? */
static bool shard_room_is_scattered(const struct shard *shard, uint32_t page_count)
{
    uint64_t page_bytes = pages_page_bytes(shard->config.payload);
    return runs_slack_bytes(shard->payload) >= (page_count + UINT64_C(1)) * page_bytes;
}

static enum kvasir_status shard_room_evict(struct shard *shard, struct shard_room *room,
                                           bool metadata)
{
    room->evictions -= room->evictions > 0;
    return shard_evict_one(shard, room->tenant, metadata) ? KVASIR_OK
                                                          : shard_evict_verdict(shard, metadata);
}

/* Where there was no place for what is in a page, there may be when more was evicted since. */
static void shard_room_look_again(struct shard *shard)
{
    uint64_t page_bytes = pages_page_bytes(shard->config.payload);
    if (shard->evicted_bytes - shard->looked_bytes >= SHARD_ROOM_LOOK_AGAIN_PAGES * page_bytes) {
        shard->looked_bytes = shard->evicted_bytes;
        drain_look_again(shard->payload, SHARD_ROOM_LOOK_AGAIN_MAX);
    }
}

static enum kvasir_status shard_room_make_pages(struct shard *shard, struct shard_room *room,
                                                uint32_t page_count)
{
    uint32_t missing = shard_room_hoard(shard, page_count);
    if (missing > 0 && shard_room_is_scattered(shard, missing) &&
        shard_move_some(shard, SHARD_ROOM_LONG_LEVEL, &room->copy_bytes)) {
        return KVASIR_OK;
    }
    if (room->copy_bytes == 0 || room->evictions == 0) {
        return KVASIR_PENDING;
    }
    shard_room_look_again(shard);
    return shard_room_evict(shard, room, false);
}

static bool shard_room_is_sparse(const struct shard *shard)
{
    struct runs_stats stats;
    runs_stats(shard->payload, &stats);
    uint32_t page_count = stats.page_count / SHARD_ROOM_SLACK_DIVISOR;
    return shard_room_is_scattered(shard, page_count);
}

enum kvasir_status shard_room_make(struct shard *shard, struct shard_room *room,
                                   uint64_t length_bytes, bool metadata)
{
    if (shard_room_hopeless(shard, length_bytes)) {
        return KVASIR_NO_MEMORY;
    }
    size_t page_count = metadata ? 0 : layout_page_count(shard->config.payload, length_bytes);
    if (page_count > 0) {
        return shard_room_make_pages(shard, room, (uint32_t)page_count);
    }
    if (room->copy_bytes > SHARD_ROOM_SHORT_COPY_BYTES) {
        room->copy_bytes = SHARD_ROOM_SHORT_COPY_BYTES;
    }
    if (!metadata && shard_room_is_sparse(shard) &&
        shard_move_some(shard, SHARD_ROOM_SHORT_LEVEL, &room->copy_bytes)) {
        return KVASIR_OK;
    }
    return shard_room_evict(shard, room, metadata);
}

void shard_room_tick(struct shard *shard)
{
    const struct pages *pages = shard->config.payload;
    uint64_t copy_bytes = SHARD_ROOM_TICK_BYTES;
    if (shard->hoard_count > 0 && shard->now.mono_us - shard->hoard_us > SHARD_ROOM_HOARD_US) {
        shard_room_release(shard);
    }
    shard_age_sample(shard);
    drain_look_again(shard->payload, SHARD_ROOM_LOOK_AGAIN_MAX);
    if (drain_closed_page(shard->payload) != PAGES_NONE ||
        (pages_free_count(pages) <= pages_present_count(pages) / SHARD_ROOM_FREE_DIVISOR &&
         shard_room_is_sparse(shard))) {
        (void)shard_move_some(shard, SHARD_ROOM_TICK_LEVEL, &copy_bytes);
    }
}

uint32_t shard_reclaim(struct shard *shard, uint32_t page_count, const struct moment *now)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    shard_set_now(shard, now);
    shard_room_release(shard);
    struct shard_room room = shard_room_begin(0);
    uint32_t before_count = shard_evict_payload_pages(shard);
    uint32_t given_count = 0;
    room.copy_bytes *= SHARD_ROOM_RECLAIM_FACTOR;
    room.evictions *= SHARD_ROOM_RECLAIM_FACTOR;
    while (given_count < page_count && room.copy_bytes > 0 && room.evictions > 0) {
        bool moved = shard_room_is_scattered(shard, page_count - given_count) &&
                     shard_move_some(shard, SHARD_ROOM_LONG_LEVEL, &room.copy_bytes);
        if (!moved && shard_room_evict(shard, &room, false) != KVASIR_OK) {
            break;
        }
        given_count = before_count - shard_evict_payload_pages(shard);
    }
    (void)index_balance(&shard->index, SHARD_RECLAIM_BALANCE_STEPS);
    return given_count;
}
