#include "server/exec.h"

#include "base/check.h"
#include "base/clock.h"
#include "server/access.h"
#include "server/gather.h"
#include "server/handlers.h"
#include "server/kept.h"
#include "server/monitor.h"
#include "server/refuse.h"
#include "server/reply.h"
#include "server/transaction.h"

/* ---- watches ---- */

enum kvasir_status exec_watch(struct conn *conn, struct slice key)
{
    struct reactor *reactor = conn->reactor;
    struct transaction *transaction = conn->transaction;
    uint32_t shard = reactor_of_key(reactor, key);
    struct transaction_watch *added;
    enum kvasir_status status;
    uint8_t database;
    if (key.length_bytes > VALUE_KEY_BYTES_MAX) {
        return KVASIR_INVALID;
    }
    /* Held before it is asked which database this is: SWAPDB must find the watch. */
    reactor_hold_shards(reactor, UINT64_C(1) << shard);
    database = conn_database(conn);
    added = transaction_watch_add(transaction, shard, database, key,
                                  op_hash(reactor->settings.hash_seed, database, key),
                                  reactor->settings.query_buffer_limit);
    status = added == NULL ? KVASIR_NO_MEMORY
                           : shard_watch(reactor->server->reactors[shard]->shard, &added->watch,
                                         &reactor->now);
    reactor_free_shards(reactor);
    if (added == NULL) {
        return status;
    }
    if (status != KVASIR_OK) {
        transaction_watch_drop(transaction);
    }
    return status == KVASIR_EXISTS ? KVASIR_OK : status;
}

static uint64_t watched_shards(const struct transaction *transaction)
{
    uint64_t shards = 0;
    for (const struct transaction_watch *at = transaction->watches; at != NULL; at = at->next) {
        shards |= UINT64_C(1) << at->shard;
    }
    return shards;
}

/* Their shards are held. */
static void drop_watches(struct conn *conn)
{
    struct transaction *transaction = conn->transaction;
    struct server *server = conn->reactor->server;
    while (transaction->watches != NULL) {
        struct transaction_watch *first = transaction->watches;
        shard_unwatch(server->reactors[first->shard]->shard, &first->watch);
        transaction_watch_drop(transaction);
    }
}

void exec_unwatch(struct conn *conn)
{
    if (conn->transaction->watches != NULL) {
        reactor_hold_shards(conn->reactor, watched_shards(conn->transaction));
        drop_watches(conn);
        reactor_free_shards(conn->reactor);
    }
}

/* Their shards are held. */
static bool any_touched(struct conn *conn)
{
    const struct server *server = conn->reactor->server;
    bool touched = false;
    struct transaction_watch *at = conn->transaction->watches;
    for (; at != NULL && !touched; at = at->next) {
        touched = shard_watch_touched(server->reactors[at->shard]->shard, &at->watch,
                                      &conn->reactor->now);
    }
    return touched;
}

/* ---- running ---- */

static void answer_current(struct conn *conn)
{
    struct reactor *reactor = conn->reactor;
    struct request *request = &conn->transaction->current;
    uint64_t errors = conn->error_replies;
    bool muted = conn->muted; /* CLIENT REPLY in a transaction is about what follows it */
    if (request->refusal != REFUSAL_NONE) {
        refuse_request(conn, request);
        request->more = false;
    } else {
        handlers_find(request->command->id)->reply(conn, request);
    }
    conn->muted = muted;
    request->failed = request->failed || conn->error_replies > errors;
    conn->error_replies = errors; /* EXEC itself did not fail */
    batch_drop_results(reactor, conn->batch);
}

static void count_current(struct conn *conn, uint64_t spent_ns)
{
    struct reactor *reactor = conn->reactor;
    struct request *request = &conn->transaction->current;
    kept_destroy(reactor, &request->kept);
    if (reactor->monitor_count != 0) {
        monitor_note(conn, request);
    }
    metric_add(&conn->traffic->commands, 1);
    request->spent_ns = spent_ns;
    command_stats_ran(reactor->command_stats, request->command->id, 1, spent_ns, request->failed);
    if (reactor_notices_requests(reactor)) {
        reactor_note_request(reactor, conn, request);
    }
}

/* Plans and answers the current command, in as many rounds as it takes. False: it waits. */
static bool run_current(struct conn *conn)
{
    int64_t start_ns = clock_mono_ns();
    struct transaction *transaction = conn->transaction;
    struct request *request = &transaction->current;
    const struct handler *handler = handlers_find(request->command->id);
    if (conn->restricted) {
        access_judge(conn, request); /* the user's rights may have changed since it was queued */
    }
    do {
        batch_begin_round(conn->batch);
        request->op_count = 0;
        request->op_first = 0;
        request->more = false;
        conn->batch->waiting++; /* what is done at once does not call back */
        if (handler->plan != NULL && request->refusal == REFUSAL_NONE) {
            handler->plan(conn, request);
        }
        batch_execute_held(conn->reactor, conn->batch);
        conn->batch->waiting--;
        if (conn->batch->waiting > 0) {
            transaction->waits = true;
            return false;
        }
        answer_current(conn);
    } while (request->more);
    count_current(conn, (uint64_t)(clock_mono_ns() - start_ns));
    return true;
}

/* Holds the shards for a beginning; false: a watched key was touched. */
static bool begin(struct conn *conn)
{
    struct transaction *transaction = conn->transaction;
    bool touched;
    reactor_hold_shards(conn->reactor, transaction->shards | watched_shards(transaction));
    touched = any_touched(conn);
    drop_watches(conn);
    if (touched) {
        return false;
    }
    /* All runs in one go: nothing can be sent in between, and no reply can be left out. */
    conn->output.beyond = true;
    reply_array(conn, transaction->queued_count);
    transaction->running = transaction->first;
    return true;
}

bool exec_advance(struct conn *conn)
{
    struct transaction *transaction = conn->transaction;
    bool done = true;
    if (!transaction->waits) {
        if (!begin(conn)) {
            reactor_free_shards(conn->reactor);
            reply_null_array(conn);
            return true;
        }
    } else {
        reactor_hold_shards(conn->reactor, transaction->shards);
        transaction->waits = false;
        answer_current(conn);
        count_current(conn, 0); /* what it took is its waiting for others */
        transaction->running = transaction->running->next;
    }
    while (transaction->running != NULL) {
        struct queued *next = transaction->running;
        transaction->current = (struct request){.command = next->command,
                                                .args = next->args,
                                                .arg_count = next->arg_count,
                                                .database = conn_database(conn)};
        if (!run_current(conn)) {
            done = false;
            break;
        }
        transaction->running = next->next;
    }
    reactor_free_shards(conn->reactor);
    conn->output.beyond = !done;
    return done;
}
