#pragma once
/* kept – what a request holds on to from one round to the next: pins on values it has read, and memory
 * to work in. Owned by the request; used by its connection's thread; ends with the request or the
 * connection. */

#include <stddef.h>
#include <stdint.h>

struct reactor;
struct value;

struct kept {
    uint32_t value_count;
    uint32_t capacity;
    struct value **values; /* each with a pin, or NULL: there was no such key */
    uint32_t *shards;      /* which the pins go back to */
    uint8_t *memory;       /* memory_bytes of it, all zero at first */
    size_t memory_bytes;
    size_t taken_bytes; /* counted in the reactor's kept_bytes */
};

/* Room for so many values and bytes; NULL: not now, or more than all requests of a reactor may have
 * together. */
struct kept *kept_create(struct reactor *reactor, uint32_t capacity, size_t memory_bytes);
/* Takes over the pin; there must be room. Sets *value_p to NULL. */
void kept_add(struct kept *kept, uint32_t shard, struct value **value_p);
/* Gives the pins back. NULL in is fine. */
void kept_destroy(struct reactor *reactor, struct kept **kept_p);
