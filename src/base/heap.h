#pragma once
/* heap – binary min-heap of deadlines with members that know their place, so that one can be
 * removed or moved in O(log n). Borrows the array of pointers (fixed capacity) and the members.
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
    struct heap_member **members; /* borrowed from whoever called init */
    uint32_t count;
    uint32_t capacity;
};

/* members: room for as many as capacity, which lives as long as the heap. */
void heap_init(struct heap *heap, struct heap_member **members, uint32_t capacity);
/* False: full. */
ATTR_MUST_USE bool heap_push(struct heap *heap, struct heap_member *member);
void heap_remove(struct heap *heap, struct heap_member *member);
/* The member with the earliest deadline, borrowed; NULL when empty. */
struct heap_member *heap_find_first(const struct heap *heap);
