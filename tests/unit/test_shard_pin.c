/* Unit tests of store/shard_pin and of grants as ops: leases, reservations, timed pins. */
#include "test_shard_fixture.h"

#define OWNER 41U

static struct op lease_op(struct fixture *fixture, const char *key, int64_t ms)
{
    struct op op = fixture_op(OP_LEASE, key);
    op.owner = OWNER;
    op.deadline_us = fixture->now.mono_us + ms * 1000;
    return op;
}

/* Leases the key and hands the op's own pin back at once. */
static enum kvasir_status lease(struct fixture *fixture, const char *key, int64_t ms,
                                uint64_t *id_p)
{
    struct op op = lease_op(fixture, key, ms);
    if (fixture_run(fixture, &op) == KVASIR_OK) {
        *id_p = op.grant_id;
        shard_unpin(fixture->shard, &op.value);
    }
    return op.status;
}

static enum kvasir_status release(struct fixture *fixture, uint64_t id, uint64_t owner)
{
    struct op op = {.kind = OP_RELEASE, .grant_id = id, .owner = owner};
    return fixture_run(fixture, &op);
}

static enum kvasir_status reserve(struct fixture *fixture, const char *key, uint64_t length_bytes,
                                  uint64_t *id_p)
{
    struct op op = fixture_op(OP_GRANT_RESERVE, key);
    op.owner = OWNER;
    op.deadline_us = fixture->now.mono_us + 1000000;
    op.flags = OP_SET_IF_ABSENT;
    op.put.length_bytes = length_bytes;
    op.put.value_class = KVASIR_CLASS_STATE;
    op.put.parent_hash = 12;
    op.put.pin_ms = 500;
    op.put.pin_kind = VALUE_PIN_HARD;
    op.put.expires_at_ms = fixture->now.wall_ms + 60000;
    if (fixture_run(fixture, &op) == KVASIR_OK) {
        *id_p = op.grant_id;
        assert_null(op.value);
    }
    return op.status;
}

static enum kvasir_status pin(struct fixture *fixture, const char *key, enum value_pin kind,
                              uint32_t ms)
{
    struct op op = fixture_op(OP_PIN, key);
    op.pin_kind = (uint8_t)kind;
    op.pin_ms = ms;
    return fixture_run(fixture, &op);
}

static struct op_stat stat_of(struct fixture *fixture, const char *key)
{
    struct op_stat stat = {0};
    struct op op = fixture_op(OP_STAT, key);
    op.stat_p = &stat;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    return stat;
}

static void test_shard_pin_lease_holds_the_bytes_of_a_deleted_value(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "key", "value");
    struct op op = lease_op(fixture, "key", 1000);
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(op.integer, 5);
    assert_int_equal(op.value->pins, 2);
    assert_int_equal(shard_of_grant(op.grant_id), 0);
    assert_int_equal(stat_of(fixture, "key").leases, 1);
    shard_unpin(fixture->shard, &op.value);
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "key"), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).orphan_count, 1);
    shard_verify(fixture->shard);
    assert_int_equal(release(fixture, op.grant_id, OWNER + 1), KVASIR_NOT_FOUND);
    assert_int_equal(fixture_stats(fixture).orphan_count, 1);
    assert_int_equal(release(fixture, op.grant_id, OWNER), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).value_count, 0);
    assert_int_equal(release(fixture, op.grant_id, OWNER), KVASIR_NOT_FOUND);
}

static void test_shard_pin_lease_ends_at_its_deadline(void **state)
{
    struct fixture *fixture = *state;
    uint64_t id;
    (void)fixture_set(fixture, "key", "value");
    assert_int_equal(lease(fixture, "key", 1000, &id), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).leases, 1);
    fixture_move(fixture, 999);
    (void)shard_tick(fixture->shard, &fixture->now, 100);
    assert_int_equal(fixture_stats(fixture).leases, 1);
    fixture_move(fixture, 1);
    (void)shard_tick(fixture->shard, &fixture->now, 100);
    assert_int_equal(fixture_stats(fixture).leases, 0);
    assert_int_equal(fixture_stats(fixture).expired_grants, 1);
    assert_int_equal(release(fixture, id, OWNER), KVASIR_NOT_FOUND);
    fixture_assert_value(fixture, "key", "value");
}

static void test_shard_pin_lease_over_time_is_refused_before_a_tick(void **state)
{
    struct fixture *fixture = *state;
    uint64_t id;
    (void)fixture_set(fixture, "key", "value");
    assert_int_equal(lease(fixture, "key", 10, &id), KVASIR_OK);
    fixture_move(fixture, 10);
    assert_int_equal(release(fixture, id, OWNER), KVASIR_NOT_FOUND);
    assert_int_equal(fixture_stats(fixture).leases, 0);
}

