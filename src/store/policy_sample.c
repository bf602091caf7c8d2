#include "store/policy_sample.h"

#include "base/fault.h"
#include "base/random.h"
#include "store/value_list.h"

#include <stdlib.h>

/* Values that are looked at for one victim. They go round: the next victim is looked for among others. */
#define POLICY_SAMPLE_COUNT 16U

/* policy_bits is a counter of reads that grows the more slowly the higher it is, and policy_stamp the
 * second of the last read, as in Redis with lfu-log-factor 10 and lfu-decay-time 1. */
#define POLICY_SAMPLE_READS_START   5U
#define POLICY_SAMPLE_READS_FACTOR  10U
#define POLICY_SAMPLE_DECAY_SECONDS 60U
#define POLICY_SAMPLE_RANDOM_SEED   1U

struct policy {
    struct value_list ring; /* looked at from the end */
    struct random random;
    uint32_t now_s; /* latest second that a value was stored or read in */
};

static struct policy *policy_sample_create(struct reuse *reuse, uint32_t shard)
{
    struct policy *policy = fault_hit("store.policy") ? NULL : calloc(1, sizeof(*policy));
    (void)reuse;
    if (policy != NULL) {
        random_init(&policy->random, POLICY_SAMPLE_RANDOM_SEED + shard);
    }
    return policy;
}

static void policy_sample_destroy(struct policy **policy_p)
{
    if (policy_p != NULL) {
        free(*policy_p);
        *policy_p = NULL;
    }
}

static void policy_sample_insert(struct policy *policy, struct value *value)
{
    policy->now_s = value->touched_s > policy->now_s ? value->touched_s : policy->now_s;
    if (value->policy_bits == 0) {
        value->policy_bits = POLICY_SAMPLE_READS_START;
        value->policy_stamp = value->touched_s;
    }
    value_list_push_front(&policy->ring, value);
}

static void policy_sample_remove(struct policy *policy, struct value *value)
{
    value_list_remove(&policy->ring, value);
}

static void policy_sample_insert_volatile(struct policy *policy, struct value *value)
{
    if (value->expires_at_ms != 0) {
        policy_sample_insert(policy, value);
    }
}

static void policy_sample_remove_volatile(struct policy *policy, struct value *value)
{
    if (value->expires_at_ms != 0) {
        policy_sample_remove(policy, value);
    }
}

/* How often it was read, less one for each minute that it was not. At least 1: 0 is a new value's. */
static uint32_t policy_sample_reads(const struct policy *policy, const struct value *value)
{
    uint32_t idle_s = policy->now_s > value->policy_stamp ? policy->now_s - value->policy_stamp : 0;
    uint32_t decay = idle_s / POLICY_SAMPLE_DECAY_SECONDS;
    return decay < value->policy_bits ? value->policy_bits - decay : 1;
}

static void policy_sample_count(struct policy *policy, struct value *value)
{
    policy->now_s = value->touched_s > policy->now_s ? value->touched_s : policy->now_s;
    uint32_t reads = policy_sample_reads(policy, value);
    uint32_t above = reads > POLICY_SAMPLE_READS_START ? reads - POLICY_SAMPLE_READS_START : 0;
    if (reads < UINT8_MAX &&
        random_below(&policy->random, above * POLICY_SAMPLE_READS_FACTOR + 1) == 0) {
        reads++;
    }
    value->policy_bits = (uint8_t)reads;
    value->policy_stamp = value->touched_s;
}

static void policy_sample_touch(struct policy *policy, struct value *value)
{
    (void)policy;
    (void)value;
}

/* True when the first one goes rather than the second one. */
typedef bool policy_sample_worse_fn(struct policy *policy, const struct value *value,
                                    const struct value *other, uint32_t seen_count);

static struct value *policy_sample_take(struct policy *policy, policy_sample_worse_fn *worse)
{
    struct value *worst = NULL;
    const struct value *first = NULL;
    for (uint32_t i = 0; i < POLICY_SAMPLE_COUNT; i++) {
        struct value *value = policy->ring.last;
        if (value == NULL || value == first) {
            break;
        }
        first = first == NULL ? value : first;
        value_list_remove(&policy->ring, value);
        value_list_push_front(&policy->ring, value);
        if (worst == NULL || worse(policy, value, worst, i + 1)) {
            worst = value;
        }
    }
    return worst;
}

/* Each of those that were seen is as likely. */
static bool policy_sample_worse_random(struct policy *policy, const struct value *value,
                                       const struct value *other, uint32_t seen_count)
{
    (void)value;
    (void)other;
    return random_below(&policy->random, seen_count) == 0;
}

static bool policy_sample_worse_lfu(struct policy *policy, const struct value *value,
                                    const struct value *other, uint32_t seen_count)
{
    (void)seen_count;
    return policy_sample_reads(policy, value) < policy_sample_reads(policy, other);
}

static bool policy_sample_worse_ttl(struct policy *policy, const struct value *value,
                                    const struct value *other, uint32_t seen_count)
{
    (void)policy;
    (void)seen_count;
    return value->expires_at_ms < other->expires_at_ms;
}

static struct value *policy_sample_victim_random(struct policy *policy)
{
    return policy_sample_take(policy, policy_sample_worse_random);
}

static struct value *policy_sample_victim_lfu(struct policy *policy)
{
    return policy_sample_take(policy, policy_sample_worse_lfu);
}

static struct value *policy_sample_victim_ttl(struct policy *policy)
{
    return policy_sample_take(policy, policy_sample_worse_ttl);
}

const struct policy_ops policy_random = {
    .name = "allkeys-random",
    .summary = "Evicts any.",
    .create = policy_sample_create,
    .destroy = policy_sample_destroy,
    .insert = policy_sample_insert,
    .touch = policy_sample_touch,
    .remove = policy_sample_remove,
    .victim = policy_sample_victim_random,
};

const struct policy_ops policy_volatile_random = {
    .name = "volatile-random",
    .summary = "Evicts any of those that expire.",
    .by_expiry = true,
    .create = policy_sample_create,
    .destroy = policy_sample_destroy,
    .insert = policy_sample_insert_volatile,
    .touch = policy_sample_touch,
    .remove = policy_sample_remove_volatile,
    .victim = policy_sample_victim_random,
};

const struct policy_ops policy_lfu = {
    .name = "allkeys-lfu",
    .summary = "Evicts what was read least often of late.",
    .create = policy_sample_create,
    .destroy = policy_sample_destroy,
    .insert = policy_sample_insert,
    .touch = policy_sample_count,
    .remove = policy_sample_remove,
    .victim = policy_sample_victim_lfu,
    .frequency = policy_sample_reads,
};

const struct policy_ops policy_volatile_lfu = {
    .name = "volatile-lfu",
    .summary = "Evicts what was read least often of late, of those that expire.",
    .by_expiry = true,
    .create = policy_sample_create,
    .destroy = policy_sample_destroy,
    .insert = policy_sample_insert_volatile,
    .touch = policy_sample_count,
    .remove = policy_sample_remove_volatile,
    .victim = policy_sample_victim_lfu,
    .frequency = policy_sample_reads,
};

const struct policy_ops policy_volatile_ttl = {
    .name = "volatile-ttl",
    .summary = "Evicts what expires first.",
    .by_expiry = true,
    .create = policy_sample_create,
    .destroy = policy_sample_destroy,
    .insert = policy_sample_insert_volatile,
    .touch = policy_sample_touch,
    .remove = policy_sample_remove_volatile,
    .victim = policy_sample_victim_ttl,
};
