/* Memory under pressure: who goes, and what is said when nobody can. Each look at a value either frees
 * it or sets it aside until its pins change, so that no value is looked at twice in vain. */

#include "base/check.h"
#include "store/shard_impl.h"

/* Flushed values are looked for so far before anything else goes: well under a millisecond. */
#define SHARD_BACKLOG_BUCKETS 1024U

static void shard_evict_value(struct shard *shard, struct value *value)
{
    enum event_kind why = EVENT_NONE;
    if (shard_value_expired(shard, value)) {
        why = EVENT_EXPIRED;
        shard->expired++;
    } else if (!shard_value_flushed(shard, value)) {
        why = EVENT_EVICTED;
        shard->evicted++;
        shard->evicted_bytes += value->length_bytes;
        shard_age_note_victim(shard, value);
    }
    shard_value_unlink(shard, value, why);
}

static bool shard_evict_held(const struct value *value)
{
    return value->pins > 0 || value->pin_kind == VALUE_PIN_HARD;
}

/* A flushed value: it is nobody's any more. Looks through bucket_max buckets for one. */
static bool shard_evict_backlog(struct shard *shard, uint64_t bucket_max)
{
    for (uint64_t i = 0; i < bucket_max && shard->backlog_count > 0; i++) {
        uint64_t value_count = shard->value_count;
        (void)shard_expire_bucket(shard);
        if (shard->value_count < value_count) {
            return true;
        }
    }
    return false;
}

static void shard_evict_set_aside(struct shard *shard, struct value *value,
                                  enum value_parked parked)
{
    shard_value_delist(shard, value);
    value->parked = (uint8_t)parked & 3U;
    if (parked == VALUE_PARKED_SOFT) {
        value_list_push_back(&shard->soft, value);
    }
}

/* The oldest of those that were set aside for a soft pin; unless any is set only if its pin ran out. */
static bool shard_evict_soft(struct shard *shard, bool any)
{
    struct value *value;
    while ((value = shard->soft.first) != NULL) {
        if (shard_evict_held(value)) {
            shard_evict_set_aside(shard, value, VALUE_PARKED_HELD);
            continue;
        }
        if (!any && shard_pin_soft_running(shard, value)) {
            return false;
        }
        shard_evict_value(shard, value);
        return true;
    }
    return false;
}

static bool shard_evict_victim(struct shard *shard)
{
    if (shard_evict_soft(shard, false)) {
        return true;
    }
    struct value *value;
    while ((value = shard->policy_ops->victim(shard->policy)) != NULL) {
        if (shard_evict_held(value)) {
            shard_evict_set_aside(shard, value, VALUE_PARKED_HELD);
        } else if (shard_pin_soft_running(shard, value)) {
            shard_evict_set_aside(shard, value, VALUE_PARKED_SOFT);
        } else {
            shard_evict_value(shard, value);
            return true;
        }
    }
    return shard_evict_soft(shard, true);
}

bool shard_evict_one(struct shard *shard)
{
    if (shard_evict_backlog(shard, SHARD_BACKLOG_BUCKETS)) {
        return true;
    }
    if (shard->policy != NULL && shard_evict_victim(shard)) {
        return true;
    }
    /* A few flushed values among many others may take a whole round to find. */
    return shard_evict_backlog(shard, UINT64_MAX);
}

uint32_t shard_evict_payload_pages(const struct shard *shard)
{
    struct runs_stats stats;
    runs_stats(shard->payload, &stats);
    return stats.page_count + shard->whole_pages;
}

enum kvasir_status shard_evict_verdict(const struct shard *shard, bool metadata)
{
    if (shard->policy == NULL || shard->config.shard_count == 1) {
        return KVASIR_NO_MEMORY;
    }
    const struct pages *pages = metadata ? shard->config.metadata : shard->config.payload;
    uint32_t own_count =
        metadata ? meta_page_count(&shard->meta) : shard_evict_payload_pages(shard);
    return own_count < pages_present_count(pages) ? KVASIR_AGAIN : KVASIR_NO_MEMORY;
}
