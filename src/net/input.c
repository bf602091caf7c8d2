#include "net/input.h"

#include "base/check.h"
#include "base/fault.h"

#include <stdlib.h>
#include <string.h>

void input_init(struct input *input, struct chunk_pool *pool)
{
    *input = (struct input){.pool = pool};
}

static void release_memory(struct input *input)
{
    if (input->chunk != NULL) {
        chunk_give(input->pool, &input->chunk);
    } else if (input->data != NULL) {
        input->pool->large_bytes -= input->capacity_bytes;
        free(input->data);
    }
    *input = (struct input){.pool = input->pool};
}

void input_fini(struct input *input)
{
    release_memory(input);
}

static bool take_chunk(struct input *input)
{
    input->chunk = chunk_take(input->pool);
    if (input->chunk == NULL) {
        return false;
    }
    input->data = input->chunk->data;
    input->capacity_bytes = sizeof(input->chunk->data);
    input->start_bytes = 0;
    input->end_bytes = 0;
    return true;
}

static bool grow(struct input *input, size_t capacity_bytes)
{
    size_t length = input_length(input);
    struct chunk_pool *pool = input->pool;
    uint8_t *data;
    /* What it has now goes back at once. */
    size_t former_bytes = input->chunk == NULL ? input->capacity_bytes : 0;
    if (pool->large_bytes - former_bytes + capacity_bytes > pool->large_bytes_max ||
        fault_hit("net.input")) {
        return false;
    }
    data = malloc(capacity_bytes);
    if (data == NULL) {
        return false;
    }
    pool->large_bytes += capacity_bytes;
    if (length > 0) {
        memcpy(data, input_begin(input), length);
    }
    release_memory(input);
    *input = (struct input){
        .data = data, .capacity_bytes = capacity_bytes, .end_bytes = length, .pool = pool};
    return true;
}

bool input_make_room(struct input *input, size_t room_bytes, size_t capacity_max_bytes)
{
    size_t length = input_length(input);
    size_t capacity;
    if (input->data == NULL && room_bytes <= sizeof(((struct chunk *)0)->data)) {
        return take_chunk(input);
    }
    if (input_room(input) >= room_bytes) {
        return true;
    }
    if (input->start_bytes > 0 && input->capacity_bytes - length >= room_bytes) {
        memmove(input->data, input_begin(input), length);
        input->start_bytes = 0;
        input->end_bytes = length;
        return true;
    }
    if (room_bytes > capacity_max_bytes || length > capacity_max_bytes - room_bytes) {
        return false;
    }
    capacity = 2 * CHUNK_BYTES;
    while (capacity < length + room_bytes) {
        capacity *= 2;
    }
    return grow(input, capacity);
}

void input_use(struct input *input, size_t length_bytes)
{
    check(length_bytes <= input_length(input));
    input->start_bytes += length_bytes;
    if (input->start_bytes == input->end_bytes && input->data != NULL) {
        release_memory(input);
    }
}

void input_cut(struct input *input, size_t offset_bytes, size_t length_bytes)
{
    uint8_t *at = input_begin(input) + offset_bytes;
    check(offset_bytes + length_bytes <= input_length(input));
    memmove(at, at + length_bytes, input_length(input) - offset_bytes - length_bytes);
    input->end_bytes -= length_bytes;
}
