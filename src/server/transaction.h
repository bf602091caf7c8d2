#pragma once
/* transaction – what a connection has queued since MULTI, and the keys that it watches. Made by the
 * first MULTI or WATCH of a connection, owned by the connection, used by its thread. Owns copies of the
 * queued arguments; their memory counts against client-query-buffer-limit, as that of any request that
 * is kept in a buffer does. */

#include "net/chunk.h"
#include "server/batch.h"
#include "store/watch.h"

#include <kvasir/types.h>

#include <stdbool.h>
#include <stdint.h>

/* One command that waits for EXEC; its arguments' bytes lie behind args. */
struct queued {
    struct queued *next;
    const struct command *command;
    uint32_t arg_count;
    struct slice args[];
};

struct transaction_watch {
    struct transaction_watch *next;
    uint32_t shard;
    struct watch watch;
    uint8_t key[];
};

struct transaction_block;

struct transaction {
    struct chunk_pool *pool;          /* borrowed from the reactor */
    struct transaction_block *blocks; /* owned: memory of the queue, newest first */
    struct queued *first;             /* lies in blocks */
    struct queued *last;
    struct transaction_watch *watches; /* owned */
    uint32_t queued_count;
    uint32_t watch_count;
    uint64_t queued_bytes; /* of blocks */
    uint64_t watched_bytes;
    uint64_t shards; /* bit per shard that the queued commands need */
    bool open;       /* between MULTI and EXEC or DISCARD */
    bool writes;     /* a queued command changes something */
    bool stores;     /* a queued command may need memory */
    bool refused;    /* a command was refused: EXEC will be, too */

    /* While EXEC runs: */
    struct queued *running; /* next to run, or the one that current is */
    bool waits;             /* current is planned, and waits for other reactors */
    struct request current;
};

/* NULL: no memory. */
struct transaction *transaction_create(struct chunk_pool *pool);
/* Nothing is watched any more. */
void transaction_destroy(struct transaction **transaction_p);

/* Queues a copy of a command. KVASIR_OK, KVASIR_TOO_LARGE (more than bytes_max in all) or
 * KVASIR_NO_MEMORY; the queue is then as before. */
ATTR_MUST_USE enum kvasir_status transaction_add(struct transaction *transaction,
                                                 const struct command *command,
                                                 const struct slice *args, uint32_t arg_count,
                                                 uint64_t bytes_max);
/* Forgets the queue and that MULTI was said. What is watched stays. */
void transaction_close(struct transaction *transaction);

/* A watch for the key, not yet linked to its shard; NULL: no memory, or more than bytes_max in all. */
struct transaction_watch *transaction_watch_add(struct transaction *transaction, uint32_t shard,
                                                uint8_t database, struct slice key, uint64_t hash,
                                                uint64_t bytes_max);
/* Takes the first watch off the list and frees it; it must be linked to no shard. */
void transaction_watch_drop(struct transaction *transaction);
