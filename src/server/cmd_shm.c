#include "server/cmd_shm.h"

#include "base/check.h"
#include "server/cmd_kv.h"
#include "server/cmd_loan.h"
#include "server/lend.h"
#include "server/reply.h"
#include "server/shm.h"

/* A commit copies so much in one turn. */
#define COPY_BYTES_MAX        (1U << 20)
#define STAGING_DEFAULT_BYTES (32ULL << 20)
/* Less than this is not divided any more. */
#define STAGING_LAST_BYTES (4ULL << 20)

static const char ERROR_NO_STAGING[] =
    "UNSUPPORTED the connection has no staging memory: KV.CONNECT SHM on the Unix socket comes first; "
    "KV.SET needs none";

static void count_failure(struct conn *conn)
{
    metric_add(&conn->reactor->metrics.traffic.paths[TRAFFIC_SHM].failed, 1);
}

/* Descriptors travel with the reply, and where the rings begin is behind it. */
static const char ERROR_MUTED[] = "ERR KV.CONNECT means nothing without its reply (CLIENT REPLY)";

/* ---- KV.CONNECT SHM [STAGING bytes] and KV.CONNECT RING ---- */

static bool parse_staging(struct conn *conn, const struct request *request, uint64_t *bytes)
{
    const struct settings *settings = &conn->reactor->settings;
    *bytes = STAGING_DEFAULT_BYTES < settings->shm_staging_max ? STAGING_DEFAULT_BYTES
                                                               : settings->shm_staging_max;
    if (request->arg_count == 2) {
        return true;
    }
    if (request->arg_count != 4 || !slice_equal_nocase(request->args[2], "staging")) {
        reply_error(conn, ERROR_SYNTAX);
        return false;
    }
    if (!slice_to_u64(request->args[3], bytes) || *bytes < SHM_BLOCK_BYTES ||
        *bytes > settings->shm_staging_max) {
        reply_errorf(conn, "TOOLARGE STAGING takes %u to shm-staging-max %llu bytes",
                     SHM_BLOCK_BYTES, (unsigned long long)settings->shm_staging_max);
        return false;
    }
    return true;
}

/* The reply is the last thing that goes over the socket. */
void cmd_shm_reply_connect_ring(struct conn *conn, struct request *request)
{
    if (request->arg_count != 2) {
        reply_error(conn, ERROR_SYNTAX);
    } else if (conn->muted) {
        reply_error(conn, ERROR_MUTED);
    } else if (conn->staging == NULL) {
        reply_error(conn, ERROR_NO_STAGING);
    } else if (conn->ring_asked || conn->wire.kind == WIRE_RINGS) {
        reply_error(conn, "EXISTS the connection has its rings already");
    } else if (conn->reactor->ring_count >= REACTOR_RINGS_MAX) {
        reply_errorf(conn, "BUSY this reactor watches %u rings already; the socket stays in use",
                     REACTOR_RINGS_MAX);
    } else {
        conn->reactor->ring_count++;
        conn->ring_asked = true;
        reply_ok(conn);
    }
}

void cmd_shm_reply_connect(struct conn *conn, struct request *request)
{
    struct reactor *reactor = conn->reactor;
    const struct server *server = reactor->server;
    uint64_t bytes;
    uint64_t left;
    int descriptors[OUTPUT_DESCRIPTOR_COUNT];
    if (!shm_allowed(conn) || !parse_staging(conn, request, &bytes)) {
        return;
    }
    if (conn->muted) {
        reply_error(conn, ERROR_MUTED);
        return;
    }
    if (conn->staging != NULL) {
        reply_error(conn, "EXISTS the connection has shared memory already");
        return;
    }
    left = server->staging_bytes_max - reactor->shm_staging_bytes;
    left = left > SHM_RINGS_BYTES ? left - SHM_RINGS_BYTES : 0;
    /* What was asked for is a wish: the next client shall find something, too. */
    if (left > STAGING_LAST_BYTES) {
        left = left / 2 > STAGING_LAST_BYTES ? left / 2 : STAGING_LAST_BYTES;
    }
    bytes = bytes < left ? bytes : left;
    bytes = bytes / SHM_BLOCK_BYTES * SHM_BLOCK_BYTES;
    if (bytes == 0) {
        reply_errorf(conn,
                     "BUSY staging areas take all of this reactor's %llu bytes "
                     "(shm-staging-total)",
                     (unsigned long long)server->staging_bytes_max);
        return;
    }
    if (!shm_staging_open(conn, bytes)) {
        return;
    }
    descriptors[0] = region_descriptor(server->payload_region);
    descriptors[1] = conn->staging->descriptor;
    if (!output_descriptors(&conn->output, descriptors)) {
        return; /* the connection closes for want of buffers */
    }
    reply_map(conn, 6);
    reply_pair_integer(conn, "region_bytes", (int64_t)region_size_bytes(server->payload_region));
    reply_pair_integer(conn, "page_bytes", SERVER_PAYLOAD_PAGE_BYTES);
    reply_pair_integer(conn, "staging_bytes", (int64_t)bytes);
    reply_pair_integer(conn, "ring_offset", (int64_t)bytes);
    reply_pair_integer(conn, "ring_bytes", SHM_RING_BYTES);
    reply_pair_integer(conn, "lease_ms_max", (int64_t)reactor->settings.lease_max_ms);
}

