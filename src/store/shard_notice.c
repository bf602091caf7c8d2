/* Keyspace notifications, in the words of Redis: which op is told how. */

#include "store/shard_notice.h"
#include "base/check.h"
#include "store/shard_event.h"

static bool shard_notice_is_past(const struct shard *shard, int64_t expires_at_ms)
{
    return expires_at_ms != 0 && expires_at_ms <= shard->now.wall_ms;
}

static enum notice_kind shard_notice_removed(const struct op *op)
{
    switch ((enum op_purpose)op->purpose) {
    case OP_FOR_RENAME:
        return NOTICE_RENAME_FROM;
    case OP_FOR_MOVE:
        return NOTICE_MOVE_FROM;
    case OP_FOR_ITSELF:
    case OP_FOR_COPY:
    case OP_FOR_RESTORE:
        return NOTICE_DEL;
    }
    unreachable();
}

static enum notice_kind shard_notice_put_kind(const struct op *op)
{
    switch ((enum op_purpose)op->purpose) {
    case OP_FOR_RENAME:
        return NOTICE_RENAME_TO;
    case OP_FOR_MOVE:
        return NOTICE_MOVE_TO;
    case OP_FOR_COPY:
        return NOTICE_COPY_TO;
    case OP_FOR_RESTORE:
        return NOTICE_RESTORE;
    case OP_FOR_ITSELF:
        return NOTICE_SET;
    }
    unreachable();
}

static bool shard_notice_writes(const struct op *op)
{
    for (uint32_t i = 0; i < op->field_count; i++) {
        if (op->fields[i].kind != OP_FIELD_GET && !op->fields[i].refused) {
            return true;
        }
    }
    return false;
}

void shard_notice_put(struct shard *shard, const struct op *op, const struct value *value)
{
    struct notice_queue *queue = &shard->notices;
    struct slice key = value_key(value);
    uint8_t database = shard->shown[value->database];
    if ((op->flags & OP_SET_RETURN_OLD) != 0 && op->old == NULL) {
        notice_add(queue, NOTICE_KEYMISS, database, key);
    }
    notice_add(queue, shard_notice_put_kind(op), database, key);
    if (op->purpose == OP_FOR_ITSELF && op->put.expires_at_ms != 0 &&
        (op->flags & OP_SET_KEEP_TTL) == 0) {
        notice_add(queue, NOTICE_EXPIRE, database, key);
    }
    if (shard_notice_is_past(shard, value->expires_at_ms)) {
        notice_add(queue, NOTICE_EXPIRED, database, key);
    }
}

void shard_notice_op(struct shard *shard, const struct op *op)
{
    if (op->status != KVASIR_OK) {
        return;
    }
    switch ((int)op->kind) {
    case OP_REMOVE:
        shard_notice(shard, shard_notice_removed(op), op);
        return;
    case OP_EXPIRE:
        shard_notice(
            shard, shard_notice_is_past(shard, op->expires_at_ms) ? NOTICE_DEL : NOTICE_EXPIRE, op);
        return;
    case OP_PERSIST:
        shard_notice(shard, NOTICE_PERSIST, op);
        return;
    case OP_ADD:
        shard_notice(shard, NOTICE_INCRBY, op);
        return;
    case OP_ADD_FLOAT:
        shard_notice(shard, NOTICE_INCRBYFLOAT, op);
        return;
    case OP_APPEND:
        shard_notice(shard, NOTICE_APPEND, op);
        return;
    case OP_SET_RANGE:
        if (op->payload.length_bytes > 0) {
            shard_notice(shard, NOTICE_SETRANGE, op);
        }
        return;
    case OP_FIELDS:
        if (shard_notice_writes(op)) {
            shard_notice(shard, NOTICE_SETBIT, op);
        }
        return;
    default:
        return; /* those that put, and those that change nothing */
    }
}

void shard_notices_want(struct shard *shard, uint32_t classes)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    shard->notices.classes = classes;
    shard_event_listeners(shard);
}

bool shard_notices_take(struct shard *shard, notice_visit_fn *visit, void *argument)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    return notice_take(&shard->notices, visit, argument);
}
