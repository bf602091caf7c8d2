/* Unit tests of store/grant. */
#include "store/grant.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SLOTS 8U
#define SHARD 3U
#define OWNER 77U

static void table_init(struct grant_table *table)
{
    assert_true(grant_init(table, SLOTS, SHARD, 123456789));
}

static void test_grant_is_found_by_id_kind_and_owner_only(void **state)
{
    (void)state;
    struct grant_table table;
    bool expired;
    table_init(&table);
    struct grant *grant = grant_open(&table, GRANT_LEASE, NULL, OWNER, 100);
    uint64_t id = grant_id(&table, grant);
    assert_ptr_equal(grant_find(&table, id, GRANT_LEASE, OWNER, &expired), grant);
    assert_null(grant_find(&table, id, GRANT_RESERVATION, OWNER, &expired));
    assert_null(grant_find(&table, id, GRANT_LEASE, OWNER + 1, &expired));
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_null(grant_find(&table, id ^ (uint64_t)1 << bit, GRANT_LEASE, OWNER, &expired));
        assert_false(expired);
    }
    assert_true(id < (uint64_t)INT64_MAX);
    grant_close(&table, &grant, false);
    grant_fini(&table);
}

static void test_grant_id_is_not_accepted_after_its_slot_was_used_again(void **state)
{
    (void)state;
    struct grant_table table;
    bool expired;
    table_init(&table);
    struct grant *grant = grant_open(&table, GRANT_LEASE, NULL, OWNER, 100);
    uint64_t id = grant_id(&table, grant);
    grant_close(&table, &grant, false);
    assert_null(grant);
    for (unsigned i = 0; i < 5 * SLOTS; i++) {
        grant = grant_open(&table, GRANT_LEASE, NULL, OWNER, 100);
        assert_int_not_equal(grant_id(&table, grant), id);
        assert_null(grant_find(&table, id, GRANT_LEASE, OWNER, &expired));
        grant_close(&table, &grant, false);
    }
    grant_fini(&table);
}

static void test_grant_that_expired_is_told_from_one_that_never_was(void **state)
{
    (void)state;
    struct grant_table table;
    bool expired;
    table_init(&table);
    struct grant *grant = grant_open(&table, GRANT_RESERVATION, NULL, OWNER, 100);
    uint64_t id = grant_id(&table, grant);
    grant_close(&table, &grant, true);
    assert_null(grant_find(&table, id, GRANT_RESERVATION, OWNER, &expired));
    assert_true(expired);
    assert_null(grant_find(&table, id, GRANT_RESERVATION, OWNER + 1, &expired));
    assert_false(expired);
    grant_fini(&table);
}

static void test_grant_takes_memory_as_it_is_used(void **state)
{
    (void)state;
    struct grant_table table;
    assert_true(grant_init(&table, 1U << 20, SHARD, 5));
    assert_int_equal(grant_bytes(&table), 0);
    struct grant *kept = grant_open(&table, GRANT_LEASE, NULL, OWNER, 100);
    for (unsigned i = 0; i < 20000; i++) {
        struct grant *grant = grant_open(&table, GRANT_LEASE, NULL, i, 100);
        assert_int_not_equal(grant_slot(&table, grant), grant_slot(&table, kept));
        grant_close(&table, &grant, false);
    }
    assert_true(grant_bytes(&table) > 0 && grant_bytes(&table) < 2048 * GRANT_BYTES);
    assert_ptr_equal(grant_find_owned(&table, OWNER), kept);
    grant_close(&table, &kept, false);
    grant_fini(&table);
}

static void test_grant_table_is_bounded_and_counts(void **state)
{
    (void)state;
    struct grant_table table;
    struct grant *grants[SLOTS];
    table_init(&table);
    for (unsigned i = 0; i < SLOTS; i++) {
        grants[i] = grant_open(&table, GRANT_LEASE, NULL, OWNER + i, 1000 - i);
        assert_non_null(grants[i]);
    }
    assert_null(grant_open(&table, GRANT_LEASE, NULL, OWNER, 1));
    assert_int_equal(table.counts[GRANT_LEASE], SLOTS);
    assert_ptr_equal(grant_find_expired(&table, 1000), grants[SLOTS - 1]);
    assert_null(grant_find_expired(&table, 1000 - SLOTS));
    grant_move(&table, grants[0], 5);
    assert_ptr_equal(grant_find_expired(&table, 5), grants[0]);
    assert_ptr_equal(grant_find_owned(&table, OWNER + 4), grants[4]);
    assert_null(grant_find_owned(&table, OWNER + SLOTS));
    for (unsigned i = 0; i < SLOTS; i++) {
        grant_close(&table, &grants[i], false);
    }
    assert_null(grant_find_owned(&table, OWNER + 4));
    assert_int_equal(table.counts[GRANT_LEASE], 0);
    grant_fini(&table);
}

static void test_grant_table_reports_no_memory(void **state)
{
    (void)state;
    struct grant_table table;
    for (uint32_t after = 1; after <= 3; after++) {
        fault_arm("store.grant", after, 1);
        assert_false(grant_init(&table, SLOTS, SHARD, 1));
        fault_disarm_all();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grant_is_found_by_id_kind_and_owner_only),
        cmocka_unit_test(test_grant_id_is_not_accepted_after_its_slot_was_used_again),
        cmocka_unit_test(test_grant_that_expired_is_told_from_one_that_never_was),
        cmocka_unit_test(test_grant_takes_memory_as_it_is_used),
        cmocka_unit_test(test_grant_table_is_bounded_and_counts),
        cmocka_unit_test(test_grant_table_reports_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
