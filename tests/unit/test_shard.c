/* Unit tests of store/shard: puts and reads, conditions, orphans, databases, scans, flushes. */
#include "test_shard_fixture.h"

#include <stdio.h>

#define MANY_KEYS 100000U

static const struct fixture_options many_options = {.payload_bytes = 64U << 20,
                                                    .metadata_bytes = 32U << 20};

static int fixture_setup_many(void **state)
{
    *state = fixture_create(&many_options);
    return 0;
}

static void set_many(struct fixture *fixture, uint32_t count)
{
    char key[32];
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(key, sizeof(key), "key-%08u", i);
        assert_int_equal(fixture_set(fixture, key, "some value"), KVASIR_OK);
    }
}

static void test_shard_get_returns_what_set_stored(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fixture_set(fixture, "key", "value"), KVASIR_OK);
    assert_int_equal(fixture_set(fixture, "empty", ""), KVASIR_OK);
    assert_int_equal(fixture_set(fixture, "", "of the empty key"), KVASIR_OK);
    fixture_assert_value(fixture, "key", "value");
    fixture_assert_value(fixture, "empty", "");
    fixture_assert_value(fixture, "", "of the empty key");
    fixture_assert_value(fixture, "other", NULL);
    struct shard_stats stats = fixture_stats(fixture);
    assert_int_equal(stats.hits, 3);
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.key_count, 3);
    assert_int_equal(stats.payload_bytes, 5 + 16);
}

static void test_shard_counts_begin_anew_and_what_is_there_stays(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fixture_set(fixture, "key", "value"), KVASIR_OK);
    fixture_assert_value(fixture, "key", "value");
    fixture_assert_value(fixture, "other", NULL);
    shard_reset_counts(fixture->shard);
    struct shard_stats stats = fixture_stats(fixture);
    assert_int_equal(stats.hits, 0);
    assert_int_equal(stats.misses, 0);
    assert_int_equal(stats.key_count, 1);
    fixture_assert_value(fixture, "key", "value");
    assert_int_equal(fixture_stats(fixture).hits, 1);
}

static void test_shard_stat_tells_integers_and_reads(void **state)
{
    static const struct {
        const char *value;
        bool is_integer;
    } rows[] = {{"12", true},
                {"-9223372036854775808", true},
                {"9223372036854775808", false},
                {"", false},
                {"012", false},
                {"1.5", false}};
    struct fixture *fixture = *state;
    struct op_stat stat;
    struct op look = fixture_op(OP_STAT, "key");
    look.stat_p = &stat;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_int_equal(fixture_set(fixture, "key", rows[i].value), KVASIR_OK);
        assert_int_equal(fixture_run(fixture, &look), KVASIR_OK);
        assert_int_equal(stat.is_integer, rows[i].is_integer);
    }
    for (unsigned turn = 0; turn < 2; turn++) {
        struct op get = fixture_op(OP_GET, "key");
        assert_int_equal(fixture_run(fixture, &get), KVASIR_OK);
        shard_unpin(fixture->shard, &get.value);
    }
    assert_int_equal(fixture_run(fixture, &look), KVASIR_OK);
    assert_int_equal(stat.frequency, 2);
}

static void test_shard_stat_tells_the_counter_of_the_policy(void **state)
{
    struct fixture *fixture = *state;
    struct op_stat stat;
    struct op look = fixture_op(OP_STAT, "key");
    look.stat_p = &stat;
    shard_set_policy(fixture->shard, policy_find("allkeys-lfu"));
    assert_int_equal(fixture_set(fixture, "key", "value"), KVASIR_OK);
    assert_int_equal(fixture_run(fixture, &look), KVASIR_OK);
    assert_int_equal(stat.frequency,
                     5); /* as Redis begins, so that new keys are not the first to go */
    shard_set_policy(fixture->shard, policy_find("volatile-lfu"));
    assert_int_equal(fixture_run(fixture, &look), KVASIR_OK);
    assert_int_equal(stat.frequency, 0); /* it does not expire: the policy knows nothing of it */
}

