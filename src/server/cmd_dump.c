/* Both sum up all bytes, which takes long for a long value: a step a turn, but in a transaction, which is
 * one step anyway, all at once. */

#include "server/cmd_dump.h"

#include "base/check.h"
#include "base/crc64.h"
#include "mem/layout.h"
#include "proto/rdb_string.h"
#include "server/cmd_string.h"
#include "server/expiry.h"
#include "server/kept.h"
#include "server/reply.h"

/* Summed in one turn: a few milliseconds. */
#define STEP_BYTES (1U << 20)

/* request->next_arg of this file: the round. In ROUND_SUM request->number is how far it has come, and
 * request->count the sum. */
enum dump_round {
    ROUND_LOOK,
    ROUND_SUM,
    ROUND_STORE,
};

/* request->flags of this file. */
#define FLAG_REPLACE 1U
#define FLAG_ABS_TTL 2U

static const char ERROR_NO_MEMORY[] = "ERR out of memory for this request; try again";

/* The round after this one goes on in the next turn. */
static void go_on_later(struct conn *conn, struct request *request)
{
    request->more = true;
    if (conn->reactor->held_shards == 0) {
        conn_yield(conn);
    }
}

static void add_to_sum(struct request *request, struct slice bytes)
{
    request->count = (int64_t)crc64_add((uint64_t)request->count, bytes);
}

/* ---- DUMP ---- */

static void sum_value(struct conn *conn, struct request *request)
{
    const struct value *value = request->kept->values[0];
    uint64_t left_bytes = value->length_bytes - (uint64_t)request->number;
    size_t step_bytes = left_bytes < STEP_BYTES ? (size_t)left_bytes : STEP_BYTES;
    struct layout_cursor cursor;
    layout_cursor_init(&cursor, conn->reactor->server->payload, &value->layout,
                       value->length_bytes);
    layout_cursor_skip(&cursor, (size_t)request->number);
    request->number += (int64_t)step_bytes;
    while (step_bytes > 0) {
        struct iovec piece = layout_cursor_peek(&cursor);
        size_t part = piece.iov_len < step_bytes ? piece.iov_len : step_bytes;
        add_to_sum(request, slice_of(piece.iov_base, part));
        layout_cursor_skip(&cursor, part);
        step_bytes -= part;
    }
    if ((uint64_t)request->number < value->length_bytes) {
        go_on_later(conn, request);
    }
}

void cmd_dump_plan_dump(struct conn *conn, struct request *request)
{
    if (request->next_arg == ROUND_SUM) {
        sum_value(conn, request);
        return;
    }
    request->kept = kept_create(conn->reactor, 1, 0);
    if (request->kept == NULL) {
        request_refuse(request, ERROR_NO_MEMORY);
        return;
    }
    (void)batch_add_op(conn->batch, request, OP_GET, request->args[1]);
    request->more = true;
}

void cmd_dump_reply_dump(struct conn *conn, struct request *request)
{
    uint8_t head[RDB_HEAD_BYTES_MAX];
    uint8_t trailer[RDB_TRAILER_BYTES];
    struct kept *kept = request->kept;
    struct value *value;
    if (request->next_arg == ROUND_LOOK) {
        struct batch_op *entry = &conn->batch->ops[request->op_first];
        if (entry->op.status != KVASIR_OK) {
            request->more = false;
            if (entry->op.status == KVASIR_NOT_FOUND) {
                reply_null(conn);
            } else {
                reply_status(conn, entry->op.status);
            }
            return;
        }
        kept_add(kept, entry->shard, &entry->op.value);
        add_to_sum(request, slice_of(head, rdb_string_head(head, kept->values[0]->length_bytes)));
        request->next_arg = ROUND_SUM;
        return;
    }
    if (request->more) {
        return;
    }
    value = kept->values[0];
    kept->values[0] = NULL;
    rdb_string_trailer(trailer, 0);
    add_to_sum(request, slice_of(trailer, RDB_TRAILER_BYTES - RDB_CHECKSUM_BYTES));
    rdb_string_trailer(trailer, (uint64_t)request->count);
    reply_value_framed(conn, kept->shards[0], value,
                       slice_of(head, rdb_string_head(head, value->length_bytes)),
                       slice_of(trailer, sizeof(trailer)));
}

/* ---- RESTORE ---- */

/* IDLETIME and FREQ are read, and mean nothing here. False: refused. */
static bool parse_usage(struct request *request, struct slice word, struct slice value)
{
    bool idle = slice_equal_nocase(word, "idletime");
    int64_t number;
    if (!idle && !slice_equal_nocase(word, "freq")) {
        request_refuse(request, ERROR_SYNTAX);
    } else if (!slice_to_i64(value, &number)) {
        request_refuse(request, ERROR_NOT_INTEGER);
    } else if (idle && number < 0) {
        request_refuse(request, "ERR Invalid IDLETIME value, must be >= 0");
    } else if (!idle && (number < 0 || number > 255)) {
        request_refuse(request, "ERR Invalid FREQ value, must be >= 0 and <= 255");
    }
    return request->refusal == REFUSAL_NONE;
}

static bool parse_options(struct request *request)
{
    struct slice used = slice_of("", 0); /* IDLETIME or FREQ, whichever was given */
    for (uint32_t i = 4; i < request->arg_count; i++) {
        struct slice word = request->args[i];
        bool other = used.length_bytes > 0 && used.length_bytes != word.length_bytes;
        if (slice_equal_nocase(word, "replace")) {
            request->flags |= FLAG_REPLACE;
        } else if (slice_equal_nocase(word, "absttl")) {
            request->flags |= FLAG_ABS_TTL;
        } else if (i + 1 == request->arg_count || other) {
            request_refuse(request, ERROR_SYNTAX);
            return false;
        } else if (!parse_usage(request, word, request->args[i + 1])) {
            return false;
        } else {
            used = word;
            i++;
        }
    }
    return true;
}

