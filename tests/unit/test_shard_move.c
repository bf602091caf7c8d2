/* Unit tests of store/shard_move and store/shard_room: what is scattered is brought together, and nobody
 * sees it. */
#include "base/random.h"
#include "test_seed.h"
#include "test_shard_fixture.h"

#include <stdio.h>

#define PAYLOAD_BYTES (2U << 20)
#define SMALL_BYTES   1000U
#define SMALL_COUNT   3000U
#define LONG_BYTES    (512U << 10)

static void key_of(char *key, size_t capacity, uint32_t number)
{
    (void)snprintf(key, capacity, "key-%u", number);
}

/* Bytes that tell their key and length. */
static void fill(uint8_t *bytes, size_t length_bytes, uint32_t number)
{
    for (size_t i = 0; i < length_bytes; i++) {
        bytes[i] = (uint8_t)(number * 31 + i * 7 + length_bytes);
    }
}

static enum kvasir_status put(struct fixture *fixture, uint32_t number, size_t length_bytes)
{
    char key[32];
    uint8_t *bytes = malloc(length_bytes + 1);
    assert_non_null(bytes);
    key_of(key, sizeof(key), number);
    fill(bytes, length_bytes, number);
    struct op op = fixture_op(OP_SET, key);
    op.payload = slice_of(bytes, length_bytes);
    enum kvasir_status status = fixture_run(fixture, &op);
    free(bytes);
    return status;
}

/* The value's length when it is there, with the right bytes; 0: it is not. */
static size_t found(struct fixture *fixture, uint32_t number)
{
    char key[32];
    key_of(key, sizeof(key), number);
    struct op op = fixture_op(OP_GET, key);
    op.flags = OP_READ_NO_TOUCH;
    if (fixture_run(fixture, &op) != KVASIR_OK) {
        return 0;
    }
    size_t length_bytes = (size_t)op.value->length_bytes;
    uint8_t *bytes = malloc(length_bytes);
    assert_non_null(bytes);
    fill(bytes, length_bytes, number);
    fixture_assert_bytes(fixture, op.value, slice_of(bytes, length_bytes));
    free(bytes);
    shard_unpin(fixture->shard, &op.value);
    return length_bytes;
}

/* Read in another order than written, so that what is evicted first lies all over the pages. */
static void fill_store(struct fixture *fixture, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(put(fixture, i, SMALL_BYTES), KVASIR_OK);
    }
    for (uint32_t i = 0; i < count; i++) {
        char key[32];
        key_of(key, sizeof(key), i * 1237 % count);
        (void)fixture_simple(fixture, OP_EXISTS, key);
    }
    assert_true(fixture_stats(fixture).evicted > 0);
}

static void test_shard_move_makes_room_for_a_long_value_by_evicting_its_size(void **state)
{
    struct fixture *fixture = *state;
    fill_store(fixture, SMALL_COUNT);
    uint64_t evicted_bytes = fixture_stats(fixture).evicted_bytes;
    assert_int_equal(put(fixture, 99999, LONG_BYTES), KVASIR_OK);
    struct shard_stats stats = fixture_stats(fixture);
    /* Two pages more: one for what is scattered among the others, one that is being drained. */
    assert_in_range(stats.evicted_bytes - evicted_bytes, 1, LONG_BYTES + 2 * FIXTURE_PAGE_BYTES);
    assert_true(stats.drained_pages > 0 && stats.moved_bytes > 0);
    assert_int_equal(found(fixture, 99999), LONG_BYTES);
    uint64_t found_count = 0;
    for (uint32_t i = 0; i < SMALL_COUNT; i++) {
        found_count += found(fixture, i) != 0;
    }
    assert_int_equal(found_count + 1, stats.key_count);
    shard_verify(fixture->shard);
}

/* One value in every page is held in one of the ways that keep its bytes in place. */
static void test_shard_move_leaves_what_is_held_in_its_place(void **state)
{
    struct fixture *fixture = *state;
    enum {
        HELD_COUNT = 8
    };
    struct op held[HELD_COUNT];
    struct layout layouts[HELD_COUNT];
    fill_store(fixture, SMALL_COUNT);
    for (uint32_t i = 0; i < HELD_COUNT; i++) {
        char key[32];
        key_of(key, sizeof(key), SMALL_COUNT - 1 - i * 70);
        held[i] = fixture_op(i % 2 == 0 ? OP_GET : OP_LEASE, key);
        held[i].owner = 5;
        held[i].deadline_us = INT64_MAX;
        assert_int_equal(fixture_run(fixture, &held[i]), KVASIR_OK);
        layouts[i] = held[i].value->layout;
        if (i % 2 == 1) {
            struct value *value = held[i].value; /* the lease alone holds it now */
            shard_unpin(fixture->shard, &value);
        }
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(put(fixture, 90000 + i, LONG_BYTES), KVASIR_OK);
    }
    assert_true(fixture_stats(fixture).moved_bytes > 0);
    for (uint32_t i = 0; i < HELD_COUNT; i++) {
        assert_memory_equal(&layouts[i], &held[i].value->layout, sizeof(layouts[i]));
        assert_int_equal(found(fixture, SMALL_COUNT - 1 - i * 70), SMALL_BYTES);
        if (i % 2 == 0) {
            shard_unpin(fixture->shard, &held[i].value);
        }
    }
    shard_drop_owner(fixture->shard, 5);
}

