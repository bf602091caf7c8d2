#include "server/loan.h"

#include "base/check.h"
#include "base/fault.h"
#include "server/conn.h"
#include "server/pin_mail.h"
#include "server/reactor.h"
#include "server/remote.h"
#include "server/upload.h"

#include <stdlib.h>

/* Loans to readers hold at most this part of the payload, as leases do. */
#define LENT_DIVISOR 2

void loan_init(struct loans *loans)
{
    *loans = (struct loans){.on = false};
    list_init(&loans->list);
}

/* ---- how much ---- */

static struct metric *counted_in(const struct loan *loan)
{
    struct reactor_metrics *metrics = &loan->conn->reactor->metrics;
    return loan->writes ? &metrics->uploads_long_bytes : &metrics->rdma_lent_bytes;
}

bool loan_fits(const struct conn *conn, bool writes, uint64_t bytes)
{
    const struct server *server = conn->reactor->server;
    uint64_t payload = (uint64_t)pages_present_count(server->payload) * SERVER_PAYLOAD_PAGE_BYTES;
    uint64_t lent = 0;
    if (writes) {
        return upload_claims_fit(server, bytes);
    }
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        lent += metric_get(&server->reactors[i]->metrics.rdma_lent_bytes);
    }
    return lent == 0 || lent + bytes <= payload / LENT_DIVISOR;
}

/* ---- making ---- */

static uint32_t count_pieces(const struct pages *payload, const struct value *value)
{
    struct layout_cursor cursor;
    struct iovec piece;
    uint32_t count = 0;
    layout_cursor_init(&cursor, payload, &value->layout, value->length_bytes);
    while ((piece = layout_cursor_peek(&cursor)).iov_len > 0) {
        layout_cursor_skip(&cursor, piece.iov_len);
        count++;
    }
    return count;
}

static void fill_grants(struct loan *loan, const struct pages *payload,
                        const struct kvasir_memory *memory)
{
    struct layout_cursor cursor;
    layout_cursor_init(&cursor, payload, &loan->value->layout, loan->value->length_bytes);
    for (uint32_t i = 0; i < loan->grant_count; i++) {
        struct iovec piece = layout_cursor_peek(&cursor);
        loan->grants[i] = (struct kvasir_grant){
            .local = {.memory = memory,
                      .address = (uintptr_t)piece.iov_base,
                      .bytes = piece.iov_len},
            .rights = loan->writes ? KVASIR_RIGHT_REMOTE_WRITE : KVASIR_RIGHT_REMOTE_READ,
        };
        layout_cursor_skip(&cursor, piece.iov_len);
    }
}

struct loan *loan_create(struct conn *conn, uint32_t shard, struct op *op, bool writes)
{
    struct loans *loans = &conn->remote->loans;
    const struct pages *payload = conn->reactor->server->payload;
    uint32_t count = count_pieces(payload, op->value);
    struct loan *loan;
    if (loans->count >= LOANS_MAX || !loan_fits(conn, writes, op->value->length_bytes)) {
        op->status = KVASIR_BUSY;
        return NULL;
    }
    loan = fault_hit("server.loan") ? NULL
                                    : calloc(1, sizeof(*loan) + count * sizeof(loan->grants[0]));
    if (loan == NULL) {
        op->status = KVASIR_NO_MEMORY;
        return NULL;
    }
    loan->magic = LOAN_MAGIC;
    loan->conn = conn;
    loan->writes = writes;
    loan->wanted = true;
    /* Of the reactor: what a client says of loans of its last queue pair concerns none of this one. */
    loan->id = ++conn->reactor->hub.loan_last_id;
    loan->shard = shard;
    loan->value = op->value;
    op->value = NULL;
    loan->bytes = loan->value->length_bytes;
    loan->grant_count = count;
    loan->remote_link = (uint8_t)remote_next_lender(conn->remote);
    fill_grants(loan, payload, remote_payload(conn, loan->remote_link));
    metric_add(counted_in(loan), loan->bytes);
    list_push_back(&loans->list, &loan->link);
    loans->count++;
    loans->wanted_count++;
    return loan;
}

