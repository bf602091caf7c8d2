#pragma once
/* reuse – what is known about how stored values come back: how often and how soon values of each kind
 * were read again, and notes on single values that outlive them. One object serves all shards of a
 * process, because a chain of blocks lies in many: each shard counts for itself, and reads what all
 * counted; a note may be overwritten by any other at any time, which costs knowledge and nothing else. */

#include "base/metric.h"

#include <stddef.h>
#include <stdint.h>

/* Ages are insertions into a shard, by powers of two. */
#define REUSE_AGES 32U
/* Two kinds make a family: values as they came, and those that were read since. */
#define REUSE_KINDS 8U

#define REUSE_NOTE_KIND   7U  /* the kind that it was of */
#define REUSE_NOTE_SEEN   8U  /* it was stored; else only named as a parent */
#define REUSE_NOTE_LEADS  16U /* its return is counted for its part of the chain */
#define REUSE_NOTE_PARENT 32U /* another value continues it */
#define REUSE_NOTE_GONE   64U /* it was evicted and did not come back */

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

/* What it takes of the process's memory. */
size_t reuse_bytes(uint32_t shard_count);
/* NULL: out of memory. */
struct reuse *reuse_create(uint32_t shard_count);
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
    return age < 2 ? 0 : 31U - (uint32_t)__builtin_clz(age);
}
