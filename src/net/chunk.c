#include "net/chunk.h"

#include "base/check.h"
#include "base/fault.h"

#include <stdlib.h>

static struct chunk *chunk_new(void)
{
    return aligned_alloc(CACHE_LINE_BYTES, sizeof(struct chunk));
}

void chunk_pool_init(struct chunk_pool *pool, uint32_t reserve_count, uint32_t count_max)
{
    *pool = (struct chunk_pool){.count_max = count_max};
    for (uint32_t i = 0; i < reserve_count && i < count_max; i++) {
        struct chunk *chunk = chunk_new();
        if (chunk == NULL) {
            break;
        }
        chunk->next = pool->free;
        pool->free = chunk;
        pool->free_count++;
    }
}

void chunk_pool_allow_large(struct chunk_pool *pool, uint64_t large_bytes_max)
{
    pool->large_bytes_max = large_bytes_max;
}

void chunk_pool_fini(struct chunk_pool *pool)
{
    check(pool->taken_count == 0 && pool->large_bytes == 0);
    while (pool->free != NULL) {
        struct chunk *chunk = pool->free;
        pool->free = chunk->next;
        free(chunk);
    }
    *pool = (struct chunk_pool){0};
}

static struct chunk *chunk_made_empty(struct chunk *chunk)
{
    chunk->next = NULL;
    chunk->start_bytes = 0;
    chunk->end_bytes = 0;
    return chunk;
}

struct chunk *chunk_take(struct chunk_pool *pool)
{
    struct chunk *chunk = pool->free;
    if (fault_hit("net.chunk")) {
        return NULL;
    }
    if (chunk != NULL) {
        pool->free = chunk->next;
        pool->free_count--;
    } else {
        if (pool->taken_count >= pool->count_max) {
            return NULL;
        }
        chunk = chunk_new();
        if (chunk == NULL) {
            return NULL;
        }
    }
    pool->taken_count++;
    return chunk_made_empty(chunk);
}

struct chunk *chunk_take_beyond(struct chunk_pool *pool)
{
    struct chunk *chunk = chunk_take(pool);
    if (chunk != NULL || pool->large_bytes + sizeof(*chunk) > pool->large_bytes_max ||
        fault_hit("net.chunk_beyond")) {
        return chunk;
    }
    chunk = chunk_new();
    if (chunk == NULL) {
        return NULL;
    }
    pool->beyond_count++;
    pool->large_bytes += sizeof(*chunk);
    return chunk_made_empty(chunk);
}

void chunk_give(struct chunk_pool *pool, struct chunk **chunk_p)
{
    struct chunk *chunk = *chunk_p;
    if (chunk == NULL) {
        return;
    }
    *chunk_p = NULL;
    if (pool->beyond_count > 0) { /* one is as good as another */
        pool->beyond_count--;
        pool->large_bytes -= sizeof(*chunk);
        free(chunk);
        return;
    }
    check(pool->taken_count > 0);
    pool->taken_count--;
    chunk->next = pool->free;
    pool->free = chunk;
    pool->free_count++;
}
