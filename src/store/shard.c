#include "store/shard.h"

#include "base/check.h"
#include "base/fault.h"
#include "store/shard_impl.h"
#include "store/shard_kinds.h"
#include "store/shard_notice.h"
#include "store/shard_watch.h"

#include <stdlib.h>

/* After each op: as much as one change of the count can make necessary. */
#define SHARD_OP_BALANCE_STEPS 4U

static uint64_t shard_values_max(const struct shard_config *config)
{
    uint64_t metadata_bytes =
        (uint64_t)pages_page_bytes(config->metadata) * pages_count(config->metadata);
    return metadata_bytes / value_bytes(0);
}

/* An order for each tenant, and one for all others. False: out of memory, and there is none. */
static bool shard_create_policies(const struct shard *shard, const struct policy_ops *ops,
                                  struct policy *policies[TENANTS_MAX])
{
    for (uint32_t i = 0; i < TENANTS_MAX; i++) {
        bool wanted = ops != NULL && (i == 0 || shard->tenant_table.rows[i].name[0] != '\0');
        policies[i] = wanted ? ops->create(shard->config.reuse, shard->config.index) : NULL;
        if (wanted && policies[i] == NULL) {
            for (uint32_t j = 0; j < i; j++) {
                ops->destroy(&policies[j]);
            }
            return false;
        }
    }
    return true;
}

static void shard_destroy_policies(const struct policy_ops *ops,
                                   struct policy *policies[TENANTS_MAX])
{
    for (uint32_t i = 0; ops != NULL && i < TENANTS_MAX; i++) {
        ops->destroy(&policies[i]);
    }
}

/* Puts policies in the shard's tenants' hands, and hands out those that were there. */
static void shard_exchange_policies(struct shard *shard, const struct policy_ops *ops,
                                    struct policy *policies[TENANTS_MAX])
{
    shard->policy_ops = ops;
    for (uint32_t i = 0; i < TENANTS_MAX; i++) {
        struct policy *former = shard->tenants[i].policy;
        shard->tenants[i].policy = policies[i];
        policies[i] = former;
    }
}

struct shard *shard_create(const struct shard_config *config)
{
    check(config->shard_count > 0 && config->database_count > 0 &&
          config->database_count <= SHARD_DATABASE_ALL);
    check(pages_page_bytes(config->metadata) >= value_bytes(VALUE_KEY_BYTES_MAX));
    struct shard *shard = fault_hit("store.shard") ? NULL : calloc(1, sizeof(*shard));
    if (shard == NULL) {
        return NULL;
    }
    shard->magic = SHARD_MAGIC;
    shard->config = *config;
    shard_watch_init(shard);
    shard->now = config->now;
    shard->start_us = config->now.mono_us;
    shard->tick_us = config->now.mono_us;
    shard->hoard_first = PAGES_NONE;
    if (!meta_init(&shard->meta, config->metadata)) {
        goto free_shard;
    }
    shard->payload = fault_hit("store.runs") ? NULL : runs_create(config->payload);
    if (shard->payload == NULL) {
        goto fini_meta;
    }
    runs_keep_owners(shard->payload, shard->meta.runs);
    runs_set_node(shard->payload, config->node);
    runs_set_node(shard->meta.runs, config->node);
    if (!index_init(&shard->index, pages_base(config->metadata), shard_values_max(config))) {
        goto destroy_payload;
    }
    if (!grant_init(&shard->grants, config->grants_max, config->index,
                    (uint64_t)config->now.mono_us)) {
        goto fini_index;
    }
    shard->spaces =
        fault_hit("store.spaces") ? NULL : calloc(config->database_count, sizeof(*shard->spaces));
    if (shard->spaces == NULL) {
        goto fini_grants;
    }
    for (uint32_t i = 0; i < config->database_count; i++) {
        shard->shown[i] = (uint8_t)i;
    }
    struct policy *policies[TENANTS_MAX];
    if (!shard_create_policies(shard, config->policy, policies)) {
        goto free_spaces;
    }
    shard_exchange_policies(shard, config->policy, policies);
    return shard;

free_spaces:
    free(shard->spaces);
fini_grants:
    grant_fini(&shard->grants);
fini_index:
    index_fini(&shard->index);
destroy_payload:
    runs_destroy(&shard->payload);
fini_meta:
    meta_fini(&shard->meta);
free_shard:
    free(shard);
    return NULL;
}

