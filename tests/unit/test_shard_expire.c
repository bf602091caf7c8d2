/* Unit tests of store/shard_expire and of expiry as ops see it. */
#include "test_shard_fixture.h"

#include <stdio.h>

static enum kvasir_status expire(struct fixture *fixture, const char *key, int64_t in_ms,
                                 enum op_expire_rule rule, int64_t *integer_p)
{
    struct op op = fixture_op(OP_EXPIRE, key);
    op.expires_at_ms = fixture->now.wall_ms + in_ms;
    op.expire_rule = (uint8_t)rule;
    enum kvasir_status status = fixture_run(fixture, &op);
    *integer_p = op.integer;
    return status;
}

static int64_t ttl(struct fixture *fixture, const char *key)
{
    struct op op = fixture_op(OP_EXISTS, key);
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    return op.expires_at_ms == 0 ? -1 : op.expires_at_ms - fixture->now.wall_ms;
}

static enum kvasir_status set_for(struct fixture *fixture, const char *key, int64_t in_ms,
                                  uint32_t flags)
{
    struct op op = fixture_op(OP_SET, key);
    op.payload = slice_of_text("value");
    op.put.expires_at_ms = in_ms == 0 ? 0 : fixture->now.wall_ms + in_ms;
    op.flags = flags;
    return fixture_run(fixture, &op);
}

static void test_shard_expire_is_gone_for_every_op_at_its_time(void **state)
{
    struct fixture *fixture = *state;
    struct op_stat stat;
    const enum op_kind kinds[] = {OP_GET,   OP_EXISTS, OP_REMOVE, OP_EXPIRE, OP_PERSIST,
                                  OP_LEASE, OP_PIN,    OP_UNPIN,  OP_STAT};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        assert_int_equal(set_for(fixture, "key", 100, 0), KVASIR_OK);
        fixture_move(fixture, 99);
        assert_true(fixture_has(fixture, "key"));
        fixture_move(fixture, 1);
        struct op op = fixture_op(kinds[i], "key");
        if (kinds[i] == OP_STAT) {
            op.stat_p = &stat;
        }
        assert_int_equal(fixture_run(fixture, &op), KVASIR_NOT_FOUND);
        assert_int_equal(fixture_stats(fixture).value_count, 0);
        assert_int_equal(fixture_stats(fixture).expired, i + 1);
    }
    assert_int_equal(set_for(fixture, "key", 100, 0), KVASIR_OK);
    fixture_move(fixture, 100);
    assert_int_equal(set_for(fixture, "key", 0, OP_SET_IF_PRESENT), KVASIR_NOT_FOUND);
    assert_int_equal(set_for(fixture, "key", 0, OP_SET_IF_ABSENT), KVASIR_OK);
}

static void test_shard_expire_rules_are_those_of_redis(void **state)
{
    struct fixture *fixture = *state;
    int64_t integer;
    assert_int_equal(expire(fixture, "key", 100, OP_EXPIRE_ALWAYS, &integer), KVASIR_NOT_FOUND);
    assert_int_equal(integer, 0);
    (void)fixture_set(fixture, "key", "value");
    assert_int_equal(expire(fixture, "key", 100, OP_EXPIRE_XX, &integer), KVASIR_NOT_FOUND);
    assert_int_equal(integer, -1);
    assert_int_equal(expire(fixture, "key", 100, OP_EXPIRE_GT, &integer), KVASIR_NOT_FOUND);
    assert_int_equal(expire(fixture, "key", 100, OP_EXPIRE_LT, &integer), KVASIR_OK);
    assert_int_equal(ttl(fixture, "key"), 100);
    assert_int_equal(expire(fixture, "key", 200, OP_EXPIRE_NX, &integer), KVASIR_NOT_FOUND);
    assert_int_equal(expire(fixture, "key", 100, OP_EXPIRE_GT, &integer), KVASIR_NOT_FOUND);
    assert_int_equal(expire(fixture, "key", 100, OP_EXPIRE_LT, &integer), KVASIR_NOT_FOUND);
    assert_int_equal(expire(fixture, "key", 101, OP_EXPIRE_GT, &integer), KVASIR_OK);
    assert_int_equal(expire(fixture, "key", 99, OP_EXPIRE_LT, &integer), KVASIR_OK);
    assert_int_equal(expire(fixture, "key", 98, OP_EXPIRE_XX, &integer), KVASIR_OK);
    assert_int_equal(ttl(fixture, "key"), 98);
    assert_int_equal(fixture_simple(fixture, OP_PERSIST, "key"), KVASIR_OK);
    assert_int_equal(fixture_simple(fixture, OP_PERSIST, "key"), KVASIR_NOT_FOUND);
    assert_int_equal(ttl(fixture, "key"), -1);
    assert_int_equal(expire(fixture, "key", 50, OP_EXPIRE_NX, &integer), KVASIR_OK);
    shard_verify(fixture->shard);
}

