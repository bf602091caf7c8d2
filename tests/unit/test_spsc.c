/* test_spsc – the ring between two cores, alone and with two threads. */

#include "base/spsc.h"

#include <pthread.h>
#include <sched.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MESSAGE_COUNT 300000

static void test_spsc_keeps_the_order(void **state)
{
    (void)state;
    int numbers[3] = {0};
    struct spsc *ring = spsc_create(4);
    assert_non_null(ring);
    assert_true(spsc_empty(ring));
    assert_null(spsc_pop(ring));
    for (int i = 0; i < 3; i++) {
        assert_true(spsc_push(ring, &numbers[i]));
    }
    assert_false(spsc_empty(ring));
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(spsc_pop(ring), &numbers[i]);
    }
    assert_null(spsc_pop(ring));
    assert_true(spsc_empty(ring));
    spsc_destroy(&ring);
    assert_null(ring);
    spsc_destroy(&ring);
}

static void test_spsc_full_takes_nothing(void **state)
{
    (void)state;
    int numbers[5] = {0};
    struct spsc *ring = spsc_create(3); /* rounded up to four */
    for (int i = 0; i < 4; i++) {
        assert_true(spsc_push(ring, &numbers[i]));
    }
    assert_false(spsc_push(ring, &numbers[4]));
    assert_ptr_equal(spsc_pop(ring), &numbers[0]);
    assert_true(spsc_push(ring, &numbers[4]));
    for (int i = 1; i < 5; i++) {
        assert_ptr_equal(spsc_pop(ring), &numbers[i]);
    }
    assert_null(spsc_pop(ring));
    spsc_destroy(&ring);
}

static void test_spsc_of_one_works_round_and_round(void **state)
{
    (void)state;
    int number = 0;
    struct spsc *ring = spsc_create(1);
    for (int i = 0; i < 1000; i++) {
        assert_true(spsc_push(ring, &number));
        assert_false(spsc_push(ring, &number));
        assert_ptr_equal(spsc_pop(ring), &number);
        assert_null(spsc_pop(ring));
    }
    spsc_destroy(&ring);
}

struct crossing {
    struct spsc *ring;
    int *messages;
};

static void *produce(void *argument)
{
    struct crossing *crossing = argument;
    for (int i = 0; i < MESSAGE_COUNT; i++) {
        /* A plain write: the ring must publish it to the consumer. */
        crossing->messages[i] = i + 1;
        while (!spsc_push(crossing->ring, &crossing->messages[i])) {
            (void)sched_yield();
        }
    }
    return NULL;
}

static void test_spsc_two_threads_lose_and_reorder_nothing(void **state)
{
    (void)state;
    struct crossing crossing = {.ring = spsc_create(64),
                                .messages = test_calloc(MESSAGE_COUNT, sizeof(int))};
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, &crossing), 0);
    for (int i = 0; i < MESSAGE_COUNT; i++) {
        const int *message = NULL;
        while ((message = spsc_pop(crossing.ring)) == NULL) {
            (void)sched_yield();
        }
        assert_ptr_equal(message, &crossing.messages[i]);
        assert_int_equal(*message, i + 1);
    }
    assert_int_equal(pthread_join(producer, NULL), 0);
    assert_true(spsc_empty(crossing.ring));
    test_free(crossing.messages);
    spsc_destroy(&crossing.ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spsc_keeps_the_order),
        cmocka_unit_test(test_spsc_full_takes_nothing),
        cmocka_unit_test(test_spsc_of_one_works_round_and_round),
        cmocka_unit_test(test_spsc_two_threads_lose_and_reorder_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
