#include "server/transaction.h"

#include "base/check.h"
#include "base/fault.h"

#include <stdlib.h>
#include <string.h>

/* The first block of a queue, and the most that one is made larger than it need be. */
#define BLOCK_BYTES_MIN 1024U
#define BLOCK_BYTES_MAX (64U << 10)

struct transaction_block {
    struct transaction_block *next;
    size_t capacity_bytes; /* of data */
    size_t used_bytes;
    ATTR_ALIGNED(16) uint8_t data[];
};

struct transaction *transaction_create(struct chunk_pool *pool)
{
    struct transaction *transaction =
        fault_hit("server.transaction") ? NULL : calloc(1, sizeof(*transaction));
    if (transaction != NULL) {
        transaction->pool = pool;
    }
    return transaction;
}

void transaction_destroy(struct transaction **transaction_p)
{
    struct transaction *transaction = *transaction_p;
    if (transaction == NULL) {
        return;
    }
    check(transaction->watches == NULL);
    transaction_close(transaction);
    free(transaction);
    *transaction_p = NULL;
}

/* Memory from the reactor's budget for what outgrew its buffers. */
static void *take_memory(struct chunk_pool *pool, size_t bytes)
{
    void *memory;
    if (pool->large_bytes + bytes > pool->large_bytes_max || fault_hit("server.transaction")) {
        return NULL;
    }
    memory = malloc(bytes);
    if (memory != NULL) {
        pool->large_bytes += bytes;
    }
    return memory;
}

static void give_memory(struct chunk_pool *pool, void *memory, size_t bytes)
{
    pool->large_bytes -= bytes;
    free(memory);
}

/* Room for bytes in one piece. */
static enum kvasir_status make_room(struct transaction *transaction, size_t bytes,
                                    uint64_t bytes_max)
{
    struct transaction_block *block = transaction->blocks;
    size_t capacity = block == NULL ? BLOCK_BYTES_MIN : block->capacity_bytes * 2;
    if (block != NULL && block->capacity_bytes - block->used_bytes >= bytes) {
        return KVASIR_OK;
    }
    capacity = capacity < BLOCK_BYTES_MAX ? capacity : BLOCK_BYTES_MAX;
    capacity = capacity > bytes ? capacity : bytes;
    if (transaction->queued_bytes + capacity > bytes_max) {
        return KVASIR_TOO_LARGE;
    }
    block = take_memory(transaction->pool, sizeof(*block) + capacity);
    if (block == NULL) {
        return KVASIR_NO_MEMORY;
    }
    block->capacity_bytes = capacity;
    block->used_bytes = 0;
    block->next = transaction->blocks;
    transaction->blocks = block;
    transaction->queued_bytes += capacity;
    return KVASIR_OK;
}

enum kvasir_status transaction_add(struct transaction *transaction, const struct command *command,
                                   const struct slice *args, uint32_t arg_count, uint64_t bytes_max)
{
    size_t head_bytes = sizeof(struct queued) + arg_count * sizeof(*args);
    size_t bytes = head_bytes;
    struct transaction_block *block;
    struct queued *queued;
    uint8_t *to;
    enum kvasir_status status;
    for (uint32_t i = 0; i < arg_count; i++) {
        bytes += args[i].length_bytes;
    }
    bytes = (bytes + 15) & ~(size_t)15;
    status = make_room(transaction, bytes, bytes_max);
    if (status != KVASIR_OK) {
        return status;
    }
    block = transaction->blocks;
    queued = (struct queued *)(void *)(block->data + block->used_bytes);
    block->used_bytes += bytes;
    queued->next = NULL;
    queued->command = command;
    queued->arg_count = arg_count;
    to = (uint8_t *)queued + head_bytes;
    for (uint32_t i = 0; i < arg_count; i++) {
        queued->args[i] = slice_of(to, args[i].length_bytes);
        if (args[i].length_bytes > 0) {
            memcpy(to, args[i].data, args[i].length_bytes);
        }
        to += args[i].length_bytes;
    }
    if (transaction->last == NULL) {
        transaction->first = queued;
    } else {
        transaction->last->next = queued;
    }
    transaction->last = queued;
    transaction->queued_count++;
    return KVASIR_OK;
}

void transaction_close(struct transaction *transaction)
{
    while (transaction->blocks != NULL) {
        struct transaction_block *block = transaction->blocks;
        transaction->blocks = block->next;
        give_memory(transaction->pool, block, sizeof(*block) + block->capacity_bytes);
    }
    transaction->first = NULL;
    transaction->last = NULL;
    transaction->running = NULL;
    transaction->queued_count = 0;
    transaction->queued_bytes = 0;
    transaction->shards = 0;
    transaction->open = false;
    transaction->refused = false;
    transaction->waits = false;
}

struct transaction_watch *transaction_watch_add(struct transaction *transaction, uint32_t shard,
                                                uint8_t database, struct slice key, uint64_t hash,
                                                uint64_t bytes_max)
{
    size_t bytes = sizeof(struct transaction_watch) + key.length_bytes;
    struct transaction_watch *added;
    if (transaction->watched_bytes + bytes > bytes_max) {
        return NULL;
    }
    added = take_memory(transaction->pool, bytes);
    if (added == NULL) {
        return NULL;
    }
    *added = (struct transaction_watch){.next = transaction->watches, .shard = shard};
    if (key.length_bytes > 0) {
        memcpy(added->key, key.data, key.length_bytes);
    }
    added->watch.owner = transaction;
    added->watch.key = slice_of(added->key, key.length_bytes);
    added->watch.hash = hash;
    added->watch.database = database;
    list_init(&added->watch.link);
    transaction->watches = added;
    transaction->watch_count++;
    transaction->watched_bytes += bytes;
    return added;
}

void transaction_watch_drop(struct transaction *transaction)
{
    struct transaction_watch *first = transaction->watches;
    size_t bytes = sizeof(*first) + first->watch.key.length_bytes;
    check(!list_linked(&first->watch.link));
    transaction->watches = first->next;
    transaction->watch_count--;
    transaction->watched_bytes -= bytes;
    give_memory(transaction->pool, first, bytes);
}
