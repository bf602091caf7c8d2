#pragma once
/* notice – what was done to the keys of a shard since somebody looked, for Redis's keyspace notifications:
 * a queue in the order in which it was done. Unlike the events of event_ring, which tell what keys
 * mean, notices tell what was asked. Kept only of the classes that are wanted. Owns its memory, bounded;
 * the shard's own, by its gate. */

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one shard, between two looks. */
#define NOTICE_BYTES_MAX (4U << 20)

enum notice_class {
    NOTICE_GENERIC = 1 << 0,
    NOTICE_STRING = 1 << 1,
    NOTICE_EXPIRY = 1 << 2,
    NOTICE_EVICTION = 1 << 3,
    NOTICE_MISS = 1 << 4,
    NOTICE_NEW_KEY = 1 << 5,
};

enum notice_kind {
    NOTICE_SET,
    NOTICE_EXPIRE,
    NOTICE_PERSIST,
    NOTICE_DEL,
    NOTICE_INCRBY,
    NOTICE_INCRBYFLOAT,
    NOTICE_APPEND,
    NOTICE_SETRANGE,
    NOTICE_SETBIT,
    NOTICE_RENAME_FROM,
    NOTICE_RENAME_TO,
    NOTICE_MOVE_FROM,
    NOTICE_MOVE_TO,
    NOTICE_COPY_TO,
    NOTICE_RESTORE,
    NOTICE_EXPIRED,
    NOTICE_EVICTED,
    NOTICE_NEW,
    NOTICE_KEYMISS,
    NOTICE_KIND_COUNT,
};

struct notice_queue {
    uint32_t classes; /* bits of enum notice_class that are wanted; 0: nothing is kept */
    uint8_t *bytes;   /* owned; NULL: none */
    size_t length_bytes;
    size_t capacity_bytes;
    bool lost; /* there was no room for some */
};

enum notice_class notice_class_of(enum notice_kind kind);

/* Adds one, if its class is wanted. */
void notice_add(struct notice_queue *queue, enum notice_kind kind, uint8_t database,
                struct slice key);

typedef void notice_visit_fn(void *argument, enum notice_kind kind, uint8_t database,
                             struct slice key);
/* Visits all in order and forgets them. True: some were lost before this. */
bool notice_take(struct notice_queue *queue, notice_visit_fn *visit, void *argument);
void notice_fini(struct notice_queue *queue);
