#include "server/serve.h"

#include "base/check.h"
#include "base/clock.h"
#include "server/access.h"
#include "server/cmd_monitor.h"
#include "server/cmd_pubsub.h"
#include "server/cmd_transaction.h"
#include "server/conn.h"
#include "server/gather.h"
#include "server/handlers.h"
#include "server/kept.h"
#include "server/many_keys.h"
#include "server/monitor.h"
#include "server/pause.h"
#include "server/push.h"
#include "server/refuse.h"
#include "server/reply.h"
#include "server/transfer.h"

#include <stdlib.h>
#include <string.h>

/* Ops that a request of one key may need: planning stops when fewer are left. */
#define PLAN_OPS_MIN 4

static const char ERROR_NO_ARGS[] = "out of memory for the arguments of this request: all that one "
                                    "reactor keeps of requests share client-query-buffer-limit";

/* How fast a client is expected to copy what it leased, and for how long it is waited for at most. */
#define LEASE_COPY_BYTES_PER_US 8000U
#define LEASE_COPY_US_MAX       4000U

/* Room for arguments beyond those that have arrived: the one under way needs its place. */
#define ARGS_AHEAD 4
/* An array of so few arguments is had in any case: it takes no more than its connection does. */
#define ARGS_SHORT_BYTES 4096U

/* ---- parsing ---- */

static struct reader_limits limits_of(const struct conn *conn)
{
    if (!conn->authenticated) {
        return READER_LIMITS_UNAUTHENTICATED;
    }
    return (struct reader_limits){.args_max = 1024 * 1024,
                                  .bulk_bytes_max = conn->reactor->settings.proto_max_bulk_len,
                                  .inline_bytes_max = 64U << 10};
}

/* Memory for arguments, which may take more than their bytes do: it counts as those of long requests. */
static struct slice *take_args(struct chunk_pool *pool, uint32_t count)
{
    size_t bytes = count * sizeof(struct slice);
    struct slice *args = NULL;
    if (bytes <= ARGS_SHORT_BYTES || pool->large_bytes + bytes <= pool->large_bytes_max) {
        args = malloc(bytes);
    }
    if (args != NULL) {
        pool->large_bytes += bytes;
    }
    return args;
}

void serve_forget_args(struct conn *conn)
{
    if (conn->args != NULL && conn->args != conn->args_inline) {
        conn->reactor->chunks.large_bytes -= conn->args_capacity * sizeof(struct slice);
        free(conn->args);
    }
    conn->args = NULL;
}

/* Gives the request that is coming in an argument array that outlives the batch. wanted is at least
 * what it has. False: no memory. */
static bool keep_args(struct conn *conn, const struct slice *args, uint32_t wanted)
{
    uint32_t have = conn->reader.arg_count;
    struct slice *kept = conn->args_inline;
    if (wanted > CONN_ARGS_INLINE) {
        kept = take_args(&conn->reactor->chunks, wanted);
        if (kept == NULL) {
            return false;
        }
    }
    if (have > 0 && kept != args) {
        memcpy(kept, args, have * sizeof(*kept));
    }
    serve_forget_args(conn);
    conn->args = kept;
    conn->args_capacity = wanted > CONN_ARGS_INLINE ? wanted : CONN_ARGS_INLINE;
    return true;
}

