#include "base/byte_ring.h"

#include "base/check.h"

#include <stdatomic.h>
#include <string.h>

#define CAPACITY_MIN_BYTES 4096U
#define CAPACITY_MAX_BYTES (1U << 30)

/* Each line is written by one side, but for the flags, which the other side takes down. */
struct byte_ring_shared {
    ATTR_ALIGNED(CACHE_LINE_BYTES) _Atomic uint32_t written; /* by the writer, modulo 2^32 */
    ATTR_ALIGNED(CACHE_LINE_BYTES) _Atomic uint32_t read;    /* by the reader */
    ATTR_ALIGNED(CACHE_LINE_BYTES) _Atomic uint32_t reader_sleeps;
    ATTR_ALIGNED(CACHE_LINE_BYTES) _Atomic uint32_t writer_sleeps;
};

void byte_ring_attach(struct byte_ring *ring, void *memory, uint32_t capacity_bytes)
{
    check(capacity_bytes >= CAPACITY_MIN_BYTES && capacity_bytes <= CAPACITY_MAX_BYTES &&
          (capacity_bytes & (capacity_bytes - 1)) == 0);
    _Static_assert(sizeof(struct byte_ring_shared) <= BYTE_RING_HEADER_BYTES, "header");
    *ring = (struct byte_ring){.shared = memory,
                               .bytes = (uint8_t *)memory + BYTE_RING_HEADER_BYTES,
                               .capacity_bytes = capacity_bytes};
}

/* Copies between a piece and the ring at the given position, around the end. */
static void copy_in(const struct byte_ring *ring, uint32_t position, const uint8_t *from,
                    size_t length_bytes)
{
    size_t at = position & (ring->capacity_bytes - 1);
    size_t first = ring->capacity_bytes - at;
    first = first < length_bytes ? first : length_bytes;
    memcpy(ring->bytes + at, from, first);
    memcpy(ring->bytes, from + first, length_bytes - first);
}

static void copy_out(const struct byte_ring *ring, uint32_t position, uint8_t *to,
                     size_t length_bytes)
{
    size_t at = position & (ring->capacity_bytes - 1);
    size_t first = ring->capacity_bytes - at;
    first = first < length_bytes ? first : length_bytes;
    memcpy(to, ring->bytes + at, first);
    memcpy(to + first, ring->bytes, length_bytes - first);
}

ssize_t byte_ring_write(struct byte_ring *ring, const struct iovec *pieces, size_t piece_count)
{
    uint32_t read = atomic_load_explicit(&ring->shared->read, memory_order_acquire);
    uint32_t used = ring->position - read;
    size_t room = ring->capacity_bytes - used;
    size_t done = 0;
    if (used > ring->capacity_bytes) {
        return -1;
    }
    for (size_t i = 0; i < piece_count && done < room; i++) {
        size_t part = pieces[i].iov_len < room - done ? pieces[i].iov_len : room - done;
        if (part > 0) {
            copy_in(ring, ring->position + (uint32_t)done, pieces[i].iov_base, part);
        }
        done += part;
    }
    if (done > 0) {
        ring->position += (uint32_t)done;
        atomic_store_explicit(&ring->shared->written, ring->position, memory_order_release);
    }
    return (ssize_t)done;
}

ssize_t byte_ring_read(struct byte_ring *ring, const struct iovec *pieces, size_t piece_count)
{
    uint32_t written = atomic_load_explicit(&ring->shared->written, memory_order_acquire);
    size_t held = written - ring->position;
    size_t done = 0;
    if (held > ring->capacity_bytes) {
        return -1;
    }
    for (size_t i = 0; i < piece_count && done < held; i++) {
        size_t part = pieces[i].iov_len < held - done ? pieces[i].iov_len : held - done;
        if (part > 0) {
            copy_out(ring, ring->position + (uint32_t)done, pieces[i].iov_base, part);
        }
        done += part;
    }
    if (done > 0) {
        ring->position += (uint32_t)done;
        atomic_store_explicit(&ring->shared->read, ring->position, memory_order_release);
    }
    return (ssize_t)done;
}

bool byte_ring_has_bytes(const struct byte_ring *ring)
{
    return atomic_load_explicit(&ring->shared->written, memory_order_acquire) != ring->position;
}

bool byte_ring_has_room(const struct byte_ring *ring)
{
    uint32_t read = atomic_load_explicit(&ring->shared->read, memory_order_acquire);
    return ring->position - read != ring->capacity_bytes;
}

/* The flag is up before the position is looked at, and the peer moves the position before it looks at
 * the flag: full fences on both sides, so that one of them sees the other. */

bool byte_ring_sleep_for_bytes(struct byte_ring *ring)
{
    atomic_store_explicit(&ring->shared->reader_sleeps, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
    if (byte_ring_has_bytes(ring)) {
        byte_ring_awake_for_bytes(ring);
        return false;
    }
    return true;
}

bool byte_ring_sleep_for_room(struct byte_ring *ring)
{
    atomic_store_explicit(&ring->shared->writer_sleeps, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
    if (byte_ring_has_room(ring)) {
        byte_ring_awake_for_room(ring);
        return false;
    }
    return true;
}

void byte_ring_awake_for_bytes(struct byte_ring *ring)
{
    atomic_store_explicit(&ring->shared->reader_sleeps, 0, memory_order_relaxed);
}

void byte_ring_awake_for_room(struct byte_ring *ring)
{
    atomic_store_explicit(&ring->shared->writer_sleeps, 0, memory_order_relaxed);
}

static bool take_down(_Atomic uint32_t *flag)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(flag, memory_order_relaxed) != 0 &&
           atomic_exchange_explicit(flag, 0, memory_order_relaxed) != 0;
}

bool byte_ring_bell_for_bytes(struct byte_ring *ring)
{
    return take_down(&ring->shared->reader_sleeps);
}

bool byte_ring_bell_for_room(struct byte_ring *ring)
{
    return take_down(&ring->shared->writer_sleeps);
}
