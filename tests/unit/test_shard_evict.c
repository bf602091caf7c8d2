/* Unit tests of store/shard_evict: who goes when memory is short, and what is said when nobody can. */
#include "test_shard_fixture.h"

#include <stdio.h>

#define QUARTER_BYTES ((size_t)512 << 10)

static enum kvasir_status pin(struct fixture *fixture, const char *key, enum value_pin kind,
                              uint32_t ms)
{
    struct op op = fixture_op(OP_PIN, key);
    op.pin_kind = (uint8_t)kind;
    op.pin_ms = ms;
    return fixture_run(fixture, &op);
}

/* a, b, c and d fill the store; a is the oldest. */
static void fill_four(struct fixture *fixture)
{
    const char *const keys[] = {"a", "b", "c", "d"};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(fixture_fill(fixture, keys[i], QUARTER_BYTES), KVASIR_OK);
    }
    assert_int_equal(pages_free_count(fixture->payload), 0);
}

static void test_shard_evict_takes_the_oldest_and_no_more_than_needed(void **state)
{
    struct fixture *fixture = *state;
    fill_four(fixture);
    assert_int_equal(fixture_simple(fixture, OP_EXISTS, "a"), KVASIR_OK); /* read again */
    assert_int_equal(fixture_fill(fixture, "e", QUARTER_BYTES), KVASIR_OK);
    assert_true(fixture_has(fixture, "a"));
    assert_false(fixture_has(fixture, "b"));
    assert_true(fixture_has(fixture, "c"));
    assert_true(fixture_has(fixture, "d"));
    assert_int_equal(fixture_stats(fixture).evicted, 1);
    assert_int_equal(fixture_fill(fixture, "f", 2 * QUARTER_BYTES), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).evicted, 3);
    assert_true(fixture_has(fixture, "a"));
    shard_verify(fixture->shard);
}

static void test_shard_evict_nothing_for_a_value_that_never_fits(void **state)
{
    struct fixture *fixture = *state;
    fill_four(fixture);
    assert_int_equal(fixture_fill(fixture, "e", (2U << 20) + 1), KVASIR_TOO_LARGE);
    assert_int_equal(fixture_fill(fixture, "e", UINT64_MAX), KVASIR_TOO_LARGE);
    assert_int_equal(fixture_stats(fixture).evicted, 0);
    assert_int_equal(fixture_fill(fixture, "e", 2U << 20), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).evicted, 4);
}

static void test_shard_evict_never_what_is_sent_leased_or_hard_pinned(void **state)
{
    struct fixture *fixture = *state;
    fill_four(fixture);
    struct op sent = fixture_op(OP_GET, "a");
    sent.flags = OP_READ_NO_TOUCH;
    assert_int_equal(fixture_run(fixture, &sent), KVASIR_OK);
    struct op leased = fixture_op(OP_LEASE, "b");
    leased.deadline_us = fixture->now.mono_us + 1000000;
    assert_int_equal(fixture_run(fixture, &leased), KVASIR_OK);
    shard_unpin(fixture->shard, &leased.value);
    assert_int_equal(pin(fixture, "c", VALUE_PIN_HARD, 1000), KVASIR_OK);
    assert_int_equal(fixture_fill(fixture, "e", QUARTER_BYTES), KVASIR_OK);
    assert_false(fixture_has(fixture, "d"));
    shard_verify(fixture->shard);
    struct op lease_e = fixture_op(OP_GET, "e");
    assert_int_equal(fixture_run(fixture, &lease_e), KVASIR_OK);
    assert_int_equal(fixture_fill(fixture, "f", QUARTER_BYTES), KVASIR_NO_MEMORY);
    assert_int_equal(fixture_stats(fixture).denied_no_memory, 1);
    assert_int_equal(fixture_stats(fixture).evicted, 1);
    shard_unpin(fixture->shard, &lease_e.value);
    assert_int_equal(fixture_fill(fixture, "f", QUARTER_BYTES), KVASIR_OK);
    shard_unpin(fixture->shard, &sent.value);
    fixture_move(fixture, 1000);
    (void)shard_tick(fixture->shard, &fixture->now, 100);
    shard_verify(fixture->shard);
    assert_int_equal(fixture_fill(fixture, "g", 2U << 20), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).key_count, 1);
}

