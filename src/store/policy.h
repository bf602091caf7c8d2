#pragma once
/* policy – which value goes when memory is short. A policy is one const table; its state is one
 * object per shard that the table's functions get back. It borrows values while they are sealed and
 * evictable; it uses value.policy_next, policy_prev, policy_stamp and policy_bits. One thread. */

#include "store/value.h"

#include <stdbool.h>

struct policy;
struct reuse;

struct policy_ops {
    const char *name;    /* as in CONFIG maxmemory-policy */
    const char *summary; /* one sentence for --help */
    bool
        by_expiry; /* only what expires is evicted: a value is removed before its expiry changes, and
                     * inserted after */
    /* NULL: out of memory. What policies learn together is borrowed: reuse belongs to all shards of the
     * process and outlives the policy; NULL: the policy learns alone. */
    struct policy *(*create)(struct reuse *reuse, uint32_t shard);
    void (*destroy)(struct policy **policy_p);
    /* A value was sealed (policy_bits are 0), or is evictable again after it was set aside. */
    void (*insert)(struct policy *policy, struct value *value);
    void (*touch)(struct policy *policy, struct value *value);  /* it was read */
    void (*remove)(struct policy *policy, struct value *value); /* it is no longer evictable */
    /* Its key was deleted or ran out; it is removed next, unless it was set aside. NULL: that makes no
     * difference. */
    void (*end)(struct policy *policy, const struct value *value);
    /* The next victim, still inside the policy. The shard always removes it before it asks again: it
     * evicts the value, or sets it aside while it is pinned and inserts it when that ends. NULL:
     * nothing is left. */
    struct value *(*victim)(struct policy *policy);
    /* How often a value in the policy's hands was read of late, 0 to 255. NULL: it does not count. */
    uint32_t (*frequency)(const struct policy *policy, const struct value *value);
};

/* The table of that name, NULL when there is none; index enumerates (NULL past the end). */
const struct policy_ops *policy_find(const char *name);
const struct policy_ops *policy_at(unsigned index);
