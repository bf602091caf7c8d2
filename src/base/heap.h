#pragma once
/* heap – binary min-heap of deadlines with members that know their place, so that one can be
 * removed or moved in O(log n). Owns the array of pointers (fixed capacity), borrows the members.
 * One thread. */

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

#define HEAP_NONE UINT32_MAX

struct heap_member {
    int64_t deadline_us;
    uint32_t place; /* HEAP_NONE while in no heap */
};

struct heap {
    struct heap_member **members; /* owned */
    uint32_t count;
    uint32_t capacity;
};

ATTR_MUST_USE bool heap_init(struct heap *heap, uint32_t capacity);
void heap_fini(struct heap *heap);
/* False: full. */
ATTR_MUST_USE bool heap_push(struct heap *heap, struct heap_member *member);
void heap_remove(struct heap *heap, struct heap_member *member);
/* The member with the earliest deadline, borrowed; NULL when empty. */
struct heap_member *heap_find_first(const struct heap *heap);
