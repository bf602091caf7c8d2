#pragma once
/* runs – one shard's allocator of runs (parts of pages) in size classes. Pages come from the common
 * pool when a class has no room and go back at once when their last run is given. One thread; a run's
 * address may be read by others while its owner keeps it.
 *
 * Classes: eight to a doubling, so that rounding wastes at most 12.5 %; below eight units every
 * multiple of the unit. A run starts at a multiple of its class's step (and of 4 KiB from 32 KiB
 * on). An exact-size class appears when one size is asked for again and again and rounding would
 * waste more than 1/64 of it, and goes when its last page does. */

#include "base/compiler.h"
#include "mem/pages.h"

#include <kvasir/types.h>

struct runs;

struct run {
    uint32_t page;         /* PAGES_NONE: no run */
    uint32_t offset_units; /* from the start of the page */
};

/* Borrows pages. NULL when out of memory. */
struct runs *runs_create(struct pages *pages);
/* Every run must have been given back. */
void runs_destroy(struct runs **runs_p);

/* KVASIR_OK; KVASIR_NO_MEMORY when the class is full and no page is free. length_bytes is 1 … page
 * size. */
ATTR_MUST_USE enum kvasir_status runs_take(struct runs *runs, size_t length_bytes,
                                           struct run *run_p);
/* Sets run_p->page to PAGES_NONE. */
void runs_give(struct runs *runs, struct run *run_p);

static inline uint8_t *runs_address(const struct pages *pages, struct run run)
{
    return pages_address(pages, run.page) + (size_t)run.offset_units * pages_unit_bytes(pages);
}

/* What a run of this length would really take now, bytes. */
size_t runs_rounded_bytes(const struct runs *runs, size_t length_bytes);
/* True when runs of exactly this length pack a page with under 3 % loss: an exact or a power-of-two
 * class. */
bool runs_packs_exactly(struct runs *runs, size_t length_bytes);

struct pages *runs_pages(const struct runs *runs);

struct runs_stats {
    uint64_t taken_bytes;  /* of runs handed out, rounded to their class */
    uint32_t page_count;   /* pages this allocator holds */
    uint32_t class_count;  /* classes with at least one page */
    uint32_t exact_count;  /* of those, made on demand */
};
void runs_stats(const struct runs *runs, struct runs_stats *stats_p);
