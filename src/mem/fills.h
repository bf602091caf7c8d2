#pragma once
/* fills – the pages that one shard has cut into runs, by how full they are, so that the one that is
 * drained with least copying is found at once. For the files of this layer only; one thread. Embedded
 * in struct extents; chains the pages through their records in the pool's bookkeeping.
 *
 * A page is never fuller than nothing tells: it moves to a lower list when runs are given back, and to
 * a higher one only when somebody looks for a sparse page and finds it there. So a take costs nothing,
 * and values that come and go in a page at the edge of two levels do not move it back and forth. */

#include "base/compiler.h"
#include "mem/pages.h"

#include <stdbool.h>
#include <stdint.h>

/* A page changes its list when 1/64 of it was taken or given: seldom enough to cost nothing, fine
 * enough to tell pages of a full store apart. */
#define FILLS_LEVELS 65U
/* The list of pages that were tried in vain. */
#define FILLS_SET_ASIDE FILLS_LEVELS
/* About 50 us of work. */
#define FILLS_STALE_MAX 4096U

struct fills {
    struct pages *pages;  /* borrowed */
    uint32_t level_shift; /* units of one level: a power of two, for this runs with each SET */
    uint32_t first[FILLS_LEVELS + 1]; /* PAGES_NONE: the list is empty */
};

void fills_init(struct fills *fills, struct pages *pages);
/* A page that is not in a list yet. */
void fills_insert(struct fills *fills, uint32_t page);
void fills_remove(struct fills *fills, uint32_t page);
/* The page, which is in a list, has become less full than its list's. */
void fills_sink(struct fills *fills, uint32_t page);
/* The page that is least full, PAGES_NONE when it is fuller than level_max 64ths or there is none. Of
 * pages that are fuller than their list says it puts as many right as it meets, FILLS_STALE_MAX at
 * most; beyond that it answers PAGES_NONE, and the next call goes on. */
uint32_t fills_find_sparsest(struct fills *fills, uint32_t level_max);
/* A page that is in no list is not found any more before fills_look_again. */
void fills_set_aside(struct fills *fills, uint32_t page);
/* For up to count_max pages. */
void fills_look_again(struct fills *fills, uint32_t count_max);

/* A level for used_units, 0 … FILLS_LEVELS - 1. */
static inline uint32_t fills_level(const struct fills *fills, uint32_t used_units)
{
    return used_units >> fills->level_shift;
}
