/* Unit tests of store/index. */
#include "store/index.h"

#include "base/fault.h"
#include "base/random.h"
#include "test_seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define KEYS_MAX     (1U << 20)
#define STEPS_OP_MAX 4U
/* A chain of more than this has no place at a load of one: Poisson, with a margin. */
#define MOVED_OP_MAX 64U

struct fixture {
    struct index index;
    struct value *values; /* owned; KEYS_MAX, with empty keys: told apart by their hash */
};

static int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->values = calloc(KEYS_MAX, sizeof(*fixture->values));
    assert_non_null(fixture->values);
    assert_true(index_init(&fixture->index, fixture->values, KEYS_MAX));
    struct random random;
    random_init(&random, 7);
    for (uint32_t i = 0; i < KEYS_MAX; i++) {
        fixture->values[i].hash = random_u64(&random);
    }
    *state = fixture;
    return 0;
}

static int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    index_fini(&fixture->index);
    free(fixture->values);
    free(fixture);
    return 0;
}

static void insert(struct fixture *fixture, uint32_t number)
{
    index_insert(&fixture->index, &fixture->values[number]);
    (void)index_balance(&fixture->index, STEPS_OP_MAX);
}

static void take_out(struct fixture *fixture, uint32_t number)
{
    index_remove(&fixture->index, &fixture->values[number]);
    (void)index_balance(&fixture->index, STEPS_OP_MAX);
}

static struct value *find(const struct fixture *fixture, uint32_t number)
{
    return index_find(&fixture->index, 0, slice_of(NULL, 0), fixture->values[number].hash);
}

static void test_index_finds_what_was_inserted(void **state)
{
    struct fixture *fixture = *state;
    insert(fixture, 1);
    insert(fixture, 2);
    assert_ptr_equal(find(fixture, 1), &fixture->values[1]);
    assert_ptr_equal(find(fixture, 2), &fixture->values[2]);
    assert_null(find(fixture, 3));
    take_out(fixture, 1);
    assert_null(find(fixture, 1));
    assert_ptr_equal(find(fixture, 2), &fixture->values[2]);
}

static void test_index_keeps_databases_apart(void **state)
{
    struct fixture *fixture = *state;
    fixture->values[1].database = 4;
    insert(fixture, 1);
    assert_null(find(fixture, 1));
    assert_ptr_equal(index_find(&fixture->index, 4, slice_of(NULL, 0), fixture->values[1].hash),
                     &fixture->values[1]);
}

static void test_index_growth_to_a_million_is_in_small_steps(void **state)
{
    struct fixture *fixture = *state;
    uint64_t moved_max = 0;
    for (uint32_t i = 0; i < KEYS_MAX; i++) {
        uint64_t moved = fixture->index.moved_count;
        insert(fixture, i);
        moved = fixture->index.moved_count - moved;
        moved_max = moved > moved_max ? moved : moved_max;
    }
    assert_in_range(moved_max, 1, MOVED_OP_MAX);
    assert_int_equal(fixture->index.bucket_count, KEYS_MAX);
    for (uint32_t i = 0; i < KEYS_MAX; i++) {
        assert_ptr_equal(find(fixture, i), &fixture->values[i]);
    }
}

static void test_index_shrinks_in_small_steps_and_gives_memory_back(void **state)
{
    struct fixture *fixture = *state;
    for (uint32_t i = 0; i < KEYS_MAX; i++) {
        insert(fixture, i);
    }
    uint64_t full_bytes = index_bytes(&fixture->index);
    uint64_t moved_max = 0;
    for (uint32_t i = 0; i < KEYS_MAX; i++) {
        uint64_t moved = fixture->index.moved_count;
        take_out(fixture, i);
        moved = fixture->index.moved_count - moved;
        moved_max = moved > moved_max ? moved : moved_max;
        if (i % 4096 == 0 && i + 1 < KEYS_MAX) {
            assert_ptr_equal(find(fixture, KEYS_MAX - 1), &fixture->values[KEYS_MAX - 1]);
        }
    }
    assert_in_range(moved_max, 1, MOVED_OP_MAX);
    assert_int_equal(full_bytes, KEYS_MAX * sizeof(uint32_t));
    assert_int_equal(index_bytes(&fixture->index), 4096);
    insert(fixture, 5);
    assert_ptr_equal(find(fixture, 5), &fixture->values[5]);
}