static void test_shard_evict_passes_soft_pins_over_while_another_can_go(void **state)
{
    struct fixture *fixture = *state;
    fill_four(fixture);
    assert_int_equal(pin(fixture, "a", VALUE_PIN_SOFT, 1000), KVASIR_OK);
    assert_int_equal(pin(fixture, "b", VALUE_PIN_SOFT, 1000), KVASIR_OK);
    assert_int_equal(fixture_fill(fixture, "e", 2 * QUARTER_BYTES), KVASIR_OK);
    assert_true(fixture_has(fixture, "a"));
    assert_true(fixture_has(fixture, "b"));
    shard_verify(fixture->shard);
    assert_int_equal(fixture_fill(fixture, "f", 3 * QUARTER_BYTES), KVASIR_OK);
    assert_false(fixture_has(fixture, "e"));
    assert_false(fixture_has(fixture, "a"));
    assert_true(fixture_has(fixture, "b"));
    shard_verify(fixture->shard);
}

static void test_shard_evict_takes_a_soft_pinned_value_when_its_time_is_over(void **state)
{
    struct fixture *fixture = *state;
    fill_four(fixture);
    assert_int_equal(pin(fixture, "a", VALUE_PIN_SOFT, 100), KVASIR_OK);
    assert_int_equal(fixture_fill(fixture, "e", QUARTER_BYTES), KVASIR_OK);
    assert_true(fixture_has(fixture, "a"));
    fixture_move(fixture, 100);
    assert_int_equal(fixture_fill(fixture, "f", QUARTER_BYTES), KVASIR_OK);
    assert_false(fixture_has(fixture, "a"));
    assert_true(fixture_has(fixture, "c"));
}

static void test_shard_evict_keeps_the_cache_when_held_memory_decides(void **state)
{
    struct fixture *fixture = *state;
    fill_four(fixture);
    assert_int_equal(pin(fixture, "a", VALUE_PIN_HARD, 1000), KVASIR_OK);
    assert_int_equal(fixture_fill(fixture, "e", 2U << 20), KVASIR_NO_MEMORY);
    assert_int_equal(fixture_stats(fixture).evicted, 0);
}

static void test_shard_evict_without_a_policy_is_never(void **state)
{
    struct fixture *fixture = *state;
    fill_four(fixture);
    shard_set_policy(fixture->shard, NULL);
    assert_int_equal(fixture_fill(fixture, "e", 1), KVASIR_NO_MEMORY);
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "c"), KVASIR_OK);
    assert_int_equal(fixture_fill(fixture, "e", QUARTER_BYTES), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).evicted, 0);
    fault_arm("store.policy", 1, 1);
    shard_set_policy(fixture->shard, policy_at(0));
    assert_int_equal(fixture_fill(fixture, "f", 1), KVASIR_NO_MEMORY);
    shard_set_policy(fixture->shard, policy_at(0));
    assert_int_equal(fixture_fill(fixture, "f", 1), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).evicted, 1);
    shard_verify(fixture->shard);
}

static void test_shard_evict_drains_what_was_flushed_first(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fixture_fill(fixture, "a", QUARTER_BYTES), KVASIR_OK);
    struct op op = fixture_op(OP_RESERVE, "b");
    op.database = 1;
    op.hash = op_hash(0, 1, op.key);
    op.put.length_bytes = 3 * QUARTER_BYTES;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    op.kind = OP_COMMIT;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    shard_flush(fixture->shard, 1);
    assert_int_equal(fixture_fill(fixture, "c", QUARTER_BYTES), KVASIR_OK);
    assert_true(fixture_has(fixture, "a"));
    assert_int_equal(fixture_stats(fixture).evicted, 0);
    shard_verify(fixture->shard);
}

static void test_shard_evict_for_metadata_as_well(void **state)
{
    struct fixture *fixture = *state;
    char key[32];
    /* 2 MiB hold less than 17,000 of these. */
    for (uint32_t i = 0; i < 30000; i++) {
        (void)snprintf(key, sizeof(key), "key-%08u", i);
        assert_int_equal(fixture_set(fixture, key, ""), KVASIR_OK);
    }
    struct shard_stats stats = fixture_stats(fixture);
    assert_int_equal(stats.key_count + stats.evicted, 30000);
    assert_in_range(stats.key_count, 15500, 16500);
    assert_false(fixture_has(fixture, "key-00000000"));
    assert_true(fixture_has(fixture, "key-00029999"));
    shard_verify(fixture->shard);
}

