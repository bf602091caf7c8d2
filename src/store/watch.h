#pragma once
/* watch – somebody wants to know whether a key changes (WATCH). Owned by whoever asks; linked into the
 * key's shard by shard_watch and out of it by shard_unwatch, and read, too, only by whoever works on
 * that shard. */

#include "base/list.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct watch {
    struct list link;  /* of the shard's table */
    const void *owner; /* never looked into: who has watched a key need not do so again */
    uint64_t hash;     /* op_hash */
    struct slice key;  /* borrowed from the owner while it is linked */
    uint8_t database;
    bool present; /* the key was there when the watch began */
    bool touched; /* the key was stored, deleted, evicted, flushed, or its expiry changed */
};
