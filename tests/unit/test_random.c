/* test_random – the generator is the published one, seeded, and uniform below a bound. */

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_random_gives_the_published_sequence(void **state)
{
    (void)state;
    /* First outputs of xoshiro256** from the state 1, 2, 3, 4. */
    static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240};
    struct random random = {.state = {1, 2, 3, 4}};
    for (int i = 0; i < 4; i++) {
        assert_true(random_u64(&random) == expected[i]);
    }
}

static void test_random_seeds_as_published(void **state)
{
    (void)state;
    /* First output of SplitMix64 from 0 and from 1. */
    struct random random;
    random_init(&random, 0);
    assert_true(random.state[0] == 0xe220a8397b1dcdafU);
    random_init(&random, 1);
    assert_true(random.state[0] == 0x910a2dec89025cc1U);
}

static void test_random_repeats_from_the_same_seed(void **state)
{
    (void)state;
    struct random a;
    struct random b;
    struct random other;
    random_init(&a, 5);
    random_init(&b, 5);
    random_init(&other, 6);
    unsigned same_count = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t drawn = random_u64(&a);
        assert_true(drawn == random_u64(&b));
        same_count += drawn == random_u64(&other);
    }
    assert_int_equal(same_count, 0);
}

static void test_random_below_hits_every_number_about_equally(void **state)
{
    (void)state;
    unsigned hits[7] = {0};
    struct random random;
    random_init(&random, 1);
    for (int i = 0; i < 70000; i++) {
        uint64_t drawn = random_below(&random, 7);
        assert_true(drawn < 7);
        hits[drawn]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(hits[i], 9500, 10500);
    }
}

static void test_random_below_has_no_bias_for_a_huge_bound(void **state)
{
    (void)state;
    /* By plain remainder the lower third would come twice as often as each other third. */
    uint64_t bound = UINT64_MAX / 3 * 2;
    unsigned low_count = 0;
    struct random random;
    random_init(&random, 2);
    for (int i = 0; i < 30000; i++) {
        low_count += random_below(&random, bound) < bound / 2;
    }
    assert_in_range(low_count, 14500, 15500);
    assert_int_equal(random_below(&random, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_gives_the_published_sequence),
        cmocka_unit_test(test_random_seeds_as_published),
        cmocka_unit_test(test_random_repeats_from_the_same_seed),
        cmocka_unit_test(test_random_below_hits_every_number_about_equally),
        cmocka_unit_test(test_random_below_has_no_bias_for_a_huge_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
