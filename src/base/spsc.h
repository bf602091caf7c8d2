#pragma once
/* spsc – bounded ring of pointers from one core to one other. One thread pushes, one thread pops;
 * owns its slots, borrows what the pointers name. Lock-free; the stores that matter are
 * sequentially consistent, so that "push, then look whether the consumer sleeps" and "say I sleep,
 * then look whether the ring is empty" cannot both miss. */

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

struct spsc;

/* capacity is rounded up to a power of two. NULL when out of memory. */
struct spsc *spsc_create(uint32_t capacity);
void spsc_destroy(struct spsc **ring_p);

/* Producer. False: full, nothing was taken. */
ATTR_MUST_USE bool spsc_push(struct spsc *ring, void *pointer);

/* Consumer. NULL: empty. */
void *spsc_pop(struct spsc *ring);
bool spsc_empty(const struct spsc *ring);
