#pragma once
/* read_ahead – bytes taken from a wire before anybody can use them, so that a client that writes all of
 * its requests before it reads a reply does not wait for a server that waits for it. Embedded in the
 * connection; one thread. Owns its chunks: none while it is empty.
 *
 * It never takes a chunk when that would leave others less than half of the pool, and of the other half
 * one connection gets as much as it leaves free: a quarter of the pool alone, less beside others. */

#include "base/compiler.h"
#include "net/chunk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct wire;

struct read_ahead {
    struct chunk *first; /* owned */
    struct chunk *last;
    uint32_t chunk_count;
    uint64_t length_bytes;
};

/* Drops what is left. */
void read_ahead_fini(struct read_ahead *ahead, struct chunk_pool *pool);

static inline bool read_ahead_is_empty(const struct read_ahead *ahead)
{
    return ahead->first == NULL;
}

/* Reads once from the wire. More than 0: so many bytes; *all_p tells whether that is all there was for now.
 * 0: the end. -1: errno of wire_receive, or ENOBUFS: there are chunk_count_max chunks already, or the pool
 * has none for this. */
ATTR_MUST_USE ssize_t read_ahead_receive(struct read_ahead *ahead, struct chunk_pool *pool,
                                         struct wire *wire, uint32_t chunk_count_max, bool *all_p);

/* Moves the oldest bytes to the pieces, as many as there are and fit: more than 0 when neither is empty. */
ATTR_MUST_USE size_t read_ahead_take(struct read_ahead *ahead, struct chunk_pool *pool,
                                     const struct iovec *pieces, size_t count);
