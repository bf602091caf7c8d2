#include "server/cmd_transaction.h"

#include "base/check.h"
#include "server/exec.h"
#include "server/reply.h"
#include "server/transaction.h"

/* Keys of one command that are looked at for the shards that EXEC must hold; one of more keys takes
 * them all. */
#define KEYS_MAX 64

static const char ERROR_NO_MEMORY[] =
    "OOM no memory for a transaction: those of one reactor share client-query-buffer-limit";

static bool is_open(const struct conn *conn)
{
    return conn->transaction != NULL && conn->transaction->open;
}

/* The connection's transaction, made when there is none; NULL, and the reply written. */
static struct transaction *transaction_of(struct conn *conn)
{
    if (conn->transaction == NULL) {
        conn->transaction = transaction_create(&conn->reactor->chunks);
        if (conn->transaction == NULL) {
            reply_error(conn, ERROR_NO_MEMORY);
        }
    }
    return conn->transaction;
}

/* ---- between MULTI and EXEC ---- */

/* Nothing is evicted and every page is taken: a transaction that stores would likely be done in part only.
 * A single command is tried, as there may be room in a page for a short value. */
static bool is_out_of_memory(const struct reactor *reactor)
{
    return policy_find(reactor->settings.maxmemory_policy) == NULL &&
           pages_free_count(reactor->server->payload) == 0;
}

static bool stores(const struct command *command)
{
    return (command->flags & COMMAND_FLAG_DENYOOM) != 0;
}

void cmd_transaction_admit(const struct conn *conn, struct request *request)
{
    uint32_t flags = request->command->flags;
    if (!is_open(conn) || (flags & COMMAND_FLAG_AT_ONCE) != 0) {
        return;
    }
    if ((flags & COMMAND_FLAG_NO_MULTI) != 0) {
        request->refusal = REFUSAL_NOT_IN_MULTI;
    } else if (stores(request->command) && is_out_of_memory(conn->reactor)) {
        request->refusal = REFUSAL_NO_MEMORY;
    } else {
        request->refusal = REFUSAL_QUEUED;
    }
}

/* The shards that a command works on, as bits. */
static uint64_t shards_of(const struct conn *conn, const struct request *request)
{
    uint32_t indexes[KEYS_MAX];
    uint32_t shard_count = conn->reactor->server->reactor_count;
    uint32_t count =
        command_key_indexes(request->command, request->args, request->arg_count, indexes, KEYS_MAX);
    uint64_t shards = 0;
    if (handlers_find(request->command->id)->plan == NULL) {
        return 0;
    }
    if (count == 0 || count > KEYS_MAX) {
        return UINT64_MAX >> (64 - shard_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        shards |= UINT64_C(1) << reactor_of_key(conn->reactor, request->args[indexes[i]]);
    }
    return shards;
}

void cmd_transaction_queue(struct conn *conn, const struct request *request)
{
    struct transaction *transaction = conn->transaction;
    const struct settings *settings = &conn->reactor->settings;
    enum kvasir_status status = KVASIR_OK;
    if (transaction->queued_count >= settings->multi_commands_max) {
        reply_errorf(conn, "ERR a transaction may have %llu commands (multi-commands-max)",
                     (unsigned long long)settings->multi_commands_max);
        transaction->refused = true;
        return;
    }
    if (!transaction->refused) { /* EXEC will not look at the queue of one that was refused */
        status = transaction_add(transaction, request->command, request->args, request->arg_count,
                                 settings->query_buffer_limit);
    }
    if (status == KVASIR_OK) {
        transaction->writes = transaction->writes || command_writes(request->command);
        transaction->stores = transaction->stores || stores(request->command);
        transaction->shards |= shards_of(conn, request);
        reply_simple(conn, "QUEUED");
        return;
    }
    transaction->refused = true;
    if (status == KVASIR_TOO_LARGE) {
        reply_error(conn, "ERR a transaction may not be longer than client-query-buffer-limit");
    } else {
        reply_error(conn, ERROR_NO_MEMORY);
    }
}

void cmd_transaction_refused(struct conn *conn, const struct request *request)
{
    /* What a plan refuses ran, and failed: MULTI in MULTI. */
    if (is_open(conn) && !refusal_is_of_plan(request->refusal)) {
        conn->transaction->refused = true;
    }
}

int cmd_transaction_queued(const struct conn *conn)
{
    return is_open(conn) ? (int)conn->transaction->queued_count : -1;
}

void cmd_transaction_end(struct conn *conn)
{
    if (conn->transaction != NULL) {
        exec_unwatch(conn);
        transaction_destroy(&conn->transaction);
    }
    conn_mode_clear(conn, CONN_MODE_MULTI);
}

/* ---- the commands ---- */

void cmd_transaction_reply_multi(struct conn *conn, struct request *request)
{
    (void)request;
    if (is_open(conn)) {
        reply_error(conn, "ERR MULTI calls can not be nested");
    } else if (transaction_of(conn) != NULL) {
        conn->transaction->open = true;
        conn_mode_set(conn, CONN_MODE_MULTI);
        reply_ok(conn);
    }
}

void cmd_transaction_reply_discard(struct conn *conn, struct request *request)
{
    (void)request;
    if (!is_open(conn)) {
        reply_error(conn, "ERR DISCARD without MULTI");
        return;
    }
    cmd_transaction_end(conn);
    reply_ok(conn);
}

void cmd_transaction_reply_exec(struct conn *conn, struct request *request)
{
    if (!is_open(conn)) {
        reply_error(conn, "ERR EXEC without MULTI");
        return;
    }
    if (conn->transaction->refused) {
        reply_error(conn, "EXECABORT Transaction discarded because of previous errors.");
    } else if (conn->transaction->stores && conn->transaction->running == NULL &&
               is_out_of_memory(conn->reactor)) {
        reply_error(conn, "EXECABORT Transaction discarded because of: " ERROR_OOM);
    } else if (!exec_advance(conn)) {
        request->more = true; /* called again when what waits is done */
        return;
    }
    cmd_transaction_end(conn);
}

void cmd_transaction_reply_watch(struct conn *conn, struct request *request)
{
    if (is_open(conn)) {
        reply_error(conn, "ERR WATCH inside MULTI is not allowed");
        return;
    }
    if (transaction_of(conn) == NULL) {
        return;
    }
    for (uint32_t i = 1; i < request->arg_count; i++) {
        switch ((int)exec_watch(conn, request->args[i])) {
        case KVASIR_OK:
            break;
        case KVASIR_INVALID:
            reply_status(conn, KVASIR_INVALID);
            return;
        default:
            reply_error(conn, "OOM too many keys are watched, or there is no memory for more");
            return;
        }
    }
    reply_ok(conn);
}

void cmd_transaction_reply_unwatch(struct conn *conn, struct request *request)
{
    (void)request;
    if (conn->transaction != NULL) {
        exec_unwatch(conn);
    }
    reply_ok(conn);
}
