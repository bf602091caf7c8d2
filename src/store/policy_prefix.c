#include "store/policy_prefix.h"

#include "base/compiler.h"
#include "base/fault.h"
#include "store/reuse.h"
#include "store/value_list.h"

#include <stdlib.h>

/* A value's kind: its family, and whether it was read. A family and its kinds learn from each other. */
enum policy_family {
    POLICY_FAMILY_PLAIN,  /* names no parent, and nobody names it as one */
    POLICY_FAMILY_CHAIN,  /* blocks that are needed with all before them */
    POLICY_FAMILY_WINDOW, /* blocks that are needed with a few before them */
    POLICY_FAMILY_STATE,  /* snapshots: the last one of a chain serves it */
};

/* Within a kind, what is dearer to recompute for its length has a queue of its own. Each is worth four
 * times the one before; those of whom nothing is said are in the second. */
#define POLICY_PREFIX_DEARNESSES       4U
#define POLICY_PREFIX_DEARNESS_UNKNOWN 1U
#define POLICY_PREFIX_QUEUES           (REUSE_KINDS * POLICY_PREFIX_DEARNESSES)
/* Goes first: what is worthless without what has gone, or replaced by what came. */
#define POLICY_PREFIX_STALE POLICY_PREFIX_QUEUES

/* policy_bits: the queue, and these. */
#define POLICY_PREFIX_QUEUE_MASK 63U
#define POLICY_PREFIX_KNOWN      64U  /* it was here before, and was only set aside */
#define POLICY_PREFIX_PARENT     128U /* it is the first of a chain */

/* Plain values shorter than this have no notes, but one in so many, who learn for all: reading a small
 * value costs a look at its queue and no more. */
#define POLICY_PREFIX_SMALL_BYTES 4096U
#define POLICY_PREFIX_SAMPLE      16U
/* Insertions after which the ranks are made anew. */
#define POLICY_PREFIX_RANK_STEPS 256U
/* What was stored or read longer ago than the whole store was replaced so many times is forgotten: no
 * order of eviction would have kept it. */
#define POLICY_PREFIX_MEMORY 8U
/* Chains that are put or read at the same time: more of them lose the order of their blocks. */
#define POLICY_PREFIX_ENDS 8U

struct policy_end {
    struct value *value; /* borrowed: the last block of a chain that was put or read; NULL: none */
    uint64_t hash;
};

struct policy {
    struct value_list queues[POLICY_PREFIX_QUEUES + 1]; /* last read first */
    struct policy_end ends[POLICY_PREFIX_ENDS];
    uint32_t next_end;
    uint64_t count;     /* of values inside */
    uint32_t clock;     /* counts insertions */
    uint32_t ranked_at; /* by clock */
    uint32_t used;      /* queues that may hold something, as bits */
    uint32_t mean_cost_16ths;
    uint32_t shard;
    bool owns_reuse;
    struct reuse *reuse; /* borrowed from the process, unless owned */
    struct reuse_ranks ranks;
};

_Static_assert(POLICY_PREFIX_QUEUES <= 32, "queues are bits of a word");

static struct policy *policy_prefix_create(struct reuse *reuse, uint32_t shard)
{
    struct policy *policy = fault_hit("store.policy") ? NULL : calloc(1, sizeof(*policy));
    if (policy == NULL) {
        return NULL;
    }
    policy->owns_reuse = reuse == NULL;
    policy->reuse = reuse != NULL ? reuse : reuse_create(1);
    policy->shard = reuse != NULL ? shard : 0;
    if (policy->reuse == NULL) {
        free(policy);
        return NULL;
    }
    reuse_rank(policy->reuse, &policy->ranks);
    return policy;
}

static void policy_prefix_destroy(struct policy **policy_p)
{
    if (policy_p != NULL && *policy_p != NULL) {
        if ((*policy_p)->owns_reuse) {
            reuse_destroy(&(*policy_p)->reuse);
        }
        free(*policy_p);
        *policy_p = NULL;
    }
}

