#include "store/policy_fifo.h"

#include "base/fault.h"
#include "store/value_list.h"

#include <stdlib.h>

/* policy_bits: how often a value was read since it was last looked at, and the queue it is in. */
#define POLICY_FIFO_READS_MAX 3U
#define POLICY_FIFO_MAIN      4U

/* Probation may keep a tenth of the bytes, as published. */
#define POLICY_FIFO_PROBATION_PART 10U

/* What went from probation is remembered by the upper half of its hash, in a table of this many
 * entries: 32 KiB a shard, however large the shard is. */
#define POLICY_FIFO_GHOST_BITS 13U

struct policy {
    struct value_list probation; /* youngest first */
    struct value_list main;
    uint64_t probation_bytes;
    uint64_t main_bytes;
    uint32_t ghosts[1U << POLICY_FIFO_GHOST_BITS];
};

static struct policy *policy_fifo_create(struct reuse *reuse, uint32_t shard)
{
    (void)reuse;
    (void)shard;
    return fault_hit("store.policy") ? NULL : calloc(1, sizeof(struct policy));
}

static void policy_fifo_destroy(struct policy **policy_p)
{
    if (policy_p != NULL) {
        free(*policy_p);
        *policy_p = NULL;
    }
}

static uint32_t *policy_fifo_ghost(struct policy *policy, const struct value *value)
{
    return &policy->ghosts[value->hash & ((1U << POLICY_FIFO_GHOST_BITS) - 1)];
}

static void policy_fifo_push_main(struct policy *policy, struct value *value)
{
    value->policy_bits = POLICY_FIFO_MAIN;
    policy->main_bytes += value->length_bytes;
    value_list_push_front(&policy->main, value);
}

static void policy_fifo_push_probation(struct policy *policy, struct value *value)
{
    value->policy_bits = 0;
    policy->probation_bytes += value->length_bytes;
    value_list_push_front(&policy->probation, value);
}

static void policy_fifo_insert(struct policy *policy, struct value *value)
{
    uint32_t *ghost = policy_fifo_ghost(policy, value);
    uint32_t tag = (uint32_t)(value->hash >> 32);
    if (*ghost == tag && tag != 0) {
        *ghost = 0;
        policy_fifo_push_main(policy, value);
    } else {
        policy_fifo_push_probation(policy, value);
    }
}

static void policy_fifo_touch(struct policy *policy, struct value *value)
{
    (void)policy;
    if ((value->policy_bits & POLICY_FIFO_READS_MAX) < POLICY_FIFO_READS_MAX) {
        value->policy_bits++;
    }
}

static void policy_fifo_remove(struct policy *policy, struct value *value)
{
    if ((value->policy_bits & POLICY_FIFO_MAIN) != 0) {
        policy->main_bytes -= value->length_bytes;
        value_list_remove(&policy->main, value);
        return;
    }
    policy->probation_bytes -= value->length_bytes;
    value_list_remove(&policy->probation, value);
}

/* Every step evicts, promotes, or takes a read away from a value: a read pays for each. */
static struct value *policy_fifo_victim(struct policy *policy)
{
    for (;;) {
        uint64_t total_bytes = policy->probation_bytes + policy->main_bytes;
        bool probation = policy->main.last == NULL ||
                         (policy->probation.last != NULL &&
                          policy->probation_bytes >= total_bytes / POLICY_FIFO_PROBATION_PART);
        struct value *value = probation ? policy->probation.last : policy->main.last;
        if (value == NULL) {
            return NULL;
        }
        uint32_t reads = value->policy_bits & POLICY_FIFO_READS_MAX;
        if (reads == 0) {
            if (probation) {
                *policy_fifo_ghost(policy, value) = (uint32_t)(value->hash >> 32);
            }
            return value;
        }
        policy_fifo_remove(policy, value);
        policy_fifo_push_main(policy, value);
        value->policy_bits |= (uint8_t)(probation ? 0 : reads - 1);
    }
}

const struct policy_ops policy_fifo = {
    .name = "s3-fifo",
    .summary =
        "Evicts first what was not read since it came; what was read has a queue of its own.",
    .create = policy_fifo_create,
    .destroy = policy_fifo_destroy,
    .insert = policy_fifo_insert,
    .touch = policy_fifo_touch,
    .remove = policy_fifo_remove,
    .victim = policy_fifo_victim,
};