static void test_shard_pin_leases_are_bounded_by_count_and_bytes(void **state)
{
    struct fixture *fixture = *state;
    uint64_t ids[64], big, more;
    (void)fixture_set(fixture, "key", "value");
    assert_int_equal(lease(fixture, "none", 1000, &more), KVASIR_NOT_FOUND);
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(lease(fixture, "key", 1000, &ids[i]), KVASIR_OK);
    }
    assert_int_equal(lease(fixture, "key", 1000, &more), KVASIR_BUSY);
    assert_int_equal(release(fixture, ids[5], OWNER), KVASIR_OK);
    assert_int_equal(fixture_fill(fixture, "big", 1U << 20), KVASIR_OK);
    assert_int_equal(lease(fixture, "big", 1000, &big), KVASIR_BUSY);
    shard_drop_owner(fixture->shard, OWNER);
    assert_int_equal(lease(fixture, "big", 1000, &big), KVASIR_OK);
    assert_int_equal(lease(fixture, "big", 1000, &big), KVASIR_OK);
    assert_int_equal(lease(fixture, "key", 1000, &more), KVASIR_BUSY);
    assert_int_equal(pin(fixture, "key", VALUE_PIN_HARD, 1000), KVASIR_BUSY);
    assert_int_equal(pin(fixture, "key", VALUE_PIN_SOFT, 1000), KVASIR_OK);
    shard_verify(fixture->shard);
}

static void test_shard_pin_one_value_above_the_share_can_be_leased(void **state)
{
    struct fixture *fixture = *state;
    uint64_t id;
    assert_int_equal(fixture_fill(fixture, "big", 3U << 19), KVASIR_OK);
    assert_int_equal(lease(fixture, "big", 1000, &id), KVASIR_OK);
}

static void test_shard_pin_reservation_is_filled_and_committed(void **state)
{
    struct fixture *fixture = *state;
    uint64_t id;
    assert_int_equal(reserve(fixture, "key", 70000, &id), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).reservations, 1);
    struct op op = {.kind = OP_GRANT_FILL, .grant_id = id, .owner = OWNER + 1};
    assert_int_equal(fixture_run(fixture, &op), KVASIR_NOT_FOUND);
    op.owner = OWNER;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(op.put.length_bytes, 70000);
    assert_int_equal(op.put.value_class, KVASIR_CLASS_STATE);
    assert_int_equal(op.put.parent_hash, 12);
    assert_int_equal(op.flags, OP_SET_IF_ABSENT);
    assert_true(slice_equal(op.key, slice_of_text("key")));
    assert_int_equal(fixture_stats(fixture).reservations, 0);
    fixture_move(fixture, 50000);
    (void)shard_tick(fixture->shard, &fixture->now, 100);
    op.kind = OP_COMMIT;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    struct op_stat stat = stat_of(fixture, "key");
    assert_int_equal(stat.pin_kind, VALUE_PIN_HARD);
    assert_int_equal(stat.pin_left_ms, 500);
    assert_int_equal(stat.leases, 0);
    assert_true(stat.expires_at_ms == fixture->now.wall_ms + 10000);
    op.kind = OP_GRANT_FILL;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_NOT_FOUND);
    assert_int_equal(reserve(fixture, "key", 70000, &id), KVASIR_EXISTS);
}

static void test_shard_pin_reservation_ends_by_time_abort_or_owner(void **state)
{
    struct fixture *fixture = *state;
    uint64_t ids[4];
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(reserve(fixture, "key", 100000, &ids[i]), KVASIR_OK);
    }
    struct op op = {.kind = OP_GRANT_ABORT, .grant_id = ids[0], .owner = OWNER + 1};
    assert_int_equal(fixture_run(fixture, &op), KVASIR_NOT_FOUND);
    op.owner = OWNER;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).reserved_count, 3);
    fixture_move(fixture, 1000);
    op = (struct op){.kind = OP_GRANT_FILL, .grant_id = ids[1], .owner = OWNER};
    assert_int_equal(fixture_run(fixture, &op), KVASIR_EXPIRED);
    assert_int_equal(fixture_run(fixture, &op), KVASIR_EXPIRED);
    assert_int_equal(fixture_stats(fixture).reserved_count, 2);
    shard_drop_owner(fixture->shard, OWNER + 1);
    assert_int_equal(fixture_stats(fixture).reserved_count, 2);
    shard_drop_owner(fixture->shard, OWNER);
    assert_int_equal(fixture_stats(fixture).reserved_count, 0);
    assert_int_equal(pages_free_count(fixture->payload), pages_count(fixture->payload));
    assert_int_equal(pages_free_count(fixture->metadata), pages_count(fixture->metadata));
}