struct loan *loan_find(const struct conn *conn, uint64_t id, bool writes)
{
    list_foreach (cursor, &conn->remote->loans.list) {
        struct loan *loan = list_entry(cursor, struct loan, link);
        if (loan->id == id && loan->writes == writes && loan->state == LOAN_OUT) {
            return loan;
        }
    }
    return NULL;
}

void loan_free(struct loan **loan_p)
{
    struct loan *loan = *loan_p;
    struct loans *loans = &loan->conn->remote->loans;
    CHECK_MAGIC(loan, LOAN_MAGIC);
    check(loan->state == LOAN_OVER);
    if (loan->value != NULL) {
        pin_mail_release(loan->conn->reactor, loan->shard, loan->value);
    }
    metric_sub(counted_in(loan), loan->bytes);
    if (loan->writes) {
        upload_wake_waiters(loan->conn->reactor);
    }
    list_remove(&loan->link);
    loans->count--;
    loan->magic = 0;
    free(loan);
    *loan_p = NULL;
}

/* ---- going on ---- */

/* What the batch waited for has come. */
static void answered(struct loan *loan)
{
    struct loans *loans = &loan->conn->remote->loans;
    check(loans->wanted_count > 0);
    loans->wanted_count--;
}

static void over(struct loan *loan)
{
    loan->state = LOAN_OVER;
    if (loan->wanted) {
        answered(loan);
    } else {
        loan_free(&loan);
    }
}

static void given_out(struct loan *loan)
{
    loan->state = LOAN_OUT;
    loan->wanted = false;
    answered(loan);
}

void loan_take_back(struct loan *loan)
{
    check(loan->state == LOAN_OUT && !loan->wanted);
    loan->state = LOAN_DUE;
    loan->wanted = true;
    loan->conn->remote->loans.wanted_count++;
}

/* A loan that waits for its job. */
static void post_one(struct loan *loan)
{
    struct remote *remote = loan->conn->remote;
    bool bind = loan->state == LOAN_NEW;
    enum kvasir_status status = KVASIR_CLOSED;
    if (bind && loan->recalled) {
        over(loan);
        return;
    }
    if (loan->grant_count == 0 && bind) {
        given_out(loan); /* an empty value: there is nothing to reach */
        return;
    }
    if (loan->grant_count > 0 && remote_is_up(remote, loan->remote_link)) {
        loan->job = (struct kvasir_job){.kind = bind ? KVASIR_JOB_BIND : KVASIR_JOB_REVOKE,
                                        .cookie = (uintptr_t)loan,
                                        .grants = loan->grants,
                                        .grant_count = loan->grant_count};
        status = remote_submit(loan->conn, loan->remote_link, &loan->job);
    }
    if (status == KVASIR_OK) {
        loan->state = bind ? LOAN_BINDING : LOAN_REVOKING;
        remote->loans.job_count++;
    } else if (status == KVASIR_AGAIN && (!bind || remote->loans.job_count > 0)) {
        return; /* with the next event, or tick */
    } else {
        /* Without its queue pair, or windows, it has no right to lose. */
        if (bind) {
            loan->status = status == KVASIR_AGAIN ? KVASIR_BUSY : KVASIR_IO;
        }
        over(loan);
    }
}

void loan_post(struct conn *conn)
{
    list_foreach_safe (cursor, after, &conn->remote->loans.list) {
        struct loan *loan = list_entry(cursor, struct loan, link);
        if (loan->state == LOAN_NEW || loan->state == LOAN_DUE) {
            post_one(loan);
        }
    }
}

