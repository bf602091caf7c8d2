/* Two threads that add to one plain number through a gate lose nothing. */

#include "base/gate.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the headers above. */
#include <cmocka.h>

#define ROUNDS 200000

struct shared {
    struct gate gate;
    uint64_t number;
};

static void *add(void *argument)
{
    struct shared *shared = argument;
    for (int i = 0; i < ROUNDS; i++) {
        gate_enter(&shared->gate);
        shared->number++;
        gate_leave(&shared->gate);
    }
    return NULL;
}

static void test_gate_lets_one_in_at_a_time(void **state)
{
    struct shared shared = {.number = 0};
    pthread_t other;
    (void)state;
    gate_init(&shared.gate);
    assert_int_equal(pthread_create(&other, NULL, add, &shared), 0);
    (void)add(&shared);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(shared.number, 2 * ROUNDS);
}

static void test_gate_try_fails_while_taken(void **state)
{
    struct gate gate;
    (void)state;
    gate_init(&gate);
    assert_true(gate_try(&gate));
    assert_false(gate_try(&gate));
    gate_leave(&gate);
    assert_true(gate_try(&gate));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate_lets_one_in_at_a_time),
        cmocka_unit_test(test_gate_try_fails_while_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
