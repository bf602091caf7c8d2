#pragma once
/* meta – memory for values and their keys: runs of the private metadata pages. One shard's thread; owns
 * its runs, borrows the pages. A value's run is found by its address, so that none is stored. */

#include "base/compiler.h"
#include "base/slice.h"
#include "mem/runs.h"
#include "store/value.h"

#include <stdbool.h>

struct meta {
    struct runs *runs; /* owned */
};

/* False: out of memory. The unit of the pages is a multiple of a value's alignment, their
 * memory at most VALUE_MEMORY_BYTES_MAX. */
ATTR_MUST_USE bool meta_init(struct meta *meta, struct pages *pages);
void meta_fini(struct meta *meta);

/* Room for a value with the key copied behind it; all else is zero. NULL when no page is free. */
struct value *meta_take(struct meta *meta, struct slice key);
/* Sets *value_p to NULL. */
void meta_give(struct meta *meta, struct value **value_p);

uint64_t meta_taken_bytes(const struct meta *meta);
uint32_t meta_page_count(const struct meta *meta);
