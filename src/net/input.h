#pragma once
/* input – the bytes one connection has sent and that are not yet used up. Embedded in the
 * connection; one thread. Owns its memory: nothing while empty, a chunk of the reactor's pool for
 * ordinary requests, memory of its own for a longer one. Bytes stay where they are between calls,
 * except in input_make_room and input_cut. */

#include "base/compiler.h"
#include "net/chunk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
    uint8_t *data; /* NULL while empty */
    size_t capacity_bytes;
    size_t start_bytes;      /* of data: used up to here */
    size_t end_bytes;        /* of data: filled up to here */
    struct chunk *chunk;     /* data lies in it, or NULL: data is memory of its own */
    struct chunk_pool *pool; /* borrowed from the reactor */
};

void input_init(struct input *input, struct chunk_pool *pool);
void input_fini(struct input *input);

static inline uint8_t *input_begin(const struct input *input)
{
    return input->data + input->start_bytes;
}

static inline size_t input_length(const struct input *input)
{
    return input->end_bytes - input->start_bytes;
}

static inline size_t input_room(const struct input *input)
{
    return input->capacity_bytes - input->end_bytes;
}

/* Makes room for at least room_bytes behind the end, by moving bytes to the front or by growing (to
 * a power of two). False: over capacity_max_bytes, or no memory; nothing changed. */
ATTR_MUST_USE bool input_make_room(struct input *input, size_t room_bytes,
                                   size_t capacity_max_bytes);

/* The first length_bytes are used up. Memory goes back to the pool when nothing is left. */
void input_use(struct input *input, size_t length_bytes);

/* Takes length_bytes at offset_bytes from the start out; what is behind moves down. */
void input_cut(struct input *input, size_t offset_bytes, size_t length_bytes);