void shard_destroy(struct shard **shard_p)
{
    if (shard_p == NULL || *shard_p == NULL) {
        return;
    }
    struct shard *shard = *shard_p;
    CHECK_MAGIC(shard, SHARD_MAGIC);
    event_ring_destroy(&shard->events);
    notice_fini(&shard->notices);
    struct grant *grant;
    while ((grant = grant_find_expired(&shard->grants, INT64_MAX)) != NULL) {
        shard_pin_end_grant(shard, &grant, false);
    }
    for (uint64_t i = 0; i < shard->index.bucket_count; i++) {
        struct value *value;
        while ((value = index_first(&shard->index, i)) != NULL) {
            shard_value_unlink(shard, value, EVENT_NONE);
        }
    }
    check(shard->detached.first == NULL);
    shard_room_release(shard);
    struct policy *policies[TENANTS_MAX] = {NULL};
    const struct policy_ops *ops = shard->policy_ops;
    shard_exchange_policies(shard, NULL, policies);
    shard_destroy_policies(ops, policies);
    free(shard->spaces);
    grant_fini(&shard->grants);
    index_fini(&shard->index);
    runs_destroy(&shard->payload);
    meta_fini(&shard->meta);
    shard->magic = 0;
    free(shard);
    *shard_p = NULL;
}

uint32_t shard_of_grant(uint64_t grant_id)
{
    return (uint32_t)(grant_id >> GRANT_SLOT_BITS) & ((1U << GRANT_SHARD_BITS) - 1);
}

static void shard_unpin_value(struct shard *shard, struct op *op)
{
    shard_unpin(shard, &op->value);
    op->status = KVASIR_OK;
}

struct shard_kind {
    void (*execute)(struct shard *shard, struct op *op);
    bool keyed;   /* names a key of its own */
    bool changes; /* may give its key another value, or end it */
};

static const struct shard_kind shard_kinds[] = {
    [OP_GET] = {shard_read_get, true, true},
    [OP_SET] = {shard_put_set, true, true},
    [OP_RESERVE] = {shard_put_reserve, true, false},
    [OP_COMMIT] = {shard_put_commit, false, true},
    [OP_ABORT] = {shard_put_abort, false, false},
    [OP_GRANT_RESERVE] = {shard_put_grant_reserve, true, false},
    [OP_GRANT_FILL] = {shard_put_grant_fill, false, false},
    [OP_GRANT_ABORT] = {shard_put_grant_abort, false, false},
    [OP_LEASE] = {shard_pin_lease, true, false},
    [OP_RELEASE] = {shard_pin_release, false, false},
    [OP_UNPIN_VALUE] = {shard_unpin_value, false, false},
    [OP_REMOVE] = {shard_read_remove, true, true},
    [OP_EXISTS] = {shard_read_exists, true, false},
    [OP_EXPIRE] = {shard_read_expire, true, true},
    [OP_PERSIST] = {shard_read_persist, true, false},
    [OP_ADD] = {shard_edit_add, true, true},
    [OP_ADD_FLOAT] = {shard_edit_add_float, true, true},
    [OP_APPEND] = {shard_edit_append, true, true},
    [OP_SET_RANGE] = {shard_edit_set_range, true, true},
    [OP_FIELDS] = {shard_bits_fields, true, true},
    [OP_BIT_COUNT] = {shard_bits_look, true, false},
    [OP_BIT_FIND] = {shard_bits_look, true, false},
    [OP_SET_FROM] = {shard_build_set_from, true, true},
    [OP_PIN] = {shard_pin_pin, true, false},
    [OP_UNPIN] = {shard_pin_unpin, true, false},
    [OP_STAT] = {shard_read_stat, true, false},
};

static void prefetch_value(const struct value *value)
{
    __builtin_prefetch(value);
    __builtin_prefetch((const uint8_t *)value + CACHE_LINE_BYTES);
    __builtin_prefetch((const uint8_t *)value + 2 * CACHE_LINE_BYTES - 1); /* its key */
}

/* Neighbours in the order of eviction: to unlink a value changes them. */
static void prefetch_around(const struct shard *shard, const struct value *value)
{
    __builtin_prefetch(value_follow(value, value->policy_next));
    __builtin_prefetch(value_follow(value, value->policy_prev));
    runs_prefetch(shard->meta.runs, value);
    if (value->layout.runs[0].page != PAGES_NONE) {
        const void *bytes = runs_address(runs_pages(shard->payload), value->layout.runs[0]);
        runs_prefetch(shard->payload, bytes);
        __builtin_prefetch(bytes);
    }
}

