/* Tenants: what each has here and elsewhere, and who has to give. */

#include "store/shard_tenant.h"

#include "base/check.h"

#include <string.h>

/* A put of a tenant over its burst has it give up so much more than it takes, until it is under. */
#define SHARD_TENANT_GIVE_FACTOR 4U
#define SHARD_TENANT_EVICTIONS   64U
/* Evictions of one tick for those over their burst. */
#define SHARD_TENANT_TICK_EVICTIONS 256U
/* A put looks at the other shards when the tenant was given this part of its burst here since the last look:
 * ticks may come late, and together they would go beyond it. */
#define SHARD_TENANT_LOOK_DIVISOR 256U
/* Guarantees count up to this part of the memory, or nobody could be over his own in a full store. */
#define SHARD_TENANT_SHARE_NUMERATOR 7U
#define SHARD_TENANT_SHARE_DIVISOR   8U

/* ---- counts ---- */

static void shard_tenant_tell(struct shard *shard, uint32_t index)
{
    struct tenant_use *uses = shard->config.tenant_uses;
    if (uses != NULL) {
        struct tenant_use *own = &uses[shard->config.index];
        metric_set(&own->bytes[index], shard->tenants[index].bytes);
        metric_set(&own->fixed_bytes[index], shard->tenants[index].fixed_bytes);
    }
}

void shard_tenant_count(struct shard *shard, const struct value *value, int sign)
{
    struct shard_tenant *tenant = shard_tenant_of(shard, value);
    uint64_t charge = shard_tenant_charge(value);
    tenant->value_count += (uint64_t)(int64_t)sign;
    tenant->bytes += sign > 0 ? charge : -charge;
    shard_tenant_tell(shard, value->tenant);
}

void shard_tenant_fix(struct shard *shard, const struct value *value, int sign)
{
    uint64_t charge = shard_tenant_charge(value);
    shard_tenant_of(shard, value)->fixed_bytes += sign > 0 ? charge : -charge;
    shard_tenant_tell(shard, value->tenant);
}

static uint64_t shard_tenant_bytes(const struct shard *shard, uint32_t index)
{
    return shard->tenants[index].bytes + shard->tenants[index].others_bytes;
}

static void shard_tenant_learn(struct shard *shard, uint32_t index)
{
    struct shard_tenant *tenant = &shard->tenants[index];
    tenant->others_bytes = 0;
    tenant->others_fixed_bytes = 0;
    tenant->put_bytes = 0;
    for (uint32_t i = 0; shard->config.tenant_uses != NULL && i < shard->config.shard_count; i++) {
        if (i != shard->config.index) {
            const struct tenant_use *use = &shard->config.tenant_uses[i];
            tenant->others_bytes += metric_get(&use->bytes[index]);
            tenant->others_fixed_bytes += metric_get(&use->fixed_bytes[index]);
        }
    }
}

void shard_tenant_count_read(struct shard *shard, const struct op *op, const struct value *value)
{
    uint32_t index = value != NULL ? value->tenant : shard_tenant_find(shard, op);
    shard->tenants[index].hits += value != NULL;
    shard->tenants[index].misses += value == NULL;
}

/* ---- limits ---- */

uint8_t shard_tenant_find(const struct shard *shard, const struct op *op)
{
    const struct tenant_table *table = &shard->tenant_table;
    /* Reactors learn of a change one after the other: the row may not be there yet, or any more. */
    if (op->tenant != 0 && op->tenant < table->count && table->rows[op->tenant].by_user) {
        return op->tenant;
    }
    return tenant_of_key(table, op->key);
}

/* False: nothing of the tenant can go. */
static bool shard_tenant_shrink(struct shard *shard, uint32_t index, uint64_t give_bytes,
                                uint32_t evictions)
{
    uint64_t before = shard->tenants[index].bytes;
    while (before - shard->tenants[index].bytes < give_bytes && evictions > 0) {
        if (!shard_evict_tenant(shard, index)) {
            return false;
        }
        evictions--;
    }
    return true;
}

