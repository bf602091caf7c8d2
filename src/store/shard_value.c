/* The states of a value: reserved, sealed, orphan, freed; and the counts that follow them. */

#include "base/check.h"
#include "base/copy.h"
#include "base/fault.h"
#include "store/shard_event.h"
#include "store/shard_impl.h"
#include "store/shard_recall.h"
#include "store/shard_tenant.h"
#include "store/shard_watch.h"

/* Expiry times are summed in seconds, up to this (the year 2242), so that 10^9 keys do not overflow. */
#define SHARD_EXPIRES_S_MAX ((int64_t)1 << 33)

static int64_t shard_value_expires_s(const struct value *value)
{
    int64_t expires_s = value->expires_at_ms / 1000;
    return expires_s < SHARD_EXPIRES_S_MAX ? expires_s : SHARD_EXPIRES_S_MAX;
}

static void shard_value_count_expiry(struct shard *shard, const struct value *value, int sign)
{
    if (value->expires_at_ms == 0) {
        return;
    }
    struct shard_space *space = shard_space_of(shard, value);
    space->expiring_count += (uint64_t)(int64_t)sign;
    shard->expiring_count += (uint64_t)(int64_t)sign;
    space->expires_sum_s += sign * shard_value_expires_s(value);
}

/* What these do with a key that is not there leaves the index as it is. */
static bool shard_value_only_looks(const struct op *op)
{
    static const uint64_t kinds =
        UINT64_C(1) << OP_GET | UINT64_C(1) << OP_LEASE | UINT64_C(1) << OP_REMOVE |
        UINT64_C(1) << OP_EXISTS | UINT64_C(1) << OP_EXPIRE | UINT64_C(1) << OP_PERSIST |
        UINT64_C(1) << OP_BIT_COUNT | UINT64_C(1) << OP_BIT_FIND | UINT64_C(1) << OP_PIN |
        UINT64_C(1) << OP_UNPIN | UINT64_C(1) << OP_STAT;
    return (kinds >> op->kind & 1) != 0;
}

struct value *shard_value_find(struct shard *shard, const struct op *op)
{
    check_slow(op->hash == op_hash(shard->config.hash_seed, op->database, op->key));
    struct value *value = index_find(&shard->index, op->database, op->key, op->hash);
    if (value == NULL) {
        return NULL;
    }
    if (UNLIKELY(shard_value_flushed(shard, value))) {
        shard_value_unlink(shard, value, EVENT_NONE);
        return NULL;
    }
    if (UNLIKELY(shard_value_expired(shard, value))) {
        if (!shard->holds_expired || !shard_value_only_looks(op)) {
            shard->expired++;
            shard_value_unlink(shard, value, EVENT_EXPIRED);
        }
        return NULL;
    }
    return value;
}

void shard_value_touch(struct shard *shard, struct value *value)
{
    value->touched_s = shard_clock_s(shard);
    if (value->hits < UINT16_MAX) {
        value->hits++;
    }
    struct policy *policy = shard->tenants[value->tenant].policy;
    if (policy != NULL && value->parked == VALUE_PARKED_NOT) {
        shard->policy_ops->touch(policy, value);
    }
}

void shard_value_enlist(struct shard *shard, struct value *value)
{
    struct policy *policy = shard->tenants[value->tenant].policy;
    value->parked = VALUE_PARKED_NOT;
    if (policy != NULL) {
        shard->policy_ops->insert(policy, value);
    }
}

void shard_value_delist(struct shard *shard, struct value *value)
{
    struct shard_tenant *tenant = shard_tenant_of(shard, value);
    if (value->parked == VALUE_PARKED_SOFT) {
        value_list_remove(&tenant->soft, value);
    } else if (value->parked == VALUE_PARKED_NOT && tenant->policy != NULL) {
        shard->policy_ops->remove(tenant->policy, value);
    }
}

uint32_t shard_value_whole_pages(const struct shard *shard, const struct value *value)
{
    uint32_t page_bytes = pages_page_bytes(shard->config.payload);
    uint64_t page_count = value->length_bytes / page_bytes;
    if (value->length_bytes % page_bytes > 0 && value->layout.runs[0].page == PAGES_NONE) {
        page_count++;
    }
    return (uint32_t)page_count;
}

static bool shard_value_fits(const struct shard *shard, uint64_t length_bytes)
{
    uint64_t page_bytes = pages_page_bytes(shard->config.payload);
    return length_bytes <= shard->config.value_bytes_max &&
           (length_bytes <= page_bytes ||
            length_bytes <= page_bytes * pages_present_count(shard->config.payload));
}

/* True while a try is worth its cost: a long value first needs as many free pages as it fills. */
static bool shard_value_try_layout(struct shard *shard, struct value *value)
{
    size_t page_count = layout_page_count(shard->config.payload, value->length_bytes);
    if (page_count > 0) {
        if (pages_free_count(shard->config.payload) + shard->hoard_count < page_count) {
            return false;
        }
        shard_room_release(shard);
    }
    shard_move_set_taker(shard, value);
    return !fault_hit("store.payload") &&
           layout_take(shard->payload, value->length_bytes, &value->layout) == KVASIR_OK;
}

