/* Unit tests of store/reuse: notes by hash, and ranks made of what all shards counted. */
#include "store/reuse.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct reuse *test_reuse(uint32_t shard_count)
{
    struct reuse *reuse = reuse_create(shard_count, 0);
    assert_non_null(reuse);
    return reuse;
}

static void test_reuse_create_fails_cleanly_at_each_allocation(void **state)
{
    (void)state;
    for (uint32_t after = 1; after <= 2; after++) {
        fault_arm("store.reuse", after, 1);
        assert_null(reuse_create(2, 1U << 20));
        fault_disarm_all();
    }
}

static void test_reuse_keeps_a_note_until_the_place_is_taken_by_younger_ones(void **state)
{
    (void)state;
    struct reuse *reuse = test_reuse(1);
    const uint64_t low = 0x54321;
    const struct reuse_note note = {.stamp = 7, .flags = REUSE_NOTE_SEEN | 3};
    assert_int_equal(reuse_find_note(reuse, low).flags, 0);
    reuse_set_note(reuse, low | UINT64_C(1) << 60, note);
    assert_int_equal(reuse_find_note(reuse, low | UINT64_C(1) << 60).stamp, 7);
    assert_int_equal(reuse_find_note(reuse, low | UINT64_C(1) << 60).flags, REUSE_NOTE_SEEN | 3);
    assert_int_equal(reuse_find_note(reuse, low | UINT64_C(2) << 60).flags, 0);
    for (uint64_t i = 2; i < 4; i++) {
        assert_int_not_equal(reuse_find_note(reuse, low | UINT64_C(1) << 60).flags, 0);
        reuse_set_note(reuse, low | i << 60,
                       (struct reuse_note){.stamp = 8, .flags = REUSE_NOTE_SEEN});
    }
    assert_int_equal(reuse_find_note(reuse, low | UINT64_C(1) << 60).flags, 0);
    assert_int_equal(reuse_find_note(reuse, low | UINT64_C(2) << 60).flags, REUSE_NOTE_SEEN);
    assert_int_equal(reuse_find_note(reuse, low | UINT64_C(3) << 60).flags, REUSE_NOTE_SEEN);
    reuse_destroy(&reuse);
    assert_null(reuse);
}

static void test_reuse_rewrites_a_note_in_its_place(void **state)
{
    (void)state;
    struct reuse *reuse = test_reuse(1);
    for (uint32_t i = 1; i < 100; i++) {
        reuse_set_note(reuse, 12345, (struct reuse_note){.stamp = i, .flags = i % 100});
        reuse_set_note(reuse, 12345 | UINT64_C(9) << 50,
                       (struct reuse_note){.stamp = i, .flags = 1});
        assert_int_equal(reuse_find_note(reuse, 12345).stamp, i);
        assert_int_equal(reuse_find_note(reuse, 12345).flags, i % 100);
    }
    reuse_destroy(&reuse);
}

/* The note of a shard whose clock is behind takes the place of the older note, as any other. */
static void test_reuse_keeps_the_younger_of_two_though_clocks_differ(void **state)
{
    (void)state;
    struct reuse *reuse = test_reuse(1);
    const uint64_t low = 0x54320;
    const struct reuse_note old = {.stamp = 50, .flags = REUSE_NOTE_SEEN};
    const struct reuse_note young = {.stamp = 110, .flags = REUSE_NOTE_SEEN};
    const struct reuse_note behind = {.stamp = 100, .flags = REUSE_NOTE_SEEN};
    reuse_set_note(reuse, low | UINT64_C(1) << 60, young);
    reuse_set_note(reuse, low | UINT64_C(2) << 60, old);
    reuse_set_note(reuse, low | UINT64_C(3) << 60, behind);
    assert_int_equal(reuse_find_note(reuse, low | UINT64_C(1) << 60).stamp, 110);
    assert_int_equal(reuse_find_note(reuse, low | UINT64_C(2) << 60).flags, 0);
    assert_int_equal(reuse_find_note(reuse, low | UINT64_C(3) << 60).stamp, 100);
    reuse_destroy(&reuse);
}

static void test_reuse_takes_memory_by_what_is_stored(void **state)
{
    (void)state;
    size_t least = reuse_bytes(1, 0);
    assert_int_equal(reuse_bytes(1, UINT64_C(1) << 30), least);
    assert_true(reuse_bytes(1, UINT64_C(8) << 30) > 4 * least);
    assert_true(reuse_bytes(1, UINT64_C(8) << 30) < (UINT64_C(8) << 30) / 500);
    assert_true(reuse_bytes(1, UINT64_MAX) < 40 * least);
    struct reuse *reuse = reuse_create(1, UINT64_C(8) << 30);
    assert_non_null(reuse);
    for (uint64_t i = 0; i < 500000; i++) {
        reuse_set_note(reuse, i * 2, (struct reuse_note){.stamp = 1, .flags = REUSE_NOTE_SEEN});
    }
    assert_int_equal(reuse_find_note(reuse, 0).flags, REUSE_NOTE_SEEN);
    assert_int_equal(reuse_find_note(reuse, 2 * UINT64_C(499999)).flags, REUSE_NOTE_SEEN);
    reuse_destroy(&reuse);
}

static void test_reuse_age_index_grows_by_halves_of_powers(void **state)
{
    (void)state;
    static const uint32_t ages[][2] = {{0, 0},     {1, 1},     {2, 2},     {3, 3},
                                       {4, 4},     {5, 4},     {6, 5},     {1023, 19},
                                       {1024, 20}, {1535, 20}, {1536, 21}, {UINT32_MAX, 63}};
    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
        assert_int_equal(reuse_age_index(ages[i][0]), ages[i][1]);
        assert_true(reuse_age_index(ages[i][0]) < REUSE_AGES);
    }
}

