#include "server/transfer.h"

#include "base/check.h"
#include "server/checksum.h"
#include "server/conn.h"
#include "server/lend.h"
#include "server/reactor.h"
#include "server/remote.h"
#include "server/upload.h"

/* Puts of one round take at most this much memory, or this part of all: they hold it until the last of
 * them has come. One longer value has a round of its own. */
#define ROUND_BYTES_MAX (256ULL << 20)
#define ROUND_DIVISOR   8
/* Arguments of one segment of the client's memory: address, key, length. */
#define SEGMENT_ARGS 3

/* ---- planning ---- */

void transfer_note(struct conn *conn, struct request *request, enum transfer_kind kind,
                   uint32_t first_arg, uint64_t bytes)
{
    struct batch *batch = conn->batch;
    request->transfer = (uint8_t)kind;
    request->transfer_result = KVASIR_OK;
    request->first_arg = first_arg;
    request->number = (int64_t)bytes;
    batch->transfer_count++;
    if (kind == TRANSFER_IN) {
        batch->incoming_count++;
        batch->incoming_bytes += bytes;
    }
}

static bool is_about_loans(const struct request *request)
{
    if (request->command == NULL) {
        return false;
    }
    switch ((int)request->command->id) {
    case COMMAND_KV_LEASE:
    case COMMAND_KV_RELEASE:
    case COMMAND_KV_RESERVE:
    case COMMAND_KV_COMMIT:
    case COMMAND_KV_ABORT:
        return true;
    default:
        return false;
    }
}

bool transfer_may_join(const struct conn *conn, const struct request *request)
{
    const struct server *server = conn->reactor->server;
    const struct batch *batch = conn->batch;
    uint64_t most = (uint64_t)pages_present_count(server->payload) * SERVER_PAYLOAD_PAGE_BYTES;
    uint64_t length;
    bool put = request->command != NULL && request->command->id == COMMAND_KV_PUT;
    most = most / ROUND_DIVISOR < ROUND_BYTES_MAX ? most / ROUND_DIVISOR : ROUND_BYTES_MAX;
    if (batch->lending != NULL || (lend_is_on(conn) && is_about_loans(request))) {
        return false;
    }
    if (batch->incoming_count == 0) {
        return true;
    }
    /* What is no length is refused by its plan, in this round as well as in the next. */
    return put && request->refusal == REFUSAL_NONE && slice_to_u64(request->args[2], &length) &&
           length <= most && batch->incoming_bytes + length <= most;
}

/* ---- posting ---- */

static uint64_t number_at(const struct request *request, uint32_t index)
{
    uint64_t number = 0;
    check(index < request->arg_count && slice_to_u64(request->args[index], &number));
    return number;
}

static uint32_t link_at(const struct request *request, uint32_t index)
{
    return (uint32_t)(number_at(request, index + 1) >> REMOTE_KEY_LINK_BITS);
}

/* Finds the next request with something to move; false: there is none. */
static bool find_next(struct conn *conn, struct transfer *at)
{
    struct batch *batch = conn->batch;
    if (at->begun && batch->requests[at->next].transfer_result != KVASIR_OK) {
        at->begun = false; /* a part of it failed: the rest is of no use */
        at->next++;
    }
    for (; !at->begun && at->next < batch->request_planned; at->next++) {
        struct request *request = &batch->requests[at->next];
        const struct op *op;
        if (request->transfer == TRANSFER_NONE) {
            continue;
        }
        op = batch_op(batch, request, 0);
        if (op->status != KVASIR_OK || op->value == NULL || op->value->length_bytes == 0 ||
            op->value->length_bytes > (uint64_t)request->number) {
            continue; /* nothing to move, or nowhere to */
        }
        layout_cursor_init(&at->cursor, conn->reactor->server->payload, &op->value->layout,
                           op->value->length_bytes);
        at->left_bytes = op->value->length_bytes;
        at->segment_arg = request->first_arg;
        at->segment_used_bytes = 0;
        at->begun = true;
        return true;
    }
    return at->begun;
}