void cmd_shm_reply_connect_help(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "KV.CONNECT <subcommand> [<arg> ...]. Subcommands are:",
        "RDMA <name> <value> [...]",
        "    Opens the RDMA path: KV.PUT ... FROM and KV.GET ... INTO.",
        "RING",
        "    Requests and replies go through shared memory from here on.",
        "SHM [STAGING <bytes>]",
        "    Opens the shared-memory path: KV.LEASE and KV.RESERVE.",
        "HELP",
        "    Print this help.",
    };
    (void)request;
    reply_lines(conn, lines, ARRAY_COUNT(lines));
}

/* ---- KV.RESERVE: request->number is the hold ---- */

static void own_plan_reserve(struct conn *conn, struct request *request)
{
    struct op_put put = {0};
    uint64_t timeout_ms;
    uint32_t flags;
    struct op *op;
    if (conn->staging == NULL) {
        request_refuse(request, ERROR_NO_STAGING);
        return;
    }
    if (!cmd_kv_parse_reserve(conn, request, &flags, &put, &timeout_ms)) {
        return;
    }
    if (put.length_bytes > conn->staging->size_bytes) {
        request_refuse(request, "TOOLARGE the value is longer than the staging area; use KV.SET");
        return;
    }
    request->number = shm_hold_take(conn->staging, put.length_bytes);
    if (request->number == SHM_HOLD_NONE) {
        count_failure(conn);
        request_refuse(request,
                       "BUSY the staging area is full; commit or abort reservations first");
        return;
    }
    op = batch_add_op(conn->batch, request, OP_GRANT_RESERVE, request->args[1]);
    op->put = put;
    op->flags = flags;
    op->deadline_us = conn->reactor->now.mono_us + (int64_t)timeout_ms * 1000;
    conn->grant_shards |= UINT64_C(1) << conn->batch->ops[request->op_first].shard;
}

static void reply_hold(struct conn *conn, uint16_t hold)
{
    const struct staging *staging = conn->staging;
    uint64_t length = staging->holds[hold].length_bytes;
    uint64_t offset = 0;
    unsigned count = 0;
    while (offset < length) {
        offset += shm_hold_piece(staging, hold, offset).length_bytes;
        count++;
    }
    reply_array(conn, 2 * (uint64_t)count);
    offset = 0;
    while (offset < length) {
        struct shm_piece piece = shm_hold_piece(staging, hold, offset);
        reply_integer(conn, (int64_t)piece.offset_bytes);
        reply_integer(conn, (int64_t)piece.length_bytes);
        offset += piece.length_bytes;
    }
}

static void own_reply_reserve(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    uint16_t hold = (uint16_t)request->number;
    if (op->status != KVASIR_OK) {
        shm_hold_give(conn->staging, hold);
        if (op->status == KVASIR_EXISTS) {
            reply_simple(conn, "EXISTS");
        } else {
            count_failure(conn);
            reply_failure(conn, request->command, op);
        }
        return;
    }
    conn->staging->holds[hold].grant_id = op->grant_id;
    reply_array(conn, 3);
    reply_integer(conn, (int64_t)op->grant_id);
    reply_integer(conn, (op->deadline_us - conn->reactor->now.mono_us) / 1000);
    reply_hold(conn, hold);
}

