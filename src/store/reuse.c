#include "store/reuse.h"

#include "base/check.h"

#include <stdlib.h>

/* Notes: 2 MiB in all, however large the store is. */
#define REUSE_NOTES_BITS 18U
#define REUSE_TAG_BITS   24U
#define REUSE_FLAG_BITS  8U

/* A shard's counts of a kind are halved at this sum, so that they follow what clients do. */
#define REUSE_COUNT_MAX 512U
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
    struct metric notes[1U << REUSE_NOTES_BITS]; /* stamp, flags, tag */
};

size_t reuse_bytes(uint32_t shard_count)
{
    return sizeof(struct reuse) + shard_count * sizeof(struct reuse_counts);
}

struct reuse *reuse_create(uint32_t shard_count)
{
    struct reuse *reuse = calloc(1, sizeof(*reuse));
    struct reuse_counts *counts = calloc(shard_count, sizeof(*counts));
    if (reuse == NULL || counts == NULL) {
        free(reuse);
        free(counts);
        return NULL;
    }
    reuse->shard_count = shard_count;
    reuse->counts = counts;
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
    const struct metric *pair = &reuse->notes[hash & ((1U << REUSE_NOTES_BITS) - 2)];
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

/* Its own place, else an empty one, else that of the older note. */
void reuse_set_note(struct reuse *reuse, uint64_t hash, struct reuse_note note)
{
    struct metric *pair = &reuse->notes[hash & ((1U << REUSE_NOTES_BITS) - 2)];
    struct metric *place = &pair[0];
    uint32_t age_max = 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t word = metric_get(&pair[i]);
        if (reuse_tag_of_word(word) == reuse_tag(hash)) {
            place = &pair[i];
            break;
        }
        uint32_t age = word == 0 ? UINT32_MAX : note.stamp - (uint32_t)(word >> 32);
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
    uint64_t ages[REUSE_KINDS / 2][REUSE_AGES];
};

static void reuse_sum(const struct reuse *reuse, struct reuse_sums *sums)
{
    for (uint32_t shard = 0; shard < reuse->shard_count; shard++) {
        const struct reuse_counts *counts = &reuse->counts[shard];
        for (uint32_t kind = 0; kind < REUSE_KINDS; kind++) {
            sums->births[kind] += metric_get(&counts->births[kind]);
            for (uint32_t i = 0; i < REUSE_AGES; i++) {
                uint64_t count = metric_get(&counts->returns[kind][i]);
                sums->returns[kind] += count;
                sums->ages[kind / 2][i] += count;
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
        shares[i] = (uint32_t)(((sums->ages[family][i] * 8 + 1) << REUSE_ONE_BITS) / total);
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

/* At each age: kept until a later age, a value is read so often and takes memory for so long; the
 * best ratio over all later ages counts. */
static void reuse_rank_kind(const uint32_t *shares, uint32_t chance, uint64_t *ranks)
{
    uint32_t
        waiting[REUSE_AGES + 1]; /* of those that come back: not yet at the start of this age */
    waiting[0] = REUSE_ONE;
    for (uint32_t i = 0; i < REUSE_AGES; i++) {
        waiting[i + 1] = waiting[i] - (shares[i] < waiting[i] ? shares[i] : waiting[i]);
    }
    uint64_t never = (uint64_t)(REUSE_ONE - chance) << REUSE_ONE_BITS;
    uint64_t least = 0;
    for (uint32_t from = REUSE_AGES; from-- > 0;) {
        uint64_t reads = 0;
        uint64_t cost = 0;
        for (uint32_t i = from; i < REUSE_AGES; i++) {
            uint64_t length = i == 0 ? 2 : UINT64_C(1) << i;
            reads += (uint64_t)chance * shares[i];
            cost +=
                (never + (uint64_t)chance * ((waiting[i] + waiting[i + 1]) / 2)) / 4096 * length;
            uint64_t rank = (reads << 30) / (cost / 1024 + 1);
            least = rank > least ? rank : least;
        }
        ranks[from] = least;
    }
}

void reuse_rank(const struct reuse *reuse, struct reuse_ranks *ranks_p)
{
    struct reuse_sums sums = {0};
    reuse_sum(reuse, &sums);
    for (uint32_t kind = 0; kind < REUSE_KINDS; kind++) {
        uint32_t shares[REUSE_AGES];
        reuse_age_shares(&sums, kind / 2, shares);
        reuse_rank_kind(shares, reuse_chance(&sums, kind), ranks_p->ranks[kind]);
        for (uint32_t i = 0; kind % 2 == 1 && i < REUSE_AGES; i++) {
            uint64_t unread = ranks_p->ranks[kind - 1][i];
            /* What was read is what others continue: it stays as long as they do. */
            if (ranks_p->ranks[kind][i] < unread) {
                ranks_p->ranks[kind][i] = unread;
            }
        }
    }
}
