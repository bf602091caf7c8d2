/* Memory under pressure: who goes, and what is said when nobody can. Each look at a value either frees
 * it or sets it aside until its pins change, so that no value is looked at twice in vain. */

#include "base/check.h"
#include "store/shard_impl.h"
#include "store/shard_tenant.h"

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
        if (shard_has_tenants(shard)) {
            shard_tenant_of(shard, value)->evicted++;
            shard_tenant_of(shard, value)->evicted_bytes += value->length_bytes;
        }
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
        value_list_push_back(&shard_tenant_of(shard, value)->soft, value);
    }
}

/* The oldest of those that were set aside for a soft pin; unless any is set only if its pin ran out. */
static bool shard_evict_soft(struct shard *shard, struct shard_tenant *tenant, bool any)
{
    struct value *value;
    while ((value = tenant->soft.first) != NULL) {
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

bool shard_evict_tenant(struct shard *shard, uint32_t index)
{
    struct shard_tenant *tenant = &shard->tenants[index];
    if (tenant->policy == NULL) {
        return false;
    }
    if (shard_evict_soft(shard, tenant, false)) {
        return true;
    }
    struct value *value;
    while ((value = shard->policy_ops->victim(tenant->policy)) != NULL) {
        if (shard_evict_held(value)) {
            shard_evict_set_aside(shard, value, VALUE_PARKED_HELD);
        } else if (shard_pin_soft_running(shard, value)) {
            shard_evict_set_aside(shard, value, VALUE_PARKED_SOFT);
        } else {
            shard_evict_value(shard, value);
            return true;
        }
    }
    return shard_evict_soft(shard, tenant, true);
}

/* Nobody here has more than his guarantee, and nobody elsewhere: what the guarantees leave cannot be used,
 * because values are rounded up or metadata ran out. Whoever wants room gives it himself, if he can. */
static bool shard_evict_within_guarantees(struct shard *shard, uint32_t tenant)
{
    if (shard_evict_tenant(shard, tenant)) {
        return true;
    }
    for (uint32_t i = 0; i < shard->tenant_table.count; i++) {
        if (shard_evict_tenant(shard, i)) {
            return true;
        }
    }
    return false;
}

static bool shard_evict_victim(struct shard *shard, uint32_t tenant, bool metadata)
{
    uint32_t tried = 0;
    uint32_t picked;
    if (LIKELY(!shard_has_tenants(shard))) {
        return shard_evict_tenant(shard, 0);
    }
    while ((picked = shard_tenant_pick(shard, tried)) != TENANTS_MAX) {
        if (shard_evict_tenant(shard, picked)) {
            return true;
        }
        tried |= 1U << picked;
    }
    return (metadata || !shard_tenant_others_exceed(shard)) &&
           shard_evict_within_guarantees(shard, tenant);
}

bool shard_evict_one(struct shard *shard, uint32_t tenant, bool metadata)
{
    if (shard_evict_backlog(shard, SHARD_BACKLOG_BUCKETS)) {
        return true;
    }
    if (shard->policy_ops != NULL && shard_evict_victim(shard, tenant, metadata)) {
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
    if (shard->policy_ops == NULL || shard->config.shard_count == 1) {
        return KVASIR_NO_MEMORY;
    }
    const struct pages *pages = metadata ? shard->config.metadata : shard->config.payload;
    uint32_t own_count =
        metadata ? meta_page_count(&shard->meta) : shard_evict_payload_pages(shard);
    return own_count < pages_present_count(pages) ? KVASIR_AGAIN : KVASIR_NO_MEMORY;
}
