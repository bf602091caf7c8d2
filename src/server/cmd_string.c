#include "server/cmd_string.h"

#include "base/check.h"
#include "server/expiry.h"
#include "server/many_keys.h"
#include "server/reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* request->flags of this file. */
#define FLAG_RETURN_OLD 1U

/* ---- puts ---- */

static const char *upload_error(enum kvasir_status failure)
{
    switch ((int)failure) {
    case KVASIR_NO_MEMORY:
    case KVASIR_AGAIN:
        return ERROR_OOM;
    case KVASIR_QUOTA:
        return ERROR_QUOTA;
    default:
        return "ERR the key is longer than 65000 bytes";
    }
}

struct op *cmd_string_add_put(struct conn *conn, struct request *request, uint32_t value_index)
{
    struct slice payload = request->args[value_index];
    struct op *op;
    if (conn->upload.state == UPLOAD_READY) {
        enum kvasir_status failure = conn->upload.failure;
        struct value *value = upload_take(conn);
        if (value == NULL && failure == KVASIR_TOO_LARGE) {
            request->refusal = REFUSAL_TOO_LARGE;
            request->number = (int64_t)payload.length_bytes;
            return NULL;
        }
        if (value == NULL) {
            request_refuse(request, upload_error(failure));
            return NULL;
        }
        op = batch_add_op(conn->batch, request, OP_COMMIT, request->args[1]);
        op->value = value;
    } else {
        op = batch_add_op(conn->batch, request, OP_SET, request->args[1]);
        op->payload = payload;
    }
    op->put.length_bytes = payload.length_bytes;
    return op;
}

struct set_options {
    uint32_t flags;
    int64_t expires_at_ms;
    bool has_expiry;
};

static const char *expiry_error(enum expiry_result result, const char *invalid)
{
    return result == EXPIRY_NOT_INTEGER ? ERROR_NOT_INTEGER : invalid;
}

static bool parse_set_option(struct conn *conn, struct request *request, uint32_t *index,
                             struct set_options *options)
{
    struct slice word = request->args[*index];
    enum expiry_unit unit;
    if (slice_equal_nocase(word, "nx") && (options->flags & OP_SET_IF_PRESENT) == 0) {
        options->flags |= OP_SET_IF_ABSENT;
    } else if (slice_equal_nocase(word, "xx") && (options->flags & OP_SET_IF_ABSENT) == 0) {
        options->flags |= OP_SET_IF_PRESENT;
    } else if (slice_equal_nocase(word, "get")) {
        options->flags |= OP_SET_RETURN_OLD;
    } else if (slice_equal_nocase(word, "keepttl") && !options->has_expiry) {
        options->flags |= OP_SET_KEEP_TTL;
    } else if (expiry_unit_of_word(word, &unit) && !options->has_expiry &&
               (options->flags & OP_SET_KEEP_TTL) == 0 && *index + 1 < request->arg_count) {
        enum expiry_result result;
        (*index)++;
        options->has_expiry = true;
        result = expiry_parse(request->args[*index], unit, true, &conn->reactor->now,
                              &options->expires_at_ms);
        /* A syntax error further on is told first, as in Redis. */
        if (result != EXPIRY_OK && request->error == NULL) {
            request->error = expiry_error(result, "ERR invalid expire time in 'set' command");
        }
    } else {
        request_refuse(request, ERROR_SYNTAX);
        return false;
    }
    return true;
}

void cmd_string_plan_set(struct conn *conn, struct request *request)
{
    struct set_options options = {0};
    struct op *op;
    for (uint32_t i = 3; i < request->arg_count; i++) {
        if (!parse_set_option(conn, request, &i, &options)) {
            return;
        }
    }
    if (request->error != NULL) {
        request_refuse(request, request->error);
        return;
    }
    op = cmd_string_add_put(conn, request, 2);
    if (op != NULL) {
        op->flags = options.flags;
        op->put.expires_at_ms = options.expires_at_ms;
        request->flags = (options.flags & OP_SET_RETURN_OLD) != 0 ? FLAG_RETURN_OLD : 0;
    }
}

bool cmd_string_drop_existing(struct conn *conn)
{
    if (conn->upload.state != UPLOAD_READY || conn->upload.failure != KVASIR_EXISTS) {
        return false;
    }
    upload_abandon(conn);
    return true;
}

void cmd_string_plan_setnx(struct conn *conn, struct request *request)
{
    struct op *op = cmd_string_drop_existing(conn) ? NULL : cmd_string_add_put(conn, request, 2);
    if (op != NULL) {
        op->flags = OP_SET_IF_ABSENT;
    }
}