static void test_shard_refuses_keys_and_databases_out_of_range(void **state)
{
    struct fixture *fixture = *state;
    static const uint8_t bytes[VALUE_KEY_BYTES_MAX + 1];
    struct op op = {.kind = OP_SET, .key = slice_of(bytes, VALUE_KEY_BYTES_MAX)};
    op.hash = op_hash(0, 0, op.key);
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    op.key.length_bytes++;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_INVALID);
    op.key.length_bytes = 3;
    op.database = FIXTURE_DATABASES;
    op.hash = op_hash(0, op.database, op.key);
    assert_int_equal(fixture_run(fixture, &op), KVASIR_INVALID);
    assert_int_equal(fixture_stats(fixture).key_count, 1);
}

static void test_shard_nx_and_xx_decide_and_return_the_old_value(void **state)
{
    struct fixture *fixture = *state;
    struct op op = fixture_op(OP_SET, "key");
    op.payload = slice_of_text("first");
    op.flags = OP_SET_IF_PRESENT | OP_SET_RETURN_OLD;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_NOT_FOUND);
    assert_null(op.old);
    op.flags = OP_SET_IF_ABSENT | OP_SET_RETURN_OLD;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_null(op.old);
    op.payload = slice_of_text("second");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_EXISTS);
    fixture_assert_bytes(fixture, op.old, slice_of_text("first"));
    shard_unpin(fixture->shard, &op.old);
    op.flags = OP_SET_IF_PRESENT | OP_SET_RETURN_OLD;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    fixture_assert_bytes(fixture, op.old, slice_of_text("first"));
    shard_unpin(fixture->shard, &op.old);
    fixture_assert_value(fixture, "key", "second");
}

static void test_shard_overwritten_value_lives_until_its_last_pin(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "key", "old");
    struct op first = fixture_op(OP_GET, "key");
    struct op second = first;
    assert_int_equal(fixture_run(fixture, &first), KVASIR_OK);
    assert_int_equal(fixture_run(fixture, &second), KVASIR_OK);
    (void)fixture_set(fixture, "key", "new");
    fixture_assert_value(fixture, "key", "new");
    assert_int_equal(fixture_stats(fixture).orphan_count, 1);
    assert_int_equal(first.value->state, VALUE_ORPHAN);
    fixture_assert_bytes(fixture, first.value, slice_of_text("old"));
    shard_unpin(fixture->shard, &first.value);
    assert_null(first.value);
    assert_int_equal(fixture_stats(fixture).orphan_count, 1);
    shard_verify(fixture->shard);
    second.kind = OP_UNPIN_VALUE;
    assert_int_equal(fixture_run(fixture, &second), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).orphan_count, 0);
    assert_int_equal(fixture_stats(fixture).value_count, 1);
}

static void test_shard_reserved_value_is_nowhere_until_commit(void **state)
{
    struct fixture *fixture = *state;
    struct op op = fixture_op(OP_RESERVE, "key");
    op.put.length_bytes = 3 * FIXTURE_PAGE_BYTES + 100;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(op.value->pins, 1);
    assert_false(fixture_has(fixture, "key"));
    assert_int_equal(fixture_stats(fixture).reserved_count, 1);
    shard_verify(fixture->shard);
    op.kind = OP_COMMIT;
    op.flags = OP_SET_CHECKSUM;
    op.put.checksum = 99;
    op.put.parent_hash = 7;
    op.put.value_class = KVASIR_CLASS_WINDOW;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_null(op.value);
    struct op_stat stat;
    struct op look = fixture_op(OP_STAT, "key");
    look.stat_p = &stat;
    fixture_move(fixture, 3000);
    assert_int_equal(fixture_run(fixture, &look), KVASIR_OK);
    assert_int_equal(stat.length_bytes, 3 * FIXTURE_PAGE_BYTES + 100);
    assert_int_equal(stat.checksum, 99);
    assert_int_equal(stat.parent_hash, 7);
    assert_int_equal(stat.value_class, KVASIR_CLASS_WINDOW);
    assert_int_equal(stat.flags, VALUE_FLAG_CHECKSUM | VALUE_FLAG_PARENT);
    assert_int_equal(stat.generation, 1);
    assert_int_equal(stat.idle_s, 3);
    assert_int_equal(stat.state, VALUE_SEALED);
}

