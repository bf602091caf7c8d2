#pragma once
/* pages – the common page pool over one region, and the bookkeeping of each page, which lives
 * outside the region where no peer can reach it. Taking and giving pages: any thread. The fields of
 * a page belong to the shard that took it. Owns the bookkeeping, borrows the region. */

#include "base/compiler.h"
#include "mem/region.h"

#include <stdbool.h>
#include <stdint.h>

#define PAGES_NONE UINT32_MAX

struct pages;

/* One page's bookkeeping. next chains the pages of one value (or of one list of the owner). */
struct page {
    uint32_t next;
    uint32_t prev;
    uint32_t used_runs;      /* of a page cut into runs */
    uint16_t run_class;      /* class of the runs, or PAGE_CLASS_WHOLE */
    uint16_t search_word;    /* where to look for a free run next */
    uint64_t *run_bitmap;    /* owned by the pool; one bit a run, 1 = taken */
};
#define PAGE_CLASS_WHOLE UINT16_MAX

/* unit_bytes: the smallest run (and the granule of run offsets). All pages start free.
 * NULL when out of memory. */
struct pages *pages_create(struct region *region, uint32_t page_bytes, uint32_t unit_bytes);
void pages_destroy(struct pages **pages_p);

/* False: none is free. The caller owns the page until it gives it back. */
ATTR_MUST_USE bool pages_take(struct pages *pages, uint32_t *page_p);
void pages_give(struct pages *pages, uint32_t page);

struct page *pages_find(const struct pages *pages, uint32_t page);
uint8_t *pages_address(const struct pages *pages, uint32_t page);
uint8_t *pages_base(const struct pages *pages);
uint32_t pages_page_bytes(const struct pages *pages);
uint32_t pages_unit_bytes(const struct pages *pages);
uint32_t pages_count(const struct pages *pages);
/* Free now; exact only while nobody takes or gives. */
uint32_t pages_free_count(const struct pages *pages);
