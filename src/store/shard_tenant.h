#pragma once
/* shard_tenant – what each tenant has in the shard: its values' order, its counts, its limits. Row 0 is of
 * all who are no tenant. For the files of this layer only; the shard's thread. What others call is in
 * shard.h. */

#include "store/shard_impl.h"

static inline struct shard_tenant *shard_tenant_of(struct shard *shard, const struct value *value)
{
    return &shard->tenants[value->tenant];
}

static inline bool shard_has_tenants(const struct shard *shard)
{
    return UNLIKELY(shard->tenant_table.count > 0);
}

/* A value with its metadata, as quotas count it. */
static inline uint64_t shard_tenant_charge(const struct value *value)
{
    return value->length_bytes + value_bytes(value->key_length_bytes);
}

/* A value has memory, or gives it back: 1, -1. Only while there are tenants, as all counts. */
void shard_tenant_count(struct shard *shard, const struct value *value, int sign);
/* It cannot go any more, or again can: it is reserved, held. */
void shard_tenant_fix(struct shard *shard, const struct value *value, int sign);

/* The tenant to whom the op's value will belong. */
uint8_t shard_tenant_find(const struct shard *shard, const struct op *op);
/* Has the tenant make room within its burst. KVASIR_OK, KVASIR_QUOTA: nothing of its own can go. */
ATTR_MUST_USE enum kvasir_status shard_tenant_admit(struct shard *shard, uint8_t tenant,
                                                    uint64_t length_bytes);
/* From whom to take next: who has most beyond his guarantee, of those that tried does not name by a bit,
 * and that have anything here. TENANTS_MAX: nobody has. */
uint32_t shard_tenant_pick(const struct shard *shard, uint32_t tried);
/* Whether, in other shards, somebody has more than his guarantee. */
bool shard_tenant_others_exceed(const struct shard *shard);
void shard_tenant_count_read(struct shard *shard, const struct op *op, const struct value *value);
/* Background: learns what the others have, and takes from those over their burst. */
void shard_tenant_tick(struct shard *shard);