/* ---- KV.COMMIT and KV.ABORT ---- */

/* Steps of a commit: the value is asked for, filled over some turns, summed over some, sealed. */
enum commit_step {
    COMMIT_FILL,
    COMMIT_COPY,
    COMMIT_SUM, /* if there is a checksum */
    COMMIT_SEAL
};

/* The id in args[1] and its hold; false: refused. */
static bool find_grant(struct conn *conn, struct request *request, uint64_t *id)
{
    if (conn->staging == NULL) {
        request_refuse(request, ERROR_NO_STAGING);
        return false;
    }
    if (!slice_to_u64(request->args[1], id) ||
        shard_of_grant(*id) >= conn->reactor->server->reactor_count) {
        request_refuse(request, "NOTFOUND this connection has no such reservation");
        return false;
    }
    request->number = shm_hold_find(conn->staging, *id);
    if (request->number == SHM_HOLD_NONE || *id == 0) {
        request_refuse(request, "NOTFOUND this connection has no such reservation");
        return false;
    }
    return true;
}

static void plan_fill(struct conn *conn, struct request *request)
{
    uint64_t id;
    uint64_t checksum = 0;
    if (request->arg_count == 3 && !slice_to_hex64(request->args[2], &checksum)) {
        request_refuse(request, "ERR the checksum is not a hexadecimal number");
        return;
    }
    if (!find_grant(conn, request, &id)) {
        return;
    }
    conn->staging->commit =
        (struct staging_commit){.hold = (uint16_t)request->number, .checksum = checksum};
    batch_add_op_at(conn->batch, request, OP_GRANT_FILL, shard_of_grant(id))->grant_id = id;
}

static void plan_copy(struct conn *conn, struct request *request)
{
    struct staging *staging = conn->staging;
    uint64_t budget = COPY_BYTES_MAX;
    (void)request;
    while (budget > 0 && conn->upload.left_bytes > 0) {
        struct shm_piece piece =
            shm_hold_piece(staging, staging->commit.hold, staging->commit.copied_bytes);
        uint64_t part = piece.length_bytes < budget ? piece.length_bytes : budget;
        check(part > 0);
        upload_copy(&conn->upload, staging->base + piece.offset_bytes, (size_t)part);
        staging->commit.copied_bytes += part;
        budget -= part;
    }
    metric_add(&conn->reactor->metrics.upload_bytes, COPY_BYTES_MAX - budget);
    if (conn->upload.left_bytes > 0) {
        conn_yield(conn);
    }
}

static void plan_sum(struct conn *conn, struct request *request)
{
    const struct staging_commit *commit = &conn->staging->commit;
    enum kvasir_status status = upload_verify(conn, commit->put.checksum);
    if (status == KVASIR_PENDING) {
        conn_yield(conn);
    } else if (status != KVASIR_OK) {
        upload_abandon(conn);
        shm_hold_give(conn->staging, commit->hold);
        count_failure(conn);
        request_refuse(request, status == KVASIR_CORRUPT
                                    ? "CORRUPT the payload does not have this checksum"
                                    : ERROR_NO_CHECKSUM);
    }
}

static void plan_seal(struct conn *conn, struct request *request)
{
    const struct staging_commit *commit = &conn->staging->commit;
    struct op *op;
    op = batch_add_op_at(conn->batch, request, OP_COMMIT, conn->upload.shard);
    op->value = conn->upload.value;
    conn->upload.value = NULL;
    conn->upload.state = UPLOAD_NONE;
    op->put = commit->put;
    op->flags = commit->flags;
}

static void own_plan_commit(struct conn *conn, struct request *request)
{
    switch ((enum commit_step)request->count) {
    case COMMIT_FILL:
        plan_fill(conn, request);
        return;
    case COMMIT_COPY:
        plan_copy(conn, request);
        return;
    case COMMIT_SUM:
        plan_sum(conn, request);
        return;
    case COMMIT_SEAL:
        plan_seal(conn, request);
        return;
    }
    unreachable();
}

