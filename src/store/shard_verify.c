/* Recounts a whole shard by walking it, for tests. */

#include "base/check.h"
#include "store/shard_impl.h"
#include "store/shard_tenant.h"

struct shard_recount {
    uint64_t index_count, key_count, backlog_count, expiring_count, soft_count, set_aside_count;
    uint64_t value_count, orphan_count, reserved_count;
    uint64_t payload_bytes, held_bytes;
    uint32_t whole_pages;
    uint64_t holds;
    uint64_t tenant_bytes[TENANTS_MAX], tenant_fixed_bytes[TENANTS_MAX];
};

static void shard_verify_owner(const struct shard *shard, const struct value *value)
{
    const uint8_t *base = pages_base(shard->config.metadata);
    for (unsigned i = 0; i < LAYOUT_RUNS_MAX; i++) {
        struct run run = value->layout.runs[i];
        check(run.page == PAGES_NONE ||
              base + (size_t)runs_owner(shard->payload, run) * VALUE_ALIGN_BYTES ==
                  (const uint8_t *)value);
    }
}

static void shard_verify_value(const struct shard *shard, const struct value *value,
                               struct shard_recount *recount)
{
    recount->value_count++;
    recount->payload_bytes += value->length_bytes;
    recount->held_bytes += value->holds > 0 ? value->length_bytes : 0;
    recount->holds += value->holds;
    recount->whole_pages += shard_value_whole_pages(shard, value);
    recount->tenant_bytes[value->tenant] += shard_tenant_charge(value);
    if (value->state == VALUE_RESERVED || value->holds > 0) {
        recount->tenant_fixed_bytes[value->tenant] += shard_tenant_charge(value);
    }
    check(value->hash == op_hash(shard->config.hash_seed, value->database, value_key(value)));
    shard_verify_owner(shard, value);
}

static void shard_verify_sealed(const struct shard *shard, const struct value *value,
                                struct shard_recount *recount)
{
    check(value->state == VALUE_SEALED);
    bool flushed = shard_value_flushed(shard, value);
    recount->index_count++;
    recount->key_count += !flushed;
    recount->backlog_count += flushed;
    recount->expiring_count += !flushed && value->expires_at_ms != 0;
    recount->soft_count += value->pin_kind == VALUE_PIN_SOFT;
    recount->set_aside_count += value->parked == VALUE_PARKED_SOFT;
    if (shard->policy_ops != NULL && value->parked == VALUE_PARKED_HELD) {
        check(value->pins > 0 || value->pin_kind == VALUE_PIN_HARD);
    }
    if (value->pin_kind == VALUE_PIN_HARD) {
        const struct grant *grant = &shard->grants.slots[value->pin_slot];
        check(grant->kind == GRANT_HARD_PIN && grant->value == value);
    }
    shard_verify_value(shard, value, recount);
}

static void shard_verify_detached(const struct shard *shard, struct shard_recount *recount)
{
    const struct value *value = shard->detached.first;
    for (; value != NULL; value = value_list_next(value)) {
        check(value->pins > 0 && value->state != VALUE_SEALED);
        check(value->pin_kind == VALUE_PIN_NONE);
        recount->orphan_count += value->state == VALUE_ORPHAN;
        recount->reserved_count += value->state == VALUE_RESERVED;
        shard_verify_value(shard, value, recount);
    }
}

static void shard_verify_spaces(const struct shard *shard, const struct shard_recount *recount)
{
    uint64_t key_count = 0, backlog_count = 0, expiring_count = 0;
    for (uint32_t i = 0; i < shard->config.database_count; i++) {
        key_count += shard->spaces[i].key_count;
        backlog_count += shard->spaces[i].backlog_count;
        expiring_count += shard->spaces[i].expiring_count;
    }
    check(key_count == recount->key_count);
    check(backlog_count == recount->backlog_count && backlog_count == shard->backlog_count);
    check(expiring_count == recount->expiring_count && expiring_count == shard->expiring_count);
}

static void shard_verify_tenants(const struct shard *shard, const struct shard_recount *recount)
{
    for (uint32_t i = 0; i < TENANTS_MAX && shard_has_tenants(shard); i++) {
        check(shard->tenants[i].bytes == recount->tenant_bytes[i]);
        check(shard->tenants[i].fixed_bytes == recount->tenant_fixed_bytes[i]);
        check(i < shard->tenant_table.count || recount->tenant_bytes[i] == 0);
    }
}

void shard_verify(const struct shard *shard)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    struct shard_recount recount = {0};
    for (uint64_t i = 0; i < shard->index.bucket_count; i++) {
        const struct value *value = index_first(&shard->index, i);
        for (; value != NULL; value = index_next(value)) {
            check(index_find(&shard->index, value->database, value_key(value), value->hash) ==
                  value);
            shard_verify_sealed(shard, value, &recount);
        }
    }
    shard_verify_detached(shard, &recount);
    shard_verify_spaces(shard, &recount);
    uint64_t set_aside_count = 0;
    for (uint32_t i = 0; i < TENANTS_MAX; i++) {
        const struct value *value = shard->tenants[i].soft.first;
        for (; value != NULL; value = value_list_next(value)) {
            check(value->parked == VALUE_PARKED_SOFT && value->tenant == i);
            set_aside_count++;
        }
    }
    shard_verify_tenants(shard, &recount);
    check(shard->first_edit == NULL || shard->first_edit->value->state == VALUE_RESERVED);
    check(set_aside_count == recount.set_aside_count);
    check(recount.index_count == shard->index.count);
    check(recount.soft_count == shard->soft_count);
    check(recount.value_count == shard->value_count);
    check(recount.orphan_count == shard->orphan_count);
    check(recount.reserved_count == shard->reserved_count);
    check(recount.payload_bytes == shard->payload_bytes);
    check(recount.held_bytes == shard->held_bytes);
    check(recount.whole_pages == shard->whole_pages);
    check(recount.holds ==
          shard->grants.counts[GRANT_LEASE] + shard->grants.counts[GRANT_HARD_PIN]);
}