static uint32_t policy_prefix_queue(const struct value *value)
{
    return value->policy_bits & POLICY_PREFIX_QUEUE_MASK;
}

static enum policy_family policy_prefix_family(const struct value *value)
{
    switch ((enum kvasir_class)value->value_class) {
    case KVASIR_CLASS_WINDOW:
        return POLICY_FAMILY_WINDOW;
    case KVASIR_CLASS_STATE:
        return POLICY_FAMILY_STATE;
    case KVASIR_CLASS_FULL:
    case KVASIR_CLASS_ENCODER:
        break;
    }
    bool chained =
        (value->flags & VALUE_FLAG_PARENT) != 0 || (value->policy_bits & POLICY_PREFIX_PARENT) != 0;
    return chained ? POLICY_FAMILY_CHAIN : POLICY_FAMILY_PLAIN;
}

/* ---- the chains that are at work ---- */

/* The one that this one continues, when it was put or read lately. */
static struct policy_end *policy_prefix_find_end(struct policy *policy, const struct value *value)
{
    for (uint32_t i = 0; (value->flags & VALUE_FLAG_PARENT) != 0 && i < POLICY_PREFIX_ENDS; i++) {
        struct policy_end *end = &policy->ends[i];
        if (end->hash == value->parent_hash && end->value != NULL && end->value != value) {
            return end;
        }
    }
    return NULL;
}

static void policy_prefix_set_end(struct policy *policy, struct policy_end *end,
                                  struct value *value)
{
    if (end == NULL) {
        end = &policy->ends[policy->next_end++ % POLICY_PREFIX_ENDS];
    }
    *end = (struct policy_end){.value = value, .hash = value->hash};
}

static void policy_prefix_drop_end(struct policy *policy, const struct value *value)
{
    for (uint32_t i = 0; i < POLICY_PREFIX_ENDS; i++) {
        if (policy->ends[i].value == value) {
            policy->ends[i].value = NULL;
        }
    }
}

/* ---- queues ---- */

static void policy_prefix_push(struct policy *policy, struct value *value, uint32_t queue)
{
    uint32_t marks = value->policy_bits & POLICY_PREFIX_PARENT;
    value->policy_bits = (uint8_t)(queue | POLICY_PREFIX_KNOWN | marks);
    policy->count++;
    value_list_push_front(&policy->queues[queue], value);
    if (queue != POLICY_PREFIX_STALE) {
        policy->used |= UINT32_C(1) << queue;
    }
}

static void policy_prefix_unlink(struct policy *policy, struct value *value)
{
    policy->count--;
    value_list_remove(&policy->queues[policy_prefix_queue(value)], value);
}

/* Costs are told for a value's length, as powers of two; only how they differ counts. */
static uint32_t policy_prefix_dearness(struct policy *policy, const struct value *value)
{
    uint32_t cost_16ths = value->cost * 16U;
    if (cost_16ths == 0) {
        return POLICY_PREFIX_DEARNESS_UNKNOWN;
    }
    if (policy->mean_cost_16ths == 0) {
        policy->mean_cost_16ths = cost_16ths;
    }
    policy->mean_cost_16ths = (policy->mean_cost_16ths * 15 + cost_16ths + 8) / 16;
    uint32_t above = cost_16ths + 32 + 16; /* the mean is in the middle of the second */
    uint32_t dearness =
        above < policy->mean_cost_16ths ? 0 : (above - policy->mean_cost_16ths) / 32;
    return dearness < POLICY_PREFIX_DEARNESSES ? dearness : POLICY_PREFIX_DEARNESSES - 1;
}

/* Chains are put and read head first, and are worth nothing without their head: each block goes behind
 * the one before it, so that the tail is evicted first, and is held no dearer. Of windows it is the
 * head that is out of the window. */
