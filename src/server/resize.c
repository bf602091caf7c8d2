#include "server/resize.h"

#include "base/log.h"
#include "server/balance.h"
#include "server/conn.h"
#include "server/gather.h"
#include "server/reactor.h"

#include <stdio.h>

/* Tables of payload pages take at most this part of the payload (pages_bookkeeping_bytes). */
#define RESIZE_TABLE_DIVISOR 128
#define RESIZE_PAGES_MIN     2
/* A page of payload is worth so many of metadata, with the tables of those (PAGES_GRANULE_UNITS). */
#define RESIZE_TRADE_PAGES 7
/* Traded in one tick: metadata for 200,000 more values a second. */
#define RESIZE_TRADES 2
/* Metadata is short when less than this part of it is free, and has more than it needs when more than
 * the other part is. */
#define RESIZE_METADATA_SHORT_DIVISOR 8
#define RESIZE_METADATA_AMPLE_DIVISOR 2
/* In one tick. Getting a page means that the kernel clears 2 MiB, about half a millisecond. */
#define RESIZE_GROW_PAGES   2
#define RESIZE_SHRINK_PAGES 32
/* Retired at once when maxmemory is lowered: 32 GiB in less than a millisecond; ticks do the rest. */
#define RESIZE_RETIRE_PAGES 16384
/* Ticks until the reactors are asked again when none could give a page: what is leased takes its time. */
#define RESIZE_REST_TICKS 10

/* Pages of payload that were given up for metadata. */
static uint64_t resize_traded_count(const struct server *server)
{
    return (pages_present_count(server->metadata) - server->metadata_pages) / RESIZE_TRADE_PAGES;
}

static uint64_t resize_all_pages(const struct server *server, uint64_t maxmemory)
{
    uint64_t left = maxmemory > server->fixed_bytes ? maxmemory - server->fixed_bytes : 0;
    return left / RESIZE_TABLE_DIVISOR * (RESIZE_TABLE_DIVISOR - 1) / SERVER_PAYLOAD_PAGE_BYTES;
}

static uint64_t resize_beyond(uint64_t bytes, uint64_t share_bytes)
{
    return bytes > share_bytes ? bytes - share_bytes : 0;
}

/* Pages of payload that give way to what grows beyond the shares: connections and long requests as they are
 * counted, or the whole heap as it was last looked at, and grants. Where the kernel takes no page back
 * it would be in vain. */
static uint64_t resize_borrowed_count(const struct server *server)
{
    uint64_t share = server->buffer_chunks_max * server->reactor_count * sizeof(struct chunk);
    uint64_t bytes = 0;
    uint64_t grants_bytes = 0;
    if (server->payload == NULL || !pages_can_release(server->payload)) {
        return 0;
    }
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        const struct reactor_metrics *metrics = &server->reactors[i]->metrics;
        bytes += metric_get(&metrics->chunks_taken) * sizeof(struct chunk) +
                 metric_get(&metrics->long_request_bytes) + metric_get(&metrics->tls_bytes) +
                 metric_get(&metrics->events_bytes) +
                 metric_get(&metrics->connections_now) * sizeof(struct conn);
        grants_bytes += metric_get(&metrics->grants_bytes);
    }
    uint64_t known_bytes = resize_beyond(bytes, share);
    uint64_t heap_bytes = resize_beyond(metric_get(&server->reactors[0]->metrics.heap_bytes),
                                        server->heap_share_bytes);
    bytes = (heap_bytes > known_bytes ? heap_bytes : known_bytes) +
            resize_beyond(grants_bytes, server->grants_share_bytes);
    return bytes > 0 ? bytes / SERVER_PAYLOAD_PAGE_BYTES + 1 : 0;
}

/* Never less than the least: what is borrowed then is more than there is. */
uint64_t resize_page_count(const struct server *server, uint64_t maxmemory)
{
    uint64_t page_count = resize_all_pages(server, maxmemory);
    uint64_t away_count = resize_traded_count(server) + resize_borrowed_count(server);
    return page_count > away_count + RESIZE_PAGES_MIN || away_count == 0 ? page_count - away_count
                                                                         : RESIZE_PAGES_MIN;
}

/* The least maxmemory that gives so many pages. */
static uint64_t resize_memory(const struct server *server, uint64_t page_count)
{
    uint64_t bytes = (page_count + resize_traded_count(server)) * SERVER_PAYLOAD_PAGE_BYTES;
    return server->fixed_bytes + (bytes / (RESIZE_TABLE_DIVISOR - 1) + 1) * RESIZE_TABLE_DIVISOR;
}

