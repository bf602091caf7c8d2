#include "store/policy_lru.h"

#include "base/fault.h"
#include "store/value_list.h"

#include <stdlib.h>

struct policy {
    struct value_list order; /* last read first */
};

static struct policy *policy_lru_create(struct reuse *reuse, uint32_t shard)
{
    (void)reuse;
    (void)shard;
    return fault_hit("store.policy") ? NULL : calloc(1, sizeof(struct policy));
}

static void policy_lru_destroy(struct policy **policy_p)
{
    if (policy_p != NULL) {
        free(*policy_p);
        *policy_p = NULL;
    }
}

static void policy_lru_insert(struct policy *policy, struct value *value)
{
    value_list_push_front(&policy->order, value);
}

static void policy_lru_touch(struct policy *policy, struct value *value)
{
    if (policy->order.first != value) {
        value_list_remove(&policy->order, value);
        value_list_push_front(&policy->order, value);
    }
}

static void policy_lru_remove(struct policy *policy, struct value *value)
{
    value_list_remove(&policy->order, value);
}

static void policy_lru_insert_volatile(struct policy *policy, struct value *value)
{
    if (value->expires_at_ms != 0) {
        policy_lru_insert(policy, value);
    }
}

static void policy_lru_touch_volatile(struct policy *policy, struct value *value)
{
    if (value->expires_at_ms != 0) {
        policy_lru_touch(policy, value);
    }
}

static void policy_lru_remove_volatile(struct policy *policy, struct value *value)
{
    if (value->expires_at_ms != 0) {
        policy_lru_remove(policy, value);
    }
}

static struct value *policy_lru_victim(struct policy *policy)
{
    return policy->order.last;
}

const struct policy_ops policy_lru = {
    .name = "allkeys-lru",
    .summary = "Evicts what was not read for the longest time.",
    .create = policy_lru_create,
    .destroy = policy_lru_destroy,
    .insert = policy_lru_insert,
    .touch = policy_lru_touch,
    .remove = policy_lru_remove,
    .victim = policy_lru_victim,
};

const struct policy_ops policy_volatile_lru = {
    .name = "volatile-lru",
    .summary = "Evicts what was not read for the longest time, of those that expire.",
    .by_expiry = true,
    .create = policy_lru_create,
    .destroy = policy_lru_destroy,
    .insert = policy_lru_insert_volatile,
    .touch = policy_lru_touch_volatile,
    .remove = policy_lru_remove_volatile,
    .victim = policy_lru_victim,
};