static void policy_prefix_place(struct policy *policy, struct value *value, uint32_t kind,
                                uint32_t dearness)
{
    value->policy_stamp = policy->clock;
    if (kind / 2 == POLICY_FAMILY_PLAIN) {
        policy_prefix_push(policy, value, kind * POLICY_PREFIX_DEARNESSES + dearness);
        return;
    }
    struct policy_end *end = policy_prefix_find_end(policy, value);
    uint32_t parent_queue = end == NULL ? POLICY_PREFIX_STALE : policy_prefix_queue(end->value);
    if (parent_queue != POLICY_PREFIX_STALE && parent_queue % POLICY_PREFIX_DEARNESSES < dearness) {
        dearness = parent_queue % POLICY_PREFIX_DEARNESSES;
    }
    uint32_t queue = kind * POLICY_PREFIX_DEARNESSES + dearness;
    policy_prefix_push(policy, value, queue);
    if (queue == parent_queue && kind / 2 == POLICY_FAMILY_CHAIN) {
        value_list_remove(&policy->queues[queue], value);
        value_list_insert_behind(&policy->queues[queue], end->value, value);
    }
    policy_prefix_set_end(policy, end, value);
}

/* ---- what is learned ---- */

/* A block that was read keeps that only while the one before it did: one that came anew, after the
 * former was lost, will go first. */
static bool policy_prefix_parent_is_new(const struct reuse_note *parent)
{
    return (parent->flags & REUSE_NOTE_SEEN) != 0 && (parent->flags & 1U) == 0;
}

static void policy_prefix_count_return(struct policy *policy, struct reuse_note note)
{
    if ((note.flags & REUSE_NOTE_LEADS) != 0) {
        reuse_count_return(policy->reuse, policy->shard, note.flags & REUSE_NOTE_KIND,
                           policy->clock - note.stamp);
    }
}

static void policy_prefix_note(struct policy *policy, const struct value *value, uint32_t flags)
{
    reuse_set_note(policy->reuse, value->hash,
                   (struct reuse_note){.stamp = policy->clock, .flags = flags | REUSE_NOTE_SEEN});
}

/* New blocks of a chain come back together: the first of them counts for all. So does the last of
 * those that were read before them. */
static bool policy_prefix_note_parent(struct policy *policy, const struct value *value,
                                      struct reuse_note *parent, bool fresh)
{
    if ((value->flags & VALUE_FLAG_PARENT) == 0) {
        return fresh;
    }
    bool leads = fresh && !policy_prefix_parent_is_new(parent);
    if (leads && (parent->flags & (REUSE_NOTE_SEEN | REUSE_NOTE_LEADS)) == REUSE_NOTE_SEEN) {
        parent->flags |= REUSE_NOTE_LEADS;
        reuse_count_birth(policy->reuse, policy->shard, parent->flags & REUSE_NOTE_KIND);
    }
    if (parent->flags == 0) {
        parent->stamp = policy->clock;
    }
    parent->flags |= REUSE_NOTE_PARENT;
    reuse_set_note(policy->reuse, value->parent_hash, *parent);
    return leads;
}

/* True when the value is worthless as it comes: the block before it went. */
static bool policy_prefix_learn_insert(struct policy *policy, const struct value *value,
                                       uint32_t *kind_p)
{
    bool chained = (value->flags & VALUE_FLAG_PARENT) != 0;
    struct reuse_note note = reuse_find_note(policy->reuse, value->hash);
    struct reuse_note parent = {0};
    if (chained) {
        parent = reuse_find_note(policy->reuse, value->parent_hash);
    }
    bool fresh = (note.flags & REUSE_NOTE_SEEN) == 0 ||
                 policy->clock - note.stamp > policy->count * POLICY_PREFIX_MEMORY;
    uint32_t read = fresh || policy_prefix_parent_is_new(&parent) ? 0 : 1;
    if (!fresh) {
        policy_prefix_count_return(policy, note);
    }
    *kind_p = (*kind_p & ~1U) | read;
    uint32_t flags = *kind_p | (note.flags & REUSE_NOTE_PARENT);
    if (policy_prefix_note_parent(policy, value, &parent, fresh)) {
        flags |= REUSE_NOTE_LEADS;
        reuse_count_birth(policy->reuse, policy->shard, *kind_p);
    }
    policy_prefix_note(policy, value, flags);
    return (parent.flags & REUSE_NOTE_GONE) != 0;
}

