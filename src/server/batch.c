#include "server/batch.h"
#include "server/pin_mail.h"

#include "base/check.h"
#include "base/fault.h"
#include "server/balance.h"
#include "server/conn.h"
#include "server/gather.h"
#include "server/reactor.h"
#include "server/transfer.h"

#include <stdlib.h>

/* How often an op may come back for want of pages before it is refused: each time the other shards
 * were asked to evict and none gave a page; and how often at all, because what one asked for another
 * may take. */
#define PAGE_TRIES_MAX  3
#define PAGE_ROUNDS_MAX 1000
/* How often a shard that is not held is tried for pages by whoever holds others. */
#define HELD_TRIES_MAX 1000

/* ---- pool ---- */

static void part_reset(struct batch_part *part)
{
    part->first = BATCH_OP_NONE;
    part->last = BATCH_OP_NONE;
    part->resume = BATCH_OP_NONE;
    part->tries = 0;
    part->rounds = 0;
}

static struct batch *batch_new(struct reactor *reactor)
{
    uint32_t shard_count = reactor->server->reactor_count;
    struct batch *batch = NULL;
    if (reactor->batch_count >= reactor->server->batches_max || fault_hit("server.batch")) {
        return NULL;
    }
    batch = malloc(BATCH_BYTES(shard_count));
    if (batch == NULL) {
        return NULL;
    }
    reactor->batch_count++;
    batch->magic = BATCH_MAGIC;
    list_init(&batch->link);
    for (uint32_t i = 0; i < shard_count; i++) {
        struct batch_part *part = &batch->parts[i];
        *part = (struct batch_part){.batch = batch, .origin = reactor->index};
        list_init(&part->stall_link);
        part_reset(part);
    }
    return batch;
}

struct batch *batch_take(struct reactor *reactor, struct conn *conn)
{
    struct batch *batch;
    if (!list_empty(&reactor->free_batches)) {
        batch = list_entry(reactor->free_batches.next, struct batch, link);
        list_remove(&batch->link);
    } else {
        batch = batch_new(reactor);
    }
    if (batch == NULL) {
        if (!list_linked(&conn->batch_link)) {
            list_push_back(&reactor->batch_waiters, &conn->batch_link);
        }
        return NULL;
    }
    list_remove(&conn->batch_link); /* or it would be woken in the place of one that still waits */
    batch->conn = conn;
    batch->request_count = 0;
    batch->request_first = 0;
    batch->request_planned = 0;
    batch->op_count = 0;
    batch->arg_count = 0;
    batch->waiting = 0;
    batch->shards = 0;
    batch->for_upload = false;
    batch->stage = TRANSFER_STAGE_OPS;
    return batch;
}

void batch_give(struct reactor *reactor, struct batch **batch_p)
{
    struct batch *batch = *batch_p;
    CHECK_MAGIC(batch, BATCH_MAGIC);
    check(batch->waiting == 0);
    batch->conn = NULL;
    batch_begin_round(batch);
    list_push_front(&reactor->free_batches, &batch->link);
    *batch_p = NULL;
    if (!list_empty(&reactor->batch_waiters)) {
        struct conn *conn = list_entry(reactor->batch_waiters.next, struct conn, batch_link);
        list_remove(&conn->batch_link);
        conn_run_later(conn);
    }
}

void batch_pool_fini(struct reactor *reactor)
{
    while (!list_empty(&reactor->free_batches)) {
        struct batch *batch = list_entry(reactor->free_batches.next, struct batch, link);
        list_remove(&batch->link);
        reactor->batch_count--;
        batch->magic = 0;
        free(batch);
    }
    check(reactor->batch_count == 0);
}

/* ---- rounds ---- */

void batch_begin_again(struct batch *batch)
{
    uint64_t shards = batch->shards;
    while (shards != 0) {
        part_reset(&batch->parts[__builtin_ctzll(shards)]);
        shards &= shards - 1;
    }
    batch->shards = 0;
}

void batch_begin_round(struct batch *batch)
{
    batch_begin_again(batch);
    batch->op_count = 0;
    batch->stat_count = 0;
    batch->field_count = 0;
    batch->transfer_count = 0;
    batch->lending = NULL;
    batch->incoming_count = 0;
    batch->incoming_bytes = 0;
    batch->many_keys_op_count = 0;
    batch->one_step = false;
}