/* As much as fits of one stretch of the client's memory, and the pieces of the value that it holds. */
static void add_segment(struct transfer_post *post, struct transfer *at,
                        const struct request *request)
{
    const struct kvasir_memory *memory = remote_payload(post->conn, post->link);
    uint64_t length = number_at(request, at->segment_arg + 2);
    uint64_t room = length - at->segment_used_bytes;
    uint64_t most = TRANSFER_POST_BYTES - post->bytes;
    uint64_t taken = 0;
    room = room < at->left_bytes ? room : at->left_bytes;
    room = room < most ? room : most;
    while (taken < room && post->job.local_count < TRANSFER_PIECES_MAX) {
        struct iovec piece = layout_cursor_peek(&at->cursor);
        uint64_t part = piece.iov_len < room - taken ? piece.iov_len : room - taken;
        post->locals[post->job.local_count++] = (struct kvasir_local){
            .memory = memory, .address = (uintptr_t)piece.iov_base, .bytes = part};
        layout_cursor_skip(&at->cursor, part);
        taken += part;
    }
    if (taken > 0) {
        post->remotes[post->job.remote_count++] = (struct kvasir_remote){
            .address = number_at(request, at->segment_arg) + at->segment_used_bytes,
            .bytes = taken,
            .key = (uint32_t)number_at(request, at->segment_arg + 1)};
        post->bytes += taken;
    }
    at->left_bytes -= taken;
    at->segment_used_bytes += taken;
    if (at->segment_used_bytes == length) {
        at->segment_arg += SEGMENT_ARGS;
        at->segment_used_bytes = 0;
    }
    if (at->left_bytes == 0) {
        at->begun = false;
        at->next++;
    }
}

/* Of the segment that is posted next; one without bytes is passed over. */
static uint32_t next_link(const struct request *request, struct transfer *at)
{
    while (number_at(request, at->segment_arg + 2) == at->segment_used_bytes) {
        at->segment_arg += SEGMENT_ARGS;
        at->segment_used_bytes = 0;
    }
    return link_at(request, at->segment_arg);
}

/* Puts as much into the post as it takes; nothing: there is no more. */
static void fill_post(struct conn *conn, struct transfer_post *post, struct transfer *at)
{
    post->magic = TRANSFER_POST_MAGIC;
    post->conn = conn;
    post->bytes = 0;
    post->job = (struct kvasir_job){
        .cookie = (uintptr_t)post, .locals = post->locals, .remotes = post->remotes};
    while (post->job.local_count < TRANSFER_PIECES_MAX &&
           post->job.remote_count < TRANSFER_PIECES_MAX && post->bytes < TRANSFER_POST_BYTES &&
           find_next(conn, at)) {
        const struct request *request = &conn->batch->requests[at->next];
        enum kvasir_job_kind kind =
            request->transfer == TRANSFER_IN ? KVASIR_JOB_READ : KVASIR_JOB_WRITE;
        uint32_t link = next_link(request, at);
        if (post->bytes == 0) {
            post->job.kind = kind;
            post->link = (uint8_t)link;
            post->first = (uint16_t)at->next;
        } else if (post->job.kind != kind || post->link != link) {
            return;
        }
        post->last = (uint16_t)at->next;
        add_segment(post, at, request);
    }
}

static struct transfer_post *free_post(struct transfers *transfers)
{
    for (uint32_t i = 0; i < TRANSFER_POSTS_MAX; i++) {
        if (!transfers->posts[i].out) {
            return &transfers->posts[i];
        }
    }
    return NULL;
}

