/* Pins and what holds them: sends (bare pins), leases, timed pins; and the end of every grant. */

#include "base/check.h"
#include "store/shard_impl.h"
#include "store/shard_kinds.h"
#include "store/shard_tenant.h"

/* Below half of what the shard's clock counts before it wraps. */
#define SHARD_PIN_MS_MAX   (24U * 24 * 3600 * 1000)
#define SHARD_GRANT_US_MAX ((int64_t)24 * 3600 * 1000000)

/* The shard's share of half the payload memory, as much as there is now. */
static uint64_t shard_pin_held_bytes_max(const struct shard *shard)
{
    const struct pages *pages = shard->config.payload;
    return (uint64_t)pages_page_bytes(pages) * pages_present_count(pages) / 2 /
           shard->config.shard_count;
}

static bool shard_pin_may_hold(const struct shard *shard, const struct value *value)
{
    if (value->holds > 0) {
        return value->holds < UINT16_MAX;
    }
    return shard->held_bytes == 0 ||
           value->length_bytes + shard->held_bytes <= shard_pin_held_bytes_max(shard);
}

static void shard_pin_hold(struct shard *shard, struct value *value)
{
    if (value->holds == 0) {
        shard->held_bytes += value->length_bytes;
        if (shard_has_tenants(shard)) {
            shard_tenant_fix(shard, value, 1);
        }
    }
    value->holds++;
}

static void shard_pin_let_go(struct shard *shard, struct value *value)
{
    check(value->holds > 0);
    value->holds--;
    if (value->holds == 0) {
        shard->held_bytes -= value->length_bytes;
        if (shard_has_tenants(shard)) {
            shard_tenant_fix(shard, value, -1);
        }
    }
}

/* Back to the policy, if nothing keeps the value from being evicted any more. */
static void shard_pin_relist(struct shard *shard, struct value *value)
{
    if (value->state == VALUE_SEALED && value->parked != VALUE_PARKED_NOT && value->pins == 0 &&
        value->pin_kind != VALUE_PIN_HARD) {
        shard_value_delist(shard, value);
        shard_value_enlist(shard, value);
    }
}

void shard_unpin(struct shard *shard, struct value **value_p)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    struct value *value = *value_p;
    *value_p = NULL;
    check(value->pins > 0);
    value->pins--;
    if (value->pins > 0) {
        return;
    }
    if (value->state != VALUE_SEALED) {
        shard_value_give(shard, &value);
    } else if (value->parked == VALUE_PARKED_HELD) {
        shard_pin_relist(shard, value);
    }
}

bool shard_pin_soft_running(const struct shard *shard, const struct value *value)
{
    return value->pin_kind == VALUE_PIN_SOFT &&
           (int32_t)(value->pinned_until_ms - shard_clock_ms(shard)) > 0;
}

int64_t shard_pin_left_ms(const struct shard *shard, const struct value *value)
{
    if (value->pin_kind == VALUE_PIN_HARD) {
        int64_t left_us =
            shard->grants.slots[value->pin_slot].timer.deadline_us - shard->now.mono_us;
        return left_us > 0 ? left_us / 1000 : 0;
    }
    return shard_pin_soft_running(shard, value)
               ? (int32_t)(value->pinned_until_ms - shard_clock_ms(shard))
               : 0;
}

void shard_pin_clear(struct shard *shard, struct value *value)
{
    if (value->pin_kind == VALUE_PIN_NONE) {
        return;
    }
    if (value->pin_kind == VALUE_PIN_HARD) {
        struct grant *grant = &shard->grants.slots[value->pin_slot];
        grant_close(&shard->grants, &grant, true);
        shard_pin_let_go(shard, value);
    } else {
        shard->soft_count--;
    }
    value->pin_kind = VALUE_PIN_NONE;
    value->pinned_until_ms = 0;
    shard_pin_relist(shard, value);
}

static enum kvasir_status shard_pin_set_hard(struct shard *shard, struct value *value,
                                             int64_t deadline_us)
{
    if (value->pin_kind == VALUE_PIN_HARD) {
        struct grant *grant = &shard->grants.slots[value->pin_slot];
        if (grant->timer.deadline_us < deadline_us) {
            grant_move(&shard->grants, grant, deadline_us);
        }
        return KVASIR_OK;
    }
    if (!shard_pin_may_hold(shard, value)) {
        return KVASIR_BUSY;
    }
    struct grant *grant =
        grant_open(&shard->grants, GRANT_HARD_PIN, value, GRANT_OWNER_SHARD, deadline_us);
    if (grant == NULL) {
        return KVASIR_BUSY;
    }
    shard_pin_clear(shard, value);
    value->pin_kind = VALUE_PIN_HARD;
    value->pin_slot = grant_slot(&shard->grants, grant);
    shard_pin_hold(shard, value);
    return KVASIR_OK;
}

