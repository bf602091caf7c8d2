/* test_fault – fault points fail exactly when they were told to. */

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_fault_is_off_until_armed(void **state)
{
    (void)state;
    fault_disarm_all();
    for (int i = 0; i < 10; i++) {
        assert_false(fault_hit("pages_take"));
    }
}

static void test_fault_fails_the_chosen_hits(void **state)
{
    (void)state;
    static const bool expected[] = {false, false, true, true, false, false};
    fault_disarm_all();
    fault_arm("pages_take", 3, 2);
    for (int i = 0; i < 6; i++) {
        assert_false(fault_hit("runs_take"));
        assert_int_equal(fault_hit("pages_take"), expected[i]);
    }
    fault_disarm_all();
}

static void test_fault_disarm_forgets_all(void **state)
{
    (void)state;
    fault_arm("a", 1, 100);
    fault_arm("b", 1, 100);
    assert_true(fault_hit("a"));
    assert_true(fault_hit("b"));
    fault_disarm_all();
    assert_false(fault_hit("a"));
    assert_false(fault_hit("b"));
}

static void test_fault_any_fails_whichever_is_hit_and_says_which(void **state)
{
    (void)state;
    static const bool expected[] = {false, false, true, true, false};
    static const char *const points[] = {"a", "b", "b", "c", "a"};
    fault_disarm_all();
    fault_arm_any(3, 2);
    assert_null(fault_failed());
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fault_hit(points[i]), expected[i]);
    }
    assert_string_equal(fault_failed(), "c");
    fault_arm_any(1, 1);
    assert_null(fault_failed());
    fault_disarm_all();
}

static void test_fault_counts_no_hit_while_it_is_held(void **state)
{
    (void)state;
    fault_disarm_all();
    fault_arm("a", 1, 1);
    fault_arm_any(2, 1);
    fault_hold(true);
    for (int i = 0; i < 5; i++) {
        assert_false(fault_hit("a"));
    }
    fault_hold(false);
    assert_false(fault_hit("b"));
    assert_true(fault_hit("b"));
    assert_true(fault_hit("a"));
    fault_hold(true);
    fault_disarm_all();
    fault_arm("a", 1, 1);
    assert_true(fault_hit("a"));
    fault_disarm_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fault_is_off_until_armed),
        cmocka_unit_test(test_fault_fails_the_chosen_hits),
        cmocka_unit_test(test_fault_disarm_forgets_all),
        cmocka_unit_test(test_fault_any_fails_whichever_is_hit_and_says_which),
        cmocka_unit_test(test_fault_counts_no_hit_while_it_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