/* Puts an op behind the others of its shard. */
static void part_append(struct batch *batch, uint16_t index)
{
    struct batch_op *added = &batch->ops[index];
    struct batch_part *part = &batch->parts[added->shard];
    added->next = BATCH_OP_NONE;
    if (part->first == BATCH_OP_NONE) {
        part->first = index;
        part->resume = index;
        batch->shards |= UINT64_C(1) << added->shard;
    } else {
        batch->ops[part->last].next = index;
    }
    part->last = index;
}

void batch_add_again(struct batch *batch, struct request *request)
{
    check(request->op_count == 1);
    part_append(batch, request->op_first);
}

struct op *batch_add_op_at(struct batch *batch, struct request *request, enum op_kind kind,
                           uint32_t shard)
{
    uint16_t index = (uint16_t)batch->op_count;
    struct batch_op *added = &batch->ops[index];
    check(batch->op_count < BATCH_OPS_MAX);
    added->op =
        (struct op){.kind = (uint8_t)kind,
                    .database = request != NULL ? request->database : conn_database(batch->conn),
                    .flags = batch->conn->no_touch ? OP_READ_NO_TOUCH : 0,
                    .tenant = batch->conn->tenant,
                    .owner = batch->conn->id};
    added->shard = (uint16_t)shard;
    part_append(batch, index);
    batch->op_count++;
    if (request != NULL) {
        if (request->op_count == 0) {
            request->op_first = index;
        }
        request->op_count++;
    }
    return &added->op;
}

struct op *batch_add_op(struct batch *batch, struct request *request, enum op_kind kind,
                        struct slice key)
{
    struct reactor *reactor = batch->conn->reactor;
    struct op *op = batch_add_op_at(batch, request, kind, reactor_of_key(reactor, key));
    op->key = key;
    op->hash = op_hash(reactor->settings.hash_seed, op->database, key);
    return op;
}

struct op *batch_add_op_in(struct batch *batch, struct request *request, enum op_kind kind,
                           struct slice key, uint8_t database)
{
    struct op *op = batch_add_op(batch, request, kind, key);
    op->database = database;
    op->hash = op_hash(batch->conn->reactor->settings.hash_seed, database, key);
    return op;
}

void batch_drop_results(struct reactor *reactor, struct batch *batch)
{
    for (uint32_t i = 0; i < batch->op_count; i++) {
        struct op *op = &batch->ops[i].op;
        if (op->value != NULL) {
            pin_mail_release(reactor, batch->ops[i].shard, op->value);
            op->value = NULL;
        }
        if (op->old != NULL) {
            pin_mail_release(reactor, batch->ops[i].shard, op->old);
            op->old = NULL;
        }
    }
}

/* ---- running ---- */

void batch_waited(struct reactor *reactor, struct batch *batch)
{
    (void)reactor;
    CHECK_MAGIC(batch, BATCH_MAGIC);
    check(batch->waiting > 0);
    batch->waiting--;
    if (batch->waiting == 0) {
        conn_batch_done(batch->conn);
    }
}

void batch_part_done(struct reactor *reactor, struct batch_part *part)
{
    batch_waited(reactor, part->batch);
}

/* ---- executing, on the shard's reactor ---- */

static void reclaim_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    int64_t page_count = gather->answers[index].number;
    if (page_count > 0) {
        gather->answers[index].number =
            shard_reclaim(reactor->shard, (uint32_t)page_count, &reactor->now);
    }
}

static void reclaim_done(struct reactor *reactor, struct gather *gather)
{
    int64_t given_count = 0;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        given_count += gather->answers[i].number;
    }
    if (given_count > 0) {
        list_foreach (cursor, &reactor->stalled) {
            list_entry(cursor, struct batch_part, stall_link)->tries = 0;
        }
    }
    gather_destroy(&gather);
    reactor->reclaiming = false;
    batch_resume_stalled(reactor);
}