void shard_prefetch(const struct shard *shard, uint64_t hash, enum shard_step step)
{
    if (step == SHARD_STEP_BUCKET) {
        index_prefetch(&shard->index, hash);
        return;
    }
    const struct value *value = index_peek(&shard->index, hash);
    if (value == NULL) {
        return;
    }
    if (step == SHARD_STEP_VALUE) {
        prefetch_value(value);
    } else if (value->hash == hash) {
        prefetch_around(shard, value);
    } else if (value->chain != 0) {
        prefetch_value(index_next(value));
    }
}

static void shard_run(struct shard *shard, struct op *op)
{
    shard_kinds[op->kind].execute(shard, op);
    if (shard_notice_wanted(shard)) {
        shard_notice_op(shard, op);
    }
}

static bool shard_op_changes(const struct op *op, uint64_t hash)
{
    bool reads = op->kind == OP_GET && (op->flags & (OP_READ_REMOVE | OP_READ_EXPIRE)) == 0;
    uint64_t own_hash = op->kind == OP_COMMIT ? op->value->hash : op->hash;
    return shard_kinds[op->kind].changes && !reads && own_hash == hash;
}

/* While an edit goes first, who wants to change its key carries it on instead, a step each time: so who
 * holds several shards need not wait for its owner. False: enough for this turn, or nothing is left to do. */
static bool shard_may_run(struct shard *shard, struct op *op)
{
    if (op->carried) {
        return false;
    }
    struct op *first = shard->first_edit;
    if (first == NULL || first == op || !shard_op_changes(op, first->hash)) {
        return true;
    }
    shard_run(shard, first);
    first->carried = first->status == KVASIR_OK;
    op->status = KVASIR_PENDING;
    return shard->first_edit == NULL;
}

void shard_execute(struct shard *shard, struct op *op, const struct moment *now)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    check(op->kind < ARRAY_COUNT(shard_kinds));
    shard_set_now(shard, now);
    if (shard_kinds[op->kind].keyed && UNLIKELY(op->key.length_bytes > VALUE_KEY_BYTES_MAX ||
                                                op->database >= shard->config.database_count)) {
        op->status = KVASIR_INVALID;
        return;
    }
    if (UNLIKELY(op->carried || shard->first_edit != NULL) && !shard_may_run(shard, op)) {
        return;
    }
    shard_run(shard, op);
    (void)index_balance(&shard->index, SHARD_OP_BALANCE_STEPS);
}

void shard_set_value_max(struct shard *shard, uint64_t length_bytes)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    shard->config.value_bytes_max = length_bytes;
}

void shard_set_policy(struct shard *shard, const struct policy_ops *policy)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    struct policy *policies[TENANTS_MAX];
    const struct policy_ops *former_ops = shard->policy_ops;
    if (former_ops == policy || !shard_create_policies(shard, policy, policies)) {
        return;
    }
    shard_exchange_policies(shard, policy, policies);
    for (uint32_t i = 0; i < TENANTS_MAX; i++) {
        shard->tenants[i].soft = (struct value_list){0};
    }
    for (uint64_t i = 0; i < shard->index.bucket_count; i++) {
        for (struct value *v = index_first(&shard->index, i); v != NULL; v = index_next(v)) {
            v->policy_bits = 0;
            shard_value_enlist(shard, v);
        }
    }
    shard_destroy_policies(former_ops, policies);
}

void shard_swap(struct shard *shard, uint8_t first, uint8_t second, const struct moment *now)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    uint8_t number = shard->shown[first];
    shard_set_now(shard, now);
    shard->shown[first] = shard->shown[second];
    shard->shown[second] = number;
    if (first != second) {
        shard_watch_swap(shard, first, second);
    }
}

static bool shard_visible(const struct shard *shard, const struct value *value, uint8_t database)
{
    return value->database == database && !shard_value_flushed(shard, value) &&
           !shard_value_expired(shard, value);
}

/* What lies in the bucket and was not there for the scan before it came to cursor. */
static void shard_visit_bucket(struct shard *shard, uint8_t database, uint64_t cursor,
                               uint64_t bucket, shard_visit_fn *visit, void *argument)
{
    const struct value *value = index_first(&shard->index, bucket);
    while (value != NULL) {
        const struct value *next = index_next(value);
        if (shard_visible(shard, value, database) && !index_scan_passed(cursor, value->hash)) {
            visit(argument, value_key(value), value);
        }
        value = next;
    }
}

