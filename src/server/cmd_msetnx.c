/* First every value gets its memory and its bytes, reserved and not yet seen by anybody; then, inside the
 * gates of all shards that own one of the keys, it is looked whether a key is there, and if not all
 * values are sealed, for which nothing can be wanting. So it is one step for everybody. */

#include "server/cmd_msetnx.h"

#include "base/check.h"
#include "base/copy.h"
#include "server/cmd_string.h"
#include "server/kept.h"
#include "server/reply.h"

/* More would keep the gates too long: this is about half a millisecond. */
#define PAIRS_MAX 1024U
/* Looks at a gate that is taken: a burst of work behind it is short. */
#define GATE_TRIES 200U

/* ---- the gates ---- */

static void leave_gates(struct reactor *reactor, uint64_t entered)
{
    for (; entered != 0; entered &= entered - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(entered);
        if (index == reactor->index) {
            reactor_shard_leave(reactor);
        } else {
            reactor_shard_return(reactor, index);
        }
    }
}

static bool enter_gate(struct reactor *reactor, uint32_t index)
{
    if (index == reactor->index) {
        reactor_shard_enter(reactor);
        return true;
    }
    for (unsigned i = 0; i < GATE_TRIES; i++) {
        if (reactor_shard_borrow(reactor, index) != NULL) {
            return true;
        }
        CPU_RELAX();
    }
    return false;
}

/* All or none. Nobody waits inside one gate for another without end, so two that want the same gates
 * in another order do not stop each other for ever. */
static bool enter_gates(struct reactor *reactor, uint64_t wanted)
{
    uint64_t entered = 0;
    for (uint64_t left = wanted; left != 0; left &= left - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(left);
        if (!enter_gate(reactor, index)) {
            leave_gates(reactor, entered);
            return false;
        }
        entered |= UINT64_C(1) << index;
    }
    return true;
}

/* ---- the step ---- */

static void execute(struct conn *conn, const struct kept *kept, uint32_t index, struct op *op)
{
    shard_execute(conn->reactor->server->reactors[kept->shards[index]]->shard, op,
                  &conn->reactor->now);
}

static bool any_key_is_there(struct conn *conn, const struct request *request)
{
    const struct kept *kept = request->kept;
    for (uint32_t i = 0; i < kept->value_count; i++) {
        struct op op = {.kind = OP_EXISTS,
                        .database = kept->values[i]->database,
                        .flags = OP_READ_NO_TOUCH,
                        .key = request->args[1 + 2 * i],
                        .hash = kept->values[i]->hash};
        execute(conn, kept, i, &op);
        if (op.status != KVASIR_NOT_FOUND) {
            return true;
        }
    }
    return false;
}

/* False: not now, because others are inside. */
static bool store_all(struct conn *conn, struct request *request)
{
    struct kept *kept = request->kept;
    uint64_t shards = 0;
    for (uint32_t i = 0; i < kept->value_count; i++) {
        shards |= UINT64_C(1) << kept->shards[i];
    }
    if (!enter_gates(conn->reactor, shards)) {
        return false;
    }
    request->number = any_key_is_there(conn, request) ? 0 : 1;
    for (uint32_t i = 0; i < kept->value_count && request->number == 1; i++) {
        struct op op = {.kind = OP_COMMIT, .value = kept->values[i]};
        op.put.length_bytes = op.value->length_bytes;
        do {
            execute(conn, kept, i, &op); /* PENDING: an edit of the key goes first */
        } while (op.status == KVASIR_PENDING);
        check(op.status == KVASIR_OK);
        kept->values[i] = NULL;
    }
    leave_gates(conn->reactor, shards);
    return true;
}

/* ---- the request ---- */

static bool begin(struct conn *conn, struct request *request)
{
    if (request->arg_count % 2 == 0) {
        request_refuse(request, "ERR wrong number of arguments for 'msetnx' command");
        return false;
    }
    if (request->arg_count / 2 > PAIRS_MAX) {
        request_refuse(request, "ERR MSETNX takes up to 1024 keys");
        return false;
    }
    request->kept = kept_create(conn->reactor, request->arg_count / 2, 0);
    if (request->kept == NULL) {
        request_refuse(request, "ERR out of memory for this request; try again");
        return false;
    }
    request->next_arg = 1;
    return true;
}

void cmd_msetnx_plan(struct conn *conn, struct request *request)
{
    if (request->next_arg == 0 && !begin(conn, request)) {
        return;
    }
    if (request->next_arg == request->arg_count) {
        request->more = !store_all(conn, request);
        if (request->more) {
            conn_yield(conn);
        }
        return;
    }
    request->round_arg = request->next_arg;
    for (; request->next_arg < request->arg_count && batch_op_room(conn->batch) > 0;
         request->next_arg += 2) {
        struct op *op =
            batch_add_op(conn->batch, request, OP_RESERVE, request->args[request->next_arg]);
        op->flags = OP_SET_IF_ABSENT;
        op->put.length_bytes = request->args[request->next_arg + 1].length_bytes;
    }
    request->more = true;
}

static void fill(struct conn *conn, const struct value *value, struct slice bytes)
{
    struct layout_cursor cursor;
    layout_cursor_init(&cursor, conn->reactor->server->payload, &value->layout,
                       value->length_bytes);
    while (bytes.length_bytes > 0) {
        struct iovec piece = layout_cursor_peek(&cursor);
        size_t part = piece.iov_len < bytes.length_bytes ? piece.iov_len : bytes.length_bytes;
        copy_payload(piece.iov_base, bytes.data, part);
        layout_cursor_skip(&cursor, part);
        bytes = slice_of(bytes.data + part, bytes.length_bytes - part);
    }
}

void cmd_msetnx_reply(struct conn *conn, struct request *request)
{
    const struct op *failed = NULL;
    for (uint32_t i = 0; i < request->op_count; i++) {
        struct batch_op *entry = &conn->batch->ops[request->op_first + i];
        if (entry->op.status != KVASIR_OK) {
            failed = failed == NULL ? &entry->op : failed;
            continue;
        }
        fill(conn, entry->op.value, request->args[request->round_arg + 2 * i + 1]);
        if (failed == NULL) { /* else the batch gives it back */
            kept_add(request->kept, entry->shard, &entry->op.value);
        }
    }
    if (failed != NULL && failed->status == KVASIR_EXISTS) {
        request->more = false;
        reply_integer(conn, 0);
    } else if (failed != NULL) {
        request->more = false;
        reply_failure(conn, request->command, failed);
    } else if (!request->more) {
        reply_integer(conn, request->number);
    }
}