enum kvasir_status shard_tenant_admit(struct shard *shard, uint8_t index, uint64_t length_bytes)
{
    struct shard_tenant *tenant = &shard->tenants[index];
    uint64_t burst_bytes = shard->tenant_table.rows[index].burst_bytes;
    if (burst_bytes == 0) {
        return KVASIR_OK;
    }
    tenant->put_bytes += length_bytes;
    if (tenant->put_bytes > burst_bytes / SHARD_TENANT_LOOK_DIVISOR ||
        shard_tenant_bytes(shard, index) + length_bytes > burst_bytes) {
        shard_tenant_learn(shard, index);
    }
    if (shard_tenant_bytes(shard, index) + length_bytes <= burst_bytes) {
        return KVASIR_OK;
    }
    uint64_t bytes = shard_tenant_bytes(shard, index);
    uint64_t fixed_bytes = tenant->fixed_bytes + tenant->others_fixed_bytes;
    if (fixed_bytes + length_bytes > burst_bytes || shard->policy_ops == NULL) {
        tenant->refused++;
        return bytes + length_bytes <= burst_bytes ? KVASIR_OK : KVASIR_QUOTA;
    }
    if (bytes + length_bytes > burst_bytes) {
        uint64_t give_bytes = bytes + length_bytes - burst_bytes;
        uint64_t enough_bytes = SHARD_TENANT_GIVE_FACTOR * length_bytes;
        /* What is left is in other shards, which give it up in their next tick. */
        (void)shard_tenant_shrink(shard, index,
                                  give_bytes < enough_bytes ? give_bytes : enough_bytes,
                                  SHARD_TENANT_EVICTIONS);
    }
    return KVASIR_OK;
}

/* Guarantees count as far as the memory that there is can keep them all. */
static void shard_tenant_scale(struct shard *shard)
{
    const struct pages *pages = shard->config.payload;
    uint64_t room_bytes = (uint64_t)pages_page_bytes(pages) * pages_present_count(pages) /
                          SHARD_TENANT_SHARE_DIVISOR * SHARD_TENANT_SHARE_NUMERATOR;
    uint64_t sum_mib = 0;
    for (uint32_t i = 1; i < shard->tenant_table.count; i++) {
        sum_mib += shard->tenant_table.rows[i].guarantee_bytes >> 20;
    }
    uint64_t room_mib = room_bytes >> 20;
    for (uint32_t i = 1; i < shard->tenant_table.count; i++) {
        uint64_t bytes = shard->tenant_table.rows[i].guarantee_bytes;
        /* Both in MiB, so that no product overflows. */
        shard->tenants[i].guarantee_bytes =
            sum_mib > room_mib ? ((bytes >> 20) * room_mib / sum_mib) << 20 : bytes;
    }
}

uint32_t shard_tenant_pick(const struct shard *shard, uint32_t tried)
{
    uint32_t picked = TENANTS_MAX;
    uint64_t most_bytes = 0;
    for (uint32_t i = 0; i < shard->tenant_table.count; i++) {
        uint64_t bytes = shard_tenant_bytes(shard, i);
        uint64_t guarantee_bytes = shard->tenants[i].guarantee_bytes;
        if ((tried >> i & 1) == 0 && shard->tenants[i].bytes > 0 && bytes > guarantee_bytes &&
            bytes - guarantee_bytes > most_bytes) {
            most_bytes = bytes - guarantee_bytes;
            picked = i;
        }
    }
    return picked;
}

bool shard_tenant_others_exceed(const struct shard *shard)
{
    for (uint32_t i = 0; i < shard->tenant_table.count; i++) {
        const struct shard_tenant *tenant = &shard->tenants[i];
        if (tenant->others_bytes > tenant->others_fixed_bytes &&
            shard_tenant_bytes(shard, i) > tenant->guarantee_bytes) {
            return true;
        }
    }
    return false;
}

/* Each shard takes its part of what is too much; together that is all of it. */
static void shard_tenant_trim(struct shard *shard, uint32_t index)
{
    const struct shard_tenant *tenant = &shard->tenants[index];
    uint64_t burst_bytes = shard->tenant_table.rows[index].burst_bytes;
    uint64_t bytes = shard_tenant_bytes(shard, index);
    if (burst_bytes == 0 || bytes <= burst_bytes || tenant->bytes == 0) {
        return;
    }
    double part = (double)tenant->bytes / (double)bytes;
    uint64_t give_bytes = (uint64_t)((double)(bytes - burst_bytes) * part) + 1;
    (void)shard_tenant_shrink(shard, index, give_bytes, SHARD_TENANT_TICK_EVICTIONS);
}

void shard_tenant_tick(struct shard *shard)
{
    if (!shard_has_tenants(shard)) {
        return;
    }
    shard_tenant_scale(shard);
    for (uint32_t i = 0; i < shard->tenant_table.count; i++) {
        shard_tenant_learn(shard, i);
        if (shard->policy_ops != NULL) {
            shard_tenant_trim(shard, i);
        }
    }
}

/* ---- another table ---- */

