/* Unit tests of store/policy_sample and the volatile policies: whom each names, and whom it leaves. */
#include "store/policy_sample.h"

#include "store/policy_lru.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define VALUES 8U

static struct policy *test_policy(const struct policy_ops *ops, struct value *values)
{
    struct policy *policy = ops->create(NULL, 0);
    assert_non_null(policy);
    for (unsigned i = 0; i < VALUES; i++) {
        ops->insert(policy, &values[i]);
    }
    return policy;
}

static void test_policy_ttl_names_the_first_to_expire(void **state)
{
    (void)state;
    struct value values[VALUES] = {0};
    for (unsigned i = 0; i < VALUES; i++) {
        values[i].expires_at_ms = 1 + (i * 5 + 3) % VALUES;
    }
    struct policy *policy = test_policy(&policy_volatile_ttl, values);
    for (unsigned i = 0; i < VALUES; i++) {
        struct value *victim = policy_volatile_ttl.victim(policy);
        assert_int_equal(victim->expires_at_ms, 1 + i);
        policy_volatile_ttl.remove(policy, victim);
    }
    assert_null(policy_volatile_ttl.victim(policy));
    policy_volatile_ttl.destroy(&policy);
}

static void test_policy_lfu_names_the_least_read(void **state)
{
    (void)state;
    struct value values[VALUES] = {0};
    struct policy *policy = test_policy(&policy_lfu, values);
    for (unsigned turn = 0; turn < 200; turn++) {
        for (unsigned i = 0; i < VALUES; i++) {
            if (i != 3) {
                policy_lfu.touch(policy, &values[i]);
            }
        }
    }
    assert_ptr_equal(policy_lfu.victim(policy), &values[3]);
    policy_lfu.destroy(&policy);
}

/* Often read, but an hour ago, is less than read once now. */
static void test_policy_lfu_forgets(void **state)
{
    (void)state;
    struct value values[VALUES] = {0};
    struct policy *policy = test_policy(&policy_lfu, values);
    for (unsigned turn = 0; turn < 200; turn++) {
        policy_lfu.touch(policy, &values[0]);
    }
    for (unsigned i = 1; i < VALUES; i++) {
        values[i].touched_s = 3600;
        policy_lfu.touch(policy, &values[i]);
    }
    assert_ptr_equal(policy_lfu.victim(policy), &values[0]);
    policy_lfu.destroy(&policy);
}

static void test_policy_random_names_any(void **state)
{
    (void)state;
    struct value values[VALUES] = {0};
    struct policy *policy = test_policy(&policy_random, values);
    unsigned named = 0;
    for (unsigned i = 0; i < 1000; i++) {
        named |= 1U << (policy_random.victim(policy) - values);
    }
    assert_int_equal(named, (1U << VALUES) - 1);
    policy_random.destroy(&policy);
}

static void test_policy_volatile_knows_only_what_expires(void **state)
{
    (void)state;
    static const struct policy_ops *const all[] = {&policy_volatile_lru, &policy_volatile_lfu,
                                                   &policy_volatile_ttl, &policy_volatile_random};
    for (unsigned k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        struct value values[VALUES] = {0};
        values[5].expires_at_ms = 9;
        struct policy *policy = test_policy(all[k], values);
        for (unsigned i = 0; i < VALUES; i++) {
            all[k]->touch(policy, &values[i]);
        }
        assert_ptr_equal(all[k]->victim(policy), &values[5]);
        all[k]->remove(policy, &values[5]);
        assert_null(all[k]->victim(policy));
        all[k]->remove(policy, &values[0]);
        values[0].expires_at_ms = 4; /* EXPIRE */
        all[k]->insert(policy, &values[0]);
        assert_ptr_equal(all[k]->victim(policy), &values[0]);
        all[k]->destroy(&policy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy_ttl_names_the_first_to_expire),
        cmocka_unit_test(test_policy_lfu_names_the_least_read),
        cmocka_unit_test(test_policy_lfu_forgets),
        cmocka_unit_test(test_policy_random_names_any),
        cmocka_unit_test(test_policy_volatile_knows_only_what_expires),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