static void test_shard_pin_ends_by_itself(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "soft", "value");
    (void)fixture_set(fixture, "hard", "value");
    assert_int_equal(pin(fixture, "none", VALUE_PIN_SOFT, 100), KVASIR_NOT_FOUND);
    assert_int_equal(pin(fixture, "soft", VALUE_PIN_SOFT, 100), KVASIR_OK);
    assert_int_equal(pin(fixture, "hard", VALUE_PIN_HARD, 100), KVASIR_OK);
    assert_int_equal(stat_of(fixture, "soft").pin_left_ms, 100);
    assert_int_equal(stat_of(fixture, "hard").pin_kind, VALUE_PIN_HARD);
    shard_verify(fixture->shard);
    fixture_move(fixture, 100);
    (void)shard_tick(fixture->shard, &fixture->now, 10000);
    fixture_move(fixture, 1000);
    (void)shard_tick(fixture->shard, &fixture->now, 10000);
    assert_int_equal(stat_of(fixture, "soft").pin_kind, VALUE_PIN_NONE);
    assert_int_equal(stat_of(fixture, "hard").pin_kind, VALUE_PIN_NONE);
    assert_int_equal(fixture_stats(fixture).expired_grants, 0);
    shard_verify(fixture->shard);
}

static void test_shard_pin_is_lengthened_never_shortened(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "key", "value");
    (void)pin(fixture, "key", VALUE_PIN_SOFT, 100);
    (void)pin(fixture, "key", VALUE_PIN_SOFT, 50);
    assert_int_equal(stat_of(fixture, "key").pin_left_ms, 100);
    (void)pin(fixture, "key", VALUE_PIN_HARD, 30);
    (void)pin(fixture, "key", VALUE_PIN_HARD, 20);
    (void)pin(fixture, "key", VALUE_PIN_SOFT, 500);
    assert_int_equal(stat_of(fixture, "key").pin_left_ms, 30);
    (void)pin(fixture, "key", VALUE_PIN_HARD, 200);
    assert_int_equal(stat_of(fixture, "key").pin_left_ms, 200);
    assert_int_equal(fixture_simple(fixture, OP_UNPIN, "key"), KVASIR_OK);
    assert_int_equal(fixture_simple(fixture, OP_UNPIN, "none"), KVASIR_NOT_FOUND);
    assert_int_equal(stat_of(fixture, "key").pin_left_ms, 0);
    shard_verify(fixture->shard);
}

static void test_shard_pin_outlives_the_wrap_of_the_shards_clock(void **state)
{
    struct fixture *fixture = *state;
    const int64_t day_ms = 24LL * 3600 * 1000;
    (void)fixture_set(fixture, "key", "value");
    fixture_move(fixture, 49 * day_ms);
    (void)pin(fixture, "key", VALUE_PIN_SOFT, UINT32_MAX);
    assert_int_equal(stat_of(fixture, "key").pin_left_ms, 24 * day_ms);
    fixture_move(fixture, 23 * day_ms);
    assert_int_equal(stat_of(fixture, "key").pin_left_ms, day_ms);
    fixture_move(fixture, day_ms);
    assert_int_equal(stat_of(fixture, "key").pin_left_ms, 0);
    (void)shard_tick(fixture->shard, &fixture->now, 10000);
    fixture_move(fixture, 25 * day_ms);
    assert_int_equal(stat_of(fixture, "key").pin_left_ms, 0);
}

static void test_shard_pin_ends_with_the_key(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "key", "value");
    (void)pin(fixture, "key", VALUE_PIN_HARD, 1000);
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "key"), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).value_count, 0);
    shard_verify(fixture->shard);
}

static void test_shard_pin_with_exists_is_soft_when_the_share_is_used_up(void **state)
{
    struct fixture *fixture = *state;
    uint64_t id;
    assert_int_equal(fixture_fill(fixture, "big", 1U << 20), KVASIR_OK);
    assert_int_equal(lease(fixture, "big", 1000, &id), KVASIR_OK);
    (void)fixture_set(fixture, "key", "value");
    struct op op = fixture_op(OP_EXISTS, "key");
    op.pin_ms = 70;
    op.pin_kind = VALUE_PIN_HARD;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(stat_of(fixture, "key").pin_kind, VALUE_PIN_SOFT);
    assert_int_equal(stat_of(fixture, "key").pin_left_ms, 70);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shard_pin_lease_holds_the_bytes_of_a_deleted_value),
        TEST(test_shard_pin_lease_ends_at_its_deadline),
        TEST(test_shard_pin_lease_over_time_is_refused_before_a_tick),
        TEST(test_shard_pin_leases_are_bounded_by_count_and_bytes),
        TEST(test_shard_pin_one_value_above_the_share_can_be_leased),
        TEST(test_shard_pin_reservation_is_filled_and_committed),
        TEST(test_shard_pin_reservation_ends_by_time_abort_or_owner),
        TEST(test_shard_pin_ends_by_itself),
        TEST(test_shard_pin_is_lengthened_never_shortened),
        TEST(test_shard_pin_outlives_the_wrap_of_the_shards_clock),
        TEST(test_shard_pin_ends_with_the_key),
        TEST(test_shard_pin_with_exists_is_soft_when_the_share_is_used_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