/* Reads the next request; READER_REQUEST: it is the batch's last. */
static enum reader_result parse_one(struct conn *conn, struct batch *batch)
{
    struct reader_limits limits = limits_of(conn);
    uint8_t *data = input_begin(&conn->input) + conn->parsed_bytes;
    size_t length = input_length(&conn->input) - conn->parsed_bytes;
    size_t start_bytes = conn->parsed_bytes;
    for (;;) {
        struct slice *args = conn->args != NULL ? conn->args : batch->args + batch->arg_count;
        uint32_t capacity =
            conn->args != NULL ? conn->args_capacity : BATCH_ARGS_MAX - batch->arg_count;
        size_t consumed = 0;
        enum reader_result result =
            request_reader_advance(&conn->reader, data, length, &limits, args, capacity, &consumed);
        if (result == READER_ARGS_FULL) {
            if (!keep_args(conn, args, conn->reader.args_wanted)) {
                conn->reader.error = ERROR_NO_ARGS;
                return READER_ERROR;
            }
            continue;
        }
        if (result == READER_MORE || result == READER_BULK) {
            if (result == READER_MORE) {
                conn->parsed_bytes += consumed;
            } else {
                conn->upload.payload_offset = consumed;
            }
            if (conn->reader.arg_count > 0 && conn->args == NULL &&
                !keep_args(conn, args, conn->reader.arg_count + ARGS_AHEAD)) {
                conn->reader.error = ERROR_NO_ARGS;
                return READER_ERROR;
            }
        }
        if (result == READER_REQUEST) {
            struct request *request = &batch->requests[batch->request_count++];
            conn->parsed_bytes += consumed;
            *request = (struct request){.args = args,
                                        .database = conn_database(conn),
                                        .arg_count = conn->reader.arg_count,
                                        .start_bytes = (uint32_t)start_bytes};
            if (conn->args == NULL) {
                batch->arg_count += request->arg_count;
            }
        }
        return result;
    }
}

/* What is known about a request before it runs. */
static void admit(struct conn *conn, struct request *request)
{
    request->command = command_find(request->args, request->arg_count);
    if (request->command == NULL) {
        request->refusal = conn->authenticated ? REFUSAL_UNKNOWN_COMMAND : REFUSAL_NOAUTH;
    } else if (!conn->authenticated && (request->command->flags & COMMAND_FLAG_NO_AUTH) == 0) {
        request->refusal = REFUSAL_NOAUTH;
    } else if (!command_arity_ok(request->command, request->arg_count)) {
        request->refusal = REFUSAL_ARITY;
    } else if (handlers_find(request->command->id)->reply == NULL ||
               ((request->command->flags & COMMAND_FLAG_CONTAINER) != 0 &&
                request->arg_count > 1)) {
        request->refusal = REFUSAL_UNKNOWN_SUBCOMMAND;
    } else if (UNLIKELY(conn->modes != 0)) {
        if ((conn->modes & CONN_MODE_SUBSCRIBED) != 0) {
            cmd_pubsub_admit(conn, request);
        }
        if ((conn->modes & CONN_MODE_MONITOR) != 0) {
            cmd_monitor_admit(request);
        }
        if (request->refusal == REFUSAL_NONE) {
            cmd_transaction_admit(conn, request);
        }
    }
}

/* Parses what has arrived into the batch, until it is full or something stands alone. */
static enum reader_result parse(struct conn *conn, struct batch *batch)
{
    enum reader_result result = READER_REQUEST;
    while (result == READER_REQUEST && batch->request_count < BATCH_REQUESTS_MAX &&
           BATCH_ARGS_MAX - batch->arg_count >= BATCH_ARGS_MIN) {
        struct request *request;
        result = parse_one(conn, batch);
        if (result != READER_REQUEST) {
            break;
        }
        request = &batch->requests[batch->request_count - 1];
        admit(conn, request);
        if (conn->args != NULL || conn->upload.state == UPLOAD_READY ||
            (request->command != NULL && (request->command->flags & COMMAND_FLAG_BARRIER) != 0)) {
            break;
        }
        if (conn->upload.state == UPLOAD_NONE) {
            conn->header_bytes = 0;
        }
    }
    return result;
}

/* ---- running ---- */

