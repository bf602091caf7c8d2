#pragma once
/* byte_ring – a stream of bytes from one process to another through memory that both map: one writes,
 * one reads. The other process is not trusted: it may put anything at any time into the shared part,
 * so positions are kept privately, what the peer claims is checked at every use, and bytes are copied
 * out before anybody looks at them. Lock-free.
 *
 * Whoever has nothing to do says so with byte_ring_sleep_for_bytes or _for_room before it sleeps; the
 * peer sees that in byte_ring_bell_for_bytes or _for_room after its next step and rings a bell of its
 * own choosing (here: a byte over a socket). The two sides cannot miss each other. */

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define BYTE_RING_HEADER_BYTES 4096U
/* Memory of one ring; capacity_bytes is a power of two, 4096 to 1 GiB. */
#define BYTE_RING_BYTES(capacity_bytes) (BYTE_RING_HEADER_BYTES + (size_t)(capacity_bytes))

struct byte_ring_shared;

/* One side's view of a ring. Embedded; one thread. Borrows the memory. */
struct byte_ring {
    struct byte_ring_shared *shared; /* NULL: not attached */
    uint8_t *bytes;
    uint32_t capacity_bytes;
    uint32_t position; /* bytes written (by the writer) or read (by the reader), modulo 2^32 */
};

/* memory is BYTE_RING_BYTES long, aligned to a page, and was all zero before the first side came. */
void byte_ring_attach(struct byte_ring *ring, void *memory, uint32_t capacity_bytes);

/* Writer: takes what there is room for, and says how many bytes that was; -1: the reader's position
 * cannot be true, the ring is of no use any more. */
ATTR_MUST_USE ssize_t byte_ring_write(struct byte_ring *ring, const struct iovec *pieces,
                                      size_t piece_count);
/* Reader: fills the pieces with what there is; 0: empty; -1: the writer's position cannot be true. */
ATTR_MUST_USE ssize_t byte_ring_read(struct byte_ring *ring, const struct iovec *pieces,
                                     size_t piece_count);

/* Reader: something was written (or claimed to be). */
bool byte_ring_has_bytes(const struct byte_ring *ring);
/* Writer: not full. */
bool byte_ring_has_room(const struct byte_ring *ring);

/* Reader: the writer shall ring after its next write. False: there are bytes; do not sleep. */
ATTR_MUST_USE bool byte_ring_sleep_for_bytes(struct byte_ring *ring);
/* Writer: the reader shall ring after its next read. False: there is room; do not sleep. */
ATTR_MUST_USE bool byte_ring_sleep_for_room(struct byte_ring *ring);
/* Reader and writer: awake again, no bell is needed. */
void byte_ring_awake_for_bytes(struct byte_ring *ring);
void byte_ring_awake_for_room(struct byte_ring *ring);

/* Writer, after writing: the reader sleeps and must be rung for; answers true once. */
ATTR_MUST_USE bool byte_ring_bell_for_bytes(struct byte_ring *ring);
/* Reader, after reading: the same for a writer that waits for room. */
ATTR_MUST_USE bool byte_ring_bell_for_room(struct byte_ring *ring);
