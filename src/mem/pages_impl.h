#pragma once
/* pages_impl – the inside of the page pool, for the files of this layer only: runs and extents keep
 * their records in it, and addresses are computed inline. A granule's record belongs to the shard
 * that took its page. */

#include "mem/numa.h"
#include "mem/pages.h"

#include <stddef.h>

/* What the piece (of one or more granules) is that a granule begins, ends or lies in. */
enum granule_state {
    GRANULE_FREE = 0,  /* first and last granule of free space */
    GRANULE_TAKEN = 1, /* first and last granule of one run of whole granules */
    GRANULE_CHUNK = 2, /* every granule of a chunk that is cut into runs of one class */
};

/* Valid in the first and last granule of a piece, and in every granule of a chunk: length, first,
 * state. The rest is valid in the first granule only. */
struct granule {
    union {
        uint64_t free_bits; /* of a chunk: one bit a run, 1 = free */
        uint64_t owner;     /* of a run of whole granules */
    };
    uint32_t next;   /* in the free bin or in the class's list of chunks with room; pool-wide */
    uint32_t prev;   /* granule numbers; PAGES_NONE at the ends */
    uint32_t owners; /* of a chunk: where the owners of its runs are kept, in units */
    uint32_t length : 10;    /* of the piece, in granules */
    uint32_t first : 9;      /* granule of the page where the piece begins */
    uint32_t run_class : 11; /* of a chunk */
    uint32_t state : 2;      /* enum granule_state */
};
_Static_assert(sizeof(struct granule) == 24, "bookkeeping is 0.6 % of payload, not more");

struct stack;

struct pages {
    uint8_t *base;                            /* borrowed from the region */
    struct page *pages;                       /* owned; one a page */
    struct granule *granules;                 /* owned; granules_per_page for each page */
    struct region *region;                    /* borrowed */
    struct stack *free_pages[NUMA_NODES_MAX]; /* owned; by node */
    struct stack *absent;                     /* owned; retired pages that have no memory */
    struct stack *unreleased;                 /* owned; retired pages that still have it */
    uint32_t page_bytes;
    uint32_t page_shift;
    uint32_t unit_bytes;
    uint32_t unit_shift;
    uint32_t count;
    uint32_t node_count;
    uint32_t node_pages; /* so many pages in a row are of one node */
    uint32_t granules_per_page;
    uint32_t granules_shift; /* pool-wide granule number = page << granules_shift | granule */
};

static inline uint8_t *pages_unit_address(const struct pages *pages, uint32_t page,
                                          uint32_t offset_units)
{
    return pages->base + ((size_t)page << pages->page_shift) +
           ((size_t)offset_units << pages->unit_shift);
}