/* Of several queue pairs that failed a request the first is named. */
static void fail_requests(struct conn *conn, const struct transfer_post *post)
{
    for (uint32_t i = post->first; i <= post->last; i++) {
        struct request *request = &conn->batch->requests[i];
        if (request->transfer != TRANSFER_NONE && request->transfer_result == KVASIR_OK) {
            request->transfer_result = KVASIR_IO;
            request->transfer_link = post->link;
        }
    }
}

/* Posts what there is room for. */
static void post_all(struct conn *conn)
{
    struct transfers *transfers = &conn->remote->transfers;
    for (;;) {
        struct transfer_post *post = free_post(transfers);
        struct transfer at = transfers->at;
        enum kvasir_status status = KVASIR_CLOSED;
        if (post == NULL) {
            return;
        }
        fill_post(conn, post, &at);
        if (post->bytes == 0) {
            transfers->at = at;
            return;
        }
        if (remote_is_up(conn->remote, post->link)) {
            status = remote_submit(conn, post->link, &post->job);
        }
        if (status == KVASIR_AGAIN && transfers->out_count > 0) {
            return; /* what is out makes room when it comes back */
        }
        if (status == KVASIR_OK) {
            post->out = true;
            transfers->out_count++;
        } else {
            fail_requests(conn, post);
            remote_fail_link(conn, post->link);
        }
        transfers->at = at;
    }
}

/* True: nothing is out and nothing will be. */
static bool moves_are_done(const struct conn *conn)
{
    return conn->remote->transfers.out_count == 0;
}

void transfer_post_done(struct transfer_post *post, enum kvasir_status status)
{
    struct conn *conn = post->conn;
    struct transfers *transfers = &conn->remote->transfers;
    CHECK_MAGIC(post, TRANSFER_POST_MAGIC);
    check(post->out && transfers->moving);
    post->out = false;
    post->magic = 0;
    transfers->out_count--;
    transfers->moved_us = conn->reactor->now.mono_us;
    if (status != KVASIR_OK) {
        fail_requests(conn, post);
        remote_fail_link(conn, post->link);
    }
    post_all(conn);
    if (moves_are_done(conn)) {
        transfers->moving = false;
        batch_waited(conn->reactor, conn->batch);
    }
}

/* ---- the round ---- */

static void claim(struct conn *conn, uint64_t bytes)
{
    conn->remote->transfers.claimed_bytes = bytes;
    metric_add(&conn->reactor->metrics.uploads_long_bytes, bytes);
}

static void drop_claim(struct conn *conn)
{
    struct transfers *transfers = &conn->remote->transfers;
    if (transfers->claimed_bytes > 0) {
        metric_sub(&conn->reactor->metrics.uploads_long_bytes, transfers->claimed_bytes);
        transfers->claimed_bytes = 0;
        upload_wake_waiters(conn->reactor);
    }
}

/* True: there was nothing to wait for. */
static bool begin_moves(struct conn *conn)
{
    struct transfers *transfers = &conn->remote->transfers;
    transfers->at = (struct transfer){.next = conn->batch->request_first};
    transfers->moved_us = conn->reactor->now.mono_us;
    claim(conn, conn->batch->incoming_bytes);
    post_all(conn);
    if (moves_are_done(conn)) {
        return true;
    }
    transfers->moving = true;
    conn->batch->waiting++;
    return false;
}

/* True when the request's value has come. */
static bool has_come(struct batch *batch, const struct request *request)
{
    return request->transfer == TRANSFER_IN && request->transfer_result == KVASIR_OK &&
           batch_op(batch, request, 0)->status == KVASIR_OK;
}