static void test_shard_expire_in_the_past_deletes_at_once(void **state)
{
    struct fixture *fixture = *state;
    int64_t integer;
    (void)fixture_set(fixture, "key", "value");
    assert_int_equal(expire(fixture, "key", 0, OP_EXPIRE_ALWAYS, &integer), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).value_count, 0);
    (void)fixture_set(fixture, "key", "value");
    assert_int_equal(set_for(fixture, "key", -1, 0), KVASIR_OK);
    assert_false(fixture_has(fixture, "key"));
    assert_int_equal(fixture_stats(fixture).value_count, 0);
    (void)fixture_set(fixture, "key", "value");
    struct op op = fixture_op(OP_GET, "key");
    op.flags = OP_READ_EXPIRE;
    op.expires_at_ms = 1;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_false(fixture_has(fixture, "key"));
    fixture_assert_bytes(fixture, op.value, slice_of_text("value"));
    shard_unpin(fixture->shard, &op.value);
}

static void test_shard_expire_getex_sets_and_persists(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "key", "value");
    struct op op = fixture_op(OP_GET, "key");
    op.flags = OP_READ_EXPIRE;
    op.expires_at_ms = fixture->now.wall_ms + 700;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    shard_unpin(fixture->shard, &op.value);
    assert_int_equal(ttl(fixture, "key"), 700);
    op.expires_at_ms = 0;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    shard_unpin(fixture->shard, &op.value);
    assert_int_equal(ttl(fixture, "key"), -1);
}

static void test_shard_expire_is_kept_or_dropped_by_set(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(set_for(fixture, "key", 100, 0), KVASIR_OK);
    assert_int_equal(set_for(fixture, "key", 0, OP_SET_KEEP_TTL), KVASIR_OK);
    assert_int_equal(ttl(fixture, "key"), 100);
    struct op op = fixture_op(OP_RESERVE, "key");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    op.kind = OP_COMMIT;
    op.flags = OP_SET_KEEP_TTL;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(ttl(fixture, "key"), 100);
    assert_int_equal(set_for(fixture, "key", 0, 0), KVASIR_OK);
    assert_int_equal(ttl(fixture, "key"), -1);
}

static void test_shard_expire_unread_keys_go_within_a_second_of_ticks(void **state)
{
    struct fixture *fixture = *state;
    char key[32];
    for (uint32_t i = 0; i < 5000; i++) {
        (void)snprintf(key, sizeof(key), "key-%08u", i);
        assert_int_equal(set_for(fixture, key, i % 2 == 0 ? 50 : 0, 0), KVASIR_OK);
    }
    struct shard_database counts;
    shard_database(fixture->shard, 0, &fixture->now, &counts);
    assert_int_equal(counts.key_count, 5000);
    assert_int_equal(counts.expiring_count, 2500);
    fixture_move(fixture, 50);
    for (uint32_t i = 0; i < 100; i++) {
        fixture_move(fixture, 10);
        (void)shard_tick(fixture->shard, &fixture->now, 1000);
    }
    struct shard_stats stats = fixture_stats(fixture);
    assert_int_equal(stats.key_count, 2500);
    assert_int_equal(stats.expired, 2500);
    assert_int_equal(stats.hits + stats.misses, 0);
    shard_verify(fixture->shard);
}

static void test_shard_expire_tick_keeps_to_its_budget(void **state)
{
    struct fixture *fixture = *state;
    char key[32];
    for (uint32_t i = 0; i < 3000; i++) {
        (void)snprintf(key, sizeof(key), "key-%08u", i);
        assert_int_equal(set_for(fixture, key, 50, 0), KVASIR_OK);
    }
    fixture_move(fixture, 2000);
    (void)shard_tick(fixture->shard, &fixture->now, 20);
    assert_in_range(fixture_stats(fixture).expired, 1, 20);
}

