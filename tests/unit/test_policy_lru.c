/* Unit tests of store/policy and store/policy_lru. */
#include "store/policy_lru.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_policy_lru_is_found_by_its_redis_name(void **state)
{
    (void)state;
    assert_ptr_equal(policy_find("allkeys-lru"), &policy_lru);
    assert_ptr_equal(policy_at(0), &policy_lru);
    assert_ptr_equal(policy_find("volatile-lru"), &policy_volatile_lru);
    assert_null(policy_find("allkeys"));
}

static void test_policy_lru_names_the_one_not_read_for_longest(void **state)
{
    (void)state;
    struct value values[3] = {0};
    struct policy *policy = policy_lru.create(NULL, 0);
    assert_non_null(policy);
    assert_null(policy_lru.victim(policy));
    for (unsigned i = 0; i < 3; i++) {
        policy_lru.insert(policy, &values[i]);
    }
    assert_ptr_equal(policy_lru.victim(policy), &values[0]);
    policy_lru.touch(policy, &values[0]);
    policy_lru.touch(policy, &values[0]);
    assert_ptr_equal(policy_lru.victim(policy), &values[1]);
    policy_lru.remove(policy, &values[2]);
    policy_lru.remove(policy, &values[1]);
    assert_ptr_equal(policy_lru.victim(policy), &values[0]);
    policy_lru.remove(policy, &values[0]);
    assert_null(policy_lru.victim(policy));
    policy_lru.destroy(&policy);
    assert_null(policy);
    policy_lru.destroy(&policy);
}

static void test_policy_lru_reports_no_memory(void **state)
{
    (void)state;
    fault_arm("store.policy", 1, 1);
    assert_null(policy_lru.create(NULL, 0));
    fault_disarm_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy_lru_is_found_by_its_redis_name),
        cmocka_unit_test(test_policy_lru_names_the_one_not_read_for_longest),
        cmocka_unit_test(test_policy_lru_reports_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