static void test_index_spreads_hashes_that_agree_in_low_or_high_bits(void **state)
{
    struct fixture *fixture = *state;
    for (uint32_t i = 0; i < 4096; i++) {
        fixture->values[2 * (size_t)i].hash = (uint64_t)i << 6 | 5;
        fixture->values[2 * (size_t)i + 1].hash = (uint64_t)7 << 60 | i;
        insert(fixture, 2 * i);
        insert(fixture, 2 * i + 1);
    }
    uint32_t longest = 0;
    for (uint64_t bucket = 0; bucket < fixture->index.bucket_count; bucket++) {
        uint32_t length = 0;
        for (const struct value *v = index_first(&fixture->index, bucket); v != NULL;
             v = index_next(v)) {
            length++;
        }
        longest = length > longest ? length : longest;
    }
    assert_in_range(longest, 1, 16);
}

/* Counts in policy_bits how often a scan meets each. */
static uint64_t scan_step(struct fixture *fixture, uint64_t cursor)
{
    uint64_t buckets[2];
    uint64_t from = cursor;
    cursor = index_scan(&fixture->index, cursor, &buckets[0], &buckets[1]);
    for (uint32_t i = 0; i < 2; i++) {
        struct value *value =
            buckets[i] != UINT64_MAX ? index_first(&fixture->index, buckets[i]) : NULL;
        for (; value != NULL; value = index_next(value)) {
            if (!index_scan_passed(from, value->hash)) {
                value->policy_bits++;
            }
        }
    }
    return cursor;
}

static void scan_while_changing(struct fixture *fixture, struct random *random, uint32_t stay_count,
                                uint32_t base, bool grow)
{
    uint32_t extra_count = 60000;
    for (uint32_t i = 0; i < stay_count; i++) {
        fixture->values[i].policy_bits = 0;
    }
    uint32_t changed = 0;
    uint64_t cursor = 0;
    do {
        cursor = scan_step(fixture, cursor);
        uint64_t change_count = random_below(random, 64);
        for (uint64_t i = 0; i < change_count && changed < extra_count; i++, changed++) {
            if (grow) {
                insert(fixture, base + changed);
            } else {
                take_out(fixture, base + changed);
            }
        }
    } while (cursor != 0);
    for (uint32_t i = 0; i < stay_count; i++) {
        assert_int_equal(fixture->values[i].policy_bits, 1);
    }
    for (; changed < extra_count; changed++) {
        if (grow) {
            insert(fixture, base + changed);
        } else {
            take_out(fixture, base + changed);
        }
    }
}

static void test_index_scan_meets_all_that_stays_once_while_it_grows_and_shrinks(void **state)
{
    struct fixture *fixture = *state;
    struct random random;
    random_init(&random, test_seed());
    const uint32_t stay_count = 3000;
    for (uint32_t i = 0; i < stay_count; i++) {
        insert(fixture, i);
    }
    for (uint32_t round = 0; round < 10; round++) {
        scan_while_changing(fixture, &random, stay_count, stay_count, true);
        scan_while_changing(fixture, &random, stay_count, stay_count, false);
    }
}

static void test_index_scan_at_rest_meets_each_once(void **state)
{
    struct fixture *fixture = *state;
    for (uint32_t i = 0; i < 1000; i++) {
        insert(fixture, i);
    }
    uint64_t cursor = 0;
    uint64_t bucket_count = 0;
    do {
        uint64_t bucket, second;
        cursor = index_scan(&fixture->index, cursor, &bucket, &second);
        bucket_count += second == UINT64_MAX ? 1 : 2;
    } while (cursor != 0);
    assert_int_equal(bucket_count, fixture->index.bucket_count);
}

static void test_index_refused_address_space_is_reported(void **state)
{
    (void)state;
    struct index index;
    fault_arm("store.index", 1, 1);
    assert_false(index_init(&index, &index, 1000));
    fault_disarm_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_index_finds_what_was_inserted, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_index_keeps_databases_apart, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_index_growth_to_a_million_is_in_small_steps,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_index_shrinks_in_small_steps_and_gives_memory_back,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_index_spreads_hashes_that_agree_in_low_or_high_bits,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(
            test_index_scan_meets_all_that_stays_once_while_it_grows_and_shrinks, fixture_setup,
            fixture_teardown),
        cmocka_unit_test_setup_teardown(test_index_scan_at_rest_meets_each_once, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test(test_index_refused_address_space_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
