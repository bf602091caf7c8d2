#include "base/spsc.h"

#include "base/check.h"

#include <stdatomic.h>
#include <stdlib.h>

#define SPSC_CAPACITY_MAX (1U << 24)

/* Indexes grow without end and are masked on use: head == tail is empty, tail - head is the count.
 * Each side's line holds what that side writes, with its last look at the other's index, so that the
 * line of the other is fetched only when the ring seems full or empty. */
struct spsc {
    void **slots; /* owned; the pointers are borrowed */
    uint32_t mask;
    ATTR_ALIGNED(CACHE_LINE_BYTES) _Atomic uint32_t tail; /* producer's */
    uint32_t head_seen;
    ATTR_ALIGNED(CACHE_LINE_BYTES) _Atomic uint32_t head; /* consumer's */
    uint32_t tail_seen;
};

struct spsc *spsc_create(uint32_t capacity)
{
    check(capacity > 0 && capacity <= SPSC_CAPACITY_MAX);
    uint32_t rounded = 1;
    while (rounded < capacity) {
        rounded *= 2;
    }
    struct spsc *ring = aligned_alloc(CACHE_LINE_BYTES, sizeof(*ring));
    if (ring == NULL) {
        return NULL;
    }
    *ring = (struct spsc){.mask = rounded - 1};
    ring->slots = calloc(rounded, sizeof(void *));
    if (ring->slots == NULL) {
        free(ring);
        return NULL;
    }
    return ring;
}

void spsc_destroy(struct spsc **ring_p)
{
    struct spsc *ring = *ring_p;
    *ring_p = NULL;
    if (ring != NULL) {
        free(ring->slots);
        free(ring);
    }
}

bool spsc_push(struct spsc *ring, void *pointer)
{
    check(pointer != NULL);
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail - ring->head_seen > ring->mask) {
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (tail - ring->head_seen > ring->mask) {
            return false;
        }
    }
    ring->slots[tail & ring->mask] = pointer;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_seq_cst);
    return true;
}

void *spsc_pop(struct spsc *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == ring->tail_seen) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_seq_cst);
        if (head == ring->tail_seen) {
            return NULL;
        }
    }
    void *pointer = ring->slots[head & ring->mask];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return pointer;
}

bool spsc_empty(const struct spsc *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_relaxed) ==
           atomic_load_explicit(&ring->tail, memory_order_seq_cst);
}