bool resize_is_allowed(const struct server *server, uint64_t maxmemory, char *error,
                       size_t error_capacity)
{
    uint64_t page_count = resize_all_pages(server, maxmemory);
    uint64_t present_count = pages_present_count(server->payload);
    if (page_count < RESIZE_PAGES_MIN) {
        (void)snprintf(error, error_capacity,
                       "maxmemory %llu leaves no room for payload: metadata, buffers and staging "
                       "areas keep what they got at the start; the least is %llu",
                       (unsigned long long)maxmemory,
                       (unsigned long long)resize_memory(server, RESIZE_PAGES_MIN));
        return false;
    }
    if (page_count > pages_count(server->payload)) {
        (void)snprintf(error, error_capacity,
                       "maxmemory %llu is more than was reserved at the start: the most is %llu; "
                       "maxmemory-reserve sets it",
                       (unsigned long long)maxmemory,
                       (unsigned long long)resize_memory(server, pages_count(server->payload)));
        return false;
    }
    return page_count <= present_count ||
           region_may_grow(server->payload_region,
                           (page_count - present_count) * SERVER_PAYLOAD_PAGE_BYTES, error,
                           error_capacity);
}

uint64_t resize_value_max(const struct reactor *reactor)
{
    const struct settings *settings = &reactor->settings;
    uint64_t room_bytes =
        resize_page_count(reactor->server, settings->maxmemory) * SERVER_PAYLOAD_PAGE_BYTES;
    return room_bytes < settings->proto_max_bulk_len ? room_bytes : settings->proto_max_bulk_len;
}

/* Pages of payload under the reactor's settings. */
static uint64_t resize_wanted_count(const struct reactor *reactor)
{
    return resize_page_count(reactor->server, reactor->settings.maxmemory);
}

static bool resize_is_too_big(const struct reactor *reactor)
{
    return pages_present_count(reactor->server->payload) > resize_wanted_count(reactor);
}

static bool resize_is_too_small(const struct reactor *reactor)
{
    return pages_present_count(reactor->server->payload) < resize_wanted_count(reactor);
}

/* Until the pool is small enough, no page is free, or so many went. */
static int64_t resize_retire(struct reactor *reactor, int64_t page_count)
{
    struct pages *payload = reactor->server->payload;
    uint64_t wanted_count = resize_wanted_count(reactor);
    int64_t retired_count = 0;
    while (retired_count < page_count && pages_present_count(payload) > wanted_count &&
           pages_retire(payload)) {
        retired_count++;
    }
    return retired_count;
}

/* What was retired goes to the kernel. False: there is nothing, or it takes nothing. */
static bool resize_release(struct reactor *reactor)
{
    int released_count = 0;
    while (released_count < RESIZE_SHRINK_PAGES && pages_release(reactor->server->payload)) {
        released_count++;
    }
    return released_count > 0;
}

void resize_configure(struct reactor *reactor)
{
    (void)resize_retire(reactor, RESIZE_RETIRE_PAGES);
}

/* What it makes free it gives to the kernel itself, before a writer takes it. */
static void resize_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    int64_t page_count = gather->answers[index].number;
    if (page_count > 0 && resize_is_too_big(reactor)) {
        (void)shard_reclaim(reactor->shard, (uint32_t)page_count, &reactor->now);
    }
    gather->answers[index].number = resize_retire(reactor, page_count);
    (void)resize_release(reactor);
}

static void resize_done(struct reactor *reactor, struct gather *gather)
{
    int64_t retired_count = 0;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        retired_count += gather->answers[i].number;
    }
    reactor->resize_rest_ticks = retired_count > 0 ? 0 : RESIZE_REST_TICKS;
    reactor->resize_asks_all = retired_count == 0;
    gather_destroy(&gather);
    reactor->resizing = false;
}

/* How many pages there are too many, or as many as one step takes. */
static uint32_t resize_missing_count(const struct reactor *reactor)
{
    const struct server *server = reactor->server;
    uint64_t present_count = pages_present_count(server->payload);
    uint64_t wanted_count = resize_wanted_count(reactor);
    uint64_t missing_count = present_count > wanted_count ? present_count - wanted_count : 0;
    return (uint32_t)(missing_count < RESIZE_SHRINK_PAGES ? missing_count : RESIZE_SHRINK_PAGES);
}

/* Nothing is evicted beyond what is missing, so the shards are asked for that much together. Where those
 * that were asked had nothing to give, the others may have: then each is asked for its part. */
static void resize_divide(const struct reactor *reactor, struct gather *gather)
{
    uint32_t missing_count = resize_missing_count(reactor);
    balance_divide(reactor, gather, missing_count, gather->reactor_count);
    for (uint32_t i = 0; reactor->resize_asks_all && i < gather->reactor_count; i++) {
        gather->answers[i].number = missing_count / gather->reactor_count + 1;
    }
}

