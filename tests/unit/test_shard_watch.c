#include "test_shard_fixture.h"

static struct watch watch_of(const char *key, uint8_t database)
{
    struct slice slice = slice_of_text(key);
    return (struct watch){.hash = op_hash(0, database, slice), .key = slice, .database = database};
}

static enum kvasir_status run(struct fixture *fixture, enum op_kind kind, const char *key,
                              int64_t expires_at_ms)
{
    struct slice slice = slice_of_text(key);
    struct op op = {.kind = (uint8_t)kind, .key = slice, .hash = op_hash(0, 0, slice)};
    if (kind == OP_SET) {
        op.payload = slice_of_text("value");
        op.put.length_bytes = op.payload.length_bytes;
        op.put.expires_at_ms = expires_at_ms;
    } else {
        op.expires_at_ms = expires_at_ms;
    }
    shard_execute(fixture->shard, &op, &fixture->now);
    return op.status;
}

static void test_shard_watch_sees_each_change_and_no_read(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){0});
    struct watch watch = watch_of("key", 0);
    struct watch other = watch_of("other", 0);
    const enum op_kind changes[] = {OP_SET, OP_EXPIRE, OP_PERSIST, OP_REMOVE};
    (void)state;
    assert_int_equal(shard_watch(fixture->shard, &other, &fixture->now), KVASIR_OK);
    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        int64_t expires_at_ms = changes[i] == OP_EXPIRE ? fixture->now.wall_ms + 1000 : 0;
        assert_int_equal(shard_watch(fixture->shard, &watch, &fixture->now), KVASIR_OK);
        (void)run(fixture, OP_EXISTS, "key", 0);
        assert_false(shard_watch_touched(fixture->shard, &watch, &fixture->now));
        assert_int_equal(run(fixture, changes[i], "key", expires_at_ms), KVASIR_OK);
        assert_true(shard_watch_touched(fixture->shard, &watch, &fixture->now));
        shard_unwatch(fixture->shard, &watch);
    }
    assert_false(shard_watch_touched(fixture->shard, &other, &fixture->now));
    shard_unwatch(fixture->shard, &other);
    fixture_destroy(fixture);
}

static void test_shard_watch_sees_expiry_only_of_what_was_there(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){0});
    struct watch watch = watch_of("key", 0);
    (void)state;
    assert_int_equal(run(fixture, OP_SET, "key", fixture->now.wall_ms + 10), KVASIR_OK);
    assert_int_equal(shard_watch(fixture->shard, &watch, &fixture->now), KVASIR_OK);
    fixture->now.wall_ms += 10;
    assert_true(shard_watch_touched(fixture->shard, &watch, &fixture->now));
    shard_unwatch(fixture->shard, &watch);

    assert_int_equal(run(fixture, OP_SET, "key", fixture->now.wall_ms + 10), KVASIR_OK);
    fixture->now.wall_ms += 10;
    assert_int_equal(shard_watch(fixture->shard, &watch, &fixture->now), KVASIR_OK);
    assert_false(shard_watch_touched(fixture->shard, &watch, &fixture->now));
    shard_unwatch(fixture->shard, &watch);
    fixture_destroy(fixture);
}

static void test_shard_watch_sees_a_flush_of_its_database_if_the_key_was_there(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){0});
    struct watch there = watch_of("key", 0);
    struct watch elsewhere = watch_of("key", 1);
    struct watch absent = watch_of("absent", 0);
    (void)state;
    assert_int_equal(run(fixture, OP_SET, "key", 0), KVASIR_OK);
    assert_int_equal(shard_watch(fixture->shard, &there, &fixture->now), KVASIR_OK);
    assert_int_equal(shard_watch(fixture->shard, &elsewhere, &fixture->now), KVASIR_OK);
    assert_int_equal(shard_watch(fixture->shard, &absent, &fixture->now), KVASIR_OK);
    shard_flush(fixture->shard, 1);
    assert_false(shard_watch_touched(fixture->shard, &there, &fixture->now));
    shard_flush(fixture->shard, SHARD_DATABASE_ALL);
    assert_true(shard_watch_touched(fixture->shard, &there, &fixture->now));
    assert_false(shard_watch_touched(fixture->shard, &elsewhere, &fixture->now));
    assert_false(shard_watch_touched(fixture->shard, &absent, &fixture->now));
    shard_unwatch(fixture->shard, &there);
    shard_unwatch(fixture->shard, &elsewhere);
    shard_unwatch(fixture->shard, &absent);
    fixture_destroy(fixture);
}