static void plan_set_with_expiry(struct conn *conn, struct request *request, enum expiry_unit unit,
                                 const char *invalid)
{
    int64_t expires_at_ms;
    enum expiry_result result =
        expiry_parse(request->args[2], unit, true, &conn->reactor->now, &expires_at_ms);
    struct op *op;
    if (result != EXPIRY_OK) {
        request_refuse(request, expiry_error(result, invalid));
        return;
    }
    op = cmd_string_add_put(conn, request, 3);
    if (op != NULL) {
        op->put.expires_at_ms = expires_at_ms;
    }
}

void cmd_string_plan_setex(struct conn *conn, struct request *request)
{
    plan_set_with_expiry(conn, request, EXPIRY_SECONDS,
                         "ERR invalid expire time in 'setex' command");
}

void cmd_string_plan_psetex(struct conn *conn, struct request *request)
{
    plan_set_with_expiry(conn, request, EXPIRY_MILLISECONDS,
                         "ERR invalid expire time in 'psetex' command");
}

void cmd_string_plan_getset(struct conn *conn, struct request *request)
{
    struct op *op = cmd_string_add_put(conn, request, 2);
    if (op != NULL) {
        op->flags = OP_SET_RETURN_OLD;
        request->flags = FLAG_RETURN_OLD;
    }
}

/* The value an op left, whole; takes its pin. */
static void reply_pinned(struct conn *conn, struct request *request, struct value **value_p)
{
    struct value *value = *value_p;
    *value_p = NULL;
    if (value == NULL) {
        reply_null(conn);
    } else {
        reply_value(conn, conn->batch->ops[request->op_first].shard, value, 0, value->length_bytes);
    }
}

void cmd_string_reply_set(struct conn *conn, struct request *request)
{
    struct op *op = batch_op(conn->batch, request, 0);
    bool refused = op->status == KVASIR_EXISTS || op->status == KVASIR_NOT_FOUND;
    if (op->status != KVASIR_OK && !refused) {
        reply_failure(conn, request->command, op);
    } else if ((request->flags & FLAG_RETURN_OLD) != 0) {
        reply_pinned(conn, request, &op->old);
    } else if (refused) {
        reply_null(conn);
    } else {
        reply_ok(conn);
    }
}

void cmd_string_reply_setnx(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    if (request->op_count == 0) { /* its payload was dropped: cmd_string_drop_existing */
        reply_integer(conn, 0);
        return;
    }
    if (op->status != KVASIR_OK && op->status != KVASIR_EXISTS) {
        reply_failure(conn, request->command, op);
        return;
    }
    reply_integer(conn, op->status == KVASIR_OK ? 1 : 0);
}

/* ---- reads ---- */

void cmd_string_plan_get(struct conn *conn, struct request *request)
{
    struct op *op = batch_add_op(conn->batch, request, OP_GET, request->args[1]);
    op->flags = conn->no_touch ? OP_READ_NO_TOUCH : 0;
}

void cmd_string_reply_get(struct conn *conn, struct request *request)
{
    struct op *op = batch_op(conn->batch, request, 0);
    if (op->status != KVASIR_OK && op->status != KVASIR_NOT_FOUND) {
        reply_status(conn, op->status);
        return;
    }
    reply_pinned(conn, request, &op->value);
}

void cmd_string_plan_getdel(struct conn *conn, struct request *request)
{
    batch_add_op(conn->batch, request, OP_GET, request->args[1])->flags = OP_READ_REMOVE;
}

void cmd_string_plan_getex(struct conn *conn, struct request *request)
{
    int64_t expires_at_ms = 0;
    uint32_t flags = 0;
    enum expiry_unit unit;
    struct op *op;
    if (request->arg_count == 3 && slice_equal_nocase(request->args[2], "persist")) {
        flags = OP_READ_EXPIRE;
    } else if (request->arg_count == 4 && expiry_unit_of_word(request->args[2], &unit)) {
        enum expiry_result result =
            expiry_parse(request->args[3], unit, true, &conn->reactor->now, &expires_at_ms);
        flags = OP_READ_EXPIRE;
        if (result != EXPIRY_OK) {
            request_refuse(request,
                           expiry_error(result, "ERR invalid expire time in 'getex' command"));
            return;
        }
    } else if (request->arg_count != 2) {
        request_refuse(request, ERROR_SYNTAX);
        return;
    }
    op = batch_add_op(conn->batch, request, OP_GET, request->args[1]);
    op->flags = flags;
    op->expires_at_ms = expires_at_ms;
}

void cmd_string_plan_mget(struct conn *conn, struct request *request)
{
    request->count = request->next_arg; /* 0: the header is still to be written */
    many_keys_plan(conn, request, OP_GET, conn->no_touch ? OP_READ_NO_TOUCH : 0);
}

