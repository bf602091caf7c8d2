#pragma once
/* chunk – one reactor's pool of equal pieces of memory for what waits to be read or written. Bounded;
 * what was once allocated stays in the pool. One thread. */

#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

#define CHUNK_BYTES (16U << 10)

struct chunk {
    struct chunk *next;   /* the holder's own */
    uint32_t start_bytes; /* of data: consumed up to here */
    uint32_t end_bytes;   /* of data: filled up to here */
    ATTR_ALIGNED(16) uint8_t data[CHUNK_BYTES - 16];
};

struct chunk_pool {
    struct chunk *free; /* owned */
    uint32_t free_count;
    uint32_t taken_count;
    uint32_t count_max;    /* taken and free together */
    uint32_t beyond_count; /* taken by chunk_take_beyond when the bound was reached */
    uint64_t large_bytes;  /* those, and memory of inputs that outgrew a chunk; see input.c */
    uint64_t large_bytes_max;
};

/* Takes reserve_count chunks from the system now. */
void chunk_pool_init(struct chunk_pool *pool, uint32_t reserve_count, uint32_t count_max);
/* Bytes that may be held beyond the pool's bound, all together; none before this is said. */
void chunk_pool_allow_large(struct chunk_pool *pool, uint64_t large_bytes_max);
/* Every chunk must have come back. */
void chunk_pool_fini(struct chunk_pool *pool);

/* An empty chunk; NULL when the bound is reached or the system has no memory. */
struct chunk *chunk_take(struct chunk_pool *pool);
/* The same, but one that goes beyond the bound is counted in large_bytes, and goes back to the system
 * afterwards: for what can neither wait nor be left out. NULL: that is used up, too. */
struct chunk *chunk_take_beyond(struct chunk_pool *pool);
/* Sets *chunk_p to NULL. */
void chunk_give(struct chunk_pool *pool, struct chunk **chunk_p);