enum kvasir_status shard_pin_set(struct shard *shard, struct value *value, enum value_pin kind,
                                 uint32_t pin_ms)
{
    if (pin_ms > SHARD_PIN_MS_MAX) {
        pin_ms = SHARD_PIN_MS_MAX;
    }
    if (kind == VALUE_PIN_HARD) {
        return shard_pin_set_hard(shard, value, shard->now.mono_us + (int64_t)pin_ms * 1000);
    }
    if (value->pin_kind == VALUE_PIN_HARD || shard_pin_left_ms(shard, value) >= pin_ms) {
        return KVASIR_OK; /* what there is is stronger */
    }
    if (value->pin_kind == VALUE_PIN_NONE) {
        shard->soft_count++;
    }
    value->pin_kind = VALUE_PIN_SOFT;
    value->pinned_until_ms = shard_clock_ms(shard) + pin_ms;
    return KVASIR_OK;
}

void shard_pin_try(struct shard *shard, struct value *value, enum value_pin kind, uint32_t pin_ms)
{
    if (pin_ms > 0 && shard_pin_set(shard, value, kind, pin_ms) != KVASIR_OK) {
        (void)shard_pin_set(shard, value, VALUE_PIN_SOFT, pin_ms);
    }
}

int64_t shard_pin_deadline_us(const struct shard *shard, int64_t deadline_us)
{
    int64_t last_us = shard->now.mono_us + SHARD_GRANT_US_MAX;
    return deadline_us < last_us ? deadline_us : last_us;
}

void shard_pin_end_grant(struct shard *shard, struct grant **grant_p, bool expired)
{
    struct value *value = (*grant_p)->value;
    enum grant_kind kind = (enum grant_kind)(*grant_p)->kind;
    if (kind == GRANT_HARD_PIN) {
        shard_pin_clear(shard, value);
        *grant_p = NULL;
        return;
    }
    shard->expired_grants += expired;
    grant_close(&shard->grants, grant_p, expired);
    if (kind == GRANT_LEASE) {
        shard_pin_let_go(shard, value);
    }
    shard_unpin(shard, &value);
}

struct grant *shard_pin_find_grant(struct shard *shard, struct op *op, enum grant_kind kind)
{
    bool expired;
    struct grant *grant = grant_find(&shard->grants, op->grant_id, kind, op->owner, &expired);
    if (grant != NULL && grant->timer.deadline_us <= shard->now.mono_us) {
        shard_pin_end_grant(shard, &grant, true);
        expired = true;
    }
    if (grant == NULL) {
        op->status = expired ? KVASIR_EXPIRED : KVASIR_NOT_FOUND;
    }
    return grant;
}

void shard_drop_owner(struct shard *shard, uint64_t owner)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    struct grant *grant;
    while ((grant = grant_find_owned(&shard->grants, owner)) != NULL) {
        shard_pin_end_grant(shard, &grant, false);
    }
}

void shard_pin_lease(struct shard *shard, struct op *op)
{
    struct value *value = shard_value_find(shard, op);
    if (value == NULL) {
        shard_read_missed(shard, op);
        op->status = KVASIR_NOT_FOUND;
        return;
    }
    if (!shard_pin_may_hold(shard, value)) {
        op->status = KVASIR_BUSY;
        return;
    }
    int64_t deadline_us = shard_pin_deadline_us(shard, op->deadline_us);
    struct grant *grant = grant_open(&shard->grants, GRANT_LEASE, value, op->owner, deadline_us);
    if (grant == NULL) {
        op->status = KVASIR_BUSY;
        return;
    }
    shard_read_hit(shard, op, value);
    shard_value_touch(shard, value);
    shard_pin_hold(shard, value);
    (void)shard_pin_take(value);
    op->value = shard_pin_take(value);
    op->integer = (int64_t)value->length_bytes;
    op->grant_id = grant_id(&shard->grants, grant);
    op->deadline_us = deadline_us;
    op->status = KVASIR_OK;
}

void shard_pin_release(struct shard *shard, struct op *op)
{
    struct grant *grant = shard_pin_find_grant(shard, op, GRANT_LEASE);
    if (grant == NULL) {
        op->status = KVASIR_NOT_FOUND;
        return;
    }
    shard_pin_end_grant(shard, &grant, false);
    op->status = KVASIR_OK;
}

void shard_pin_pin(struct shard *shard, struct op *op)
{
    struct value *value = shard_value_find(shard, op);
    op->status = value == NULL
                     ? KVASIR_NOT_FOUND
                     : shard_pin_set(shard, value, (enum value_pin)op->pin_kind, op->pin_ms);
}

void shard_pin_unpin(struct shard *shard, struct op *op)
{
    struct value *value = shard_value_find(shard, op);
    if (value != NULL) {
        shard_pin_clear(shard, value);
    }
    op->status = value == NULL ? KVASIR_NOT_FOUND : KVASIR_OK;
}
