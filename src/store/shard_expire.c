/* Background: grants over their deadline, flushed values, keys that expired unread, soft pins that ran
 * out. A walk over the index comes round in about a second when it is small, in ten when it is big. */

#include "base/check.h"
#include "store/shard_event.h"
#include "store/shard_impl.h"
#include "store/shard_recall.h"
#include "store/shard_tenant.h"
#include "store/shard_watch.h"

#define SHARD_SMALL_BUCKETS  65536U
#define SHARD_SMALL_ROUND_US 900000U
#define SHARD_BIG_ROUND_US   10000000U
#define SHARD_TICK_US_MAX    1000000
#define SHARD_BALANCE_STEPS  4U
/* A synchronous end to the backlog before a database's epoch could come round. */
#define SHARD_FLUSHES_BEHIND_MAX (UINT16_MAX - 1U)

uint32_t shard_expire_bucket(struct shard *shard)
{
    if (shard->sweep_bucket >= shard->index.bucket_count) {
        shard->sweep_bucket = 0;
    }
    uint32_t removed_count = 0;
    struct value *value = index_first(&shard->index, shard->sweep_bucket);
    while (value != NULL) {
        struct value *next = index_next(value);
        bool flushed = shard_value_flushed(shard, value);
        bool stale = !flushed && shard_value_expired(shard, value);
        bool goes = stale && !shard->expires_lazily && !shard->holds_expired;
        shard->swept_expiring += !flushed && value->expires_at_ms != 0;
        shard->swept_stale += stale;
        if (flushed || goes) {
            shard->expired += goes;
            shard_value_unlink(shard, value, flushed ? EVENT_NONE : EVENT_EXPIRED);
            removed_count++;
        } else if (value->pin_kind == VALUE_PIN_SOFT && !shard_pin_soft_running(shard, value)) {
            shard_pin_clear(shard, value);
        }
        value = next;
    }
    shard->sweep_bucket++;
    return removed_count;
}

/* True while there are more. */
static bool shard_expire_grants(struct shard *shard, uint32_t *budget)
{
    struct grant *grant;
    while ((grant = grant_find_expired(&shard->grants, shard->now.mono_us)) != NULL) {
        if (*budget == 0) {
            return true;
        }
        (*budget)--;
        shard_pin_end_grant(shard, &grant, true);
    }
    return false;
}

static void shard_expire_step(struct shard *shard, uint32_t *budget)
{
    uint32_t step_count = 1 + shard_expire_bucket(shard);
    (void)index_balance(&shard->index, SHARD_BALANCE_STEPS * step_count);
    *budget -= step_count < *budget ? step_count : *budget;
}

/* Buckets times microseconds since the last tick, against the time of a whole round. */
static void shard_expire_walk(struct shard *shard, int64_t elapsed_us, uint32_t *budget)
{
    uint64_t bucket_count = shard->index.bucket_count;
    uint64_t round_us =
        bucket_count <= SHARD_SMALL_BUCKETS ? SHARD_SMALL_ROUND_US : SHARD_BIG_ROUND_US;
    shard->sweep_credit += bucket_count * (uint64_t)elapsed_us;
    uint64_t due_count = shard->sweep_credit / round_us;
    shard->sweep_credit %= round_us; /* what the budget does not allow is not made up for */
    for (uint64_t i = 0; i<due_count && * budget> 0; i++) {
        shard_expire_step(shard, budget);
    }
}

/* A running mean, as Redis's: a twentieth is of this tick. */
static void shard_expire_note_stale(struct shard *shard)
{
    if (shard->swept_expiring > 0) {
        uint64_t ppm = (uint64_t)shard->swept_stale * 1000000 / shard->swept_expiring;
        shard->stale_ppm = (uint32_t)((ppm + 19 * (uint64_t)shard->stale_ppm) / 20);
    }
    shard->swept_expiring = 0;
    shard->swept_stale = 0;
}

bool shard_tick(struct shard *shard, const struct moment *now, uint32_t budget)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    shard_set_now(shard, now);
    int64_t elapsed_us = now->mono_us - shard->tick_us;
    shard->tick_us = now->mono_us;
    if (elapsed_us < 0) {
        elapsed_us = 0;
    } else if (elapsed_us > SHARD_TICK_US_MAX) {
        elapsed_us = SHARD_TICK_US_MAX;
    }
    bool more = shard_expire_grants(shard, &budget);
    while (shard->backlog_count > 0 && budget > 0) {
        shard_expire_step(shard, &budget);
    }
    if (shard->expiring_count > 0 || shard->soft_count > 0) {
        shard_expire_walk(shard, elapsed_us, &budget);
    }
    shard_expire_note_stale(shard);
    shard_tenant_tick(shard);
    shard_room_tick(shard);
    bool unbalanced = index_balance(&shard->index, budget);
    return more || shard->backlog_count > 0 || unbalanced;
}

void shard_set_active_expiry(struct shard *shard, bool active)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    shard->expires_lazily = !active;
}

void shard_hold_expired(struct shard *shard, bool held)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    shard->holds_expired = held;
}

static void shard_expire_flush_space(struct shard *shard, struct shard_space *space)
{
    if (space->key_count == 0 && !shard->lends) {
        return; /* what is lent may be of keys that are gone: it gets an epoch that is over */
    }
    while (space->flushes_behind >= SHARD_FLUSHES_BEHIND_MAX) {
        (void)shard_expire_bucket(shard);
    }
    shard->backlog_count += space->key_count;
    space->backlog_count += space->key_count;
    shard->expiring_count -= space->expiring_count;
    space->key_count = 0;
    space->expiring_count = 0;
    space->expires_sum_s = 0;
    space->epoch++;
    space->flushes_behind += space->backlog_count > 0;
}

void shard_flush(struct shard *shard, uint8_t database)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    for (uint32_t i = 0; i < shard->config.database_count; i++) {
        if (database == SHARD_DATABASE_ALL || database == i) {
            shard_watch_flush(shard, (uint8_t)i);
            shard_event_flush(shard, (uint8_t)i);
            shard_expire_flush_space(shard, &shard->spaces[i]);
            shard_recall_flush(shard, (uint8_t)i);
        }
    }
}