static void test_reuse_rank_of_nothing_known_is_alike_and_falls_with_age(void **state)
{
    (void)state;
    struct reuse *reuse = test_reuse(3);
    struct reuse_ranks ranks;
    reuse_rank(reuse, &ranks);
    for (uint32_t kind = 0; kind < REUSE_KINDS; kind++) {
        for (uint32_t i = 0; i < REUSE_AGES; i++) {
            uint64_t above = kind < REUSE_KIND_CHAIN ? 0 : 1; /* a leaf goes before its parent */
            assert_int_equal(ranks.ranks[kind][i], ranks.ranks[0][i] + above);
            assert_true(i == 0 || ranks.ranks[kind][i] <= ranks.ranks[kind][i - 1]);
        }
    }
    reuse_destroy(&reuse);
}

/* Kind 0 comes back one time in ten, kind 2 nine times, both at about age 100: as another shard saw. */
static void test_reuse_rank_follows_what_any_shard_counted(void **state)
{
    (void)state;
    struct reuse *reuse = test_reuse(2);
    for (uint32_t i = 0; i < 3000; i++) {
        reuse_count_birth(reuse, 1, 0);
        reuse_count_birth(reuse, 1, 2);
        if (i % 10 == 0) {
            reuse_count_return(reuse, 1, 0, 100);
        } else {
            reuse_count_return(reuse, 1, 2, 100);
        }
    }
    struct reuse_ranks ranks;
    reuse_rank(reuse, &ranks);
    assert_true(ranks.ranks[2][0] > 2 * ranks.ranks[0][0]);
    uint32_t soon = reuse_age_index(8);
    assert_true(ranks.ranks[2][soon] > 2 * ranks.ranks[0][soon]);
    /* Long after the usual age neither will come. */
    assert_true(ranks.ranks[2][reuse_age_index(1U << 20)] * 100 < ranks.ranks[0][soon]);
    /* What was read is never rated below what was not. */
    for (uint32_t i = 0; i < REUSE_AGES; i++) {
        assert_true(ranks.ranks[1][i] >= ranks.ranks[0][i]);
        assert_true(ranks.ranks[3][i] >= ranks.ranks[2][i]);
    }
    reuse_destroy(&reuse);
}

/* A rank of 0 is 0 however dear a value is: that nothing came back in many shards is no reason for it. */
static void test_reuse_rank_of_what_never_came_back_is_above_zero(void **state)
{
    (void)state;
    struct reuse *reuse = test_reuse(64);
    struct reuse_ranks ranks;
    for (uint32_t i = 0; i < 64 * 500; i++) {
        reuse_count_birth(reuse, i % 64, 0);
    }
    reuse_rank(reuse, &ranks);
    for (uint32_t i = 0; i < 20; i++) {
        assert_true(ranks.ranks[0][i] > 0);
    }
    reuse_destroy(&reuse);
}

/* Nor that all came back at one age, and nothing at the others. */
static void test_reuse_rank_of_unusual_ages_is_above_zero(void **state)
{
    (void)state;
    struct reuse *reuse = test_reuse(64);
    struct reuse_ranks ranks;
    for (uint32_t i = 0; i < 64 * 2000; i++) {
        reuse_count_birth(reuse, i % 64, 0);
        reuse_count_return(reuse, i % 64, 0, 100);
    }
    reuse_rank(reuse, &ranks);
    assert_true(ranks.ranks[0][reuse_age_index(100)] > 0);
    assert_true(ranks.ranks[0][reuse_age_index(100000)] > 0);
    reuse_destroy(&reuse);
}

/* After all has changed, as many births again turn the order. */
static void test_reuse_rank_forgets(void **state)
{
    (void)state;
    struct reuse *reuse = test_reuse(1);
    struct reuse_ranks ranks;
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < 100000; i++) {
            reuse_count_birth(reuse, 0, 0);
            reuse_count_birth(reuse, 0, 4);
            reuse_count_return(reuse, 0, turn == 0 ? 0 : 4, 50);
        }
        reuse_rank(reuse, &ranks);
        uint32_t age = reuse_age_index(16);
        assert_true(turn == 0 ? ranks.ranks[0][age] > ranks.ranks[4][age]
                              : ranks.ranks[0][age] < ranks.ranks[4][age]);
    }
    reuse_destroy(&reuse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reuse_create_fails_cleanly_at_each_allocation),
        cmocka_unit_test(test_reuse_keeps_a_note_until_the_place_is_taken_by_younger_ones),
        cmocka_unit_test(test_reuse_rewrites_a_note_in_its_place),
        cmocka_unit_test(test_reuse_keeps_the_younger_of_two_though_clocks_differ),
        cmocka_unit_test(test_reuse_takes_memory_by_what_is_stored),
        cmocka_unit_test(test_reuse_age_index_grows_by_halves_of_powers),
        cmocka_unit_test(test_reuse_rank_of_nothing_known_is_alike_and_falls_with_age),
        cmocka_unit_test(test_reuse_rank_follows_what_any_shard_counted),
        cmocka_unit_test(test_reuse_rank_of_what_never_came_back_is_above_zero),
        cmocka_unit_test(test_reuse_rank_of_unusual_ages_is_above_zero),
        cmocka_unit_test(test_reuse_rank_forgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
