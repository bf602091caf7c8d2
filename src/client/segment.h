#pragma once
/* segment – a position in a caller's list of memory pieces. Used by the client's one thread; borrows
 * the list and the memory for as long as the cursor is used. */

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct segment_cursor {
    const struct iovec *segments; /* borrowed from the caller of the client */
    uint32_t segment_count;
    uint32_t index;      /* of the piece the position is in */
    size_t offset_bytes; /* inside it */
};

void segment_init(struct segment_cursor *cursor, const struct iovec *segments,
                  uint32_t segment_count);
/* struct iovec has no const form; this is how memory that is only read gets into one. */
static inline void *segment_base(const void *bytes)
{
    union {
        const void *in;
        void *out;
    } base = {.in = bytes};
    return base.out;
}

size_t segment_total_bytes(const struct iovec *segments, uint32_t segment_count);

/* Describes up to length_bytes from the position on in at most vector_max pieces without moving;
 * returns how many pieces, and how many bytes they hold in *bytes_p. */
uint32_t segment_peek(const struct segment_cursor *cursor, size_t length_bytes,
                      struct iovec *vector, uint32_t vector_max, size_t *bytes_p);
/* Moves on; the list holds at least that much from here. */
void segment_skip(struct segment_cursor *cursor, size_t length_bytes);

/* Copy between the pieces and one run of bytes, moving on. */
void segment_fill(struct segment_cursor *cursor, const void *from, size_t length_bytes);
void segment_drain(struct segment_cursor *cursor, void *to, size_t length_bytes);
