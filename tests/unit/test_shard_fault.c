/* Fault points of the store: each allocation fails in turn, and nothing leaks or is half done. */
#include "test_shard_fixture.h"

#include "base/copy.h"

static void test_shard_fault_create_fails_cleanly_at_each_allocation(void **state)
{
    struct fixture *fixture = *state;
    const struct fixture_options options = {0};
    struct shard_config config = fixture_config(fixture, &options);
    const struct {
        const char *point;
        uint32_t count;
    } points[] = {{"store.shard", 1},  {"store.meta_init", 1}, {"store.runs", 1},
                  {"store.index", 1},  {"store.grant", 3},     {"store.spaces", 1},
                  {"store.policy", 1}, {"runs_create", 2}};
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        for (uint32_t after = 1; after <= points[i].count; after++) {
            fault_arm(points[i].point, after, 1);
            assert_null(shard_create(&config));
            fault_disarm_all();
        }
    }
    struct shard *shard = shard_create(&config);
    assert_non_null(shard);
    shard_destroy(&shard);
    assert_null(shard);
    shard_destroy(&shard);
}

static void set_tenants(struct fixture *fixture, const char *text, bool expected)
{
    struct tenant_table table;
    char error[256];
    assert_true(tenant_table_parse(&table, slice_of_text(text), error, sizeof(error)));
    assert_int_equal(shard_set_tenants(fixture->shard, &table), expected);
    shard_verify(fixture->shard);
}

/* An order for each of three tenants and one for all others: whichever cannot be had, all stays. */
static void test_shard_fault_a_policy_comes_for_all_tenants_or_for_none(void **state)
{
    struct fixture *fixture = *state;
    set_tenants(fixture, "a prefix a:; b prefix b:; c prefix c:", true);
    (void)fixture_set(fixture, "a:1", "1");
    (void)fixture_set(fixture, "x", "2");
    for (unsigned i = 0; policy_at(i) != NULL; i++) {
        for (uint32_t after = 1; after <= 4; after++) {
            const struct policy_ops *other = policy_at(policy_at(i + 1) != NULL ? i + 1 : 0);
            shard_set_policy(fixture->shard, other);
            fault_arm("store.policy", after, 1);
            shard_set_policy(fixture->shard, policy_at(i));
            fault_disarm_all();
            shard_verify(fixture->shard);
            fixture_assert_value(fixture, "a:1", "1");
        }
        shard_set_policy(fixture->shard, policy_at(i));
        shard_verify(fixture->shard);
        assert_int_equal(fixture_fill(fixture, "b:1", 1000), KVASIR_OK);
    }
    fixture_assert_value(fixture, "x", "2");
}

static void test_shard_fault_tenants_begin_together_or_not_at_all(void **state)
{
    struct fixture *fixture = *state;
    const char *const text = "a prefix a:; b prefix b:; c prefix c:";
    (void)fixture_set(fixture, "a:1", "1");
    for (unsigned i = 0; policy_at(i) != NULL; i++) {
        shard_set_policy(fixture->shard, policy_at(i));
        set_tenants(fixture, "", true);
        for (uint32_t after = 1; after <= 3; after++) {
            fault_arm("store.policy", after, 1);
            set_tenants(fixture, text, false);
            fault_disarm_all();
            assert_int_equal(shard_tenants(fixture->shard)->count, 0);
        }
        set_tenants(fixture, text, true);
        struct shard_tenant_stats stats;
        shard_tenant_stats(fixture->shard, 1, &stats);
        assert_int_equal(stats.value_count, 1);
    }
}

/* What each kind of op needs memory for, on a key that holds "41". */
static struct op op_that_takes_memory(unsigned number)
{
    const enum op_kind kinds[] = {OP_SET,       OP_RESERVE, OP_GRANT_RESERVE, OP_ADD,
                                  OP_ADD_FLOAT, OP_APPEND,  OP_SET_RANGE};
    struct op op = fixture_op(kinds[number], "key");
    if (kinds[number] == OP_SET || kinds[number] == OP_APPEND || kinds[number] == OP_SET_RANGE) {
        op.payload = slice_of_text("7");
    }
    if (kinds[number] == OP_RESERVE || kinds[number] == OP_GRANT_RESERVE) {
        op.put.length_bytes = 3 * FIXTURE_PAGE_BYTES / 2;
    }
    return op;
}

static void test_shard_fault_without_memory_an_op_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    const char *const points[] = {"store.meta", "store.payload", "runs_take"};
    (void)fixture_set(fixture, "key", "41");
    shard_set_policy(fixture->shard, NULL); /* so that failing evicts nothing */
    for (unsigned number = 0; number < 7; number++) {
        for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
            struct op op = op_that_takes_memory(number);
            fault_arm(points[i], 1, 100);
            assert_int_equal(fixture_run(fixture, &op), KVASIR_NO_MEMORY);
            fault_disarm_all();
            assert_null(op.value);
            shard_verify(fixture->shard);
            assert_int_equal(fixture_stats(fixture).value_count, 1);
            fixture_assert_value(fixture, "key", "41");
        }
    }
}

static void test_shard_fault_once_evicts_one_and_goes_on(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "old", "1");
    (void)fixture_set(fixture, "new", "2");
    fault_arm("store.payload", 1, 1);
    assert_int_equal(fixture_set(fixture, "key", "3"), KVASIR_OK);
    fault_disarm_all();
    assert_false(fixture_has(fixture, "old"));
    assert_true(fixture_has(fixture, "new"));
    assert_int_equal(fixture_stats(fixture).evicted, 1);
}

static void test_shard_fault_payload_is_copied_once_by_set_and_never_by_the_rest(void **state)
{
    struct fixture *fixture = *state;
    uint64_t before = copy_payload_bytes();
    (void)fixture_set(fixture, "key", "0123456789");
    assert_int_equal(copy_payload_bytes() - before, 10);
    before = copy_payload_bytes();
    assert_int_equal(fixture_fill(fixture, "big", 1U << 20), KVASIR_OK);
    struct op op = fixture_op(OP_GET, "big");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    shard_unpin(fixture->shard, &op.value);
    assert_int_equal(copy_payload_bytes(), before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shard_fault_create_fails_cleanly_at_each_allocation),
        TEST(test_shard_fault_a_policy_comes_for_all_tenants_or_for_none),
        TEST(test_shard_fault_tenants_begin_together_or_not_at_all),
        TEST(test_shard_fault_without_memory_an_op_changes_nothing),
        TEST(test_shard_fault_once_evicts_one_and_goes_on),
        TEST(test_shard_fault_payload_is_copied_once_by_set_and_never_by_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
