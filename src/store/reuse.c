#include "store/reuse.h"

#include "base/check.h"
#include "base/fault.h"

#include <stdlib.h>

/* Notes take one byte for so many of the store, at least 2 MiB and at most 64 MiB in all. */
#define REUSE_NOTES_SHARE     512U
#define REUSE_NOTES_BITS      18U
#define REUSE_NOTES_BITS_MOST 23U
#define REUSE_TAG_BITS        20U
#define REUSE_FLAG_BITS       12U

/* A shard's counts of a kind are halved at this sum, so that they follow what clients do. */
#define REUSE_COUNT_MAX 32768U
/* So many values are supposed to have come back as often as those of all kinds together: what little
 * was seen of one kind counts little. */
#define REUSE_PRIOR_COUNT 8U

/* Chances and shares are fractions of this. */
#define REUSE_ONE_BITS   16U
#define REUSE_ONE        (1U << REUSE_ONE_BITS)
#define REUSE_CHANCE_MAX (REUSE_ONE - REUSE_ONE / 1024)

struct reuse_counts {
    struct metric births[REUSE_KINDS];
    struct metric returns[REUSE_KINDS][REUSE_AGES];
};

struct reuse {
    uint32_t shard_count;
    struct reuse_counts *counts; /* owned; one for each shard, written by who works on it */
    uint32_t notes_bits;
    struct metric notes[]; /* stamp, flags, tag */
};

static uint32_t reuse_notes_bits(uint64_t store_bytes)
{
    uint64_t notes = store_bytes / REUSE_NOTES_SHARE / sizeof(struct metric);
    uint32_t bits = REUSE_NOTES_BITS;
    while (bits < REUSE_NOTES_BITS_MOST && UINT64_C(2) << bits <= notes) {
        bits++;
    }
    return bits;
}

static size_t reuse_notes_bytes(uint64_t store_bytes)
{
    return sizeof(struct metric) << reuse_notes_bits(store_bytes);
}

size_t reuse_bytes(uint32_t shard_count, uint64_t store_bytes)
{
    return sizeof(struct reuse) + reuse_notes_bytes(store_bytes) +
           shard_count * sizeof(struct reuse_counts);
}

struct reuse *reuse_create(uint32_t shard_count, uint64_t store_bytes)
{
    struct reuse *reuse = fault_hit("store.reuse")
                              ? NULL
                              : calloc(1, sizeof(*reuse) + reuse_notes_bytes(store_bytes));
    struct reuse_counts *counts =
        fault_hit("store.reuse") ? NULL : calloc(shard_count, sizeof(*counts));
    if (reuse == NULL || counts == NULL) {
        free(reuse);
        free(counts);
        return NULL;
    }
    reuse->shard_count = shard_count;
    reuse->counts = counts;
    reuse->notes_bits = reuse_notes_bits(store_bytes);
    return reuse;
}

void reuse_destroy(struct reuse **reuse_p)
{
    if (reuse_p != NULL && *reuse_p != NULL) {
        free((*reuse_p)->counts);
        free(*reuse_p);
        *reuse_p = NULL;
    }
}

/* The highest bits of a hash are kept with the note, the lowest ones name a pair of places. Never 0, so
 * that an empty place is nobody's. */
static uint64_t reuse_tag(uint64_t hash)
{
    uint64_t tag = hash >> (64U - REUSE_TAG_BITS);
    return tag != 0 ? tag : 1;
}

static uint64_t reuse_tag_of_word(uint64_t word)
{
    return word & ((1U << REUSE_TAG_BITS) - 1);
}

struct reuse_note reuse_find_note(const struct reuse *reuse, uint64_t hash)
{
    const struct metric *pair = &reuse->notes[hash & ((1U << reuse->notes_bits) - 2)];
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t word = metric_get(&pair[i]);
        if (reuse_tag_of_word(word) == reuse_tag(hash)) {
            return (struct reuse_note){.stamp = (uint32_t)(word >> 32),
                                       .flags = (uint32_t)(word >> REUSE_TAG_BITS) &
                                                ((1U << REUSE_FLAG_BITS) - 1)};
        }
    }
    return (struct reuse_note){0};
}

/* The clocks of shards go nearly alike: what seems younger than the note is as old. */
static uint32_t reuse_age(uint64_t word, struct reuse_note note)
{
    int32_t age = (int32_t)(note.stamp - (uint32_t)(word >> 32));
    return word == 0 ? UINT32_MAX : age > 0 ? (uint32_t)age : 0;
}

/* Its own place, else an empty one, else that of the older note. */
void reuse_set_note(struct reuse *reuse, uint64_t hash, struct reuse_note note)
{
    struct metric *pair = &reuse->notes[hash & ((1U << reuse->notes_bits) - 2)];
    struct metric *place = &pair[0];
    uint32_t age_max = 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t word = metric_get(&pair[i]);
        if (reuse_tag_of_word(word) == reuse_tag(hash)) {
            place = &pair[i];
            break;
        }
        uint32_t age = reuse_age(word, note);
        if (age >= age_max) {
            age_max = age;
            place = &pair[i];
        }
    }
    metric_set(place, (uint64_t)note.stamp << 32 | (uint64_t)note.flags << REUSE_TAG_BITS |
                          reuse_tag(hash));
}

static void reuse_halve(struct metric *metric)
{
    metric_set(metric, metric_get(metric) / 2);
}

