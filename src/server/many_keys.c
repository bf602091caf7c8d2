#include "server/many_keys.h"

/* Whether the keys lie in more than one shard. */
static bool spans(const struct reactor *reactor, const struct request *request)
{
    uint32_t first = reactor_of_key(reactor, request->args[1]);
    for (uint32_t i = 2; i < request->arg_count; i++) {
        if (reactor_of_key(reactor, request->args[i]) != first) {
            return true;
        }
    }
    return false;
}

/* The same for ops that are there, whose shards are known. */
static bool ops_span(const struct batch *batch, const struct request *request)
{
    const struct batch_op *ops = &batch->ops[request->op_first];
    for (uint32_t i = 1; i < request->op_count; i++) {
        if (ops[i].shard != ops[0].shard) {
            return true;
        }
    }
    return false;
}

void many_keys_plan(struct conn *conn, struct request *request, enum op_kind kind, uint32_t flags)
{
    struct batch *batch = conn->batch;
    struct reactor *reactor = conn->reactor;
    uint32_t i = request->next_arg != 0 ? request->next_arg : 1;
    bool others = reactor->server->reactor_count > 1 && reactor->held_shards == 0;
    bool one_step = i == 1 && request->arg_count - 1 <= MANY_KEYS_MAX;
    /* Other requests' ops may take long, or wait for memory: not inside the gates of several shards. */
    bool mixed = batch->op_count != batch->many_keys_op_count;
    if (one_step && (request->arg_count - 1 > batch_op_room(batch) ||
                     (others && mixed && spans(reactor, request)))) {
        request->more = true;
        return;
    }
    for (; i < request->arg_count && batch_op_room(batch) > 0; i++) {
        batch_add_op(batch, request, kind, request->args[i])->flags = flags;
    }
    batch->many_keys_op_count += request->op_count;
    batch->one_step = batch->one_step || (one_step && others && ops_span(batch, request));
    request->more = i < request->arg_count;
    request->next_arg = i;
}

bool many_keys_may_join(const struct request *request)
{
    static const enum command_id ids[] = {COMMAND_MGET, COMMAND_DEL, COMMAND_UNLINK, COMMAND_EXISTS,
                                          COMMAND_TOUCH};
    for (size_t i = 0; i < ARRAY_COUNT(ids) && request->command != NULL; i++) {
        if (request->command->id == ids[i]) {
            return true;
        }
    }
    return false;
}