static void policy_prefix_learn_touch(struct policy *policy, struct value *value, uint32_t *kind_p)
{
    struct reuse_note note = reuse_find_note(policy->reuse, value->hash);
    policy_prefix_count_return(policy, note);
    if (*kind_p / 2 == POLICY_FAMILY_PLAIN && (note.flags & REUSE_NOTE_PARENT) != 0) {
        value->policy_bits |= POLICY_PREFIX_PARENT;
        *kind_p = policy_prefix_family(value) * 2U;
    }
    bool chained = (value->flags & VALUE_FLAG_PARENT) != 0;
    struct reuse_note parent = {0};
    if (chained) {
        parent = reuse_find_note(policy->reuse, value->parent_hash);
    }
    *kind_p = (*kind_p & ~1U) | (policy_prefix_parent_is_new(&parent) ? 0 : 1);
    uint32_t flags = *kind_p | (note.flags & REUSE_NOTE_PARENT);
    if (*kind_p / 2 == POLICY_FAMILY_PLAIN) {
        flags |= REUSE_NOTE_LEADS;
        reuse_count_birth(policy->reuse, policy->shard, *kind_p);
    }
    policy_prefix_note(policy, value, flags);
}

static bool policy_prefix_is_mute(const struct value *value, enum policy_family family)
{
    return family == POLICY_FAMILY_PLAIN && value->length_bytes < POLICY_PREFIX_SMALL_BYTES &&
           (value->hash >> 32) % POLICY_PREFIX_SAMPLE != 0;
}

/* A snapshot that is continued by another is of no use to who continues the chain. */
static void policy_prefix_replace_state(struct policy *policy, const struct value *value)
{
    struct policy_end *end = policy_prefix_find_end(policy, value);
    if (end != NULL && end->value->value_class == KVASIR_CLASS_STATE) {
        policy_prefix_unlink(policy, end->value);
        policy_prefix_push(policy, end->value, POLICY_PREFIX_STALE);
    }
}

/* ---- the table ---- */

/* What was set aside while it was pinned has not come anew. */
static void policy_prefix_reinsert(struct policy *policy, struct value *value)
{
    struct reuse_note note = reuse_find_note(policy->reuse, value->hash);
    if ((note.flags & REUSE_NOTE_GONE) != 0) {
        note.flags &= ~REUSE_NOTE_GONE;
        reuse_set_note(policy->reuse, value->hash, note);
    }
    policy_prefix_push(policy, value, policy_prefix_queue(value));
}

static void policy_prefix_insert(struct policy *policy, struct value *value)
{
    if ((value->policy_bits & POLICY_PREFIX_KNOWN) != 0) {
        policy_prefix_reinsert(policy, value);
        return;
    }
    policy->clock++;
    enum policy_family family = policy_prefix_family(value);
    uint32_t kind = family * 2U;
    if (!policy_prefix_is_mute(value, family) && policy_prefix_learn_insert(policy, value, &kind)) {
        value->policy_stamp = policy->clock;
        policy_prefix_push(policy, value, POLICY_PREFIX_STALE);
        return;
    }
    if (family == POLICY_FAMILY_STATE) {
        policy_prefix_replace_state(policy, value);
    }
    policy_prefix_place(policy, value, kind, policy_prefix_dearness(policy, value));
}

