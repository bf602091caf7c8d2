#include "client/segment.h"

#include "base/check.h"
#include "base/copy.h"

void segment_init(struct segment_cursor *cursor, const struct iovec *segments,
                  uint32_t segment_count)
{
    *cursor = (struct segment_cursor){.segments = segments, .segment_count = segment_count};
}

size_t segment_total_bytes(const struct iovec *segments, uint32_t segment_count)
{
    size_t total = 0;
    for (uint32_t i = 0; i < segment_count; i++) {
        total += segments[i].iov_len;
    }
    return total;
}

uint32_t segment_peek(const struct segment_cursor *cursor, size_t length_bytes,
                      struct iovec *vector, uint32_t vector_max, size_t *bytes_p)
{
    uint32_t used = 0;
    size_t taken = 0;
    size_t offset = cursor->offset_bytes;
    for (uint32_t i = cursor->index;
         i < cursor->segment_count && used < vector_max && taken < length_bytes; i++) {
        size_t piece = cursor->segments[i].iov_len - offset;
        if (piece > length_bytes - taken) {
            piece = length_bytes - taken;
        }
        if (piece > 0) {
            vector[used].iov_base = (char *)cursor->segments[i].iov_base + offset;
            vector[used].iov_len = piece;
            used++;
            taken += piece;
        }
        offset = 0;
    }
    *bytes_p = taken;
    return used;
}

void segment_skip(struct segment_cursor *cursor, size_t length_bytes)
{
    while (length_bytes > 0) {
        check(cursor->index < cursor->segment_count);
        size_t left = cursor->segments[cursor->index].iov_len - cursor->offset_bytes;
        if (length_bytes < left) {
            cursor->offset_bytes += length_bytes;
            return;
        }
        length_bytes -= left;
        cursor->index++;
        cursor->offset_bytes = 0;
    }
}

void segment_fill(struct segment_cursor *cursor, const void *from, size_t length_bytes)
{
    const char *next = from;
    while (length_bytes > 0) {
        struct iovec piece;
        size_t bytes;
        uint32_t count = segment_peek(cursor, length_bytes, &piece, 1, &bytes);
        check(count == 1);
        copy_payload(piece.iov_base, next, bytes);
        segment_skip(cursor, bytes);
        next += bytes;
        length_bytes -= bytes;
    }
}

void segment_drain(struct segment_cursor *cursor, void *to, size_t length_bytes)
{
    char *next = to;
    while (length_bytes > 0) {
        struct iovec piece;
        size_t bytes;
        uint32_t count = segment_peek(cursor, length_bytes, &piece, 1, &bytes);
        check(count == 1);
        copy_payload(next, piece.iov_base, bytes);
        segment_skip(cursor, bytes);
        next += bytes;
        length_bytes -= bytes;
    }
}