static void test_shard_expire_mean_time_to_live(void **state)
{
    struct fixture *fixture = *state;
    struct shard_database counts;
    (void)set_for(fixture, "a", 10000, 0);
    (void)set_for(fixture, "b", 30000, 0);
    (void)fixture_set(fixture, "c", "value");
    shard_database(fixture->shard, 0, &fixture->now, &counts);
    assert_int_equal(counts.expiring_count, 2);
    assert_in_range(counts.mean_ttl_ms, 19000, 21000);
    (void)set_for(fixture, "d", INT64_MAX / 4, 0);
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "d"), KVASIR_OK);
    shard_database(fixture->shard, 0, &fixture->now, &counts);
    assert_in_range(counts.mean_ttl_ms, 19000, 21000);
}

static void tick_for_seconds(struct fixture *fixture, uint32_t seconds)
{
    for (uint32_t i = 0; i < 100 * seconds; i++) {
        fixture_move(fixture, 10);
        (void)shard_tick(fixture->shard, &fixture->now, 1000);
    }
}

static void test_shard_expire_without_the_walk_keys_go_when_asked_for(void **state)
{
    struct fixture *fixture = *state;
    (void)set_for(fixture, "asked", 50, 0);
    (void)set_for(fixture, "left", 50, 0);
    shard_set_active_expiry(fixture->shard, false);
    tick_for_seconds(fixture, 3);
    assert_int_equal(fixture_stats(fixture).key_count, 2);
    assert_false(fixture_has(fixture, "asked"));
    assert_int_equal(fixture_stats(fixture).key_count, 1);
    shard_set_active_expiry(fixture->shard, true);
    tick_for_seconds(fixture, 3);
    assert_int_equal(fixture_stats(fixture).key_count, 0);
    assert_int_equal(fixture_stats(fixture).expired, 2);
    shard_verify(fixture->shard);
}

static void test_shard_expire_held_keys_are_not_there_and_stay(void **state)
{
    struct fixture *fixture = *state;
    const enum op_kind kinds[] = {OP_GET, OP_EXISTS, OP_REMOVE, OP_EXPIRE,    OP_PERSIST, OP_LEASE,
                                  OP_PIN, OP_UNPIN,  OP_STAT,   OP_BIT_COUNT, OP_BIT_FIND};
    struct op_stat stat;
    (void)set_for(fixture, "key", 50, 0);
    shard_hold_expired(fixture->shard, true);
    tick_for_seconds(fixture, 3);
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct op op = fixture_op(kinds[i], "key");
        if (kinds[i] == OP_STAT) {
            op.stat_p = &stat;
        }
        assert_int_equal(fixture_run(fixture, &op), KVASIR_NOT_FOUND);
        assert_int_equal(fixture_stats(fixture).key_count, 1);
    }
    assert_int_equal(fixture_stats(fixture).expired, 0);
    shard_hold_expired(fixture->shard, false);
    assert_false(fixture_has(fixture, "key"));
    assert_int_equal(fixture_stats(fixture).expired, 1);
}

static void test_shard_expire_a_write_takes_the_place_of_a_held_key(void **state)
{
    struct fixture *fixture = *state;
    const char *const keys[] = {"set", "reserve", "append", "add"};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        (void)set_for(fixture, keys[i], 50, 0);
    }
    struct op op = fixture_op(OP_RESERVE, "reserve");
    op.put.length_bytes = 5;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    shard_hold_expired(fixture->shard, true);
    tick_for_seconds(fixture, 1);
    op.kind = OP_COMMIT;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(set_for(fixture, "set", 0, OP_SET_IF_ABSENT), KVASIR_OK);
    op = fixture_op(OP_APPEND, "append");
    op.payload = slice_of_text("new");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(op.integer, 3);
    op = fixture_op(OP_ADD, "add");
    op.delta = 7;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(op.integer, 7);
    assert_int_equal(fixture_stats(fixture).key_count, ARRAY_COUNT(keys));
    shard_verify(fixture->shard);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shard_expire_is_gone_for_every_op_at_its_time),
        TEST(test_shard_expire_rules_are_those_of_redis),
        TEST(test_shard_expire_in_the_past_deletes_at_once),
        TEST(test_shard_expire_getex_sets_and_persists),
        TEST(test_shard_expire_is_kept_or_dropped_by_set),
        TEST(test_shard_expire_unread_keys_go_within_a_second_of_ticks),
        TEST(test_shard_expire_tick_keeps_to_its_budget),
        TEST(test_shard_expire_mean_time_to_live),
        TEST(test_shard_expire_without_the_walk_keys_go_when_asked_for),
        TEST(test_shard_expire_held_keys_are_not_there_and_stay),
        TEST(test_shard_expire_a_write_takes_the_place_of_a_held_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
