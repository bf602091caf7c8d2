#include "server/kept.h"

#include "base/check.h"
#include "base/fault.h"
#include "server/pin_mail.h"
#include "server/reactor.h"

#include <stdlib.h>

/* All requests of a reactor together: as much as the answers of one gather. */
#define KEPT_BYTES_MAX (64U << 20)

struct kept *kept_create(struct reactor *reactor, uint32_t capacity, size_t memory_bytes)
{
    struct kept *kept;
    size_t pins_bytes = (size_t)capacity * (sizeof(struct value *) + sizeof(uint32_t));
    size_t bytes;
    if (memory_bytes > KEPT_BYTES_MAX) {
        return NULL; /* it may be what a client said: nothing is added to it before this */
    }
    /* What the caller puts there needs no more than the alignment of a number of 64 bits. */
    memory_bytes = (memory_bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
    bytes = sizeof(*kept) + memory_bytes + pins_bytes;
    if (bytes > KEPT_BYTES_MAX || reactor->kept_bytes > KEPT_BYTES_MAX - bytes ||
        fault_hit("server.kept")) {
        return NULL;
    }
    kept = calloc(1, bytes);
    if (kept == NULL) {
        return NULL;
    }
    kept->capacity = capacity;
    kept->memory = (uint8_t *)(kept + 1);
    kept->memory_bytes = memory_bytes;
    kept->values = (struct value **)(void *)(kept->memory + memory_bytes);
    kept->shards = (uint32_t *)(void *)(kept->values + capacity);
    kept->taken_bytes = bytes;
    reactor->kept_bytes += bytes;
    return kept;
}

void kept_add(struct kept *kept, uint32_t shard, struct value **value_p)
{
    check(kept->value_count < kept->capacity);
    kept->values[kept->value_count] = *value_p;
    kept->shards[kept->value_count] = shard;
    kept->value_count++;
    *value_p = NULL;
}

void kept_destroy(struct reactor *reactor, struct kept **kept_p)
{
    struct kept *kept = *kept_p;
    if (kept == NULL) {
        return;
    }
    for (uint32_t i = 0; i < kept->value_count; i++) {
        if (kept->values[i] != NULL) {
            pin_mail_release(reactor, kept->shards[i], kept->values[i]);
        }
    }
    reactor->kept_bytes -= kept->taken_bytes;
    free(kept);
    *kept_p = NULL;
}