/* The reservation is ours to fill. */
static void begin_copy(struct conn *conn, struct request *request, struct op *op)
{
    struct staging_commit *commit = &conn->staging->commit;
    uint64_t given = commit->checksum;
    commit->flags = op->flags;
    commit->put = op->put;
    if (request->arg_count == 3) {
        commit->flags |= OP_SET_CHECKSUM;
        commit->put.checksum = given;
    }
    conn->upload = (struct upload){.state = UPLOAD_STAGED,
                                   .shard = conn->batch->ops[request->op_first].shard,
                                   .value = op->value,
                                   .left_bytes = op->put.length_bytes};
    layout_cursor_init(&conn->upload.cursor, conn->reactor->server->payload, &op->value->layout,
                       op->value->length_bytes);
    op->value = NULL;
    request->count = COMMIT_COPY;
    request->more = true;
}

static void finish_commit(struct conn *conn, enum kvasir_status status)
{
    shm_hold_give(conn->staging, conn->staging->commit.hold);
    if (status == KVASIR_OK) {
        traffic_count_put(&conn->reactor->metrics.traffic, TRAFFIC_SHM,
                          conn->staging->commit.put.length_bytes);
        reply_ok(conn);
    } else if (status == KVASIR_EXISTS) {
        reply_simple(conn, "EXISTS");
    } else {
        count_failure(conn);
        reply_status(conn, status);
    }
}

static void own_reply_commit(struct conn *conn, struct request *request)
{
    switch ((enum commit_step)request->count) {
    case COMMIT_FILL: {
        struct op *op = batch_op(conn->batch, request, 0);
        if (op->status == KVASIR_OK) {
            begin_copy(conn, request, op);
        } else {
            finish_commit(conn, op->status);
        }
        return;
    }
    case COMMIT_COPY:
        if (conn->upload.left_bytes == 0) {
            bool summed = (conn->staging->commit.flags & OP_SET_CHECKSUM) != 0;
            request->count = summed ? COMMIT_SUM : COMMIT_SEAL;
        }
        request->more = true;
        return;
    case COMMIT_SUM:
        request->count = conn->upload.checksum != NULL ? COMMIT_SUM : COMMIT_SEAL;
        request->more = true;
        return;
    case COMMIT_SEAL:
        finish_commit(conn, batch_op(conn->batch, request, 0)->status);
        return;
    }
    unreachable();
}

static void own_plan_abort(struct conn *conn, struct request *request)
{
    uint64_t id;
    if (find_grant(conn, request, &id)) {
        batch_add_op_at(conn->batch, request, OP_GRANT_ABORT, shard_of_grant(id))->grant_id = id;
    }
}

static void own_reply_abort(struct conn *conn, struct request *request)
{
    shm_hold_give(conn->staging, (uint16_t)request->number);
    reply_integer(conn, batch_op(conn->batch, request, 0)->status == KVASIR_OK ? 1 : 0);
}

/* ---- either way ---- */

/* On a connection with windows these are about loans. */
void cmd_shm_plan_reserve(struct conn *conn, struct request *request)
{
    if (UNLIKELY(lend_is_on(conn))) {
        cmd_loan_plan_reserve(conn, request);
    } else {
        own_plan_reserve(conn, request);
    }
}

void cmd_shm_reply_reserve(struct conn *conn, struct request *request)
{
    if (UNLIKELY(lend_is_on(conn))) {
        cmd_loan_reply_reserve(conn, request);
    } else {
        own_reply_reserve(conn, request);
    }
}

void cmd_shm_plan_commit(struct conn *conn, struct request *request)
{
    if (UNLIKELY(lend_is_on(conn))) {
        cmd_loan_plan_commit(conn, request);
    } else {
        own_plan_commit(conn, request);
    }
}

void cmd_shm_reply_commit(struct conn *conn, struct request *request)
{
    if (UNLIKELY(lend_is_on(conn))) {
        cmd_loan_reply_commit(conn, request);
    } else {
        own_reply_commit(conn, request);
    }
}

void cmd_shm_plan_abort(struct conn *conn, struct request *request)
{
    if (UNLIKELY(lend_is_on(conn))) {
        cmd_loan_plan_abort(conn, request);
    } else {
        own_plan_abort(conn, request);
    }
}

void cmd_shm_reply_abort(struct conn *conn, struct request *request)
{
    if (UNLIKELY(lend_is_on(conn))) {
        cmd_loan_reply_abort(conn, request);
    } else {
        own_reply_abort(conn, request);
    }
}