/* By whom a value was put is not kept but in its row, which stays as long as it is the same user's. */
static uint8_t shard_tenant_now_of(const struct shard *shard, const struct tenant_table *table,
                                   const struct value *value)
{
    const struct tenant *before = &shard->tenant_table.rows[value->tenant];
    const struct tenant *now = &table->rows[value->tenant];
    bool same_user = before->by_user && now->by_user && strcmp(before->match, now->match) == 0;
    return same_user ? value->tenant : tenant_of_key(table, value_key(value));
}

static bool shard_tenant_is_fixed(const struct value *value)
{
    return value->state == VALUE_RESERVED || value->holds > 0;
}

/* From its tenant's order into another's. */
static void shard_tenant_move(struct shard *shard, struct value *value, uint8_t to)
{
    enum value_parked parked = (enum value_parked)value->parked;
    bool listed = value->state == VALUE_SEALED && parked != VALUE_PARKED_HELD;
    if (listed) {
        shard_value_delist(shard, value);
    }
    value->tenant = to & (TENANTS_MAX - 1);
    if (listed && parked == VALUE_PARKED_SOFT) {
        value_list_push_back(&shard_tenant_of(shard, value)->soft, value);
    } else if (listed) {
        value->policy_bits = 0;
        shard_value_enlist(shard, value);
    }
}

static void shard_tenant_recount_value(struct shard *shard, const struct tenant_table *table,
                                       struct value *value)
{
    uint8_t to = shard_tenant_now_of(shard, table, value);
    if (value->tenant != to) {
        shard_tenant_move(shard, value, to);
    }
    shard_tenant_count(shard, value, 1);
    if (shard_tenant_is_fixed(value)) {
        shard_tenant_fix(shard, value, 1);
    }
}

/* Looks at every value once, and counts anew. */
static void shard_tenant_recount(struct shard *shard, const struct tenant_table *table)
{
    for (uint32_t i = 0; i < TENANTS_MAX; i++) {
        shard->tenants[i].bytes = 0;
        shard->tenants[i].value_count = 0;
        shard->tenants[i].fixed_bytes = 0;
        shard_tenant_tell(shard, i);
    }
    for (uint64_t i = 0; i < shard->index.bucket_count; i++) {
        for (struct value *v = index_first(&shard->index, i); v != NULL; v = index_next(v)) {
            shard_tenant_recount_value(shard, table, v);
        }
    }
    for (struct value *v = shard->detached.first; v != NULL; v = value_list_next(v)) {
        shard_tenant_recount_value(shard, table, v);
    }
}

static void shard_tenant_end_rows(struct shard *shard, const struct tenant_table *table)
{
    for (uint32_t i = 1; i < TENANTS_MAX; i++) {
        struct shard_tenant *tenant = &shard->tenants[i];
        if (table->rows[i].name[0] == '\0') {
            if (tenant->policy != NULL) {
                shard->policy_ops->destroy(&tenant->policy);
            }
            *tenant = (struct shard_tenant){0};
        }
    }
}

/* Rows that begin get an order of their own; false: out of memory, and none has begun. */
static bool shard_tenant_begin_rows(struct shard *shard, const struct tenant_table *table)
{
    for (uint32_t i = 1; shard->policy_ops != NULL && i < table->count; i++) {
        struct shard_tenant *tenant = &shard->tenants[i];
        if (table->rows[i].name[0] != '\0' && tenant->policy == NULL) {
            tenant->policy = shard->policy_ops->create(shard->config.reuse, shard->config.index);
            if (tenant->policy == NULL) {
                shard_tenant_end_rows(shard, &shard->tenant_table);
                return false;
            }
        }
    }
    return true;
}

bool shard_set_tenants(struct shard *shard, const struct tenant_table *table)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    struct tenant_table next = *table;
    tenant_table_align(&next, &shard->tenant_table);
    if (!shard_tenant_begin_rows(shard, &next)) {
        return false;
    }
    if (!tenant_table_matches_alike(&next, &shard->tenant_table)) {
        shard_tenant_recount(shard, &next);
    }
    shard_tenant_end_rows(shard, &next);
    shard->tenant_table = next;
    shard_tenant_tick(shard);
    return true;
}

const struct tenant_table *shard_tenants(const struct shard *shard)
{
    return &shard->tenant_table;
}

void shard_tenant_stats(const struct shard *shard, uint32_t index,
                        struct shard_tenant_stats *stats_p)
{
    const struct shard_tenant *tenant = &shard->tenants[index];
    *stats_p = (struct shard_tenant_stats){
        .bytes = tenant->bytes,
        .value_count = tenant->value_count,
        .fixed_bytes = tenant->fixed_bytes,
        .hits = tenant->hits,
        .misses = tenant->misses,
        .evicted = tenant->evicted,
        .evicted_bytes = tenant->evicted_bytes,
        .refused = tenant->refused,
    };
}