/* Plans the next requests of the batch: none of them if the first one must wait for the end of a pause. */
static void plan(struct conn *conn, struct batch *batch)
{
    bool pausing = conn->reactor->pause.until_us != 0;
    batch_begin_round(batch);
    batch->request_planned = batch->request_first;
    while (batch->request_planned < batch->request_count) {
        struct request *request = &batch->requests[batch->request_planned];
        bool barrier =
            request->command != NULL && (request->command->flags & COMMAND_FLAG_BARRIER) != 0;
        const struct handler *handler;
        if ((barrier && batch->request_planned > batch->request_first) ||
            batch_op_room(batch) < PLAN_OPS_MIN ||
            (UNLIKELY(batch->transfer_count > 0) && !transfer_may_join(conn, request)) ||
            (UNLIKELY(batch->one_step) && !many_keys_may_join(request))) {
            return;
        }
        if (UNLIKELY(pausing) && !request->more && pause_holds(conn, request)) {
            return;
        }
        request->op_count = 0;
        request->op_first = 0;
        request->more = false;
        batch->request_planned++;
        if (conn->restricted && !request->judged &&
            (request->refusal == REFUSAL_NONE || request->refusal == REFUSAL_QUEUED)) {
            request->judged = true; /* once: what has begun is not cut off in the middle */
            access_judge(conn, request);
        }
        if (request->refusal == REFUSAL_NONE) {
            handler = handlers_find(request->command->id);
            if (handler->plan != NULL) {
                handler->plan(conn, request);
            }
        }
        if (barrier || request->more) {
            return;
        }
    }
}

static void answer(struct conn *conn, struct request *request)
{
    struct reactor *reactor = conn->reactor;
    bool skip = conn->reply_skip;
    uint64_t errors = conn->error_replies;
    conn->muted = conn->reply_off || skip;
    if (request->refusal == REFUSAL_QUEUED) {
        cmd_transaction_queue(conn, request);
    } else if (request->refusal != REFUSAL_NONE) {
        refuse_request(conn, request);
        cmd_transaction_refused(conn, request);
        request->more = false;
    } else {
        handlers_find(request->command->id)->reply(conn, request);
    }
    conn->muted = false;
    request->failed = conn->error_replies > errors;
    if (!request->more) {
        conn->reply_skip = (skip ? false : conn->reply_skip) || conn->skip_armed;
        conn->skip_armed = false;
        if (UNLIKELY(reactor->monitor_count != 0)) {
            monitor_note(conn, request);
        }
        if (UNLIKELY(request->kept != NULL)) {
            kept_destroy(reactor, &request->kept);
        }
        conn->commands++;
        conn->last_command = request->command;
        metric_add(&conn->traffic->commands, 1);
    }
}

/* QUIT: nobody waits for the rest. */
static void drop_unanswered(struct reactor *reactor, struct batch *batch)
{
    for (uint32_t i = batch->request_first; i < batch->request_count; i++) {
        gather_destroy(&batch->requests[i].gather);
        kept_destroy(reactor, &batch->requests[i].kept);
    }
    batch->request_first = batch->request_count;
}

/* What one request of a round adds to the statistics; nothing while it needs another round. */
static void account_one(struct conn *conn, struct request *request, uint64_t share_ns)
{
    struct command_stats *stats = conn->reactor->command_stats;
    request->spent_ns += share_ns;
    if (request->more || request->command == NULL || request->refusal == REFUSAL_QUEUED) {
        return;
    }
    if (request->refusal != REFUSAL_NONE && !refusal_is_of_plan(request->refusal)) {
        command_stats_rejected(stats, request->command->id);
        return;
    }
    command_stats_ran(stats, request->command->id, 1, request->spent_ns, request->failed);
    if (reactor_notices_requests(conn->reactor)) {
        reactor_note_request(conn->reactor, conn, request);
    }
}

/* Nothing happened but what happens nearly always. */
static bool is_plain(const struct request *request)
{
    return request->refusal == REFUSAL_NONE && !request->failed && !request->more &&
           request->spent_ns == 0;
}

