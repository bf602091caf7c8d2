#include "store/policy_prefix.h"

#include "base/compiler.h"
#include "base/fault.h"
#include "store/chain_ends.h"
#include "store/reuse.h"
#include "store/value_list.h"

#include <stdlib.h>

/* A value's kind. What was read is of the kind after; of chains' blocks there is one for each turn: how
 * often what they belong to was asked for. Kinds learn from each other as reuse.h says. */
enum policy_kind {
    POLICY_KIND_PLAIN = 0,                /* names no parent, and nobody names it as one */
    POLICY_KIND_WINDOW = 2,               /* blocks that are needed with a few before them */
    POLICY_KIND_STATE = 4,                /* snapshots: the last one of a chain serves it */
    POLICY_KIND_LEAF = REUSE_KIND_LEAF,   /* what ends a chain: seldom full, it seldom returns */
    POLICY_KIND_CHAIN = REUSE_KIND_CHAIN, /* blocks that are needed with all before them */
};

/* Within a kind, what is dearer to recompute for its length has a queue of its own. Each is worth four
 * times the one before; those of whom nothing is said are in the second. */
#define POLICY_PREFIX_DEARNESSES       4U
#define POLICY_PREFIX_DEARNESS_UNKNOWN 1U
#define POLICY_PREFIX_QUEUES           (REUSE_KINDS * POLICY_PREFIX_DEARNESSES)
#define POLICY_PREFIX_FIRST_CHAINED    (REUSE_KIND_LEAF * POLICY_PREFIX_DEARNESSES)
/* Goes first: what is worthless without what has gone, or replaced by what came. */
#define POLICY_PREFIX_STALE POLICY_PREFIX_QUEUES
/* Goes last: blocks of chains wait here until it is known what followed them. */
#define POLICY_PREFIX_ARRIVALS (POLICY_PREFIX_QUEUES + 1)

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
#define POLICY_PREFIX_MEMORY 16U
/* A block is followed before so many others come. */
#define POLICY_PREFIX_ARRIVALS_MOST 4U
/* Nor does one in so many of all wait while room is made. */
#define POLICY_PREFIX_ARRIVALS_SHARE 16U
/* Blocks of chains looked at with each victim: has what they continue gone? */
#define POLICY_PREFIX_LOOKS 4U

struct policy {
    struct value_list queues[POLICY_PREFIX_ARRIVALS + 1]; /* last read first */
    struct chain_ends ends;
    uint64_t count;     /* of values inside */
    uint32_t clock;     /* counts insertions */
    uint32_t ranked_at; /* by clock */
    uint32_t arrival_count;
    uint64_t used; /* queues that may hold something, as bits */
    uint32_t mean_cost_16ths;
    uint32_t shard;
    uint32_t look_queue;
    struct value *look_next; /* borrowed: at which to look, in that queue; NULL: at its end */
    bool owns_reuse;
    struct reuse *reuse; /* borrowed from the process, unless owned */
    struct reuse_ranks ranks;
};

_Static_assert(POLICY_KIND_CHAIN + REUSE_NOTE_TURN_MAX < REUSE_KINDS, "each turn has a kind");
_Static_assert(POLICY_PREFIX_ARRIVALS <= POLICY_PREFIX_QUEUE_MASK, "queues are bits of a word");