static void resize_ask(struct reactor *reactor)
{
    struct gather *gather = gather_create(reactor, resize_run, resize_done);
    if (gather == NULL) {
        return; /* the next tick asks again */
    }
    resize_divide(reactor, gather);
    reactor->resizing = true;
    (void)gather_start(reactor, gather, NULL);
}

static void resize_grow(struct reactor *reactor)
{
    const struct server *server = reactor->server;
    for (int i = 0; i < RESIZE_GROW_PAGES && resize_is_too_small(reactor); i++) {
        if (!pages_restore(server->payload, reactor->settings.populate)) {
            log_limited(&reactor->log_limit, LOG_WARN,
                        "the machine has no memory for maxmemory %llu: payload stays at %u pages",
                        (unsigned long long)reactor->settings.maxmemory,
                        pages_present_count(server->payload));
            reactor->resize_rest_ticks = RESIZE_REST_TICKS;
            return;
        }
    }
}

/* True when a free page of payload became metadata. */
static bool resize_trade_for_metadata(const struct reactor *reactor)
{
    const struct server *server = reactor->server;
    uint32_t present_count = pages_present_count(server->metadata);
    if (pages_free_count(server->metadata) >= present_count / RESIZE_METADATA_SHORT_DIVISOR ||
        pages_count(server->metadata) - present_count < RESIZE_TRADE_PAGES ||
        !pages_retire(server->payload)) {
        return false;
    }
    (void)pages_release(server->payload);
    for (int i = 0; i < RESIZE_TRADE_PAGES; i++) {
        if (!pages_restore(server->metadata, reactor->settings.populate)) {
            return false; /* the machine has no memory; what was had is less than what was given */
        }
    }
    return true;
}

/* True when metadata that is not needed any more became payload again: payload then is below what
 * maxmemory allows, and grows. */
static bool resize_trade_for_payload(const struct reactor *reactor)
{
    const struct server *server = reactor->server;
    uint32_t present_count = pages_present_count(server->metadata);
    if (present_count < server->metadata_pages + RESIZE_TRADE_PAGES ||
        pages_free_count(server->payload) > 0 ||
        pages_free_count(server->metadata) < present_count / RESIZE_METADATA_AMPLE_DIVISOR) {
        return false;
    }
    for (int i = 0; i < RESIZE_TRADE_PAGES; i++) {
        if (!pages_retire(server->metadata)) {
            return false; /* another reactor was quicker; the next tick goes on */
        }
        (void)pages_release(server->metadata);
    }
    return true;
}

/* Small values fill their metadata first, long ones the payload: what one has free the other gets. */
static void resize_trade(const struct reactor *reactor)
{
    const struct server *server = reactor->server;
    if (!pages_can_release(server->payload) || !pages_can_release(server->metadata)) {
        return;
    }
    for (int i = 0; i < RESIZE_TRADES; i++) {
        if (!resize_trade_for_metadata(reactor) && !resize_trade_for_payload(reactor)) {
            return;
        }
    }
}

/* How long there has been more payload than allowed: what is leased, or a burst of long requests, keeps it. */
static void resize_note_excess(struct reactor *reactor)
{
    struct reactor_metrics *metrics = &reactor->metrics;
    uint64_t noted_us = metric_get(&metrics->exceeded_now_us);
    uint64_t now_us = 0;
    if (!resize_is_too_big(reactor)) {
        reactor->exceeded_us = 0;
    } else if (reactor->exceeded_us == 0) {
        reactor->exceeded_us = reactor->now.mono_us;
    } else {
        now_us = (uint64_t)(reactor->now.mono_us - reactor->exceeded_us);
        metric_add(&metrics->exceeded_us, now_us - noted_us);
    }
    metric_set(&metrics->exceeded_now_us, now_us);
}

void resize_tick(struct reactor *reactor)
{
    if (reactor->index == 0) {
        resize_note_excess(reactor);
    }
    if (reactor->index != 0 || reactor->resizing || reactor->draining) {
        return;
    }
    resize_trade(reactor);
    if (reactor->resize_rest_ticks > 0) {
        reactor->resize_rest_ticks--;
        return;
    }
    if (resize_is_too_small(reactor)) {
        resize_grow(reactor);
        return;
    }
    bool retired = resize_retire(reactor, RESIZE_SHRINK_PAGES) > 0;
    bool released = resize_release(reactor);
    if (!retired && !released && resize_is_too_big(reactor)) {
        resize_ask(reactor);
    }
}