/* The round took so long: each of the requests from first on that were answered in it has its share,
 * and so has the one that needs another round. Rows of the same command are counted at once, if
 * nobody wants to know of any: a pipeline costs little more than a single request. */
static void account(struct conn *conn, struct batch *batch, uint32_t first, int64_t elapsed_ns)
{
    const struct settings *settings = &conn->reactor->settings;
    uint32_t end = batch->request_first;
    uint64_t share_ns;
    uint64_t noticed_us = settings->slowlog_log_slower_than >= 0
                              ? (uint64_t)settings->slowlog_log_slower_than
                              : UINT64_MAX;
    if (end < batch->request_planned && batch->requests[end].more) {
        end++;
    }
    if (end == first) {
        return;
    }
    share_ns = (uint64_t)elapsed_ns / (end - first);
    if (settings->latency_monitor_threshold > 0 &&
        settings->latency_monitor_threshold * 1000 < noticed_us) {
        noticed_us = settings->latency_monitor_threshold * 1000;
    }
    for (uint32_t i = first; i < end;) {
        const struct command *command = batch->requests[i].command;
        uint32_t row = i;
        while (row < end && batch->requests[row].command == command &&
               is_plain(&batch->requests[row])) {
            row++;
        }
        if (row > i && share_ns / 1000 < noticed_us) {
            command_stats_ran(conn->reactor->command_stats, command->id, row - i, share_ns, false);
            i = row;
        } else {
            account_one(conn, &batch->requests[i], share_ns);
            i++;
        }
    }
}

/* Answers what was planned; the batch's next round begins behind it. */
static void answer_planned(struct conn *conn, struct batch *batch, int64_t start_ns)
{
    uint32_t first = batch->request_first;
    while (batch->request_first < batch->request_planned) {
        struct request *request = &batch->requests[batch->request_first];
        if (conn->closing) {
            drop_unanswered(conn->reactor, batch);
            break;
        }
        answer(conn, request);
        if (request->more) {
            break;
        }
        batch->request_first++;
    }
    account(conn, batch, first, batch->round_ns + clock_mono_ns() - start_ns);
    batch->round_ns = 0;
    batch_drop_results(conn->reactor, batch);
}

/* What of the batch is not answered was not begun, either: it is as if it had not been read. */
static void put_back(struct conn *conn)
{
    struct batch *batch = conn->batch;
    size_t start_bytes = batch->requests[batch->request_first].start_bytes;
    check(conn->upload.state != UPLOAD_READY);
    batch_give(conn->reactor, &conn->batch);
    if (conn->pushes != NULL) {
        push_flush(conn);
    }
    input_use(&conn->input, start_bytes);
    conn->parsed_bytes = 0;
    conn->parse_result = READER_MORE;
    request_reader_init(&conn->reader);
    serve_forget_args(conn);
}

/* Plans and answers rounds until one must wait, for shards or (batch->waiting is 0) until the replies
 * so far are sent. True: the batch is finished. */
static bool run(struct conn *conn)
{
    struct batch *batch = conn->batch;
    while (batch->request_first < batch->request_count) {
        int64_t start_ns = clock_mono_ns();
        if (conn->output.pending_bytes > CONN_OUTPUT_HIGH_BYTES) {
            return false;
        }
        batch->waiting++; /* what is done at once does not call back */
        plan(conn, batch);
        (void)batch_dispatch(conn->reactor, batch);
        batch->waiting--;
        if (UNLIKELY(batch->request_planned == batch->request_first)) {
            put_back(conn);
            pause_wait(conn);
            return false;
        }
        if (batch->waiting > 0 || (UNLIKELY(batch->transfer_count > 0) && !transfer_settle(conn))) {
            batch->round_ns = clock_mono_ns() - start_ns;
            return false;
        }
        answer_planned(conn, batch, start_ns);
    }
    return true;
}

/* Whoever was answered may ask again soon, and whoever was given leases, once it has copied what they
 * name: waking up takes longer than copying a MiB. */