static struct policy *policy_prefix_create(struct reuse *reuse, uint32_t shard)
{
    struct policy *policy = fault_hit("store.policy") ? NULL : calloc(1, sizeof(*policy));
    if (policy == NULL) {
        return NULL;
    }
    policy->owns_reuse = reuse == NULL;
    policy->look_queue = POLICY_PREFIX_QUEUES;
    policy->reuse = reuse != NULL ? reuse : reuse_create(1, 0);
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

static uint32_t policy_prefix_kind_of_queue(uint32_t queue)
{
    return queue / POLICY_PREFIX_DEARNESSES;
}

/* As it comes. */
static enum policy_kind policy_prefix_first_kind(const struct value *value)
{
    switch ((enum kvasir_class)value->value_class) {
    case KVASIR_CLASS_WINDOW:
        return POLICY_KIND_WINDOW;
    case KVASIR_CLASS_STATE:
        return POLICY_KIND_STATE;
    case KVASIR_CLASS_FULL:
    case KVASIR_CLASS_ENCODER:
        break;
    }
    bool chained =
        (value->flags & VALUE_FLAG_PARENT) != 0 || (value->policy_bits & POLICY_PREFIX_PARENT) != 0;
    return chained ? POLICY_KIND_CHAIN : POLICY_KIND_PLAIN;
}

/* ---- queues ---- */

static void policy_prefix_push(struct policy *policy, struct value *value, uint32_t queue)
{
    uint32_t marks = value->policy_bits & POLICY_PREFIX_PARENT;
    value->policy_bits = (uint8_t)(queue | POLICY_PREFIX_KNOWN | marks);
    policy->count++;
    value_list_push_front(&policy->queues[queue], value);
    if (queue == POLICY_PREFIX_ARRIVALS) {
        policy->arrival_count++;
    } else if (queue != POLICY_PREFIX_STALE) {
        policy->used |= UINT64_C(1) << queue;
    }
}

static void policy_prefix_unlink(struct policy *policy, struct value *value)
{
    uint32_t queue = policy_prefix_queue(value);
    policy->count--;
    if (policy->look_next == value) {
        policy->look_next = value_list_next(value);
    }
    if (queue == POLICY_PREFIX_ARRIVALS) {
        policy->arrival_count--;
    }
    value_list_remove(&policy->queues[queue], value);
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
    if (kind < POLICY_KIND_WINDOW || kind == POLICY_KIND_LEAF) {
        policy_prefix_push(policy, value, kind * POLICY_PREFIX_DEARNESSES + dearness);
        return;
    }
    struct chain_end *end = chain_ends_find(&policy->ends, value);
    uint32_t parent_queue = end == NULL ? POLICY_PREFIX_STALE : policy_prefix_queue(end->value);
    if (parent_queue < POLICY_PREFIX_QUEUES && parent_queue % POLICY_PREFIX_DEARNESSES < dearness) {
        dearness = parent_queue % POLICY_PREFIX_DEARNESSES;
    }
    uint32_t queue = kind * POLICY_PREFIX_DEARNESSES + dearness;
    policy_prefix_push(policy, value, queue);
    if (queue == parent_queue && kind >= POLICY_KIND_CHAIN) {
        value_list_remove(&policy->queues[queue], value);
        value_list_insert_behind(&policy->queues[queue], end->value, value);
    }
    chain_ends_set(&policy->ends, end, value);
}

/* ---- what is learned ---- */

/* What a value's coming tells of it. */
struct policy_lesson {
    uint32_t turn;  /* how often what it belongs to was asked for again */
    uint32_t reads; /* how often it was there to be asked for: its kind */
    bool worthless; /* the block before it went */
};

static uint32_t policy_prefix_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t policy_prefix_turn(struct reuse_note note)
{
    return note.flags >> REUSE_NOTE_TURN_SHIFT & REUSE_NOTE_TURN_MAX;
}

static void policy_prefix_count_return(struct policy *policy, struct reuse_note note)
{
    if ((note.flags & REUSE_NOTE_COUNTED) != 0) {
        reuse_count_return(policy->reuse, policy->shard, note.flags & REUSE_NOTE_KIND,
                           policy->clock - note.stamp);
    }
}

/* The flags of a note on a value that from now on counts for its kind. */
static uint32_t policy_prefix_count_birth(struct policy *policy, uint32_t kind)
{
    reuse_count_birth(policy->reuse, policy->shard, kind);
    return REUSE_NOTE_COUNTED | kind;
}

static void policy_prefix_note_kid(struct policy *policy, const struct value *value,
                                   struct reuse_note parent, bool known)
{
    uint32_t kids = parent.flags & REUSE_NOTE_PARENT;
    if (kids == 0 || (!known && kids != REUSE_NOTE_PARENT)) {
        if (parent.flags == 0) {
            parent.stamp = policy->clock;
        }
        parent.flags += 1U << REUSE_NOTE_KIDS_SHIFT;
        reuse_set_note(policy->reuse, value->parent_hash, parent);
    }
}

/* A block is asked for no oftener than the one before it: if that came anew, so did this. One that is new
 * belongs to what it continues, unless several others did that: there another chain begins. */
static void policy_prefix_learn_parent(struct policy *policy, const struct value *value, bool known,
                                       struct policy_lesson *lesson)
{
    struct reuse_note parent = reuse_find_note(policy->reuse, value->parent_hash);
    if ((parent.flags & REUSE_NOTE_SEEN) != 0) {
        uint32_t turn = policy_prefix_turn(parent);
        uint32_t kind = parent.flags & REUSE_NOTE_KIND;
        uint32_t reads = kind >= POLICY_KIND_CHAIN ? kind - POLICY_KIND_CHAIN : turn;
        if (known) {
            lesson->turn = policy_prefix_least(lesson->turn, turn);
            lesson->reads = policy_prefix_least(lesson->reads, reads);
        } else if ((parent.flags & REUSE_NOTE_PARENT) != REUSE_NOTE_PARENT) {
            lesson->turn = turn;
        }
    }
    lesson->worthless = (parent.flags & REUSE_NOTE_GONE) != 0;
    policy_prefix_note_kid(policy, value, parent, known);
}

/* Of a value that was stored before, if that is not forgotten, and now is asked for again. */
static struct policy_lesson policy_prefix_learn(struct policy *policy, const struct value *value,
                                                struct reuse_note note, bool known, bool again)
{
    struct policy_lesson lesson = {0};
    if (known) {
        lesson.turn = policy_prefix_least(policy_prefix_turn(note) + again, REUSE_NOTE_TURN_MAX);
        lesson.reads = lesson.turn;
    }
    if ((value->flags & VALUE_FLAG_PARENT) != 0) {
        policy_prefix_learn_parent(policy, value, known, &lesson);
    }
    return lesson;
}

/* Blocks of chains are counted when they have settled. */
static uint32_t policy_prefix_note(struct policy *policy, const struct value *value,
                                   struct reuse_note note, struct policy_lesson lesson,
                                   uint32_t first_kind)
{
    uint32_t flags =
        REUSE_NOTE_SEEN | (note.flags & REUSE_NOTE_PARENT) | lesson.turn << REUSE_NOTE_TURN_SHIFT;
    uint32_t kind = first_kind;
    if (kind >= POLICY_KIND_CHAIN) {
        kind += lesson.reads;
        flags |= kind;
    } else {
        kind += lesson.reads > 0;
        flags |= policy_prefix_count_birth(policy, kind);
    }
    note = (struct reuse_note){.stamp = policy->clock, .flags = flags};
    reuse_set_note(policy->reuse, value->hash, note);
    return kind;
}

/* True when the value is worthless as it comes: the block before it went. */
static bool policy_prefix_learn_insert(struct policy *policy, const struct value *value,
                                       uint32_t *kind_p)
{
    struct reuse_note note = reuse_find_note(policy->reuse, value->hash);
    bool known = (note.flags & REUSE_NOTE_SEEN) != 0 &&
                 policy->clock - note.stamp <= policy->count * POLICY_PREFIX_MEMORY;
    if (known) {
        policy_prefix_count_return(policy, note);
    }
    struct policy_lesson lesson = policy_prefix_learn(policy, value, note, known, true);
    *kind_p = policy_prefix_note(policy, value, note, lesson, *kind_p);
    return lesson.worthless;
}

/* What is read twice while it settles was asked for once. */
static void policy_prefix_learn_touch(struct policy *policy, struct value *value, bool settled,
                                      uint32_t *kind_p)
{
    struct reuse_note note = reuse_find_note(policy->reuse, value->hash);
    if (settled) {
        policy_prefix_count_return(policy, note);
    }
    if (*kind_p == POLICY_KIND_PLAIN && (note.flags & REUSE_NOTE_PARENT) != 0) {
        value->policy_bits |= POLICY_PREFIX_PARENT;
        *kind_p = POLICY_KIND_CHAIN;
    }
    struct policy_lesson lesson = policy_prefix_learn(policy, value, note, true, settled);
    *kind_p = policy_prefix_note(policy, value, note, lesson, *kind_p);
}

static bool policy_prefix_is_mute(const struct value *value, uint32_t kind)
{
    return kind == POLICY_KIND_PLAIN && value->length_bytes < POLICY_PREFIX_SMALL_BYTES &&
           (value->hash >> 32) % POLICY_PREFIX_SAMPLE != 0;
}

/* A snapshot that is continued by another is of no use to who continues the chain. */
static void policy_prefix_replace_state(struct policy *policy, const struct value *value)
{
    const struct chain_end *end = chain_ends_find(&policy->ends, value);
    if (end != NULL && end->value->value_class == KVASIR_CLASS_STATE) {
        policy_prefix_unlink(policy, end->value);
        policy_prefix_push(policy, end->value, POLICY_PREFIX_STALE);
    }
}

/* ---- blocks of chains that just came ---- */

/* Until now its child would have come. */
static void policy_prefix_settle(struct policy *policy)
{
    struct value *value = policy->queues[POLICY_PREFIX_ARRIVALS].last;
    struct reuse_note note = reuse_find_note(policy->reuse, value->hash);
    uint32_t kind = note.flags & REUSE_NOTE_KIND;
    if (kind < POLICY_KIND_CHAIN) {
        kind = POLICY_KIND_CHAIN; /* the note is lost */
    }
    if ((note.flags & REUSE_NOTE_SEEN) != 0) {
        kind = (note.flags & REUSE_NOTE_PARENT) != 0 ? kind : POLICY_KIND_LEAF;
        note.flags = (note.flags & ~REUSE_NOTE_KIND) | policy_prefix_count_birth(policy, kind);
        reuse_set_note(policy->reuse, value->hash, note);
    }
    policy_prefix_unlink(policy, value);
    policy_prefix_place(policy, value, kind, policy_prefix_dearness(policy, value));
}

static void policy_prefix_arrive(struct policy *policy, struct value *value)
{
    policy_prefix_push(policy, value, POLICY_PREFIX_ARRIVALS);
    if (policy->arrival_count > POLICY_PREFIX_ARRIVALS_MOST) {
        policy_prefix_settle(policy);
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
    uint32_t queue = policy_prefix_queue(value);
    if (queue == POLICY_PREFIX_ARRIVALS) {
        policy_prefix_arrive(policy, value);
        return;
    }
    policy_prefix_push(policy, value, queue);
}

static void policy_prefix_insert(struct policy *policy, struct value *value)
{
    if ((value->policy_bits & POLICY_PREFIX_KNOWN) != 0) {
        policy_prefix_reinsert(policy, value);
        return;
    }
    policy->clock++;
    value->policy_stamp = policy->clock;
    uint32_t kind = policy_prefix_first_kind(value);
    if (!policy_prefix_is_mute(value, kind) && policy_prefix_learn_insert(policy, value, &kind)) {
        policy_prefix_push(policy, value, POLICY_PREFIX_STALE);
        return;
    }
    if (kind >= POLICY_KIND_CHAIN) {
        policy_prefix_arrive(policy, value);
        return;
    }
    if (value->value_class == KVASIR_CLASS_STATE) {
        policy_prefix_replace_state(policy, value);
    }
    policy_prefix_place(policy, value, kind, policy_prefix_dearness(policy, value));
}

static void policy_prefix_touch(struct policy *policy, struct value *value)
{
    uint32_t kind = policy_prefix_first_kind(value);
    uint32_t queue = policy_prefix_queue(value);
    uint32_t dearness = queue < POLICY_PREFIX_QUEUES ? queue % POLICY_PREFIX_DEARNESSES
                                                     : policy_prefix_dearness(policy, value);
    if (queue >= 2 * POLICY_PREFIX_DEARNESSES) {
        chain_ends_drop(&policy->ends, value);
    }
    policy_prefix_unlink(policy, value);
    if (policy_prefix_is_mute(value, kind)) {
        kind = POLICY_KIND_PLAIN + 1;
    } else {
        policy_prefix_learn_touch(policy, value, queue != POLICY_PREFIX_ARRIVALS, &kind);
    }
    value->policy_stamp = policy->clock;
    if (kind >= POLICY_KIND_CHAIN) {
        policy_prefix_arrive(policy, value);
        return;
    }
    policy_prefix_place(policy, value, kind, dearness);
}

static void policy_prefix_remove(struct policy *policy, struct value *value)
{
    if (policy_prefix_queue(value) >= 2 * POLICY_PREFIX_DEARNESSES) {
        chain_ends_drop(&policy->ends, value);
    }
    policy_prefix_unlink(policy, value);
}

static struct value *policy_prefix_cheapest(struct policy *policy)
{
    struct value *cheapest = NULL;
    uint64_t least = UINT64_MAX;
    uint32_t oldest = 0;
    for (uint64_t left = policy->used; left != 0; left &= left - 1) {
        uint32_t queue = (uint32_t)__builtin_ctzll(left);
        struct value *value = policy->queues[queue].last;
        if (value == NULL) {
            policy->used &= ~(UINT64_C(1) << queue);
            continue;
        }
        uint32_t age = policy->clock - value->policy_stamp;
        uint64_t rank =
            policy->ranks.ranks[policy_prefix_kind_of_queue(queue)][reuse_age_index(age)]
            << (2 * (queue % POLICY_PREFIX_DEARNESSES));
        if (rank < least || (rank == least && age > oldest)) {
            cheapest = value;
            least = rank;
            oldest = age;
        }
    }
    return cheapest;
}

/* What was no part of a chain, or the last one, may have been continued since. */
static bool policy_prefix_is_misplaced(const struct value *value, struct reuse_note note)
{
    uint32_t queue = policy_prefix_queue(value);
    uint32_t kind = policy_prefix_kind_of_queue(queue);
    return queue < POLICY_PREFIX_QUEUES && (note.flags & REUSE_NOTE_PARENT) != 0 &&
           (kind < POLICY_KIND_WINDOW || kind == POLICY_KIND_LEAF);
}

static void policy_prefix_replace(struct policy *policy, struct value *value,
                                  struct reuse_note note)
{
    uint32_t dearness = policy_prefix_queue(value) % POLICY_PREFIX_DEARNESSES;
    uint32_t kind = POLICY_KIND_CHAIN + policy_prefix_turn(note);
    policy_prefix_unlink(policy, value);
    value->policy_bits |= POLICY_PREFIX_PARENT;
    value->policy_stamp = policy->clock; /* no older than what follows it */
    policy_prefix_push(policy, value, kind * POLICY_PREFIX_DEARNESSES + dearness);
}

static struct value *policy_prefix_first_to_go(struct policy *policy)
{
    while ((uint64_t)policy->arrival_count * POLICY_PREFIX_ARRIVALS_SHARE > policy->count) {
        policy_prefix_settle(policy);
    }
    struct value *value = policy->queues[POLICY_PREFIX_STALE].last;
    return value != NULL ? value : policy_prefix_cheapest(policy);
}

/* ---- what has gone takes with it what continues it ---- */

static void policy_prefix_note_gone(struct policy *policy, const struct value *value,
                                    struct reuse_note note)
{
    note.flags |= REUSE_NOTE_GONE;
    if ((note.flags & REUSE_NOTE_SEEN) == 0) {
        note.stamp = policy->clock;
    }
    reuse_set_note(policy->reuse, value->hash, note);
}

/* Whoever continued a value that was deleted or ran out is looked for, here and in the other shards; he
 * is often right behind it. Windows do without what they continue, and states replace each other. */
static void policy_prefix_end(struct policy *policy, const struct value *value)
{
    uint32_t kind = policy_prefix_first_kind(value);
    bool chained = (value->flags & VALUE_FLAG_PARENT) != 0;
    if (kind == POLICY_KIND_WINDOW || kind == POLICY_KIND_STATE ||
        (!chained && policy_prefix_is_mute(value, POLICY_KIND_PLAIN))) {
        return;
    }
    struct reuse_note note = reuse_find_note(policy->reuse, value->hash);
    if (chained || (note.flags & REUSE_NOTE_PARENT) != 0) {
        policy_prefix_note_gone(policy, value, note);
    }
    uint32_t queue = policy_prefix_queue(value);
    if (value->parked == VALUE_PARKED_NOT && queue < POLICY_PREFIX_QUEUES) {
        struct value *next = value_list_next(value);
        if (next != NULL && next->parent_hash == value->hash) {
            policy->look_next = next;
            policy->look_queue = queue;
        }
    }
}

static void policy_prefix_look_at(struct policy *policy, struct value *value)
{
    if ((value->flags & VALUE_FLAG_PARENT) == 0 || value->parent_hash == value->hash) {
        return;
    }
    if ((reuse_find_note(policy->reuse, value->parent_hash).flags & REUSE_NOTE_GONE) != 0) {
        policy_prefix_note_gone(policy, value, reuse_find_note(policy->reuse, value->hash));
        policy_prefix_unlink(policy, value);
        policy_prefix_push(policy, value, POLICY_PREFIX_STALE);
    }
}

/* Goes round through the queues of chains. Head first: what continues a value is found after it. */
static void policy_prefix_look(struct policy *policy)
{
    bool any = policy->used >> POLICY_PREFIX_FIRST_CHAINED != 0;
    for (uint32_t i = 0; any && i < POLICY_PREFIX_LOOKS; i++) {
        struct value *value = policy->look_next;
        if (value != NULL) {
            policy->look_next = value_list_next(value);
            policy_prefix_look_at(policy, value);
            continue;
        }
        bool last = ++policy->look_queue >= POLICY_PREFIX_QUEUES;
        policy->look_queue = last ? POLICY_PREFIX_FIRST_CHAINED : policy->look_queue;
        policy->look_next = policy->queues[policy->look_queue].first;
    }
}

/* Every step names a victim, or finds out that a value was continued, once in its life. */
static struct value *policy_prefix_victim(struct policy *policy)
{
    if (policy->clock - policy->ranked_at >= POLICY_PREFIX_RANK_STEPS) {
        policy->ranked_at = policy->clock;
        reuse_rank(policy->reuse, &policy->ranks);
    }
    policy_prefix_look(policy);
    struct value *value;
    while ((value = policy_prefix_first_to_go(policy)) != NULL) {
        struct reuse_note note = reuse_find_note(policy->reuse, value->hash);
        if (policy_prefix_is_misplaced(value, note)) {
            policy_prefix_replace(policy, value, note);
            continue;
        }
        if ((value->flags & VALUE_FLAG_PARENT) != 0 && (note.flags & REUSE_NOTE_SEEN) != 0) {
            policy_prefix_note_gone(policy, value, note);
        }
        break;
    }
    return value;
}

const struct policy_ops policy_prefix = {
    .name = "prefix",
    .summary = "Evicts chains of blocks from their tails, first whose kind seldom comes back.",
    .create = policy_prefix_create,
    .destroy = policy_prefix_destroy,
    .insert = policy_prefix_insert,
    .touch = policy_prefix_touch,
    .remove = policy_prefix_remove,
    .end = policy_prefix_end,
    .victim = policy_prefix_victim,
};
