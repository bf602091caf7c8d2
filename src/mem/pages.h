#pragma once
/* pages – the common page pool over one region, and the bookkeeping of each page, which lives
 * outside the region where no peer can reach it. Taking and giving pages: any thread. The fields of
 * a page belong to the shard that took it. Owns the bookkeeping, borrows the region. */

#include "base/compiler.h"
#include "mem/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGES_NONE UINT32_MAX

/* A page is also seen as granules of this many units (4 KiB of payload): what runs are cut from. */
#define PAGES_GRANULE_UNITS 64U
#define PAGES_GRANULES_MAX  512U

struct pages;

/* One page's bookkeeping. next and prev chain the pages of one value, or of one list of the owner;
 * PAGES_NONE when the page is taken. The rest is of a page that is cut into runs, 0 of a whole one. */
struct page {
    uint32_t next;
    uint32_t prev;
    uint32_t used_units;    /* of runs handed out */
    uint16_t used_granules; /* in pieces that are not free */
    uint8_t level;          /* the list of fills that it is in */
};

/* unit_bytes: the smallest run (and the granule of run offsets), a power of two. page_bytes is a
 * power of two, 16 to 512 granules. All pages start free. NULL when out of memory. The bookkeeping
 * is memory that is first touched in use (pages_bookkeeping_bytes says how much it can become). */
struct pages *pages_create(struct region *region, uint32_t page_bytes, uint32_t unit_bytes);

struct pages_config {
    struct region *region; /* borrowed; outlives the pool */
    uint32_t page_bytes, unit_bytes;
    uint32_t present_count; /* pages that have memory; the others can be had later */
    uint32_t node_count;    /* memory nodes that they are spread over (region_spread) */
};
/* The same with less than the whole region, or on several nodes. */
struct pages *pages_create_with(const struct pages_config *config);
void pages_destroy(struct pages **pages_p);

/* One of the node's if there is one, else another's. False: none is free. The caller owns the page until
 * it gives it back. */
ATTR_MUST_USE bool pages_take(struct pages *pages, uint32_t node, uint32_t *page_p);
void pages_give(struct pages *pages, uint32_t page);

/* A free page cannot be taken any more; it keeps its memory. False: none is free. */
ATTR_MUST_USE bool pages_retire(struct pages *pages);
/* A retired page's memory goes back to the kernel, which takes a while (2 MiB: up to 0.1 ms). False: none has
 * any, or the kernel does not take it (region_release). */
bool pages_release(struct pages *pages);
/* A page that was retired, or never had memory, has it (gets it now, with fill) and is free. False: there is
 * none, or no memory. */
ATTR_MUST_USE bool pages_restore(struct pages *pages, bool fill);

struct page *pages_find(const struct pages *pages, uint32_t page);
/* The node that the page's memory was asked from. */
uint32_t pages_node(const struct pages *pages, uint32_t page);
uint8_t *pages_address(const struct pages *pages, uint32_t page);
uint8_t *pages_base(const struct pages *pages);
uint32_t pages_page_bytes(const struct pages *pages);
uint32_t pages_unit_bytes(const struct pages *pages);
uint32_t pages_count(const struct pages *pages);
/* Those that are not retired: as many as can be taken at all. */
uint32_t pages_present_count(const struct pages *pages);
/* Whether the memory of retired pages goes back to the kernel. */
bool pages_can_release(const struct pages *pages);
/* Retired pages that still have memory: not released yet, or the kernel did not take it back. */
uint32_t pages_unreleased_count(const struct pages *pages);
/* Free now; exact only while nobody takes or gives. */
uint32_t pages_free_count(const struct pages *pages);
/* Memory outside the region that this pool takes when all that is present is in use: part of
 * maxmemory. */
size_t pages_bookkeeping_bytes(const struct pages *pages);
