/* A value is copied in rounds: its pin is taken, a copy is stored under the other name, and (but for
 * COPY) the first name is taken away if it still means the same value. Whoever looks between the
 * rounds sees both names. */

#include "server/cmd_copy.h"

#include "base/check.h"
#include "server/cmd_string.h"
#include "server/kept.h"
#include "server/reply.h"

/* request->flags of this file. */
#define FLAG_KEEP_SOURCE 1U /* COPY */
#define FLAG_IF_ABSENT   2U
#define FLAG_ERROR       4U /* RENAME: an absent source is an error, and OK is the answer */
#define FLAG_SAME_KEY    8U

/* request->next_arg of this file: the round. */
enum copy_round {
    COPY_LOOK,
    COPY_STORE,
    COPY_REMOVE,
};

static uint8_t purpose_of(const struct request *request)
{
    switch ((int)request->command->id) {
    case COMMAND_COPY:
        return OP_FOR_COPY;
    case COMMAND_MOVE:
        return OP_FOR_MOVE;
    default:
        return OP_FOR_RENAME;
    }
}

/* The other database, of the shards, is in request->number. */
static void plan_round(struct conn *conn, struct request *request)
{
    struct slice source = request->args[1];
    struct slice target = request->command->id == COMMAND_MOVE ? source : request->args[2];
    struct kept *kept = request->kept;
    struct op *op;
    switch ((enum copy_round)request->next_arg) {
    case COPY_LOOK:
        request->kept = kept_create(conn->reactor, 1, 0);
        if (request->kept == NULL) {
            request_refuse(request, "ERR out of memory for this request; try again");
            return;
        }
        op = batch_add_op(conn->batch, request, OP_GET, source);
        op->purpose = purpose_of(request);
        request->more = true;
        return;
    case COPY_STORE:
        op = batch_add_op_in(conn->batch, request, OP_SET_FROM, target, (uint8_t)request->number);
        op->combine = OP_COMBINE_COPY;
        op->purpose = purpose_of(request);
        op->sources = kept->values;
        op->source_count = 1;
        op->flags = (request->flags & FLAG_IF_ABSENT) != 0 ? OP_SET_IF_ABSENT : 0;
        op->put.length_bytes = kept->values[0]->length_bytes;
        op->put.expires_at_ms = request->count;
        op->put.parent_hash = kept->values[0]->parent_hash;
        op->put.value_class = kept->values[0]->value_class;
        if ((kept->values[0]->flags & VALUE_FLAG_CHECKSUM) != 0) {
            op->flags |= OP_SET_CHECKSUM;
            op->put.checksum = kept->values[0]->checksum;
        }
        request->more = (request->flags & FLAG_KEEP_SOURCE) == 0;
        return;
    case COPY_REMOVE:
        op = batch_add_op(conn->batch, request, OP_REMOVE, source);
        op->purpose = purpose_of(request);
        op->flags = OP_REMOVE_SAME;
        op->same = kept->values[0];
        return;
    }
    unreachable();
}

static void plan_rename(struct conn *conn, struct request *request, uint32_t flags)
{
    if (request->next_arg == COPY_LOOK) {
        request->flags = flags;
        request->flags |= slice_equal(request->args[1], request->args[2]) ? FLAG_SAME_KEY : 0;
        request->number = request->database;
    }
    plan_round(conn, request);
}

void cmd_copy_plan_rename(struct conn *conn, struct request *request)
{
    plan_rename(conn, request, FLAG_ERROR);
}

void cmd_copy_plan_renamenx(struct conn *conn, struct request *request)
{
    plan_rename(conn, request, FLAG_ERROR | FLAG_IF_ABSENT);
}

static bool parse_database(struct conn *conn, struct request *request, struct slice text,
                           const char *not_a_number)
{
    if (!slice_to_i64(text, &request->number)) {
        request_refuse(request, not_a_number);
        return false;
    }
    if (request->number < 0 || request->number >= (int64_t)conn->reactor->settings.databases) {
        request_refuse(request, "ERR DB index is out of range");
        return false;
    }
    request->number =
        database_map_place(&conn->reactor->server->databases, (uint8_t)request->number);
    return true;
}

static bool parse_copy(struct conn *conn, struct request *request)
{
    request->flags = FLAG_KEEP_SOURCE | FLAG_IF_ABSENT;
    request->number = request->database;
    for (uint32_t i = 3; i < request->arg_count; i++) {
        if (slice_equal_nocase(request->args[i], "replace")) {
            request->flags &= ~FLAG_IF_ABSENT;
        } else if (slice_equal_nocase(request->args[i], "db") && i + 1 < request->arg_count) {
            i++;
            if (!parse_database(conn, request, request->args[i], ERROR_NOT_INTEGER)) {
                return false;
            }
        } else {
            request_refuse(request, ERROR_SYNTAX);
            return false;
        }
    }
    return true;
}

static const char ERROR_SAME_OBJECT[] = "ERR source and destination objects are the same";

void cmd_copy_plan_copy(struct conn *conn, struct request *request)
{
    if (request->next_arg == COPY_LOOK) {
        if (!parse_copy(conn, request)) {
            return;
        }
        if (request->number == request->database &&
            slice_equal(request->args[1], request->args[2])) {
            request_refuse(request, ERROR_SAME_OBJECT);
            return;
        }
    }
    plan_round(conn, request);
}

void cmd_copy_plan_move(struct conn *conn, struct request *request)
{
    if (request->next_arg == COPY_LOOK) {
        request->flags = FLAG_IF_ABSENT;
        if (!parse_database(conn, request, request->args[2], ERROR_NOT_INTEGER)) {
            return;
        }
        if (request->number == request->database) {
            request_refuse(request, ERROR_SAME_OBJECT);
            return;
        }
    }
    plan_round(conn, request);
}

/* The command did what it says, or found that it need not. */
static void reply_done(struct conn *conn, struct request *request, bool done)
{
    request->more = false;
    if ((request->flags & (FLAG_ERROR | FLAG_IF_ABSENT)) == FLAG_ERROR) {
        reply_ok(conn);
    } else {
        reply_integer(conn, done);
    }
}

static void reply_looked(struct conn *conn, struct request *request)
{
    struct batch_op *entry = &conn->batch->ops[request->op_first];
    if (entry->op.status != KVASIR_OK) {
        request->more = false;
        if (entry->op.status != KVASIR_NOT_FOUND) {
            reply_status(conn, entry->op.status);
        } else if ((request->flags & FLAG_ERROR) != 0) {
            reply_error(conn, "ERR no such key");
        } else {
            reply_integer(conn, 0);
        }
        return;
    }
    if ((request->flags & FLAG_SAME_KEY) != 0) {
        reply_done(conn, request, false);
        return;
    }
    request->count = entry->op.expires_at_ms;
    kept_add(request->kept, entry->shard, &entry->op.value);
}

void cmd_copy_reply(struct conn *conn, struct request *request)
{
    enum kvasir_status status = batch_op(conn->batch, request, 0)->status;
    switch ((enum copy_round)request->next_arg++) {
    case COPY_LOOK:
        reply_looked(conn, request);
        return;
    case COPY_STORE:
        if (status == KVASIR_EXISTS) {
            reply_done(conn, request, false);
        } else if (status != KVASIR_OK) {
            request->more = false;
            reply_failure(conn, request->command, batch_op(conn->batch, request, 0));
        } else if (!request->more) {
            reply_done(conn, request, true);
        }
        return;
    case COPY_REMOVE:
        reply_done(conn, request, true);
        return;
    }
    unreachable();
}
