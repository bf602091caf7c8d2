/* Puts: SET, RESERVE and COMMIT, and reservations under a grant. */

#include "base/check.h"
#include "store/shard_impl.h"
#include "store/shard_kinds.h"
#include "store/shard_notice.h"

bool shard_put_allowed(struct op *op, struct value *old)
{
    op->old = NULL;
    bool exists = old != NULL && (op->flags & OP_SET_IF_ABSENT) != 0;
    bool missing = old == NULL && (op->flags & OP_SET_IF_PRESENT) != 0;
    if (old != NULL && (op->flags & OP_SET_RETURN_OLD) != 0) {
        op->old = shard_pin_take(old);
    }
    op->status = exists ? KVASIR_EXISTS : missing ? KVASIR_NOT_FOUND : KVASIR_OK;
    return op->status == KVASIR_OK;
}

/* A cost for a length of 1 MiB, by powers of two from 1 to 15: policies compare those alone. */
static uint32_t shard_put_cost(uint64_t length_bytes, uint32_t cost_log2)
{
    uint32_t length_log2 = 63U - (uint32_t)__builtin_clzll(length_bytes | 1);
    uint32_t level = cost_log2 + 20 > length_log2 ? cost_log2 + 20 - length_log2 : 1;
    return level < 15 ? level : 15;
}

static void shard_put_describe(struct value *value, const struct op *op)
{
    value->parent_hash = op->put.parent_hash;
    value->value_class = op->put.value_class & 3U;
    value->flags = op->put.parent_hash != 0 ? VALUE_FLAG_PARENT : 0;
    if (op->put.cost_log2 != 0) { /* what was reserved has it already */
        value->cost = shard_put_cost(value->length_bytes, op->put.cost_log2) & 15U;
    }
    if ((op->flags & OP_SET_CHECKSUM) != 0) {
        value->flags |= VALUE_FLAG_CHECKSUM;
        value->checksum = op->put.checksum;
    }
}

/* The filled value (its expiry is set) takes the key's place; one that has expired already only ends
 * the old one. The value and its pin are the shard's from here. */
static void shard_put_seal(struct shard *shard, struct op *op, struct value *value,
                           struct value *old)
{
    bool expired = shard_value_expired(shard, value);
    if (old != NULL) {
        value->generation = (old->generation + 1U) & VALUE_GENERATION_MAX;
        shard_value_unlink(shard, old, expired ? EVENT_EXPIRED : EVENT_NONE);
    }
    if (!expired) {
        shard_put_describe(value, op);
        shard_value_link(shard, value);
        shard_pin_try(shard, value, (enum value_pin)op->put.pin_kind, op->put.pin_ms);
    } else {
        shard->expired++;
    }
    if (shard_notice_wanted(shard)) {
        shard_notice_put(shard, op, value);
    }
    shard_unpin(shard, &value);
    op->status = KVASIR_OK;
}

static int64_t shard_put_expiry(const struct op *op, const struct value *old)
{
    bool keep = old != NULL && (op->flags & OP_SET_KEEP_TTL) != 0;
    return keep ? old->expires_at_ms : op->put.expires_at_ms;
}

void shard_put_set(struct shard *shard, struct op *op)
{
    struct value *old = shard_value_find(shard, op);
    if (!shard_put_allowed(op, old)) {
        return;
    }
    int64_t expires_at_ms = shard_put_expiry(op, old);
    uint32_t generation = old != NULL ? old->generation + 1U : 1;
    uint64_t unlinked_count = shard->unlinked_count;
    struct value *value;
    op->status = shard_value_take(shard, op, op->payload.length_bytes, &value);
    if (op->status != KVASIR_OK) {
        if (op->old != NULL) {
            shard_unpin(shard, &op->old);
        }
        return;
    }
    shard_value_write(shard, value, op->payload);
    value->expires_at_ms = expires_at_ms;
    value->generation = generation & VALUE_GENERATION_MAX;
    if (shard->unlinked_count != unlinked_count) {
        old = shard_value_find(shard, op); /* making room may have taken it */
    }
    shard_put_seal(shard, op, value, old);
}

void shard_put_reserve(struct shard *shard, struct op *op)
{
    op->value = NULL;
    op->old = NULL;
    if ((op->flags & OP_SET_IF_ABSENT) != 0 &&
        !shard_put_allowed(op, shard_value_find(shard, op))) {
        return;
    }
    op->status = shard_value_take(shard, op, op->put.length_bytes, &op->value);
}

void shard_put_commit(struct shard *shard, struct op *op)
{
    struct value *value = op->value;
    op->value = NULL;
    check(value != NULL && value->state == VALUE_RESERVED && value->pins == 1);
    struct op find = {.kind = OP_COMMIT,
                      .database = value->database,
                      .key = value_key(value),
                      .hash = value->hash};
    struct value *old = shard_value_find(shard, &find);
    if (!shard_put_allowed(op, old)) {
        shard_unpin(shard, &value);
        return;
    }
    value->expires_at_ms = shard_put_expiry(op, old);
    shard_put_seal(shard, op, value, old);
}

void shard_put_abort(struct shard *shard, struct op *op)
{
    check(op->value != NULL && op->value->state == VALUE_RESERVED);
    shard_unpin(shard, &op->value);
    op->status = KVASIR_OK;
}

void shard_put_grant_reserve(struct shard *shard, struct op *op)
{
    int64_t deadline_us = shard_pin_deadline_us(shard, op->deadline_us);
    shard_put_reserve(shard, op);
    if (op->status != KVASIR_OK) {
        return;
    }
    struct value *value = op->value;
    check(value != NULL);
    struct grant *grant =
        grant_open(&shard->grants, GRANT_RESERVATION, value, op->owner, deadline_us);
    if (grant == NULL) {
        shard_unpin(shard, &op->value);
        op->status = KVASIR_BUSY;
        return;
    }
    op->value = NULL;
    value->expires_at_ms = op->put.expires_at_ms;
    shard_put_describe(value, op);
    grant->flags = op->flags;
    grant->pin_ms = op->put.pin_ms;
    grant->pin_kind = op->put.pin_kind;
    op->grant_id = grant_id(&shard->grants, grant);
    op->deadline_us = deadline_us;
}

void shard_put_grant_fill(struct shard *shard, struct op *op)
{
    op->value = NULL;
    struct grant *grant = shard_pin_find_grant(shard, op, GRANT_RESERVATION);
    if (grant == NULL) {
        return;
    }
    struct value *value = grant->value;
    op->put = (struct op_put){
        .length_bytes = value->length_bytes,
        .checksum = value->checksum,
        .parent_hash = value->parent_hash,
        .expires_at_ms = value->expires_at_ms,
        .pin_ms = grant->pin_ms,
        .pin_kind = grant->pin_kind,
        .value_class = value->value_class,
    };
    op->flags = grant->flags;
    op->key = value_key(value);
    op->hash = value->hash;
    op->database = value->database;
    op->value = value;
    op->status = KVASIR_OK;
    grant_close(&shard->grants, &grant, false);
}

void shard_put_grant_abort(struct shard *shard, struct op *op)
{
    struct grant *grant = shard_pin_find_grant(shard, op, GRANT_RESERVATION);
    if (grant == NULL) {
        op->status = KVASIR_NOT_FOUND;
        return;
    }
    shard_pin_end_grant(shard, &grant, false);
    op->status = KVASIR_OK;
}
