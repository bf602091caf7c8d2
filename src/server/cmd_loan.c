#include "server/cmd_loan.h"

#include "base/check.h"
#include "server/access.h"
#include "server/cmd_kv.h"
#include "server/lend.h"
#include "server/remote.h"
#include "server/reply.h"
#include "server/transaction.h"

/* Values of one round: as many jobs as a queue pair takes at a time. */
#define LOANS_PER_ROUND 32U

/* False: refused. */
static bool may_lend(struct conn *conn, struct request *request)
{
    if (conn->transaction != NULL && request == &conn->transaction->current) {
        request_refuse(request, "ERR loans are not made inside a transaction");
    } else if (!access_permits_rdma(conn)) {
        request_refuse(request, "NOPERM this user has no right to RDMA (+@rdma)");
    } else if (remote_is_broken(conn->remote)) {
        request_refuse(request, "IO the queue pair failed; KV.CONNECT RDMA opens another");
    } else {
        return true;
    }
    return false;
}

static void count_failure(struct conn *conn)
{
    metric_add(&conn->reactor->metrics.traffic.paths[TRAFFIC_RDMA_CLIENT].failed, 1);
}

/* Address, key and length of each piece. */
static void reply_grants(struct conn *conn, const struct loan *loan)
{
    reply_array(conn, 3 * (uint64_t)loan->grant_count);
    for (uint32_t i = 0; i < loan->grant_count; i++) {
        reply_integer(conn, (int64_t)loan->grants[i].local.address);
        reply_integer(conn, (int64_t)((uint64_t)loan->remote_link << REMOTE_KEY_LINK_BITS |
                                      loan->grants[i].key));
        reply_integer(conn, (int64_t)loan->grants[i].local.bytes);
    }
}

/* ---- KV.LEASE ms key …: request->number is the time ---- */

void cmd_loan_plan_lease(struct conn *conn, struct request *request)
{
    uint32_t i = request->next_arg != 0 ? request->next_arg : 2;
    uint64_t ms;
    if (request->next_arg == 0) {
        if (!may_lend(conn, request) || !cmd_kv_parse_ms(conn, request, request->args[1], &ms)) {
            return;
        }
        request->number = (int64_t)ms;
    }
    request->round_arg = i;
    for (uint32_t count = 0;
         i < request->arg_count && batch_op_room(conn->batch) > 0 && count < LOANS_PER_ROUND;
         count++) {
        batch_add_op(conn->batch, request, OP_GET, request->args[i++])->flags |= OP_READ_LENT;
    }
    lend_note(conn, request);
    request->more = i < request->arg_count;
    request->next_arg = i;
}

void cmd_loan_reply_lease(struct conn *conn, struct request *request)
{
    if (request->round_arg == 2) {
        reply_array(conn, request->arg_count - 2);
    }
    for (uint32_t i = 0; i < request->op_count; i++) {
        const struct op *op = batch_op(conn->batch, request, i);
        const struct loan *loan = op->grant_id != 0 ? loan_find(conn, op->grant_id, false) : NULL;
        if (loan != NULL) {
            traffic_count_get(&conn->reactor->metrics.traffic, TRAFFIC_RDMA_CLIENT, loan->bytes);
            reply_array(conn, 4);
            reply_integer(conn, (int64_t)loan->id);
            reply_integer(conn, (int64_t)loan->bytes);
            cmd_kv_reply_checksum(conn, loan->value);
            reply_grants(conn, loan);
        } else if (op->status == KVASIR_NOT_FOUND) {
            reply_null(conn);
        } else {
            count_failure(conn);
            reply_status(conn, op->status != KVASIR_OK ? op->status : KVASIR_IO);
        }
    }
}

void cmd_loan_plan_release(struct conn *conn, struct request *request)
{
    uint32_t i = request->next_arg != 0 ? request->next_arg : 1;
    for (uint32_t count = 0; i < request->arg_count && count < LOANS_PER_ROUND; i++) {
        struct loan *loan;
        uint64_t id;
        if (!slice_to_u64(request->args[i], &id)) {
            request_refuse(request, "ERR a lease id is a number");
            break;
        }
        loan = loan_find(conn, id, false);
        if (loan != NULL) {
            loan_take_back(loan);
            request->count++;
            count++;
        }
    }
    lend_note(conn, request);
    request->more = request->refusal == REFUSAL_NONE && i < request->arg_count;
    request->next_arg = i;
}