static void test_shard_watch_sees_the_expiry_of_what_is_held(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){0});
    struct watch watch = watch_of("key", 0);
    struct watch late = watch_of("key", 0);
    (void)state;
    late.owner = &late;
    (void)run(fixture, OP_SET, "key", fixture->now.wall_ms + 10);
    assert_int_equal(shard_watch(fixture->shard, &watch, &fixture->now), KVASIR_OK);
    shard_hold_expired(fixture->shard, true);
    fixture_move(fixture, 10);
    assert_int_equal(shard_watch(fixture->shard, &late, &fixture->now), KVASIR_OK);
    assert_true(shard_watch_touched(fixture->shard, &watch, &fixture->now));
    assert_false(shard_watch_touched(fixture->shard, &late, &fixture->now));
    assert_int_equal(fixture_stats(fixture).expired, 0);
    shard_unwatch(fixture->shard, &watch);
    shard_unwatch(fixture->shard, &late);
    fixture_destroy(fixture);
}

static void test_shard_watch_is_one_for_each_owner_and_key(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){0});
    struct watch watches[3] = {watch_of("key", 0), watch_of("key", 0), watch_of("key", 0)};
    struct watch elsewhere = watch_of("key", 1);
    int owners[2];
    (void)state;
    watches[0].owner = &owners[0];
    watches[1].owner = &owners[1];
    watches[2].owner = &owners[0];
    elsewhere.owner = &owners[0];
    assert_int_equal(shard_watch(fixture->shard, &watches[0], &fixture->now), KVASIR_OK);
    assert_int_equal(shard_watch(fixture->shard, &watches[1], &fixture->now), KVASIR_OK);
    assert_int_equal(shard_watch(fixture->shard, &elsewhere, &fixture->now), KVASIR_OK);
    assert_int_equal(shard_watch(fixture->shard, &watches[2], &fixture->now), KVASIR_EXISTS);
    shard_unwatch(fixture->shard, &watches[0]);
    assert_int_equal(shard_watch(fixture->shard, &watches[2], &fixture->now), KVASIR_OK);
    shard_unwatch(fixture->shard, &watches[1]);
    shard_unwatch(fixture->shard, &watches[2]);
    shard_unwatch(fixture->shard, &elsewhere);
    fixture_destroy(fixture);
}

static void test_shard_watch_goes_with_its_database(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){0});
    struct watch there = watch_of("key", 0);
    struct watch would_be = watch_of("key", 1);
    struct watch absent = watch_of("absent", 0);
    struct watch elsewhere = watch_of("key", 2);
    struct watch expired = watch_of("expired", 0);
    struct watch *all[] = {&there, &would_be, &absent, &elsewhere, &expired};
    (void)state;
    assert_int_equal(run(fixture, OP_SET, "key", 0), KVASIR_OK);
    assert_int_equal(run(fixture, OP_SET, "expired", fixture->now.wall_ms + 10), KVASIR_OK);
    fixture->now.wall_ms += 10;
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        all[i]->owner = all[i];
        assert_int_equal(shard_watch(fixture->shard, all[i], &fixture->now), KVASIR_OK);
    }
    shard_swap(fixture->shard, 0, 1, &fixture->now);
    assert_true(shard_watch_touched(fixture->shard, &there, &fixture->now));
    assert_true(shard_watch_touched(fixture->shard, &would_be, &fixture->now));
    assert_false(shard_watch_touched(fixture->shard, &absent, &fixture->now));
    assert_false(shard_watch_touched(fixture->shard, &elsewhere, &fixture->now));
    assert_false(shard_watch_touched(fixture->shard, &expired, &fixture->now));
    /* What was watched in 0 is watched in 1, which ops that were in 0 do not touch. */
    assert_int_equal(run(fixture, OP_SET, "absent", 0), KVASIR_OK);
    assert_false(shard_watch_touched(fixture->shard, &absent, &fixture->now));
    shard_swap(fixture->shard, 0, 2, &fixture->now);
    assert_false(shard_watch_touched(fixture->shard, &absent, &fixture->now));
    assert_true(shard_watch_touched(fixture->shard, &elsewhere, &fixture->now));
    shard_swap(fixture->shard, 1, 0, &fixture->now);
    assert_true(shard_watch_touched(fixture->shard, &absent, &fixture->now));
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        shard_unwatch(fixture->shard, all[i]);
    }
    fixture_destroy(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard_watch_sees_each_change_and_no_read),
        cmocka_unit_test(test_shard_watch_sees_expiry_only_of_what_was_there),
        cmocka_unit_test(test_shard_watch_sees_a_flush_of_its_database_if_the_key_was_there),
        cmocka_unit_test(test_shard_watch_sees_the_expiry_of_what_is_held),
        cmocka_unit_test(test_shard_watch_is_one_for_each_owner_and_key),
        cmocka_unit_test(test_shard_watch_goes_with_its_database),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