void cmd_string_reply_mget(struct conn *conn, struct request *request)
{
    if (request->count == 0 && request->op_count > 0) {
        reply_array(conn, request->arg_count - 1);
    }
    for (uint32_t i = 0; i < request->op_count; i++) {
        struct batch_op *entry = &conn->batch->ops[request->op_first + i];
        struct value *value = entry->op.value;
        entry->op.value = NULL;
        if (value == NULL) {
            reply_null(conn);
        } else {
            reply_value(conn, entry->shard, value, 0, value->length_bytes);
        }
    }
}

void cmd_string_plan_strlen(struct conn *conn, struct request *request)
{
    batch_add_op(conn->batch, request, OP_EXISTS, request->args[1])->flags =
        conn->no_touch ? OP_READ_NO_TOUCH : 0;
}

void cmd_string_reply_strlen(struct conn *conn, struct request *request)
{
    struct op *op = batch_op(conn->batch, request, 0);
    reply_integer(conn, op->status == KVASIR_OK ? op->integer : 0);
}

void cmd_string_plan_getrange(struct conn *conn, struct request *request)
{
    if (!slice_to_i64(request->args[2], &request->count) ||
        !slice_to_i64(request->args[3], &request->number)) {
        request_refuse(request, ERROR_NOT_INTEGER);
        return;
    }
    (void)batch_add_op(conn->batch, request, OP_GET, request->args[1]);
}

void cmd_string_reply_getrange(struct conn *conn, struct request *request)
{
    struct op *op = batch_op(conn->batch, request, 0);
    struct value *value = op->value;
    int64_t start = request->count;
    int64_t end = request->number;
    int64_t length;
    if (value == NULL) {
        reply_bulk(conn, slice_of(NULL, 0));
        return;
    }
    length = (int64_t)value->length_bytes;
    if (start < 0 && end < 0 && start > end) {
        reply_bulk(conn, slice_of(NULL, 0));
        return;
    }
    start = start < 0 ? start + length : start;
    end = end < 0 ? end + length : end;
    start = start < 0 ? 0 : start;
    end = end < 0 ? 0 : end;
    end = end >= length ? length - 1 : end;
    if (start > end || length == 0) {
        reply_bulk(conn, slice_of(NULL, 0));
        return;
    }
    op->value = NULL;
    reply_value(conn, conn->batch->ops[request->op_first].shard, value, (uint64_t)start,
                (uint64_t)(end - start + 1));
}

/* ---- MSET ---- */

/* The shards of all keys, as bits. */
static uint64_t shards_of(const struct reactor *reactor, const struct request *request)
{
    uint64_t shards = 0;
    for (uint32_t i = 1; i < request->arg_count; i += 2) {
        shards |= UINT64_C(1) << reactor_of_key(reactor, request->args[i]);
    }
    return shards;
}

/* As many pairs as there is room for. */
static void add_pairs(struct conn *conn, struct request *request)
{
    uint32_t i = request->next_arg;
    for (; i < request->arg_count && batch_op_room(conn->batch) > 0; i += 2) {
        struct op *op = batch_add_op(conn->batch, request, OP_SET, request->args[i]);
        op->payload = request->args[i + 1];
        op->put.length_bytes = op->payload.length_bytes;
    }
    request->next_arg = i;
}

/* The op that failed, or NULL. */
static const struct op *failed_op(struct conn *conn, const struct request *request)
{
    for (uint32_t i = 0; i < request->op_count; i++) {
        const struct op *op = batch_op(conn->batch, request, i);
        if (op->status != KVASIR_OK) {
            return op;
        }
    }
    return NULL;
}

/* All pairs, while nobody else gets at the shards. What is left in the batch is the last of them, or those
 * among which one failed. */
static void store_held(struct conn *conn, struct request *request, uint64_t shards)
{
    struct reactor *reactor = conn->reactor;
    reactor_hold_shards(reactor, shards);
    for (;;) {
        add_pairs(conn, request);
        batch_execute_held(reactor, conn->batch);
        if (request->next_arg == request->arg_count || failed_op(conn, request) != NULL) {
            break;
        }
        batch_begin_round(conn->batch);
        request->op_count = 0;
    }
    reactor_free_shards(reactor);
    batch_begin_again(conn->batch); /* there is nothing left to dispatch */
}

