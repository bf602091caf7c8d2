#pragma once
/* runs – one shard's allocator of runs (parts of pages). Pages come from the common pool when there
 * is no room and go back at once when their last run is given. One thread; a run's address may be
 * read by others while its owner keeps it.
 *
 * Short runs (up to 8 granules of 64 units) come in size classes, eight to a doubling, so that
 * rounding wastes at most 12.5 %; below sixteen units every multiple of the unit. The runs of one
 * class share chunks of 1 to 16 granules, which they fill without loss; a chunk goes back to the
 * free space when its last run is given. An exact-size class appears when one size is asked for
 * again and again and rounding would waste more than 1/64 of it, and goes with its last chunk.
 * Longer runs, and those that fill granules exactly, take whole granules, best fit.
 * A run of a class starts at a multiple of the largest power of two that divides the class's size,
 * one of whole granules at a granule (4 KiB of payload). */

#include "base/compiler.h"
#include "mem/pages.h"

#include <kvasir/types.h>

struct runs;

struct run {
    uint32_t page;         /* PAGES_NONE: no run */
    uint16_t offset_units; /* from the start of the page */
    uint16_t length_units; /* what it takes: at least what was asked for */
};

/* Borrows pages. NULL when out of memory. */
struct runs *runs_create(struct pages *pages);
/* From now on, while nothing is taken, each run has an owner: who is asked when the run is to be moved
 * (mem/drain). Short runs cost 4 bytes more for it, in runs of tables, which outlives this allocator. */
void runs_keep_owners(struct runs *runs, struct runs *tables);
/* Every run must have been given back. */
void runs_destroy(struct runs **runs_p);

/* KVASIR_OK; KVASIR_NO_MEMORY when there is no room in the pages held and no page is free.
 * length_bytes is 1 … page size. */
ATTR_MUST_USE enum kvasir_status runs_take(struct runs *runs, size_t length_bytes,
                                           struct run *run_p);
/* From the pages held only: a run of length_bytes when some free piece is that long, else the longest
 * piece there is if it has min_bytes (both multiples of the granule). For a caller that can live with
 * several parts. KVASIR_OK, or KVASIR_NO_MEMORY when there is no such piece. */
ATTR_MUST_USE enum kvasir_status runs_take_part(struct runs *runs, size_t length_bytes,
                                                size_t min_bytes, struct run *run_p);
/* Sets run_p->page to PAGES_NONE. */
void runs_give(struct runs *runs, struct run *run_p);

/* Whose the runs are that are taken from now on. */
void runs_set_taker(struct runs *runs, uint32_t owner);
uint32_t runs_owner(const struct runs *runs, struct run run);

/* The run that starts at this address and was taken from this allocator. */
struct run runs_find(const struct runs *runs, const void *address);

/* Has the bookkeeping of the run at this address on its way from memory. */
void runs_prefetch(const struct runs *runs, const void *address);

static inline uint8_t *runs_address(const struct pages *pages, struct run run)
{
    return pages_address(pages, run.page) + (size_t)run.offset_units * pages_unit_bytes(pages);
}

/* What a run of this length would take now, bytes. */
size_t runs_rounded_bytes(const struct runs *runs, size_t length_bytes);

/* Pages are taken from this memory node first (0 when nothing is said). */
void runs_set_node(struct runs *runs, uint32_t node);
uint32_t runs_node(const struct runs *runs);
struct pages *runs_pages(const struct runs *runs);

/* Memory of the pages held that no run takes. */
uint64_t runs_slack_bytes(const struct runs *runs);

struct runs_stats {
    uint64_t taken_bytes; /* of runs handed out, rounding included */
    uint64_t slack_bytes; /* of the pages held, not handed out */
    uint32_t page_count;  /* pages this allocator holds */
    uint32_t class_count; /* classes with at least one chunk */
    uint32_t exact_count; /* of those, made on demand */
};
void runs_stats(const struct runs *runs, struct runs_stats *stats_p);