uint64_t shard_scan(struct shard *shard, uint8_t database, uint64_t cursor, uint32_t bucket_count,
                    const struct moment *now, shard_visit_fn *visit, void *argument)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    shard_set_now(shard, now);
    for (uint32_t i = 0; i < bucket_count || i == 0; i++) {
        uint64_t bucket, second;
        uint64_t next = index_scan(&shard->index, cursor, &bucket, &second);
        shard_visit_bucket(shard, database, cursor, bucket, visit, argument);
        if (second != UINT64_MAX) {
            shard_visit_bucket(shard, database, cursor, second, visit, argument);
        }
        cursor = next;
        if (cursor == 0) {
            break;
        }
    }
    return cursor;
}

bool shard_random_key(struct shard *shard, uint8_t database, uint64_t random,
                      const struct moment *now, struct slice *key_p)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    shard_set_now(shard, now);
    uint64_t bucket_count = shard->index.bucket_count;
    if (database >= shard->config.database_count || shard->spaces[database].key_count == 0) {
        return false;
    }
    for (uint64_t i = 0; i < bucket_count; i++) {
        uint64_t bucket = (random % bucket_count + i) % bucket_count;
        const struct value *value = index_first(&shard->index, bucket);
        for (; value != NULL; value = index_next(value)) {
            if (shard_visible(shard, value, database)) {
                *key_p = value_key(value);
                return true;
            }
        }
    }
    return false;
}

void shard_database(const struct shard *shard, uint8_t database, const struct moment *now,
                    struct shard_database *database_p)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    *database_p = (struct shard_database){0};
    if (database >= shard->config.database_count) {
        return;
    }
    const struct shard_space *space = &shard->spaces[database];
    database_p->key_count = space->key_count;
    database_p->expiring_count = space->expiring_count;
    if (space->expiring_count > 0) {
        int64_t mean_ms = space->expires_sum_s / (int64_t)space->expiring_count * 1000;
        database_p->mean_ttl_ms = mean_ms > now->wall_ms ? mean_ms - now->wall_ms : 0;
    }
}

void shard_stats(const struct shard *shard, struct shard_stats *stats_p)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    struct runs_stats payload;
    runs_stats(shard->payload, &payload);
    uint64_t key_count = 0;
    for (uint32_t i = 0; i < shard->config.database_count; i++) {
        key_count += shard->spaces[i].key_count;
    }
    *stats_p = (struct shard_stats){
        .key_count = key_count,
        .value_count = shard->value_count,
        .orphan_count = shard->orphan_count,
        .reserved_count = shard->reserved_count,
        .payload_bytes = shard->payload_bytes,
        .payload_taken_bytes = payload.taken_bytes + (uint64_t)shard->whole_pages *
                                                         pages_page_bytes(shard->config.payload),
        .metadata_bytes = meta_taken_bytes(&shard->meta) + index_bytes(&shard->index) +
                          grant_bytes(&shard->grants) + shard->notices.capacity_bytes,
        .grants_bytes = grant_bytes(&shard->grants),
        .index_bytes = index_bytes(&shard->index),
        .index_moved = shard->index.moved_count,
        .hits = shard->hits,
        .misses = shard->misses,
        .evicted = shard->evicted,
        .expired = shard->expired,
        .expired_grants = shard->expired_grants,
        .denied_no_memory = shard->denied_no_memory,
        .evicted_bytes = shard->evicted_bytes - shard->evicted_bytes_before,
        .moved_bytes = shard->moved_bytes,
        .drained_pages = shard->drained_pages,
        .payload_pages = payload.page_count + shard->whole_pages,
        .metadata_pages = meta_page_count(&shard->meta),
        .leases = shard->grants.counts[GRANT_LEASE],
        .reservations = shard->grants.counts[GRANT_RESERVATION],
        .stale_ppm = shard->stale_ppm,
        .expiring_count = shard->expiring_count,
    };
}

void shard_reset_counts(struct shard *shard)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    shard->hits = 0;
    shard->misses = 0;
    shard->evicted = 0;
    shard->expired = 0;
    shard->expired_grants = 0;
    shard->denied_no_memory = 0;
    shard->moved_bytes = 0;
    shard->drained_pages = 0;
    /* It also tells whether anything was evicted since another look. */
    shard->evicted_bytes_before = shard->evicted_bytes;
    for (unsigned i = 0; i < TENANTS_MAX; i++) {
        struct shard_tenant *tenant = &shard->tenants[i];
        tenant->hits = 0;
        tenant->misses = 0;
        tenant->evicted = 0;
        tenant->evicted_bytes = 0;
        tenant->refused = 0;
    }
}