static void test_shard_move_takes_no_longer_than_a_turn_allows(void **state)
{
    (void)state;
    const struct fixture_options options = {.payload_bytes = 16U << 20, .metadata_bytes = 8U << 20};
    struct fixture *fixture = fixture_create(&options);
    fill_store(fixture, 18000);
    struct op op = fixture_op(OP_RESERVE, "long");
    op.put.length_bytes = 8U << 20;
    uint32_t turn_count = 0;
    uint64_t moved_max = 0;
    do {
        uint64_t moved_bytes = fixture_stats(fixture).moved_bytes;
        shard_execute(fixture->shard, &op, &fixture->now);
        moved_bytes = fixture_stats(fixture).moved_bytes - moved_bytes;
        moved_max = moved_bytes > moved_max ? moved_bytes : moved_max;
        turn_count++;
    } while (op.status == KVASIR_PENDING);
    assert_int_equal(op.status, KVASIR_OK);
    assert_true(turn_count > 4);
    assert_in_range(moved_max, 1, 2U << 20);
    op.kind = OP_COMMIT;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    fixture_destroy(fixture);
}

static void test_shard_move_gives_up_pages_kept_for_a_value_that_does_not_come(void **state)
{
    struct fixture *fixture = *state;
    fill_store(fixture, SMALL_COUNT);
    struct op op = fixture_op(OP_RESERVE, "long");
    op.put.length_bytes = 1536U << 10;
    shard_execute(fixture->shard, &op, &fixture->now);
    assert_int_equal(op.status, KVASIR_PENDING);
    fixture_move(fixture, 1000);
    (void)shard_tick(fixture->shard, &fixture->now, 1000);
    uint64_t evicted_bytes = fixture_stats(fixture).evicted_bytes;
    assert_true(pages_free_count(fixture->payload) > 0);
    assert_int_equal(put(fixture, 70000, FIXTURE_PAGE_BYTES), KVASIR_OK);
    assert_int_equal(fixture_stats(fixture).evicted_bytes, evicted_bytes);
}

static void test_shard_move_drains_sparse_pages_in_the_background(void **state)
{
    struct fixture *fixture = *state;
    fill_store(fixture, SMALL_COUNT);
    for (uint32_t i = 0; i < SMALL_COUNT; i++) {
        char key[32];
        key_of(key, sizeof(key), i);
        if (i % 3 != 0) {
            (void)fixture_simple(fixture, OP_REMOVE, key);
        }
    }
    uint32_t before_count = pages_free_count(fixture->payload);
    for (uint32_t i = 0; i < 100; i++) {
        fixture_move(fixture, 10);
        (void)shard_tick(fixture->shard, &fixture->now, 256);
    }
    assert_true(pages_free_count(fixture->payload) > before_count);
    for (uint32_t i = 0; i < SMALL_COUNT; i += 3) {
        (void)found(fixture, i);
    }
    shard_verify(fixture->shard);
}

#define MODEL_KEYS  400U
#define MODEL_STEPS 30000U

static size_t random_length(struct random *random)
{
    uint32_t shift = (uint32_t)random_below(random, 12);
    size_t most = (size_t)128 << shift;
    return 1 + (size_t)random_below(random, most);
}

/* Puts, removals, reads under pins and ticks in any order, every named allocation failing now and then:
 * what is found has its bytes, what is pinned stays where it is, and at the end all pages are back. */
static void test_shard_move_random_operations_keep_every_byte(void **state)
{
    static const char *const points[] = {"store.meta", "store.payload", "runs_take",
                                         "runs_take_part", "pages_take"};
    struct fixture *fixture = *state;
    struct random random;
    struct op pinned[4] = {0};
    struct layout layouts[4];
    random_init(&random, test_seed());
    for (uint32_t step = 0; step < MODEL_STEPS; step++) {
        uint32_t number = (uint32_t)random_below(&random, MODEL_KEYS);
        uint32_t slot = (uint32_t)random_below(&random, 4);
        char key[32];
        key_of(key, sizeof(key), number);
        if (random_below(&random, 20) == 0) {
            fault_arm(points[random_below(&random, 5)], 1 + (uint32_t)random_below(&random, 20), 1);
        }
        switch (random_below(&random, 8)) {
        case 0:
            (void)fixture_simple(fixture, OP_REMOVE, key);
            break;
        case 1:
            if (pinned[slot].value != NULL) {
                assert_memory_equal(&layouts[slot], &pinned[slot].value->layout,
                                    sizeof(layouts[slot]));
                shard_unpin(fixture->shard, &pinned[slot].value);
            }
            pinned[slot] = fixture_op(OP_GET, key);
            if (fixture_run(fixture, &pinned[slot]) == KVASIR_OK) {
                layouts[slot] = pinned[slot].value->layout;
            } else {
                pinned[slot].value = NULL;
            }
            break;
        case 2:
            fixture_move(fixture, 10);
            (void)shard_tick(fixture->shard, &fixture->now, 64);
            break;
        case 3:
            (void)found(fixture, number);
            break;
        default:
            (void)put(fixture, number, random_length(&random));
            break;
        }
        fault_disarm_all();
        if (step % 1000 == 0) {
            shard_verify(fixture->shard);
        }
    }
    for (uint32_t slot = 0; slot < 4; slot++) {
        if (pinned[slot].value != NULL) {
            shard_unpin(fixture->shard, &pinned[slot].value);
        }
    }
    for (uint32_t number = 0; number < MODEL_KEYS; number++) {
        (void)found(fixture, number);
    }
    assert_true(fixture_stats(fixture).moved_bytes > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shard_move_makes_room_for_a_long_value_by_evicting_its_size),
        TEST(test_shard_move_leaves_what_is_held_in_its_place),
        cmocka_unit_test(test_shard_move_takes_no_longer_than_a_turn_allows),
        TEST(test_shard_move_gives_up_pages_kept_for_a_value_that_does_not_come),
        TEST(test_shard_move_drains_sparse_pages_in_the_background),
        TEST(test_shard_move_random_operations_keep_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
