/* What looks at values and changes no bytes: GET, EXISTS, STAT, REMOVE, EXPIRE, PERSIST. */

#include "base/check.h"
#include "store/shard_impl.h"
#include "store/shard_kinds.h"
#include "store/shard_notice.h"
#include "store/shard_tenant.h"

void shard_read_missed(struct shard *shard, const struct op *op)
{
    shard->misses++;
    if (shard_has_tenants(shard)) {
        shard_tenant_count_read(shard, op, NULL);
    }
}

void shard_read_hit(struct shard *shard, const struct op *op, const struct value *value)
{
    shard->hits++;
    if (shard_has_tenants(shard)) {
        shard_tenant_count_read(shard, op, value);
    }
}

struct value *shard_read_find(struct shard *shard, struct op *op)
{
    struct value *value = shard_value_find(shard, op);
    if (value == NULL) {
        shard_read_missed(shard, op);
        op->status = KVASIR_NOT_FOUND;
        if (op->purpose == OP_FOR_ITSELF || op->purpose == OP_FOR_COPY) {
            shard_notice(shard, NOTICE_KEYMISS, op);
        }
        return NULL;
    }
    shard_read_hit(shard, op, value);
    if ((op->flags & OP_READ_NO_TOUCH) == 0) {
        shard_value_touch(shard, value);
    }
    op->status = KVASIR_OK;
    op->integer = (int64_t)value->length_bytes;
    return value;
}

/* GETDEL and GETEX: what is done to the key in the same step. The value may be gone after it. */
static void shard_read_change(struct shard *shard, const struct op *op, struct value *value)
{
    if ((op->flags & OP_READ_REMOVE) != 0) {
        shard_value_unlink(shard, value, EVENT_DELETED);
        shard_notice(shard, NOTICE_DEL, op);
    } else if ((op->flags & OP_READ_EXPIRE) != 0 && op->expires_at_ms != 0 &&
               op->expires_at_ms <= shard->now.wall_ms) {
        shard_value_unlink(shard, value, EVENT_EXPIRED);
        shard_notice(shard, NOTICE_DEL, op);
    } else if ((op->flags & OP_READ_EXPIRE) != 0) {
        bool had_expiry = value->expires_at_ms != 0;
        shard_value_set_expiry(shard, value, op->expires_at_ms);
        if (op->expires_at_ms != 0 || had_expiry) {
            shard_notice(shard, op->expires_at_ms != 0 ? NOTICE_EXPIRE : NOTICE_PERSIST, op);
        }
    }
}

void shard_read_get(struct shard *shard, struct op *op)
{
    op->value = NULL;
    struct value *value = shard_read_find(shard, op);
    if (value == NULL) {
        return;
    }
    op->value = shard_pin_take(value);
    if ((op->flags & OP_READ_LENT) != 0) {
        value->lent = 1;
        shard->lends = true;
    }
    int64_t expires_at_ms = value->expires_at_ms;
    shard_read_change(shard, op, value);
    op->expires_at_ms = expires_at_ms;
}

void shard_read_exists(struct shard *shard, struct op *op)
{
    struct value *value = shard_read_find(shard, op);
    if (value == NULL) {
        return;
    }
    shard_pin_try(shard, value, (enum value_pin)op->pin_kind, op->pin_ms);
    int64_t expires_at_ms = value->expires_at_ms;
    shard_read_change(shard, op, value);
    op->expires_at_ms = expires_at_ms;
}

static uint32_t shard_read_frequency(struct shard *shard, const struct value *value)
{
    const struct policy_ops *ops = shard->policy_ops;
    const struct policy *policy = shard_tenant_of(shard, value)->policy;
    if (ops == NULL || policy == NULL || ops->frequency == NULL ||
        (ops->by_expiry && value->expires_at_ms == 0)) {
        return value->hits < UINT8_MAX ? value->hits : UINT8_MAX;
    }
    return ops->frequency(policy, value);
}

void shard_read_stat(struct shard *shard, struct op *op)
{
    const struct value *value = shard_value_find(shard, op);
    if (value == NULL) {
        op->status = KVASIR_NOT_FOUND;
        return;
    }
    int64_t pin_left_ms = shard_pin_left_ms(shard, value);
    *op->stat_p = (struct op_stat){
        .length_bytes = value->length_bytes,
        .stored_bytes = value->length_bytes,
        .checksum = value->checksum,
        .parent_hash = value->parent_hash,
        .expires_at_ms = value->expires_at_ms,
        .pin_left_ms = pin_left_ms,
        .generation = value->generation,
        .hits = value->hits,
        .leases = value->holds - (value->pin_kind == VALUE_PIN_HARD ? 1U : 0U),
        .idle_s = shard_clock_s(shard) - value->touched_s,
        .frequency = shard_read_frequency(shard, value),
        .value_class = value->value_class,
        .flags = value->flags,
        .pin_kind = pin_left_ms > 0 ? value->pin_kind : VALUE_PIN_NONE,
        .state = value->state,
        .tenant = value->tenant,
        .is_integer = shard_edit_is_integer(shard, value),
    };
    op->status = KVASIR_OK;
}

void shard_read_remove(struct shard *shard, struct op *op)
{
    struct value *value = shard_value_find(shard, op);
    bool other = (op->flags & OP_REMOVE_SAME) != 0 && value != op->same;
    if (value == NULL || other) {
        op->status = KVASIR_NOT_FOUND;
        return;
    }
    shard_value_unlink(shard, value, EVENT_DELETED);
    op->status = KVASIR_OK;
}

/* No expiry counts as the latest there is. */
static bool shard_read_rule_allows(uint8_t rule, int64_t current_ms, int64_t wanted_ms)
{
    switch ((enum op_expire_rule)rule) {
    case OP_EXPIRE_ALWAYS:
        return true;
    case OP_EXPIRE_NX:
        return current_ms == 0;
    case OP_EXPIRE_XX:
        return current_ms != 0;
    case OP_EXPIRE_GT:
        return current_ms != 0 && wanted_ms > current_ms;
    case OP_EXPIRE_XX_LT:
        return current_ms != 0 && wanted_ms < current_ms;
    case OP_EXPIRE_LT:
        return current_ms == 0 || wanted_ms < current_ms;
    }
    unreachable();
}

void shard_read_expire(struct shard *shard, struct op *op)
{
    struct value *value = shard_value_find(shard, op);
    op->integer = 0;
    if (value == NULL) {
        op->status = KVASIR_NOT_FOUND;
        return;
    }
    if (!shard_read_rule_allows(op->expire_rule, value->expires_at_ms, op->expires_at_ms)) {
        op->integer = -1;
        op->status = KVASIR_NOT_FOUND;
        return;
    }
    op->status = KVASIR_OK;
    if (op->expires_at_ms <= shard->now.wall_ms) {
        shard_value_unlink(shard, value, EVENT_EXPIRED);
    } else {
        shard_value_set_expiry(shard, value, op->expires_at_ms);
    }
}

void shard_read_persist(struct shard *shard, struct op *op)
{
    struct value *value = shard_value_find(shard, op);
    if (value == NULL || value->expires_at_ms == 0) {
        op->status = KVASIR_NOT_FOUND;
        return;
    }
    shard_value_set_expiry(shard, value, 0);
    op->status = KVASIR_OK;
}
