/* Moving values: a page that is sparse is emptied by copying what lives in it into the holes of others.
 * Nobody sees a move: a value with a pin (a send, a lease, a fill) or a hold stays where it is, and so
 * does its page. */

#include "base/check.h"
#include "mem/drain.h"
#include "store/shard_impl.h"

/* What a move costs at least, in bytes of copying: finding the value and its new place. */
#define SHARD_MOVE_BYTES_MIN 2048U
/* Closing and opening a page costs a look at each of its pieces. */
#define SHARD_MOVE_PAGE_BYTES (32U << 10)

static struct value *shard_move_owner(const struct shard *shard, uint32_t owner)
{
    uint8_t *base = pages_base(shard->config.metadata);
    return (struct value *)(void *)(base + (size_t)owner * VALUE_ALIGN_BYTES);
}

static uint32_t shard_move_number(const struct shard *shard, const struct value *value)
{
    const uint8_t *base = pages_base(shard->config.metadata);
    return (uint32_t)((size_t)((const uint8_t *)value - base) / VALUE_ALIGN_BYTES);
}

void shard_move_set_taker(struct shard *shard, const struct value *value)
{
    runs_set_taker(shard->payload, shard_move_number(shard, value));
}

/* False: the value cannot be moved now. */
static bool shard_move_value(struct shard *shard, struct run run, uint32_t owner)
{
    struct value *value = shard_move_owner(shard, owner);
    return value->pins == 0 && value->holds == 0 &&
           layout_move(shard->payload, value->length_bytes, &value->layout, run, owner);
}

static void shard_move_charge(uint64_t *copy_bytes_p, uint64_t bytes)
{
    *copy_bytes_p -= bytes < *copy_bytes_p ? bytes : *copy_bytes_p;
}

/* Goes on with the closed page until it is empty, cannot be emptied, or the bytes are used up. */
static void shard_move_out(struct shard *shard, uint64_t *copy_bytes_p)
{
    uint32_t unit_bytes = pages_unit_bytes(shard->config.payload);
    while (*copy_bytes_p > 0) {
        struct run run;
        uint32_t owner;
        drain_find_run(shard->payload, &run, &owner);
        uint64_t bytes = (uint64_t)run.length_units * unit_bytes;
        if (!shard_move_value(shard, run, owner)) {
            drain_reopen(shard->payload);
            return;
        }
        shard->moved_bytes += bytes;
        shard_move_charge(copy_bytes_p,
                          bytes > SHARD_MOVE_BYTES_MIN ? bytes : SHARD_MOVE_BYTES_MIN);
        if (drain_closed_page(shard->payload) == PAGES_NONE) {
            shard->drained_pages++;
            return;
        }
    }
}

bool shard_move_some(struct shard *shard, uint32_t level_max, uint64_t *copy_bytes_p)
{
    if (*copy_bytes_p == 0) {
        return false;
    }
    if (drain_closed_page(shard->payload) == PAGES_NONE) {
        uint32_t page = drain_find_page(shard->payload, level_max);
        if (page == PAGES_NONE) {
            return false;
        }
        drain_close(shard->payload, page);
        shard_move_charge(copy_bytes_p, SHARD_MOVE_PAGE_BYTES);
    }
    drain_keep_to_held(shard->payload, true);
    shard_move_out(shard, copy_bytes_p);
    drain_keep_to_held(shard->payload, false);
    return true;
}