enum kvasir_status shard_value_take(struct shard *shard, const struct op *op, uint64_t length_bytes,
                                    struct value **value_p)
{
    if (!shard_value_fits(shard, length_bytes)) {
        return KVASIR_TOO_LARGE;
    }
    uint8_t tenant = 0;
    if (shard_has_tenants(shard)) {
        tenant = shard_tenant_find(shard, op);
        enum kvasir_status status =
            shard_tenant_admit(shard, tenant, length_bytes + value_bytes(op->key.length_bytes));
        if (status != KVASIR_OK) {
            return status;
        }
    }
    struct shard_room room = shard_room_begin(tenant);
    struct value *value = NULL;
    for (;;) {
        if (value == NULL) {
            value = meta_take(&shard->meta, op->key);
            if (value != NULL) {
                value->length_bytes = length_bytes;
            }
        }
        if (value != NULL && shard_value_try_layout(shard, value)) {
            break;
        }
        enum kvasir_status status = shard_room_make(shard, &room, length_bytes, value == NULL);
        if (status != KVASIR_OK) {
            shard->denied_no_memory += status == KVASIR_NO_MEMORY;
            if (value != NULL) {
                meta_give(&shard->meta, &value);
            }
            return status;
        }
    }
    value->hash = op->hash;
    value->database = op->database;
    value->tenant = tenant & (TENANTS_MAX - 1);
    value->state = VALUE_RESERVED;
    value->generation = 1;
    value->pins = 1;
    value->touched_s = shard_clock_s(shard);
    value_list_push_back(&shard->detached, value);
    shard->value_count++;
    shard->reserved_count++;
    shard->payload_bytes += length_bytes;
    shard->whole_pages += shard_value_whole_pages(shard, value);
    if (shard_has_tenants(shard)) {
        shard_tenant_count(shard, value, 1);
        shard_tenant_fix(shard, value, 1);
    }
    *value_p = value;
    return KVASIR_OK;
}

void shard_value_give(struct shard *shard, struct value **value_p)
{
    struct value *value = *value_p;
    check(value->holds == 0);
    if (shard_has_tenants(shard)) {
        shard_tenant_count(shard, value, -1);
        if (value->state == VALUE_RESERVED) {
            shard_tenant_fix(shard, value, -1);
        }
    }
    if (value->state == VALUE_RESERVED) {
        value_list_remove(&shard->detached, value);
        shard->reserved_count--;
    } else if (value->state == VALUE_ORPHAN) {
        value_list_remove(&shard->detached, value);
        shard->orphan_count--;
    }
    shard->value_count--;
    shard->payload_bytes -= value->length_bytes;
    shard->whole_pages -= shard_value_whole_pages(shard, value);
    layout_give(shard->payload, value->length_bytes, &value->layout);
    meta_give(&shard->meta, value_p);
}

void shard_value_link(struct shard *shard, struct value *value)
{
    check(value->state == VALUE_RESERVED);
    if (shard_has_tenants(shard)) {
        shard_tenant_fix(shard, value, -1);
    }
    value_list_remove(&shard->detached, value);
    shard->reserved_count--;
    struct shard_space *space = shard_space_of(shard, value);
    shard_value_changes(shard, value);
    value->state = VALUE_SEALED;
    value->epoch = space->epoch;
    space->key_count++;
    shard_value_count_expiry(shard, value, 1);
    index_insert(&shard->index, value);
    shard_value_enlist(shard, value);
    shard_event_note(shard, EVENT_SEALED, value);
}

static void shard_value_tell_end(struct shard *shard, const struct value *value)
{
    struct policy *policy = shard->tenants[value->tenant].policy;
    if (policy != NULL && shard->policy_ops->end != NULL) {
        shard->policy_ops->end(policy, value);
    }
}

void shard_value_unlink(struct shard *shard, struct value *value, enum event_kind why)
{
    check(value->state == VALUE_SEALED);
    shard_event_note(shard, why, value);
    shard_pin_clear(shard, value);
    struct shard_space *space = shard_space_of(shard, value);
    if (shard_value_flushed(shard, value)) {
        shard->backlog_count--;
        space->backlog_count--;
        if (space->backlog_count == 0) {
            space->flushes_behind = 0;
        }
    } else {
        shard_value_changes(shard, value);
        space->key_count--;
        shard_value_count_expiry(shard, value, -1);
    }
    shard->unlinked_count++;
    index_remove(&shard->index, value);
    if (why == EVENT_DELETED || why == EVENT_EXPIRED) {
        shard_value_tell_end(shard, value);
    }
    shard_value_delist(shard, value);
    if (value->pins > 0) {
        if (why != EVENT_NONE) {
            shard_recall_note(shard, value);
        }
        value->state = VALUE_ORPHAN;
        value_list_push_back(&shard->detached, value);
        shard->orphan_count++;
        return;
    }
    shard_value_give(shard, &value);
}

void shard_value_set_expiry(struct shard *shard, struct value *value, int64_t expires_at_ms)
{
    shard_value_changes(shard, value);
    bool enlisted = shard->policy_ops != NULL && shard->policy_ops->by_expiry &&
                    value->parked == VALUE_PARKED_NOT;
    if (enlisted) {
        shard_value_delist(shard, value);
    }
    shard_value_count_expiry(shard, value, -1);
    value->expires_at_ms = expires_at_ms;
    shard_value_count_expiry(shard, value, 1);
    if (enlisted) {
        shard_value_enlist(shard, value);
    }
}

void shard_value_cursor(const struct shard *shard, const struct value *value,
                        struct layout_cursor *cursor_p)
{
    layout_cursor_init(cursor_p, shard->config.payload, &value->layout, value->length_bytes);
}

void shard_value_write(struct shard *shard, struct value *value, struct slice bytes)
{
    struct layout_cursor cursor;
    shard_value_cursor(shard, value, &cursor);
    while (bytes.length_bytes > 0) {
        struct iovec piece = layout_cursor_peek(&cursor);
        size_t step_bytes = piece.iov_len < bytes.length_bytes ? piece.iov_len : bytes.length_bytes;
        check(step_bytes > 0);
        copy_payload(piece.iov_base, bytes.data, step_bytes);
        layout_cursor_skip(&cursor, step_bytes);
        bytes = slice_of(bytes.data + step_bytes, bytes.length_bytes - step_bytes);
    }
}