static void test_shard_evict_says_again_while_other_shards_hold_pages(void **state)
{
    (void)state;
    const struct fixture_options options = {.shard_count = 2};
    struct fixture *fixture = fixture_create(&options);
    fill_four(fixture);
    fixture->shard = fixture->shards[1];
    assert_int_equal(fixture_fill(fixture, "e", QUARTER_BYTES), KVASIR_AGAIN);
    assert_int_equal(fixture_stats(fixture).denied_no_memory, 0);
    uint32_t page_count = QUARTER_BYTES / FIXTURE_PAGE_BYTES;
    assert_int_equal(shard_reclaim(fixture->shards[0], page_count, &fixture->now), page_count);
    assert_int_equal(fixture_fill(fixture, "e", QUARTER_BYTES), KVASIR_OK);
    assert_int_equal(shard_reclaim(fixture->shards[0], 1000, &fixture->now), 3 * page_count);
    assert_int_equal(shard_reclaim(fixture->shards[0], 1, &fixture->now), 0);
    fixture_destroy(fixture);
}

static void test_shard_evict_does_not_ask_others_when_own_holds_decide(void **state)
{
    (void)state;
    const struct fixture_options options = {.shard_count = 2};
    struct fixture *fixture = fixture_create(&options);
    fill_four(fixture);
    assert_int_equal(pin(fixture, "a", VALUE_PIN_HARD, 1000), KVASIR_OK);
    assert_int_equal(fixture_fill(fixture, "e", 2U << 20), KVASIR_NO_MEMORY);
    assert_int_equal(fixture_stats(fixture).evicted, 0);
    fixture_destroy(fixture);
}

static void test_shard_evict_finds_a_lone_flushed_value_without_a_policy(void **state)
{
    struct fixture *fixture = *state;
    char key[32];
    shard_set_policy(fixture->shard, NULL);
    struct op op = fixture_op(OP_RESERVE, "lone");
    op.database = 1;
    op.hash = op_hash(0, 1, op.key);
    op.put.length_bytes = 2U << 20;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    op.kind = OP_COMMIT;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    for (uint32_t i = 0; i < 10000; i++) {
        (void)snprintf(key, sizeof(key), "key-%08u", i);
        assert_int_equal(fixture_set(fixture, key, ""), KVASIR_OK);
    }
    assert_int_equal(fixture_fill(fixture, "e", QUARTER_BYTES), KVASIR_NO_MEMORY);
    shard_flush(fixture->shard, 1);
    assert_int_equal(fixture_fill(fixture, "e", QUARTER_BYTES), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).key_count, 10001);
    shard_verify(fixture->shard);
}

static void test_shard_evict_may_take_the_value_that_is_overwritten(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fixture_fill(fixture, "a", 3 * QUARTER_BYTES), KVASIR_OK);
    static uint8_t bytes[3 * QUARTER_BYTES];
    struct op op = fixture_op(OP_SET, "a");
    op.payload = slice_of(bytes, sizeof(bytes));
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_true(fixture_has(fixture, "a"));
    op.flags = OP_SET_RETURN_OLD;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_NO_MEMORY);
    assert_null(op.old);
    assert_true(fixture_has(fixture, "a"));
    shard_verify(fixture->shard);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shard_evict_takes_the_oldest_and_no_more_than_needed),
        TEST(test_shard_evict_nothing_for_a_value_that_never_fits),
        TEST(test_shard_evict_never_what_is_sent_leased_or_hard_pinned),
        TEST(test_shard_evict_passes_soft_pins_over_while_another_can_go),
        TEST(test_shard_evict_takes_a_soft_pinned_value_when_its_time_is_over),
        TEST(test_shard_evict_keeps_the_cache_when_held_memory_decides),
        TEST(test_shard_evict_without_a_policy_is_never),
        TEST(test_shard_evict_drains_what_was_flushed_first),
        TEST(test_shard_evict_for_metadata_as_well),
        cmocka_unit_test(test_shard_evict_says_again_while_other_shards_hold_pages),
        cmocka_unit_test(test_shard_evict_does_not_ask_others_when_own_holds_decide),
        TEST(test_shard_evict_finds_a_lone_flushed_value_without_a_policy),
        TEST(test_shard_evict_may_take_the_value_that_is_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