void cmd_loan_reply_release(struct conn *conn, struct request *request)
{
    if (!request->more) {
        reply_integer(conn, request->count);
    }
}

/* ---- KV.RESERVE key length [options] [TIMEOUT ms] ---- */

void cmd_loan_plan_reserve(struct conn *conn, struct request *request)
{
    struct op_put put = {0};
    uint64_t timeout_ms;
    uint32_t flags;
    struct op *op;
    if (!may_lend(conn, request)) {
        return;
    }
    if (!cmd_kv_parse_reserve(conn, request, &flags, &put, &timeout_ms)) {
        return;
    }
    if (!loan_fits(conn, true, put.length_bytes)) {
        count_failure(conn);
        request_refuse(request,
                       "BUSY puts under way hold half of the memory; KV.SET waits for them");
        return;
    }
    op = batch_add_op(conn->batch, request, OP_RESERVE, request->args[1]);
    op->put = put;
    op->flags = flags;
    request->number = (int64_t)timeout_ms;
    lend_note(conn, request);
}

void cmd_loan_reply_reserve(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    const struct loan *loan = op->grant_id != 0 ? loan_find(conn, op->grant_id, true) : NULL;
    if (loan != NULL) {
        reply_array(conn, 3);
        reply_integer(conn, (int64_t)loan->id);
        reply_integer(conn, request->number);
        reply_grants(conn, loan);
    } else if (op->status == KVASIR_EXISTS) {
        reply_simple(conn, "EXISTS");
    } else {
        count_failure(conn);
        reply_status(conn, op->status != KVASIR_OK ? op->status : KVASIR_IO);
    }
}

/* ---- KV.COMMIT id [checksum], KV.ABORT id ---- */

static struct loan *find_reservation(struct conn *conn, const struct request *request)
{
    uint64_t id;
    return slice_to_u64(request->args[1], &id) ? loan_find(conn, id, true) : NULL;
}

void cmd_loan_plan_commit(struct conn *conn, struct request *request)
{
    struct loan *loan = find_reservation(conn, request);
    uint64_t checksum = 0;
    if (request->arg_count == 3 && !slice_to_hex64(request->args[2], &checksum)) {
        request_refuse(request, "ERR the checksum is not a hexadecimal number");
        return;
    }
    if (loan == NULL) {
        request_refuse(request, "NOTFOUND this connection has no such reservation");
        return;
    }
    if (request->arg_count == 3) {
        loan->flags |= OP_SET_CHECKSUM;
        loan->put.checksum = checksum;
    }
    loan_take_back(loan);
    lend_note(conn, request);
}

void cmd_loan_reply_commit(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    enum kvasir_status status = request->transfer_result;
    if (status == KVASIR_OK) {
        status = op->status;
    }
    if (status != KVASIR_OK && status != KVASIR_EXISTS) {
        count_failure(conn);
    }
    if (status == KVASIR_OK) {
        traffic_count_put(&conn->reactor->metrics.traffic, TRAFFIC_RDMA_CLIENT,
                          op->put.length_bytes);
        reply_ok(conn);
    } else if (status == KVASIR_EXISTS) {
        reply_simple(conn, "EXISTS");
    } else if (status == KVASIR_CORRUPT) {
        reply_error(conn, "CORRUPT the payload does not have this checksum");
    } else {
        reply_status(conn, status);
    }
}

void cmd_loan_plan_abort(struct conn *conn, struct request *request)
{
    struct loan *loan = find_reservation(conn, request);
    if (loan != NULL) {
        loan_take_back(loan);
        request->count = 1;
        lend_note(conn, request);
    }
}

void cmd_loan_reply_abort(struct conn *conn, struct request *request)
{
    reply_integer(conn, request->count);
}