static void test_shard_abort_gives_memory_back(void **state)
{
    struct fixture *fixture = *state;
    struct op op = fixture_op(OP_RESERVE, "key");
    op.put.length_bytes = 2U << 20;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(pages_free_count(fixture->payload), 0);
    op.kind = OP_ABORT;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_null(op.value);
    assert_int_equal(pages_free_count(fixture->payload), pages_count(fixture->payload));
    assert_int_equal(fixture_stats(fixture).reserved_count, 0);
}

static void test_shard_commit_decides_nx_when_it_happens(void **state)
{
    struct fixture *fixture = *state;
    struct op op = fixture_op(OP_RESERVE, "key");
    op.flags = OP_SET_IF_ABSENT;
    op.put.length_bytes = 10;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    (void)fixture_set(fixture, "key", "faster");
    op.kind = OP_COMMIT;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_EXISTS);
    assert_null(op.value);
    fixture_assert_value(fixture, "key", "faster");
    op.kind = OP_RESERVE;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_EXISTS);
    assert_null(op.value);
    op.flags = OP_SET_IF_PRESENT;
    op.put.length_bytes = 0;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "key"), KVASIR_OK);
    op.kind = OP_COMMIT;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_NOT_FOUND);
    assert_int_equal(fixture_stats(fixture).value_count, 0);
}

static void test_shard_generation_grows_at_each_overwrite(void **state)
{
    struct fixture *fixture = *state;
    struct op_stat stat;
    struct op look = fixture_op(OP_STAT, "key");
    look.stat_p = &stat;
    assert_int_equal(fixture_run(fixture, &look), KVASIR_NOT_FOUND);
    for (uint32_t i = 1; i <= 4; i++) {
        (void)fixture_set(fixture, "key", "value");
        assert_int_equal(fixture_run(fixture, &look), KVASIR_OK);
        assert_int_equal(stat.generation, i);
    }
}

static void test_shard_getdel_hands_out_the_value_it_removes(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "key", "value");
    struct op op = fixture_op(OP_GET, "key");
    op.flags = OP_READ_REMOVE;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_false(fixture_has(fixture, "key"));
    fixture_assert_bytes(fixture, op.value, slice_of_text("value"));
    shard_unpin(fixture->shard, &op.value);
    assert_int_equal(fixture_stats(fixture).value_count, 0);
}

static void test_shard_databases_are_apart(void **state)
{
    struct fixture *fixture = *state;
    struct shard_database counts;
    (void)fixture_set(fixture, "key", "of 0");
    struct op op = fixture_op(OP_SET, "key");
    op.database = 2;
    op.hash = op_hash(0, 2, op.key);
    op.payload = slice_of_text("of 2");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    fixture_assert_value(fixture, "key", "of 0");
    shard_database(fixture->shard, 2, &fixture->now, &counts);
    assert_int_equal(counts.key_count, 1);
    shard_flush(fixture->shard, 0);
    shard_database(fixture->shard, 0, &fixture->now, &counts);
    assert_int_equal(counts.key_count, 0);
    fixture_assert_value(fixture, "key", NULL);
    op.kind = OP_EXISTS;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    shard_database(fixture->shard, 200, &fixture->now, &counts);
    assert_int_equal(counts.key_count, 0);
}

