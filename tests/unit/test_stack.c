/* test_stack – the free list shared by all cores. */

#include "base/stack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NUMBER_COUNT 8
#define ROUND_COUNT  100000

static void test_stack_gives_the_last_first(void **state)
{
    (void)state;
    uint32_t number = 99;
    struct stack *stack = stack_create(3);
    assert_non_null(stack);
    assert_false(stack_pop(stack, &number));
    assert_int_equal(number, 99);
    for (uint32_t n = 0; n < 3; n++) {
        stack_push(stack, n);
        assert_int_equal(stack_count(stack), n + 1);
    }
    for (uint32_t n = 3; n-- > 0;) {
        assert_true(stack_pop(stack, &number));
        assert_int_equal(number, n);
    }
    assert_false(stack_pop(stack, &number));
    assert_int_equal(stack_count(stack), 0);
    stack_destroy(&stack);
    assert_null(stack);
    stack_destroy(&stack);
}

static void test_stack_of_nothing_is_empty(void **state)
{
    (void)state;
    uint32_t number;
    struct stack *stack = stack_create(0);
    assert_non_null(stack);
    assert_false(stack_pop(stack, &number));
    stack_destroy(&stack);
}

struct sharing {
    struct stack *stack;
    _Atomic uint32_t holders[NUMBER_COUNT]; /* how many threads hold the number */
    _Atomic uint32_t clash_count;
};

/* Holds up to three numbers at a time, so that a number leaves and comes back while the other
 * thread looks at its successor. */
static void *pop_and_push(void *argument)
{
    struct sharing *sharing = argument;
    uint32_t held[3];
    uint32_t held_count = 0;
    for (int i = 0; i < ROUND_COUNT; i++) {
        uint32_t number;
        if (held_count < 3 && stack_pop(sharing->stack, &number)) {
            if (atomic_fetch_add(&sharing->holders[number], 1) != 0) {
                atomic_fetch_add(&sharing->clash_count, 1);
            }
            held[held_count++] = number;
        }
        if (held_count == 3 || (held_count > 0 && i % 3 == 0)) {
            number = held[--held_count];
            atomic_fetch_sub(&sharing->holders[number], 1);
            stack_push(sharing->stack, number);
        }
    }
    while (held_count > 0) {
        held_count--;
        atomic_fetch_sub(&sharing->holders[held[held_count]], 1);
        stack_push(sharing->stack, held[held_count]);
    }
    return NULL;
}

static void test_stack_two_threads_never_hold_the_same_number(void **state)
{
    (void)state;
    struct sharing sharing = {.stack = stack_create(NUMBER_COUNT)};
    for (uint32_t n = 0; n < NUMBER_COUNT; n++) {
        stack_push(sharing.stack, n);
    }
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, pop_and_push, &sharing), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(sharing.clash_count, 0);
    assert_int_equal(stack_count(sharing.stack), NUMBER_COUNT);
    bool seen[NUMBER_COUNT] = {false};
    uint32_t number;
    for (uint32_t n = 0; n < NUMBER_COUNT; n++) {
        assert_true(stack_pop(sharing.stack, &number));
        assert_false(seen[number]);
        seen[number] = true;
    }
    assert_false(stack_pop(sharing.stack, &number));
    stack_destroy(&sharing.stack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stack_gives_the_last_first),
        cmocka_unit_test(test_stack_of_nothing_is_empty),
        cmocka_unit_test(test_stack_two_threads_never_hold_the_same_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
