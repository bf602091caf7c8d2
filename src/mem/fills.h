#pragma once
/* fills – the pages that one shard has cut into runs, by how full they are, so that the one that is
 * drained with least copying is found at once. For the files of this layer only; one thread. Embedded
 * in struct extents; chains the pages through their records in the pool's bookkeeping. */

#include "base/compiler.h"
#include "mem/pages.h"

#include <stdbool.h>
#include <stdint.h>

/* A page changes its list when 1/64 of it was taken or given: seldom enough to cost nothing, fine
 * enough to tell pages of a full store apart. */
#define FILLS_LEVELS 65U
/* The list of pages that were tried in vain. */
#define FILLS_SET_ASIDE FILLS_LEVELS

struct fills {
    struct pages *pages;  /* borrowed */
    uint32_t level_shift; /* units of one level: a power of two, for this runs with each SET */
    uint32_t first[FILLS_LEVELS + 1]; /* PAGES_NONE: the list is empty */
};

void fills_init(struct fills *fills, struct pages *pages);
/* A page that is not in a list yet. */
void fills_insert(struct fills *fills, uint32_t page);
void fills_remove(struct fills *fills, uint32_t page);
/* The page's used_units have changed. It is in a list. */
void fills_update(struct fills *fills, uint32_t page);
/* The page that is least full, PAGES_NONE when it is fuller than level_max 64ths or there is none. */
uint32_t fills_find_sparsest(const struct fills *fills, uint32_t level_max);
/* A page that is in no list is not found any more before fills_look_again. */
void fills_set_aside(struct fills *fills, uint32_t page);
/* For up to count_max pages. */
void fills_look_again(struct fills *fills, uint32_t count_max);