/* Sums up what has come and has a checksum. False: that takes another turn. */
static bool verify_all(struct conn *conn)
{
    struct batch *batch = conn->batch;
    struct transfers *transfers = &conn->remote->transfers;
    for (; transfers->at.next < batch->request_planned; transfers->at.next++) {
        struct request *request = &batch->requests[transfers->at.next];
        const struct op *op;
        enum kvasir_status status;
        uint64_t sum = 0;
        if (!has_come(batch, request)) {
            continue;
        }
        op = batch_op(batch, request, 0);
        if ((op->flags & OP_SET_CHECKSUM) == 0) {
            continue;
        }
        status =
            checksum_advance(&transfers->checksum, conn->reactor->server->payload, op->value, &sum);
        if (status == KVASIR_PENDING) {
            conn_yield(conn);
            return false;
        }
        request->transfer_result =
            status == KVASIR_OK && sum != op->put.checksum ? KVASIR_CORRUPT : status;
    }
    return true;
}

/* The values that have come are sealed; the others' memory goes back with the batch's results. */
static void add_commits(struct conn *conn)
{
    struct batch *batch = conn->batch;
    batch_begin_again(batch);
    for (uint32_t i = batch->request_first; i < batch->request_planned; i++) {
        struct request *request = &batch->requests[i];
        if (has_come(batch, request)) {
            batch_op(batch, request, 0)->kind = OP_COMMIT;
            batch_add_again(batch, request);
        }
    }
}

static void count_one(struct reactor *reactor, const struct request *request, const struct op *op)
{
    struct traffic *traffic = &reactor->metrics.traffic;
    if (request->transfer_result == KVASIR_IO) {
        metric_add(&traffic->paths[TRAFFIC_RDMA].failed, 1);
    } else if (request->transfer_result != KVASIR_OK || op->status != KVASIR_OK) {
        return;
    } else if (request->transfer == TRANSFER_IN) {
        traffic_count_put(traffic, TRAFFIC_RDMA, (uint64_t)request->number);
    } else if (op->integer <= request->number) {
        traffic_count_get(traffic, TRAFFIC_RDMA, (uint64_t)op->integer);
    }
}

static void end_round(struct conn *conn)
{
    struct batch *batch = conn->batch;
    for (uint32_t i = batch->request_first; i < batch->request_planned; i++) {
        struct request *request = &batch->requests[i];
        if (request->transfer != TRANSFER_NONE) {
            count_one(conn->reactor, request, batch_op(batch, request, 0));
        }
    }
    batch->transfer_count = 0;
    batch->stage = TRANSFER_STAGE_OPS;
    drop_claim(conn);
}

bool transfer_settle(struct conn *conn)
{
    struct batch *batch = conn->batch;
    if (batch->lending != NULL) {
        return lend_settle(conn);
    }
    if (batch->stage == TRANSFER_STAGE_OPS) {
        batch->stage = TRANSFER_STAGE_MOVES;
        if (!begin_moves(conn)) {
            return false;
        }
    }
    if (batch->stage == TRANSFER_STAGE_MOVES) {
        batch->stage = TRANSFER_STAGE_SUMS;
        conn->remote->transfers.at = (struct transfer){.next = batch->request_first};
    }
    if (batch->stage == TRANSFER_STAGE_SUMS) {
        if (!verify_all(conn)) {
            return false;
        }
        batch->stage = TRANSFER_STAGE_COMMITS;
        add_commits(conn);
        if (!batch_dispatch(conn->reactor, batch)) {
            return false;
        }
    }
    end_round(conn);
    return true;
}

void transfer_give_up(struct conn *conn)
{
    struct remote *remote = conn->remote;
    bool any = remote->transfers.out_count > 0;
    for (uint32_t i = 0; i < TRANSFER_POSTS_MAX; i++) {
        if (remote->transfers.posts[i].out) {
            remote_fail_link(conn, remote->transfers.posts[i].link);
        }
    }
    for (uint32_t i = 0; !any && i < REMOTE_LINKS_MAX; i++) {
        remote_fail_link(conn, i); /* windows, or the client's address */
    }
}

void transfer_abandon(struct conn *conn)
{
    check(conn->remote->transfers.out_count == 0);
    checksum_destroy(&conn->remote->transfers.checksum);
    drop_claim(conn);
}
