#include "server/balance.h"

#include "server/gather.h"
#include "server/reactor.h"

/* Between two asks; with BALANCE_PAGES_MAX at most 640 MB a second change hands. */
#define BALANCE_TICKS     10
#define BALANCE_PAGES_MAX 32
/* The other shard's values must have lain unused for so much longer on the average than those that are
 * evicted here. When all are served alike it is half as long and nothing moves. */
#define BALANCE_AGE_S_MIN 2

static void balance_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    if (index == gather->cursor) {
        gather->answers[index].number =
            shard_reclaim(reactor->shard, (uint32_t)gather->number, &reactor->now);
    }
}

static void balance_done(struct reactor *reactor, struct gather *gather)
{
    metric_add(&reactor->metrics.pages_balanced, (uint64_t)gather->answers[gather->cursor].number);
    gather_destroy(&gather);
    reactor->balancing = false;
}

/* The shard whose values are oldest; this one when there is none that is old enough. */
static uint32_t balance_find_giver(const struct reactor *reactor, uint64_t victim_age_s)
{
    uint64_t age_s = victim_age_s + BALANCE_AGE_S_MIN;
    uint32_t giver = reactor->index;
    for (uint32_t i = 0; i < reactor->server->reactor_count; i++) {
        uint64_t mean_age_s = metric_get(&reactor->server->reactors[i]->metrics.mean_age_s);
        if (i != reactor->index && mean_age_s >= age_s) {
            age_s = mean_age_s;
            giver = i;
        }
    }
    return giver;
}

static void balance_ask(struct reactor *reactor, uint32_t giver, uint64_t page_count)
{
    struct gather *gather = gather_create(reactor, balance_run, balance_done);
    if (gather == NULL) {
        return; /* the next tick asks again */
    }
    gather->cursor = giver;
    gather->number = (int64_t)(page_count < BALANCE_PAGES_MAX ? page_count : BALANCE_PAGES_MAX);
    reactor->balancing = true;
    (void)gather_start(reactor, gather, NULL);
}

void balance_tick(struct reactor *reactor)
{
    if (reactor->server->reactor_count == 1 || reactor->ticks % BALANCE_TICKS != 0) {
        return;
    }
    struct shard_ages ages;
    reactor_shard_enter(reactor);
    shard_ages(reactor->shard, &ages);
    reactor_shard_leave(reactor);
    metric_set(&reactor->metrics.mean_age_s, ages.mean_age_s);
    uint64_t evicted_bytes = ages.evicted_bytes - reactor->balanced_bytes;
    reactor->balanced_bytes = ages.evicted_bytes;
    if (evicted_bytes == 0 || reactor->balancing || reactor->draining) {
        return;
    }
    uint32_t giver = balance_find_giver(reactor, ages.victim_age_s);
    if (giver != reactor->index) {
        balance_ask(reactor, giver, evicted_bytes / SERVER_PAYLOAD_PAGE_BYTES + 1);
    }
}

/* The one that holds most beyond what it is to give; of equals the one that is to give least. */
static uint32_t balance_find_fullest(const struct gather *gather, const uint64_t *left_bytes,
                                     uint32_t except)
{
    uint32_t fullest = except == 0 ? 1 : 0;
    for (uint32_t i = fullest + 1; i < gather->reactor_count; i++) {
        bool equal = left_bytes[i] == left_bytes[fullest];
        bool fuller = equal ? gather->answers[i].number < gather->answers[fullest].number
                            : left_bytes[i] > left_bytes[fullest];
        if (i != except && fuller) {
            fullest = i;
        }
    }
    return fullest;
}

void balance_divide(const struct reactor *reactor, struct gather *gather, uint32_t page_count,
                    uint32_t except)
{
    uint64_t left_bytes[SERVER_REACTORS_MAX];
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        left_bytes[i] = metric_get(&reactor->server->reactors[i]->metrics.used_bytes);
        gather->answers[i].number = 0;
    }
    for (uint32_t i = 0; i < page_count; i++) {
        uint32_t giver = balance_find_fullest(gather, left_bytes, except);
        left_bytes[giver] -= left_bytes[giver] < SERVER_PAYLOAD_PAGE_BYTES
                                 ? left_bytes[giver]
                                 : SERVER_PAYLOAD_PAGE_BYTES;
        gather->answers[giver].number++;
    }
}