static uint32_t pages_wanted(const struct op *op)
{
    uint64_t length = op->kind == OP_SET || op->kind == OP_RESERVE || op->kind == OP_GRANT_RESERVE
                          ? op->put.length_bytes
                          : SERVER_PAYLOAD_PAGE_BYTES;
    return (uint32_t)(length / SERVER_PAYLOAD_PAGE_BYTES + 1);
}

/* First those that hold most are asked for what is wanted and no more. When they had nothing to give, each of
 * the others is asked for its part. */
static void reclaim_divide(const struct reactor *reactor, struct gather *gather, uint32_t wanted,
                           bool asks_all)
{
    uint32_t others = gather->reactor_count - 1;
    balance_divide(reactor, gather, wanted, reactor->index);
    for (uint32_t i = 0; asks_all && i < gather->reactor_count; i++) {
        gather->answers[i].number = i == reactor->index ? 0 : (wanted + others - 1) / others;
    }
}

/* Asks other shards for pages; they evict if they must. */
static bool reclaim_start(struct reactor *reactor, const struct op *op, bool asks_all)
{
    struct gather *gather;
    if (reactor->reclaiming) {
        return true;
    }
    if (reactor->server->reactor_count == 1) {
        return false;
    }
    gather = gather_create(reactor, reclaim_run, reclaim_done);
    if (gather == NULL) {
        return false;
    }
    reclaim_divide(reactor, gather, pages_wanted(op), asks_all);
    reactor->reclaiming = true;
    metric_add(&reactor->metrics.retries_for_pages, 1);
    (void)gather_start(reactor, gather, NULL);
    return true;
}

static void part_send_back(struct reactor *reactor, struct batch_part *part)
{
    if (part->origin == reactor->index) {
        batch_part_done(reactor, part);
        return;
    }
    part->mail.kind = MAIL_OPS_DONE;
    mailbox_send(reactor->server->mailbox, reactor->index, part->origin, &part->mail);
}

/* Ops whose memory is fetched side by side before they are executed: about as many misses as a core
 * can have under way. */
#define PREFETCH_OPS 12

static void prefetch_ops(const struct shard *shard, const struct batch_part *part)
{
    for (enum shard_step step = 0; step < SHARD_STEP_COUNT; step++) {
        uint16_t at = part->resume;
        for (unsigned i = 0; i < PREFETCH_OPS && at != BATCH_OP_NONE; i++) {
            const struct batch_op *entry = &part->batch->ops[at];
            shard_prefetch(shard, entry->op.hash, step);
            at = entry->next;
        }
    }
}

/* Executes ops in order; false: the one to resume with waits for its next turn, or for pages. */
static bool execute_ops(struct shard *shard, struct batch_part *part, const struct moment *now)
{
    unsigned fetched = 0;
    while (part->resume != BATCH_OP_NONE) {
        if (fetched == 0 && part->first != part->last) {
            prefetch_ops(shard, part);
            fetched = PREFETCH_OPS;
        }
        fetched -= fetched > 0;
        struct batch_op *entry = &part->batch->ops[part->resume];
        shard_execute(shard, &entry->op, now);
        if (UNLIKELY(entry->op.status > KVASIR_OK)) {
            return false;
        }
        part->tries = 0;
        part->rounds = 0;
        part->resume = entry->next;
    }
    return true;
}

/* False: there is nothing left that the op could wait for. */
static bool part_waits(struct reactor *reactor, struct batch_part *part, const struct op *op)
{
    if (op->status == KVASIR_PENDING) {
        reactor->making_room = true;
        return true;
    }
    if (part->tries >= PAGE_TRIES_MAX || part->rounds >= PAGE_ROUNDS_MAX ||
        !reclaim_start(reactor, op, part->tries > 0)) {
        return false;
    }
    part->tries++;
    part->rounds++;
    return true;
}

void batch_execute_part(struct reactor *reactor, struct batch_part *part)
{
    bool done;
    reactor_shard_enter(reactor);
    done = execute_ops(reactor->shard, part, &reactor->now);
    while (!done) {
        struct batch_op *entry = &part->batch->ops[part->resume];
        if (part_waits(reactor, part, &entry->op)) {
            list_push_back(&reactor->stalled, &part->stall_link);
            reactor_shard_leave(reactor);
            return;
        }
        entry->op.status = KVASIR_NO_MEMORY;
        part->tries = 0;
        part->rounds = 0;
        part->resume = entry->next;
        done = execute_ops(reactor->shard, part, &reactor->now);
    }
    reactor_shard_leave(reactor);
    part_send_back(reactor, part);
}

