#include "server/lend.h"

#include "base/check.h"
#include "server/checksum.h"
#include "server/conn.h"
#include "server/reactor.h"
#include "server/remote.h"

bool lend_is_on(const struct conn *conn)
{
    return conn->remote != NULL && conn->remote->loans.on;
}

void lend_note(struct conn *conn, struct request *request)
{
    check(conn->batch->transfer_count == 0);
    conn->batch->transfer_count = 1;
    conn->batch->lending = request;
    conn->remote->loans.missed.count = 0;
    conn->remote->loans.missed.all = false;
    request->transfer_result = KVASIR_OK;
}

static bool is_write(const struct request *request)
{
    return request->command->id == COMMAND_KV_RESERVE ||
           request->command->id == COMMAND_KV_COMMIT || request->command->id == COMMAND_KV_ABORT;
}

/* The key died while other ops of the round were under way. */
static bool is_recalled(const struct conn *conn, uint32_t shard, const struct op *op)
{
    return op->kind == OP_GET && recall_list_names(&conn->remote->loans.missed, shard, op->value);
}

/* One loan for each value that the ops brought. */
static void begin_loans(struct conn *conn, struct request *request)
{
    struct batch *batch = conn->batch;
    for (uint32_t i = 0; i < request->op_count; i++) {
        struct op *op = batch_op(batch, request, i);
        uint32_t shard = batch->ops[request->op_first + i].shard;
        struct loan *loan;
        op->grant_id = 0;
        if (op->status != KVASIR_OK || op->value == NULL) {
            continue;
        }
        if (is_recalled(conn, shard, op)) {
            op->status = KVASIR_NOT_FOUND; /* its pin goes back with the batch's other results */
            continue;
        }
        loan = loan_create(conn, shard, op, is_write(request));
        if (loan != NULL) {
            op->grant_id = loan->id;
            loan->put = op->put;
            loan->flags = op->flags;
            loan->deadline_us = conn->reactor->now.mono_us + request->number * 1000;
        }
    }
}

/* Loans that the round asked for, or took back, and that are over. NULL: there is none. */
static struct loan *find_over(const struct conn *conn)
{
    list_foreach (cursor, &conn->remote->loans.list) {
        struct loan *loan = list_entry(cursor, struct loan, link);
        if (loan->state == LOAN_OVER) {
            return loan;
        }
    }
    return NULL;
}

/* The op whose loan could not be made says why. */
static void tell_failures(struct conn *conn, struct request *request)
{
    struct loan *loan;
    while ((loan = find_over(conn)) != NULL) {
        for (uint32_t i = 0; i < request->op_count; i++) {
            struct op *op = batch_op(conn->batch, request, i);
            if (op->grant_id == loan->id) {
                op->grant_id = 0;
                op->status = loan->status;
            }
        }
        loan_free(&loan);
    }
}

/* False: the checksum takes another turn. */
static bool verify(struct conn *conn, struct request *request, const struct loan *loan)
{
    enum kvasir_status status;
    uint64_t sum = 0;
    if ((loan->flags & OP_SET_CHECKSUM) == 0) {
        return true;
    }
    status = checksum_advance(&conn->remote->transfers.checksum, conn->reactor->server->payload,
                              loan->value, &sum);
    if (status == KVASIR_PENDING) {
        conn_yield(conn);
        return false;
    }
    request->transfer_result =
        status == KVASIR_OK && sum != loan->put.checksum ? KVASIR_CORRUPT : status;
    return true;
}

/* What was taken back is sealed, or let go. False: not yet. */
static bool end_loans(struct conn *conn, struct request *request)
{
    struct batch *batch = conn->batch;
    struct loan *loan = find_over(conn);
    batch_begin_again(batch);
    if (request->command->id == COMMAND_KV_COMMIT && loan != NULL) {
        if (!verify(conn, request, loan)) {
            return false;
        }
        if (request->transfer_result == KVASIR_OK) {
            struct op *op = batch_add_op_at(batch, request, OP_COMMIT, loan->shard);
            op->value = loan->value;
            op->put = loan->put;
            op->flags = loan->flags;
            loan->value = NULL;
        }
    }
    while ((loan = find_over(conn)) != NULL) {
        loan_free(&loan);
    }
    return true;
}

/* True: there is nothing to wait for. */
static bool post(struct conn *conn)
{
    struct remote *remote = conn->remote;
    loan_post(conn);
    if (remote->loans.wanted_count == 0) {
        return true;
    }
    remote->transfers.moving = true;
    remote->transfers.lending = true;
    remote->transfers.moved_us = conn->reactor->now.mono_us;
    conn->batch->waiting++;
    return false;
}

bool lend_settle(struct conn *conn)
{
    struct batch *batch = conn->batch;
    struct request *request = batch->lending;
    bool lends =
        request->command->id == COMMAND_KV_LEASE || request->command->id == COMMAND_KV_RESERVE;
    if (batch->stage == TRANSFER_STAGE_OPS) {
        batch->stage = TRANSFER_STAGE_MOVES;
        if (lends) {
            begin_loans(conn, request);
        }
        if (!post(conn)) {
            return false;
        }
    }
    if (batch->stage == TRANSFER_STAGE_MOVES || batch->stage == TRANSFER_STAGE_SUMS) {
        conn->remote->transfers.lending = false;
        batch->stage = TRANSFER_STAGE_SUMS;
        if (lends) {
            tell_failures(conn, request);
        } else if (!end_loans(conn, request)) {
            return false;
        }
        batch->stage = TRANSFER_STAGE_COMMITS;
        if (!lends && !batch_dispatch(conn->reactor, batch)) {
            return false;
        }
    }
    batch->transfer_count = 0;
    batch->lending = NULL;
    batch->stage = TRANSFER_STAGE_OPS;
    return true;
}