void reuse_count_birth(struct reuse *reuse, uint32_t shard, uint32_t kind)
{
    check(shard < reuse->shard_count && kind < REUSE_KINDS);
    struct reuse_counts *counts = &reuse->counts[shard];
    metric_add(&counts->births[kind], 1);
    if (metric_get(&counts->births[kind]) > REUSE_COUNT_MAX) {
        reuse_halve(&counts->births[kind]);
        for (uint32_t i = 0; i < REUSE_AGES; i++) {
            reuse_halve(&counts->returns[kind][i]);
        }
    }
}

void reuse_count_return(struct reuse *reuse, uint32_t shard, uint32_t kind, uint32_t age)
{
    check(shard < reuse->shard_count && kind < REUSE_KINDS);
    metric_add(&reuse->counts[shard].returns[kind][reuse_age_index(age)], 1);
}

/* ---- ranks ---- */

struct reuse_sums {
    uint64_t births[REUSE_KINDS];
    uint64_t returns[REUSE_KINDS]; /* of any age */
    uint64_t ages[REUSE_FAMILIES][REUSE_AGES];
};

static uint32_t reuse_family(uint32_t kind)
{
    return kind < REUSE_KIND_CHAIN ? kind / 2 : REUSE_FAMILIES - 1;
}

static void reuse_sum(const struct reuse *reuse, struct reuse_sums *sums)
{
    for (uint32_t shard = 0; shard < reuse->shard_count; shard++) {
        const struct reuse_counts *counts = &reuse->counts[shard];
        for (uint32_t kind = 0; kind < REUSE_KINDS; kind++) {
            sums->births[kind] += metric_get(&counts->births[kind]);
            for (uint32_t i = 0; i < REUSE_AGES; i++) {
                uint64_t count = metric_get(&counts->returns[kind][i]);
                sums->returns[kind] += count;
                sums->ages[reuse_family(kind)][i] += count;
            }
        }
    }
}

/* Which share of a family's returns happened at each age. A little is supposed for every age. */
static void reuse_age_shares(const struct reuse_sums *sums, uint32_t family, uint32_t *shares)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < REUSE_AGES; i++) {
        total += sums->ages[family][i] * 8 + 1;
    }
    for (uint32_t i = 0; i < REUSE_AGES; i++) {
        shares[i] = (uint32_t)(((sums->ages[family][i] * 8 + 1) << REUSE_ONE_BITS) / total) + 1;
    }
}

/* How many in REUSE_ONE of a kind come back at all. */
static uint32_t reuse_chance(const struct reuse_sums *sums, uint32_t kind)
{
    uint64_t births = 2;
    uint64_t returns = 1;
    for (uint32_t i = 0; i < REUSE_KINDS; i++) {
        births += sums->births[i];
        returns += sums->returns[i];
    }
    uint64_t usual = (returns << REUSE_ONE_BITS) / births;
    uint64_t chance = ((sums->returns[kind] << REUSE_ONE_BITS) + usual * REUSE_PRIOR_COUNT) /
                      (sums->births[kind] + REUSE_PRIOR_COUNT);
    if (chance == 0) { /* what never came back may: else age and cost would count for nothing */
        return 1;
    }
    return chance > REUSE_CHANCE_MAX ? REUSE_CHANCE_MAX : (uint32_t)chance;
}

/* At each age: kept for one step more, a value is read so often and takes memory for so long. The best step
 * that is still to come counts, because to keep a value for several is never better. */
static void reuse_rank_kind(const uint32_t *shares, uint32_t chance, uint64_t *ranks)
{
    uint64_t never = (uint64_t)(REUSE_ONE - chance) << REUSE_ONE_BITS;
    uint32_t waiting = 0; /* of those that come back: not yet at the end of this age */
    uint64_t best = 0;
    for (uint32_t i = REUSE_AGES; i-- > 0;) {
        uint32_t power = i >> REUSE_AGE_STEP_BITS;
        uint64_t length =
            power < REUSE_AGE_STEP_BITS ? 1 : UINT64_C(1) << (power - REUSE_AGE_STEP_BITS);
        uint64_t reads = (uint64_t)chance * shares[i];
        uint64_t cost = (never + (uint64_t)chance * (waiting + shares[i] / 2)) / 4096 * length;
        uint64_t rank = (reads << 30) / (cost / 1024 + 1);
        waiting += shares[i];
        best = rank > best ? rank : best;
        ranks[i] = best;
    }
}

/* What was read is what others continue: it stays as long as they do, and what a leaf continues a
 * little longer. */
static void reuse_raise_kind(struct reuse_ranks *ranks, uint32_t kind)
{
    if (kind <= REUSE_KIND_LEAF && kind % 2 == 0) {
        return;
    }
    for (uint32_t i = 0; i < REUSE_AGES; i++) {
        uint64_t least = ranks->ranks[kind - 1][i] + (kind == REUSE_KIND_CHAIN ? 1 : 0);
        if (ranks->ranks[kind][i] < least) {
            ranks->ranks[kind][i] = least;
        }
    }
}

void reuse_rank(const struct reuse *reuse, struct reuse_ranks *ranks_p)
{
    struct reuse_sums sums = {0};
    reuse_sum(reuse, &sums);
    for (uint32_t kind = 0; kind < REUSE_KINDS; kind++) {
        uint32_t shares[REUSE_AGES];
        reuse_age_shares(&sums, reuse_family(kind), shares);
        reuse_rank_kind(shares, reuse_chance(&sums, kind), ranks_p->ranks[kind]);
        reuse_raise_kind(ranks_p, kind);
    }
}
