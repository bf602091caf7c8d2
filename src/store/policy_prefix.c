#include "store/policy_prefix.h"

#include "base/fault.h"
#include "store/value_list.h"

#include <stdlib.h>

/* policy_bits is the queue of a value: how often its chain was read, this often and more in the last. */
#define POLICY_PREFIX_QUEUES 8U

/* What went is remembered by the upper half of its hash, in a table of this many entries: 32 KiB a
 * shard, however large the shard is. */
#define POLICY_PREFIX_GHOST_BITS 13U
#define POLICY_PREFIX_QUEUE_MASK (POLICY_PREFIX_QUEUES - 1)

/* Counts of a queue are halved at this sum, so that they follow what clients do. */
#define POLICY_PREFIX_COUNT_MAX 65536U
/* Counts that a queue starts with: until it has seen more, all queues are alike, as in LRU. */
#define POLICY_PREFIX_COUNT_START 64U

struct policy_queue {
    struct value_list order; /* last read first */
    uint32_t read_count; /* values that were read while here, or asked for soon after they went */
    uint32_t gone_count; /* values that were evicted from here */
};

struct policy {
    struct policy_queue queues[POLICY_PREFIX_QUEUES];
    struct value *chain_end; /* borrowed: the last one inserted or read; NULL: it has gone */
    uint32_t clock;          /* counts insertions */
    uint32_t ghosts[1U << POLICY_PREFIX_GHOST_BITS]; /* hash, and the queue in the lowest bits */
};

static struct policy *policy_prefix_create(void)
{
    struct policy *policy = fault_hit("store.policy") ? NULL : calloc(1, sizeof(*policy));
    for (unsigned i = 0; policy != NULL && i < POLICY_PREFIX_QUEUES; i++) {
        policy->queues[i].read_count = POLICY_PREFIX_COUNT_START;
        policy->queues[i].gone_count = POLICY_PREFIX_COUNT_START;
    }
    return policy;
}

static void policy_prefix_destroy(struct policy **policy_p)
{
    if (policy_p != NULL) {
        free(*policy_p);
        *policy_p = NULL;
    }
}

static void policy_prefix_halve(struct policy_queue *queue)
{
    if (queue->read_count + queue->gone_count > POLICY_PREFIX_COUNT_MAX) {
        queue->read_count /= 2;
        queue->gone_count /= 2;
    }
}

static void policy_prefix_count_read(struct policy_queue *queue)
{
    queue->read_count++;
    policy_prefix_halve(queue);
}

static uint32_t *policy_prefix_ghost(struct policy *policy, const struct value *value)
{
    return &policy->ghosts[value->hash & ((1U << POLICY_PREFIX_GHOST_BITS) - 1)];
}

static uint32_t policy_prefix_tag(const struct value *value)
{
    return (uint32_t)(value->hash >> 32) & ~POLICY_PREFIX_QUEUE_MASK;
}

/* The one that this one continues, when it was the last that was seen. */
static struct value *policy_prefix_parent(const struct policy *policy, const struct value *value)
{
    struct value *end = policy->chain_end;
    bool continues = end != NULL && end != value && (value->flags & VALUE_FLAG_PARENT) != 0 &&
                     value->parent_hash == end->hash;
    return continues ? end : NULL;
}

/* Chains are put and read head first, and are worth nothing without their head: each block goes behind
 * the one before it, so that the tail is evicted first. */
static void policy_prefix_push(struct policy *policy, struct value *value, unsigned index)
{
    struct value *parent = policy_prefix_parent(policy, value);
    struct value_list *order = &policy->queues[index].order;
    value->policy_bits = (uint8_t)index;
    value->policy_stamp = policy->clock;
    if (parent != NULL && parent->policy_bits == index) {
        value_list_insert_behind(order, parent, value);
    } else {
        value_list_push_front(order, value);
    }
    policy->chain_end = value;
}

static void policy_prefix_unlink(struct policy *policy, struct value *value)
{
    value_list_remove(&policy->queues[value->policy_bits].order, value);
}

/* A chain that is continued has been read as often as its last block. What follows a block of the last
 * queue says nothing: that may be the common start of everybody's prompts. */
static unsigned policy_prefix_inherited(const struct policy *policy, const struct value *value)
{
    const struct value *parent = policy_prefix_parent(policy, value);
    return parent == NULL || parent->policy_bits == POLICY_PREFIX_QUEUES - 1 ? 0
                                                                             : parent->policy_bits;
}

static void policy_prefix_insert(struct policy *policy, struct value *value)
{
    uint32_t *ghost = policy_prefix_ghost(policy, value);
    if (*ghost != 0 && (*ghost & ~POLICY_PREFIX_QUEUE_MASK) == policy_prefix_tag(value)) {
        policy_prefix_count_read(&policy->queues[*ghost & POLICY_PREFIX_QUEUE_MASK]);
        *ghost = 0;
    }
    policy->clock++;
    policy_prefix_push(policy, value, policy_prefix_inherited(policy, value));
}

static void policy_prefix_touch(struct policy *policy, struct value *value)
{
    unsigned index = value->policy_bits;
    policy_prefix_count_read(&policy->queues[index]);
    policy_prefix_unlink(policy, value);
    policy_prefix_push(policy, value,
                       index + 1 < POLICY_PREFIX_QUEUES ? index + 1 : POLICY_PREFIX_QUEUES - 1);
}

static void policy_prefix_remove(struct policy *policy, struct value *value)
{
    if (policy->chain_end == value) {
        policy->chain_end = NULL;
    }
    policy_prefix_unlink(policy, value);
}

/* How little is lost with a value: how long it lies unread, over how likely its queue's are read. */
static uint64_t policy_prefix_age(const struct policy *policy, const struct policy_queue *queue)
{
    uint64_t age = (uint64_t)(policy->clock - queue->order.last->policy_stamp) + 1;
    return age * (queue->read_count + queue->gone_count) / (queue->read_count + 1);
}

static struct value *policy_prefix_victim(struct policy *policy)
{
    struct policy_queue *worst = NULL;
    uint64_t worst_age = 0;
    for (unsigned i = 0; i < POLICY_PREFIX_QUEUES; i++) {
        struct policy_queue *queue = &policy->queues[i];
        uint64_t age = queue->order.last == NULL ? 0 : policy_prefix_age(policy, queue);
        if (age > worst_age) {
            worst = queue;
            worst_age = age;
        }
    }
    if (worst == NULL) {
        return NULL;
    }
    struct value *value = worst->order.last;
    worst->gone_count++;
    policy_prefix_halve(worst);
    *policy_prefix_ghost(policy, value) = policy_prefix_tag(value) | value->policy_bits;
    return value;
}

const struct policy_ops policy_prefix = {
    .name = "prefix",
    .summary = "Evicts chains of blocks from their tails, those first that were seldom continued.",
    .create = policy_prefix_create,
    .destroy = policy_prefix_destroy,
    .insert = policy_prefix_insert,
    .touch = policy_prefix_touch,
    .remove = policy_prefix_remove,
    .victim = policy_prefix_victim,
};