static void stay_awake(struct reactor *reactor)
{
    int64_t stay_us = (int64_t)reactor->settings.busy_poll_us;
    uint64_t copy_us = reactor->leased_bytes / LEASE_COPY_BYTES_PER_US;
    int64_t until_us;
    if (stay_us > 0) {
        stay_us += (int64_t)(copy_us < LEASE_COPY_US_MAX ? copy_us : LEASE_COPY_US_MAX);
    }
    reactor->leased_bytes = 0;
    until_us = reactor->now.mono_us + stay_us;
    if (until_us > reactor->busy_until_us) {
        reactor->busy_until_us = until_us;
    }
}

/* The batch's requests are answered: their input is used up. */
static void finish(struct conn *conn)
{
    struct reactor *reactor = conn->reactor;
    stay_awake(reactor);
    batch_give(conn->reactor, &conn->batch);
    if (UNLIKELY(conn->pushes != NULL)) {
        push_flush(conn);
    }
    input_use(&conn->input, conn->parsed_bytes);
    conn->parsed_bytes = 0;
    if (request_reader_idle(&conn->reader)) {
        if (conn->upload.state == UPLOAD_READY) {
            upload_abandon(conn); /* its request was refused */
        }
        serve_forget_args(conn);
    }
}

/* Begins with the batch's requests or goes on with them. */
static enum serve_result serve_batch(struct conn *conn)
{
    if (run(conn)) {
        finish(conn);
        return SERVE_ON;
    }
    if (UNLIKELY(conn->batch == NULL)) {
        return SERVE_WAIT; /* for the end of a pause */
    }
    /* Nobody calls back when it only waits for its replies to be sent: the caller sees to that. */
    return conn->batch->waiting > 0 ? SERVE_WAIT : SERVE_ON;
}

void serve_batch_done(struct conn *conn)
{
    struct batch *batch = conn->batch;
    if (batch->for_upload) {
        struct op op = batch->ops[0].op;
        batch->ops[0].op.value = NULL;
        batch_give(conn->reactor, &conn->batch);
        upload_reserved(conn, &op);
        return;
    }
    if (UNLIKELY(batch->transfer_count > 0) && !transfer_settle(conn)) {
        return;
    }
    answer_planned(conn, batch, clock_mono_ns());
    (void)serve_batch(conn);
}

enum serve_result serve_requests(struct conn *conn)
{
    enum reader_result result = conn->parse_result;
    if (conn->batch != NULL) {
        return serve_batch(conn); /* its replies so far are sent */
    }
    if (UNLIKELY(conn->reactor->pause.until_us != 0) && pause_holds_conn(conn)) {
        pause_wait(conn);
        return SERVE_WAIT;
    }
    conn->parse_result = READER_MORE;
    if (result == READER_MORE) {
        if (input_length(&conn->input) == 0) {
            return SERVE_INPUT;
        }
        conn->batch = batch_take(conn->reactor, conn);
        if (conn->batch == NULL) {
            return SERVE_WAIT;
        }
        result = parse(conn, conn->batch);
        if (conn->batch->request_count > 0) {
            if (result == READER_BULK || result == READER_ERROR) {
                conn->parse_result = (uint8_t)result;
            }
            return serve_batch(conn);
        }
        finish(conn);
    }
    switch (result) {
    case READER_BULK:
        if (upload_wanted(conn)) {
            if (!upload_begin(conn)) {
                conn->parse_result = READER_BULK;
                return SERVE_WAIT;
            }
            return conn->upload.state == UPLOAD_RESERVING ? SERVE_WAIT : SERVE_ON;
        }
        request_reader_accept_bulk(&conn->reader);
        return SERVE_ON;
    case READER_ERROR:
        return SERVE_BROKEN;
    case READER_MORE:
    case READER_REQUEST:
    case READER_ARGS_FULL:
        break;
    }
    return SERVE_INPUT;
}