/* When the key ends, 0: never. False: refused. */
static bool parse_ttl(struct conn *conn, struct request *request, int64_t *expires_at_ms_p)
{
    int64_t now_ms = (request->flags & FLAG_ABS_TTL) != 0 ? 0 : conn->reactor->now.wall_ms;
    int64_t ttl;
    if (!slice_to_i64(request->args[2], &ttl)) {
        request_refuse(request, ERROR_NOT_INTEGER);
        return false;
    }
    if (ttl < 0 || ttl > INT64_MAX - now_ms) {
        request_refuse(request, "ERR Invalid TTL value, must be >= 0");
        return false;
    }
    *expires_at_ms_p = ttl == 0 ? 0 : now_ms + ttl;
    return true;
}

static void sum_dump(struct conn *conn, struct request *request)
{
    struct slice dump = request->args[3];
    size_t done = (size_t)request->number;
    size_t left_bytes;
    size_t step_bytes;
    if (!rdb_string_version_ok(dump)) {
        request_refuse(request, "ERR DUMP payload version or checksum are wrong");
        return;
    }
    left_bytes = dump.length_bytes - RDB_CHECKSUM_BYTES - done;
    step_bytes = left_bytes < STEP_BYTES ? left_bytes : STEP_BYTES;
    add_to_sum(request, slice_of(dump.data + done, step_bytes));
    request->number += (int64_t)step_bytes;
    if (step_bytes < left_bytes) {
        go_on_later(conn, request);
    } else if (!rdb_string_sum_ok(dump, (uint64_t)request->count)) {
        request_refuse(request, "ERR DUMP payload version or checksum are wrong");
    } else {
        request->next_arg = ROUND_STORE;
        request->more = true;
    }
}

/* The value's bytes, unpacked if they must be. False: refused. */
static bool unpack(struct conn *conn, struct request *request, struct rdb_string *string)
{
    if (!rdb_string_decode(request->args[3], string)) {
        request_refuse(request, "ERR Bad data format");
        return false;
    }
    if (string->form == RDB_PLAIN) {
        return true;
    }
    request->kept = kept_create(conn->reactor, 0, (size_t)string->length_bytes);
    if (request->kept == NULL) {
        request_refuse(request, ERROR_NO_MEMORY);
        return false;
    }
    if (string->form == RDB_NUMBER) {
        memcpy(request->kept->memory, string->number_text, (size_t)string->length_bytes);
    } else if (!rdb_string_decompress(string->bytes, request->kept->memory,
                                      (size_t)string->length_bytes)) {
        request_refuse(request, "ERR Bad data format");
        return false;
    }
    string->bytes = slice_of(request->kept->memory, (size_t)string->length_bytes);
    return true;
}

static void store(struct conn *conn, struct request *request)
{
    struct rdb_string string;
    int64_t expires_at_ms;
    struct op *op;
    if (!parse_ttl(conn, request, &expires_at_ms) || !unpack(conn, request, &string)) {
        return;
    }
    op = batch_add_op(conn->batch, request, OP_SET, request->args[1]);
    op->purpose = OP_FOR_RESTORE;
    op->flags = (request->flags & FLAG_REPLACE) != 0 ? 0 : OP_SET_IF_ABSENT;
    op->payload = string.bytes;
    op->put.length_bytes = string.length_bytes;
    op->put.expires_at_ms = expires_at_ms;
}

void cmd_dump_plan_restore(struct conn *conn, struct request *request)
{
    int64_t ignored;
    switch ((enum dump_round)request->next_arg) {
    case ROUND_LOOK:
        if (parse_options(request)) {
            struct op *op = batch_add_op(conn->batch, request, OP_EXISTS, request->args[1]);
            op->flags |= OP_READ_NO_TOUCH;
            op->purpose = OP_FOR_RESTORE;
            request->more = true;
        }
        return;
    case ROUND_SUM:
        if (parse_ttl(conn, request, &ignored)) {
            sum_dump(conn, request);
        }
        return;
    case ROUND_STORE:
        store(conn, request);
        return;
    }
    unreachable();
}

void cmd_dump_reply_restore(struct conn *conn, struct request *request)
{
    const struct op *op = request->op_count > 0 ? batch_op(conn->batch, request, 0) : NULL;
    enum kvasir_status status = op != NULL ? op->status : KVASIR_OK;
    bool exists = request->next_arg == ROUND_LOOK ? status == KVASIR_OK : status == KVASIR_EXISTS;
    if (request->next_arg == ROUND_LOOK && status == KVASIR_NOT_FOUND) {
        request->next_arg = ROUND_SUM;
    } else if (request->next_arg == ROUND_LOOK && exists && (request->flags & FLAG_REPLACE) != 0) {
        request->next_arg = ROUND_SUM;
    } else if (op == NULL) {
        return; /* the sum is under way, or done and the value is stored in the next round */
    } else if (exists) {
        request->more = false;
        reply_error(conn, "BUSYKEY Target key name already exists.");
    } else if (status != KVASIR_OK) {
        request->more = false;
        reply_failure(conn, request->command, op);
    } else {
        reply_ok(conn);
    }
}