static void count_visit(void *argument, struct slice key, const struct value *value)
{
    uint32_t *count_p = argument;
    assert_true(key.length_bytes > 0);
    assert_int_equal(value->state, VALUE_SEALED);
    (*count_p)++;
}

static uint32_t count_scan(struct fixture *fixture, uint8_t database)
{
    uint32_t count = 0;
    uint64_t cursor = 0;
    do {
        cursor =
            shard_scan(fixture->shard, database, cursor, 10, &fixture->now, count_visit, &count);
    } while (cursor != 0);
    return count;
}

static void test_shard_scan_sees_live_keys_of_its_database_only(void **state)
{
    struct fixture *fixture = *state;
    set_many(fixture, 2000);
    struct op op = fixture_op(OP_EXPIRE, "key-00000007");
    op.expires_at_ms = fixture->now.wall_ms + 5;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(count_scan(fixture, 0), 2000);
    assert_int_equal(count_scan(fixture, 1), 0);
    fixture_move(fixture, 5);
    assert_int_equal(count_scan(fixture, 0), 1999);
    shard_flush(fixture->shard, SHARD_DATABASE_ALL);
    assert_int_equal(count_scan(fixture, 0), 0);
}

static void test_shard_random_key_is_a_live_one(void **state)
{
    struct fixture *fixture = *state;
    struct slice key;
    assert_false(shard_random_key(fixture->shard, 0, 5, &fixture->now, &key));
    (void)fixture_set(fixture, "one", "1");
    (void)fixture_set(fixture, "two", "2");
    bool seen[2] = {false, false};
    for (uint64_t random = 0; random < 512; random++) {
        assert_true(shard_random_key(fixture->shard, 0, random, &fixture->now, &key));
        seen[slice_equal(key, slice_of_text("two"))] = true;
    }
    assert_true(seen[0] && seen[1]);
    assert_false(shard_random_key(fixture->shard, 1, 5, &fixture->now, &key));
    assert_false(shard_random_key(fixture->shard, FIXTURE_DATABASES, 5, &fixture->now, &key));
}

static void test_shard_flush_is_at_once_and_memory_follows_in_ticks(void **state)
{
    struct fixture *fixture = *state;
    set_many(fixture, 20000);
    struct op pinned = fixture_op(OP_GET, "key-00000003");
    assert_int_equal(fixture_run(fixture, &pinned), KVASIR_OK);
    shard_flush(fixture->shard, SHARD_DATABASE_ALL);
    assert_int_equal(fixture_stats(fixture).key_count, 0);
    assert_false(fixture_has(fixture, "key-00000001"));
    assert_int_equal(fixture_set(fixture, "key-00000002", "after"), KVASIR_OK);
    shard_verify(fixture->shard);
    assert_int_equal(fixture_stats(fixture).value_count, 20000 - 2 + 1);
    uint32_t tick_count = 0;
    while (shard_tick(fixture->shard, &fixture->now, 100)) {
        tick_count++;
        assert_in_range(tick_count, 1, 2000);
    }
    assert_true(tick_count > 100);
    shard_verify(fixture->shard);
    assert_int_equal(fixture_stats(fixture).value_count, 2);
    fixture_assert_value(fixture, "key-00000002", "after");
    fixture_assert_bytes(fixture, pinned.value, slice_of_text("some value"));
    shard_unpin(fixture->shard, &pinned.value);
    assert_int_equal(fixture_stats(fixture).value_count, 1);
}

static void test_shard_flush_many_times_without_a_tick_never_brings_a_key_back(void **state)
{
    struct fixture *fixture = *state;
    for (uint32_t i = 0; i < 70000; i++) {
        if (i == 10) {
            (void)fixture_set(fixture, "early", "value");
        }
        (void)fixture_set(fixture, "key", "value");
        shard_flush(fixture->shard, 0);
        if (i > 65500 && i < 65600) {
            /* Around here the epoch is again what it was when early was set. */
            assert_int_equal(count_scan(fixture, 0), 0);
        }
    }
    assert_false(fixture_has(fixture, "early"));
    assert_false(fixture_has(fixture, "key"));
}

