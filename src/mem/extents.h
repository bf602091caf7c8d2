#pragma once
/* extents – one shard's free space inside the pages it holds, in whole granules: best fit, joined
 * with its free neighbours when given back, and a page that is free all through returns to the
 * common pool at once. For the files of this layer only; one thread. Embedded in struct runs;
 * borrows the pool, keeps its records in the pool's bookkeeping. */

#include "mem/fills.h"
#include "mem/pages_impl.h"

#include <stdbool.h>
#include <stdint.h>

/* A bin for each length there is, so that the best fit is the first bin that is not empty. */
#define EXTENTS_BINS  (PAGES_GRANULES_MAX + 1)
#define EXTENTS_WORDS ((EXTENTS_BINS + 63) / 64)

struct extents {
    struct pages *pages;               /* borrowed */
    struct fills fills;                /* all pages held but the closed one */
    uint32_t page_count;               /* held now */
    uint32_t node;                     /* whose pages are taken first */
    uint32_t closed_page;              /* nothing is taken from it; PAGES_NONE: there is none */
    bool is_kept_to_held;              /* no page is taken from the pool */
    uint64_t bins_used[EXTENTS_WORDS]; /* one bit a bin: not empty */
    uint32_t bins[EXTENTS_BINS];       /* first free piece of that length, or PAGES_NONE */
};

void extents_init(struct extents *extents, struct pages *pages);

/* A piece of exactly length granules (1 … a page), from the free space at hand or else from a fresh
 * page. False: neither has room. *granule_p is pool-wide; the piece is marked TAKEN. */
ATTR_MUST_USE bool extents_take(struct extents *extents, uint32_t length, uint32_t *granule_p);

/* From the free space at hand only: length granules when some piece is that long, else the longest
 * piece if it has length_min granules. False: there is none. The length is in the piece's record. */
ATTR_MUST_USE bool extents_take_part(struct extents *extents, uint32_t length, uint32_t length_min,
                                     uint32_t *granule_p);

/* granule is the first of the piece. When this was the last of the closed page, closed_page is
 * PAGES_NONE. */
void extents_give(struct extents *extents, uint32_t granule);

/* Of a page that is being closed or opened again: takes a free piece out of its bin or puts it back,
 * and does nothing with another. Returns the piece's length. */
uint32_t extents_close_piece(struct extents *extents, uint32_t granule);
uint32_t extents_reopen_piece(struct extents *extents, uint32_t granule);