static void policy_prefix_touch(struct policy *policy, struct value *value)
{
    enum policy_family family = policy_prefix_family(value);
    uint32_t kind = family * 2U + 1;
    uint32_t queue = policy_prefix_queue(value);
    uint32_t dearness = queue == POLICY_PREFIX_STALE ? policy_prefix_dearness(policy, value)
                                                     : queue % POLICY_PREFIX_DEARNESSES;
    policy_prefix_unlink(policy, value);
    if (!policy_prefix_is_mute(value, family)) {
        policy_prefix_learn_touch(policy, value, &kind);
    }
    policy_prefix_place(policy, value, kind, dearness);
}

static void policy_prefix_remove(struct policy *policy, struct value *value)
{
    if (policy_prefix_queue(value) >= 2 * POLICY_PREFIX_DEARNESSES) {
        policy_prefix_drop_end(policy, value);
    }
    policy_prefix_unlink(policy, value);
}

static struct value *policy_prefix_cheapest(struct policy *policy)
{
    struct value *cheapest = NULL;
    uint64_t least = UINT64_MAX;
    uint32_t oldest = 0;
    for (uint32_t left = policy->used; left != 0; left &= left - 1) {
        uint32_t queue = (uint32_t)__builtin_ctz(left);
        struct value *value = policy->queues[queue].last;
        if (value == NULL) {
            policy->used &= ~(UINT32_C(1) << queue);
            continue;
        }
        uint32_t age = policy->clock - value->policy_stamp;
        uint64_t rank = policy->ranks.ranks[queue / POLICY_PREFIX_DEARNESSES][reuse_age_index(age)]
                        << (2 * (queue % POLICY_PREFIX_DEARNESSES));
        if (rank < least || (rank == least && age > oldest)) {
            cheapest = value;
            least = rank;
            oldest = age;
        }
    }
    return cheapest;
}

/* Every step names a victim, or finds out that a value begins a chain, once in its life. */
static struct value *policy_prefix_victim(struct policy *policy)
{
    if (policy->clock - policy->ranked_at >= POLICY_PREFIX_RANK_STEPS) {
        policy->ranked_at = policy->clock;
        reuse_rank(policy->reuse, &policy->ranks);
    }
    for (;;) {
        struct value *value = policy->queues[POLICY_PREFIX_STALE].last;
        value = value != NULL ? value : policy_prefix_cheapest(policy);
        if (value == NULL) {
            return NULL;
        }
        struct reuse_note note = reuse_find_note(policy->reuse, value->hash);
        enum policy_family family = policy_prefix_family(value);
        if (family == POLICY_FAMILY_PLAIN && (note.flags & REUSE_NOTE_PARENT) != 0) {
            uint32_t dearness = policy_prefix_queue(value) % POLICY_PREFIX_DEARNESSES;
            policy_prefix_unlink(policy, value);
            value->policy_bits |= POLICY_PREFIX_PARENT;
            value->policy_stamp = policy->clock; /* no older than what follows it */
            policy_prefix_push(policy, value,
                               (POLICY_FAMILY_CHAIN * 2U + 1) * POLICY_PREFIX_DEARNESSES +
                                   dearness);
            continue;
        }
        if ((value->flags & VALUE_FLAG_PARENT) != 0 && (note.flags & REUSE_NOTE_SEEN) != 0) {
            note.flags |= REUSE_NOTE_GONE;
            reuse_set_note(policy->reuse, value->hash, note);
        }
        return value;
    }
}

const struct policy_ops policy_prefix = {
    .name = "prefix",
    .summary =
        "Evicts chains of blocks from their tails, first those whose kind seldom comes back.",
    .create = policy_prefix_create,
    .destroy = policy_prefix_destroy,
    .insert = policy_prefix_insert,
    .touch = policy_prefix_touch,
    .remove = policy_prefix_remove,
    .victim = policy_prefix_victim,
};