/* The batch goes on in this connection's next turn, once nothing is left that it waits for. */
static void wake(struct conn *conn)
{
    struct remote *remote = conn->remote;
    if (remote->transfers.lending && remote->transfers.moving && remote->loans.wanted_count == 0) {
        remote->transfers.moving = false;
        if (conn->dead) {
            batch_waited(conn->reactor, conn->batch);
        } else {
            conn->yielded = true; /* what gives back is what the batch waits for */
            conn_run_later(conn);
        }
    }
}

void loan_event(struct loan *loan, enum kvasir_status status)
{
    struct conn *conn = loan->conn;
    struct remote *remote = conn->remote;
    CHECK_MAGIC(loan, LOAN_MAGIC);
    check(loan_is_under_way(loan));
    remote->loans.job_count--;
    remote->transfers.moved_us = conn->reactor->now.mono_us;
    if (loan->state == LOAN_REVOKING) {
        over(loan);
    } else if (status != KVASIR_OK || !remote_is_up(remote, loan->remote_link)) {
        loan->status = KVASIR_IO;
        over(loan);
    } else if (loan->recalled) {
        loan->state = LOAN_DUE;
    } else {
        given_out(loan);
    }
    loan_post(conn);
    wake(conn);
}

void loan_end_all(struct conn *conn, uint32_t remote_link)
{
    list_foreach_safe (cursor, after, &conn->remote->loans.list) {
        struct loan *loan = list_entry(cursor, struct loan, link);
        if (loan->state == LOAN_OUT && loan->remote_link == remote_link) {
            loan->state = LOAN_OVER;
            loan_free(&loan);
        }
    }
}

bool loan_is_busy(const struct remote *remote, uint32_t remote_link)
{
    list_foreach (cursor, &remote->loans.list) {
        const struct loan *loan = list_entry(cursor, struct loan, link);
        if (loan->remote_link == remote_link && loan_is_under_way(loan)) {
            return true;
        }
    }
    return false;
}

/* Nobody has been told its keys yet, and nobody will be. */
static void recall_early(struct loan *loan)
{
    loan->recalled = true;
    loan->status = KVASIR_NOT_FOUND;
}

void loan_recall(struct conn *conn, uint32_t shard, const struct recall_list *list)
{
    struct loans *loans = &conn->remote->loans;
    const struct batch *batch = conn->batch;
    list_foreach (cursor, &loans->list) {
        struct loan *loan = list_entry(cursor, struct loan, link);
        bool early = loan->state == LOAN_NEW || loan->state == LOAN_BINDING;
        if (loan->writes || loan->recalled || loan->shard != shard || loan->value == NULL ||
            (!early && loan->state != LOAN_OUT) || !recall_list_names(list, shard, loan->value)) {
            continue;
        }
        if (early) {
            recall_early(loan);
        } else {
            loan->state = LOAN_DUE;
        }
        metric_add(&conn->reactor->metrics.traffic.loans_recalled, 1);
    }
    if (batch != NULL && batch->lending != NULL && batch->stage == TRANSFER_STAGE_OPS) {
        for (uint32_t i = 0; i < list->count; i++) {
            recall_list_add(&loans->missed, list->recalls[i]);
        }
        loans->missed.all = loans->missed.all || list->all;
    }
    loan_post(conn);
    wake(conn);
}

void loan_tick(struct conn *conn)
{
    list_foreach (cursor, &conn->remote->loans.list) {
        struct loan *loan = list_entry(cursor, struct loan, link);
        if (loan->state == LOAN_OUT && loan->deadline_us <= conn->reactor->now.mono_us) {
            loan->state = LOAN_DUE;
            metric_add(&conn->reactor->metrics.traffic.loans_expired, 1);
        }
    }
    loan_post(conn);
    wake(conn);
}

void loan_fini(struct conn *conn, uint32_t remote_link)
{
    check(!loan_is_busy(conn->remote, remote_link));
    list_foreach_safe (cursor, after, &conn->remote->loans.list) {
        struct loan *loan = list_entry(cursor, struct loan, link);
        if (loan->remote_link == remote_link) {
            loan->state = LOAN_OVER;
            loan_free(&loan);
        }
    }
}
