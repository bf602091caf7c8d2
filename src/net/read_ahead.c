#include "net/read_ahead.h"

#include "base/check.h"
#include "base/copy.h"
#include "net/wire.h"

#include <errno.h>

static void drop_first(struct read_ahead *ahead, struct chunk_pool *pool)
{
    struct chunk *chunk = ahead->first;
    ahead->first = chunk->next;
    if (ahead->first == NULL) {
        ahead->last = NULL;
    }
    ahead->chunk_count--;
    chunk_give(pool, &chunk);
}

void read_ahead_fini(struct read_ahead *ahead, struct chunk_pool *pool)
{
    while (ahead->first != NULL) {
        drop_first(ahead, pool);
    }
    ahead->length_bytes = 0;
}

/* What the pool may give away for this, less what is taken of it for anything. */
static bool pool_allows(const struct read_ahead *ahead, const struct chunk_pool *pool)
{
    uint32_t most_count = pool->count_max / 2;
    return pool->taken_count < most_count && ahead->chunk_count < most_count - pool->taken_count;
}

/* The chunk that the next bytes go to; NULL: there is none. */
static struct chunk *chunk_with_room(struct read_ahead *ahead, struct chunk_pool *pool,
                                     uint32_t chunk_count_max)
{
    if (ahead->last != NULL && ahead->last->end_bytes < sizeof(ahead->last->data)) {
        return ahead->last;
    }
    return ahead->chunk_count < chunk_count_max && pool_allows(ahead, pool) ? chunk_take(pool)
                                                                            : NULL;
}

ssize_t read_ahead_receive(struct read_ahead *ahead, struct chunk_pool *pool, struct wire *wire,
                           uint32_t chunk_count_max, bool *all_p)
{
    struct chunk *chunk = chunk_with_room(ahead, pool, chunk_count_max);
    struct iovec piece;
    ssize_t got;
    if (chunk == NULL) {
        errno = ENOBUFS;
        return -1;
    }
    piece = (struct iovec){.iov_base = chunk->data + chunk->end_bytes,
                           .iov_len = sizeof(chunk->data) - chunk->end_bytes};
    got = wire_receive(wire, &piece, 1);
    if (got <= 0) {
        int error = errno;
        if (chunk != ahead->last) {
            chunk_give(pool, &chunk);
        }
        errno = error;
        return got;
    }
    if (chunk != ahead->last) {
        if (ahead->last == NULL) {
            ahead->first = chunk;
        } else {
            ahead->last->next = chunk;
        }
        ahead->last = chunk;
        ahead->chunk_count++;
    }
    chunk->end_bytes += (uint32_t)got;
    ahead->length_bytes += (uint64_t)got;
    *all_p = (size_t)got < piece.iov_len;
    return got;
}

size_t read_ahead_take(struct read_ahead *ahead, struct chunk_pool *pool,
                       const struct iovec *pieces, size_t count)
{
    size_t taken = 0;
    size_t filled = 0; /* of the first piece */
    while (count > 0 && ahead->first != NULL) {
        struct chunk *chunk = ahead->first;
        size_t have = chunk->end_bytes - chunk->start_bytes;
        size_t room = pieces->iov_len - filled;
        size_t part = have < room ? have : room;
        copy_payload((uint8_t *)pieces->iov_base + filled, chunk->data + chunk->start_bytes, part);
        chunk->start_bytes += (uint32_t)part;
        filled += part;
        taken += part;
        if (part == have) {
            drop_first(ahead, pool);
        }
        if (part == room) {
            pieces++;
            count--;
            filled = 0;
        }
    }
    check(taken <= ahead->length_bytes);
    ahead->length_bytes -= taken;
    return taken;
}