/* Gives one page at least back to the pool from some shard: those that are held, and others that are
 * free just now (who waits for one while holding others could wait for ever). */
static bool reclaim_held(struct reactor *reactor, const struct op *op)
{
    uint32_t wanted = pages_wanted(op);
    uint32_t got = 0;
    for (uint32_t i = 0; i < reactor->server->reactor_count && got < wanted; i++) {
        struct shard *shard = reactor_shard_borrow(reactor, i);
        for (unsigned tries = 0; shard == NULL && tries < HELD_TRIES_MAX; tries++) {
            shard = reactor_shard_borrow(reactor, i);
        }
        if (shard != NULL) {
            got += shard_reclaim(shard, wanted - got, &reactor->now);
            reactor_shard_return(reactor, i);
        }
    }
    metric_add(&reactor->metrics.retries_for_pages, 1);
    return got > 0;
}

void batch_execute_held(struct reactor *reactor, struct batch *batch)
{
    for (uint64_t shards = batch->shards; shards != 0; shards &= shards - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(shards);
        struct shard *shard = reactor->server->reactors[index]->shard;
        struct batch_part *part = &batch->parts[index];
        check((reactor->held_shards >> index & 1) != 0);
        while (!execute_ops(shard, part, &reactor->now)) {
            struct batch_op *entry = &batch->ops[part->resume];
            if (entry->op.status == KVASIR_PENDING) {
                continue; /* it gets on with each call */
            }
            if (part->rounds < PAGE_ROUNDS_MAX && reclaim_held(reactor, &entry->op)) {
                part->rounds++;
                continue;
            }
            entry->op.status = KVASIR_NO_MEMORY;
            part->rounds = 0;
            part->resume = entry->next;
        }
    }
}

/* Executes the part on its owner's shard from here, if nobody is working on that; false: it must be
 * sent, as far as it is not done. */
static bool execute_borrowed(struct reactor *reactor, struct batch_part *part, uint32_t index)
{
    struct shard *shard = reactor_shard_borrow(reactor, index);
    bool done;
    if (shard == NULL) {
        return false;
    }
    done = execute_ops(shard, part, &reactor->now);
    reactor_shard_return(reactor, index);
    metric_add(&reactor->metrics.borrows, 1);
    return done;
}

void batch_resume_stalled(struct reactor *reactor)
{
    struct list again;
    list_init(&again);
    list_splice_back(&again, &reactor->stalled);
    while (!list_empty(&again)) {
        struct batch_part *part = list_entry(again.next, struct batch_part, stall_link);
        list_remove(&part->stall_link);
        batch_execute_part(reactor, part);
    }
}

static void dispatch_one_step(struct reactor *reactor, struct batch *batch)
{
    uint64_t others = batch->shards & ~(UINT64_C(1) << reactor->index);
    reactor_hold_shards(reactor, batch->shards);
    batch_execute_held(reactor, batch);
    reactor_free_shards(reactor);
    metric_add(&reactor->metrics.borrows, (uint64_t)__builtin_popcountll(others));
}

bool batch_dispatch(struct reactor *reactor, struct batch *batch)
{
    uint64_t shards = batch->shards;
    if (UNLIKELY(batch->one_step)) {
        dispatch_one_step(reactor, batch);
        return batch->waiting == 0;
    }
    batch->waiting++; /* so that what is done at once does not call back */
    while (shards != 0) {
        uint32_t shard = (uint32_t)__builtin_ctzll(shards);
        struct batch_part *part = &batch->parts[shard];
        shards &= shards - 1;
        batch->waiting++;
        if (shard == reactor->index) {
            batch_execute_part(reactor, part);
        } else if (execute_borrowed(reactor, part, shard)) {
            batch->waiting--;
        } else {
            part->mail.kind = MAIL_OPS;
            mailbox_send(reactor->server->mailbox, reactor->index, shard, &part->mail);
            metric_add(&reactor->metrics.hops, 1);
        }
    }
    batch->waiting--;
    return batch->waiting == 0;
}