void cmd_string_plan_mset(struct conn *conn, struct request *request)
{
    struct reactor *reactor = conn->reactor;
    uint64_t shards = UINT64_C(1) << reactor->index;
    if (request->arg_count % 2 == 0) {
        request_refuse(request, "ERR wrong number of arguments for 'mset' command");
        return;
    }
    if (reactor->server->reactor_count > 1) {
        shards = shards_of(reactor, request);
    }
    request->next_arg = request->next_arg != 0 ? request->next_arg : 1;
    if (reactor->held_shards != 0 ||
        ((shards & (shards - 1)) == 0 && request->arg_count / 2 <= BATCH_OPS_MAX)) {
        /* One step as it is; of a transaction a part of one. */
        add_pairs(conn, request);
        request->more = request->next_arg < request->arg_count;
    } else if (conn->batch->op_count > 0) {
        request->more = true; /* what stands before it is done first */
    } else {
        store_held(conn, request, shards);
    }
}

void cmd_string_reply_mset(struct conn *conn, struct request *request)
{
    const struct op *failed = failed_op(conn, request);
    if (failed != NULL) {
        reply_failure(conn, request->command, failed);
        request->more = false;
    } else if (!request->more) {
        reply_ok(conn);
    }
}

/* ---- edits ---- */

void cmd_string_plan_setrange(struct conn *conn, struct request *request)
{
    int64_t offset;
    struct op *op;
    if (!slice_to_i64(request->args[2], &offset)) {
        request_refuse(request, ERROR_NOT_INTEGER);
        return;
    }
    if (offset < 0) {
        request_refuse(request, "ERR offset is out of range");
        return;
    }
    op = batch_add_op(conn->batch, request, OP_SET_RANGE, request->args[1]);
    op->payload = request->args[3];
    op->offset_bytes = (uint64_t)offset;
}

void cmd_string_plan_append(struct conn *conn, struct request *request)
{
    batch_add_op(conn->batch, request, OP_APPEND, request->args[1])->payload = request->args[2];
}

static void plan_add(struct conn *conn, struct request *request, int64_t delta)
{
    batch_add_op(conn->batch, request, OP_ADD, request->args[1])->delta = delta;
}

void cmd_string_plan_incr(struct conn *conn, struct request *request)
{
    plan_add(conn, request, 1);
}

void cmd_string_plan_decr(struct conn *conn, struct request *request)
{
    plan_add(conn, request, -1);
}

void cmd_string_plan_incrby(struct conn *conn, struct request *request)
{
    int64_t delta;
    if (!slice_to_i64(request->args[2], &delta)) {
        request_refuse(request, ERROR_NOT_INTEGER);
        return;
    }
    plan_add(conn, request, delta);
}

void cmd_string_plan_decrby(struct conn *conn, struct request *request)
{
    int64_t delta;
    if (!slice_to_i64(request->args[2], &delta)) {
        request_refuse(request, ERROR_NOT_INTEGER);
        return;
    }
    if (delta == INT64_MIN) {
        request_refuse(request, "ERR decrement would overflow");
        return;
    }
    plan_add(conn, request, -delta);
}

void cmd_string_reply_edit(struct conn *conn, struct request *request)
{
    struct op *op = batch_op(conn->batch, request, 0);
    bool add = op->kind == OP_ADD;
    if (op->status == KVASIR_OK) {
        reply_integer(conn, op->integer);
    } else if (op->status == KVASIR_INVALID && add) {
        reply_error(conn, ERROR_NOT_INTEGER);
    } else if (op->status == KVASIR_TOO_LARGE) {
        reply_error(conn, add ? "ERR increment or decrement would overflow" : ERROR_TOO_LONG);
    } else {
        reply_status(conn, op->status);
    }
}

void cmd_string_plan_incrbyfloat(struct conn *conn, struct request *request)
{
    struct slice text = request->args[2];
    char digits[256];
    char *end = NULL;
    long double delta;
    if (text.length_bytes == 0 || text.length_bytes >= sizeof(digits) || text.data[0] == ' ') {
        request_refuse(request, "ERR value is not a valid float");
        return;
    }
    memcpy(digits, text.data, text.length_bytes);
    digits[text.length_bytes] = '\0';
    delta = strtold(digits, &end);
    if (end != digits + text.length_bytes || isnan(delta)) {
        request_refuse(request, "ERR value is not a valid float");
        return;
    }
    batch_add_op(conn->batch, request, OP_ADD_FLOAT, request->args[1])->delta_float = delta;
}

void cmd_string_reply_incrbyfloat(struct conn *conn, struct request *request)
{
    struct op *op = batch_op(conn->batch, request, 0);
    if (op->status == KVASIR_OK) {
        reply_pinned(conn, request, &op->value);
    } else if (op->status == KVASIR_INVALID) {
        reply_error(conn, "ERR value is not a valid float");
    } else if (op->status == KVASIR_TOO_LARGE) {
        reply_error(conn, "ERR increment would produce NaN or Infinity");
    } else {
        reply_status(conn, op->status);
    }
}
