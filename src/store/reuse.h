#pragma once
/* reuse – what is known about how stored values come back: how often and how soon values of each kind
 * were read again, and notes on single values that outlive them. One object serves all shards of a
 * process, because a chain of blocks lies in many: each shard counts for itself, and reads what all
 * counted; a note may be overwritten by any other at any time, which costs knowledge and nothing else. */

#include "base/metric.h"

#include <stddef.h>
#include <stdint.h>

/* Ages are insertions into a shard, by powers of two and one step between each two. */
#define REUSE_AGE_STEP_BITS 1U
#define REUSE_AGES          (32U << REUSE_AGE_STEP_BITS)
/* The kinds of a family learn from each other which ages are usual. The first ones make families of two:
 * values as they came, and those that were read since. One kind is alone: leaves, which are worth less than
 * what they continue. The others are one family. */
#define REUSE_KINDS      11U
#define REUSE_KIND_LEAF  6U
#define REUSE_KIND_CHAIN 7U
#define REUSE_FAMILIES   (REUSE_KIND_LEAF / 2 + 2)

#define REUSE_NOTE_KIND       15U /* the kind that it was of */
#define REUSE_NOTE_SEEN       16U /* it was stored; else only named as a parent */
#define REUSE_NOTE_COUNTED    32U /* it was counted among its kind, and its return will be */
#define REUSE_NOTE_GONE       64U /* it was evicted and did not come back */
#define REUSE_NOTE_KIDS_SHIFT 7U  /* how many values continued it, up to as many */
#define REUSE_NOTE_KIDS_MAX   3U
#define REUSE_NOTE_PARENT     (REUSE_NOTE_KIDS_MAX << REUSE_NOTE_KIDS_SHIFT) /* any did */
#define REUSE_NOTE_TURN_SHIFT \
    9U /* how often what it belongs to was asked for again, up to as often */
#define REUSE_NOTE_TURN_MAX 3U

struct reuse;

struct reuse_note {
    uint32_t stamp; /* when it was last stored or read, by the clock of its shard */
    uint32_t flags; /* 0: nothing is known */
};

/* How dear it is to lose what was not read for so long, by kind and age: expected reads for the memory
 * that they take until then, in any unit. Never grows with age. */
struct reuse_ranks {
    uint64_t ranks[REUSE_KINDS][REUSE_AGES];
};

/* What it takes of the process's memory, when all that may be stored has so many bytes. */
size_t reuse_bytes(uint32_t shard_count, uint64_t store_bytes);
/* NULL: out of memory. */
struct reuse *reuse_create(uint32_t shard_count, uint64_t store_bytes);
void reuse_destroy(struct reuse **reuse_p);

struct reuse_note reuse_find_note(const struct reuse *reuse, uint64_t hash);
void reuse_set_note(struct reuse *reuse, uint64_t hash, struct reuse_note note);

/* Whoever works on that shard: a value, or the part of a chain that it leads, became of that kind. */
void reuse_count_birth(struct reuse *reuse, uint32_t shard, uint32_t kind);
/* It was read, or asked for after it had gone, at that age. */
void reuse_count_return(struct reuse *reuse, uint32_t shard, uint32_t kind, uint32_t age);

void reuse_rank(const struct reuse *reuse, struct reuse_ranks *ranks_p);
/* The column of an age. */
static inline uint32_t reuse_age_index(uint32_t age)
{
    if (age < (1U << REUSE_AGE_STEP_BITS)) {
        return age;
    }
    uint32_t power = 31U - (uint32_t)__builtin_clz(age);
    return (power << REUSE_AGE_STEP_BITS) +
           (age >> (power - REUSE_AGE_STEP_BITS)) % (1U << REUSE_AGE_STEP_BITS);
}