static void test_shard_metadata_of_a_value_stays_within_the_promise(void **state)
{
    struct fixture *fixture = *state;
    set_many(fixture, MANY_KEYS);
    struct shard_stats stats = fixture_stats(fixture);
    const uint64_t key_bytes = 12;
    const uint64_t value_bytes = (120 + key_bytes + 15) / 16 * 16;
    /* The bucket comes on top: one pointer a key. */
    assert_in_range(stats.metadata_bytes, MANY_KEYS * (120 + key_bytes),
                    MANY_KEYS * (value_bytes + sizeof(void *)) + 4096);
    shard_verify(fixture->shard);
}

static void test_shard_pages_return_when_everything_is_deleted(void **state)
{
    struct fixture *fixture = *state;
    char key[32];
    set_many(fixture, MANY_KEYS);
    for (uint32_t i = 0; i < MANY_KEYS; i++) {
        (void)snprintf(key, sizeof(key), "key-%08u", i);
        assert_int_equal(fixture_simple(fixture, OP_REMOVE, key), KVASIR_OK);
    }
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, key), KVASIR_NOT_FOUND);
    assert_int_equal(pages_free_count(fixture->payload), pages_count(fixture->payload));
    assert_int_equal(pages_free_count(fixture->metadata), pages_count(fixture->metadata));
    struct shard_stats stats = fixture_stats(fixture);
    assert_int_equal(stats.payload_bytes, 0);
    assert_int_equal(stats.payload_taken_bytes, 0);
    assert_int_equal(stats.payload_pages, 0);
    assert_int_equal(stats.metadata_bytes, 4096);
}

/* Cores that work on one shard in turn do not read the clock at the same moment. */
static void test_shard_time_never_runs_backwards(void **state)
{
    struct fixture *fixture = *state;
    fixture_move(fixture, 1000);
    assert_int_equal(fixture_set(fixture, "key", "text"), KVASIR_OK);
    fixture_move(fixture, -1);
    struct op look = fixture_op(OP_STAT, "key");
    struct op_stat stat;
    look.stat_p = &stat;
    assert_int_equal(fixture_run(fixture, &look), KVASIR_OK);
    assert_int_equal(stat.idle_s, 0);
}

#define TEST(name)      cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define TEST_MANY(name) cmocka_unit_test_setup_teardown(name, fixture_setup_many, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shard_get_returns_what_set_stored),
        TEST(test_shard_counts_begin_anew_and_what_is_there_stays),
        TEST(test_shard_stat_tells_integers_and_reads),
        TEST(test_shard_stat_tells_the_counter_of_the_policy),
        TEST(test_shard_refuses_keys_and_databases_out_of_range),
        TEST(test_shard_nx_and_xx_decide_and_return_the_old_value),
        TEST(test_shard_overwritten_value_lives_until_its_last_pin),
        TEST(test_shard_reserved_value_is_nowhere_until_commit),
        TEST(test_shard_abort_gives_memory_back),
        TEST(test_shard_commit_decides_nx_when_it_happens),
        TEST(test_shard_generation_grows_at_each_overwrite),
        TEST(test_shard_getdel_hands_out_the_value_it_removes),
        TEST(test_shard_databases_are_apart),
        TEST(test_shard_time_never_runs_backwards),
        TEST(test_shard_scan_sees_live_keys_of_its_database_only),
        TEST(test_shard_random_key_is_a_live_one),
        TEST_MANY(test_shard_flush_is_at_once_and_memory_follows_in_ticks),
        TEST(test_shard_flush_many_times_without_a_tick_never_brings_a_key_back),
        TEST_MANY(test_shard_metadata_of_a_value_stays_within_the_promise),
        TEST_MANY(test_shard_pages_return_when_everything_is_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
