/* test_event_ring – events come back in order, the oldest give way, and what is lost is told. */

#include "store/event_ring.h"

#include "base/fault.h"
#include "base/random.h"
#include "test_seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SHARD 5U

static void add(struct event_ring *ring, const char *key, int64_t us)
{
    const struct event event = {.kind = EVENT_SEALED, .length_bytes = 7, .database = 2};
    event_ring_add(ring, &event, slice_of_text(key), us);
}

static void test_event_ring_events_come_back_in_order(void **state)
{
    (void)state;
    struct event_ring *ring = event_ring_create(EVENT_RING_BYTES_MIN, SHARD, 1000);
    assert_null(event_ring_after(ring, 0));
    add(ring, "a", 2000);
    add(ring, "bb", 2000);
    const struct event *event = event_ring_after(ring, event_ring_lost(ring));
    assert_int_equal(event->number, 2000U << EVENT_SHARD_BITS | SHARD);
    assert_int_equal(event->key_length_bytes, 1);
    assert_int_equal(event->key[0], 'a');
    assert_int_equal(event->kind, EVENT_SEALED);
    assert_int_equal(event->length_bytes, 7);
    assert_int_equal(event->database, 2);
    assert_ptr_equal(event_ring_after(ring, event->number), event_ring_next(ring, event));
    event = event_ring_next(ring, event);
    assert_int_equal(event->number, 2001U << EVENT_SHARD_BITS | SHARD); /* no two are the same */
    assert_memory_equal(event->key, "bb", 2);
    assert_null(event_ring_next(ring, event));
    assert_null(event_ring_after(ring, event->number));
    event_ring_destroy(&ring);
}

static void test_event_ring_time_that_passed_does_not_come_again(void **state)
{
    (void)state;
    struct event_ring *ring = event_ring_create(EVENT_RING_BYTES_MIN, SHARD, 1000);
    event_ring_pass(ring, 5000);
    add(ring, "late", 4000);
    const struct event *event = event_ring_after(ring, 0);
    assert_true(event->number >= 5000U << EVENT_SHARD_BITS);
    event_ring_destroy(&ring);
}

static void test_event_ring_says_what_is_lost(void **state)
{
    (void)state;
    struct event_ring *ring = event_ring_create(EVENT_RING_BYTES_MIN, SHARD, 1000);
    assert_int_equal(event_ring_lost(ring) >> EVENT_SHARD_BITS, 1000);
    add(ring, "first", 2000);
    uint64_t first = event_ring_after(ring, 0)->number;
    assert_int_equal(event_ring_lost(ring) >> EVENT_SHARD_BITS, 1000);
    for (int i = 0; i < 20000; i++) {
        add(ring, "another", 3000 + i);
    }
    uint64_t lost = event_ring_lost(ring);
    assert_true(lost > first);
    const struct event *oldest = event_ring_after(ring, 0);
    assert_ptr_equal(oldest, event_ring_after(ring, lost));
    assert_int_equal(oldest->number >> EVENT_SHARD_BITS, (lost >> EVENT_SHARD_BITS) + 1);
    event_ring_destroy(&ring);
}

static void test_event_ring_no_memory_is_said(void **state)
{
    (void)state;
    assert_null(event_ring_create(EVENT_RING_BYTES_MIN - 1, SHARD, 0));
    fault_arm("store.events", 1, 1);
    assert_null(event_ring_create(EVENT_RING_BYTES_MIN, SHARD, 0));
    fault_disarm_all();
}

#define MODEL_EVENTS 4000U

/* Keys of all lengths against a plain array: the ring holds a tail of what was added, all of it. */
static void test_event_ring_holds_the_latest(void **state)
{
    (void)state;
    static uint8_t key[65000];
    static uint64_t numbers[MODEL_EVENTS];
    static uint32_t lengths[MODEL_EVENTS];
    struct random random;
    random_init(&random, test_seed());
    struct event_ring *ring = event_ring_create(EVENT_RING_BYTES_MIN, SHARD, 1000);
    for (uint32_t i = 0; i < MODEL_EVENTS; i++) {
        const struct event event = {.kind = EVENT_EVICTED, .length_bytes = i};
        uint64_t wanted = random_below(&random, 20) == 0 ? sizeof(key) : 100;
        lengths[i] = (uint32_t)random_below(&random, wanted);
        memset(key, (int)(i & 0xff), lengths[i]);
        event_ring_add(ring, &event, slice_of(key, lengths[i]), 1000);
        const struct event *last = event_ring_after(ring, i > 0 ? numbers[i - 1] : 0);
        assert_non_null(last);
        numbers[i] = last->number;
        /* From any event that is still there, all that follow are there. */
        uint32_t from = i - (uint32_t)random_below(&random, i < 50 ? i + 1 : 50);
        if (from == 0 || numbers[from] <= event_ring_lost(ring)) {
            continue;
        }
        const struct event *at = event_ring_after(ring, numbers[from - 1]);
        for (uint32_t j = from; j <= i; j++) {
            assert_non_null(at);
            assert_int_equal(at->length_bytes, j);
            assert_int_equal(at->key_length_bytes, lengths[j]);
            assert_true(lengths[j] == 0 ||
                        (at->key[0] == (j & 0xff) && at->key[lengths[j] - 1] == (j & 0xff)));
            at = event_ring_next(ring, at);
        }
        assert_null(at);
    }
    event_ring_destroy(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_ring_events_come_back_in_order),
        cmocka_unit_test(test_event_ring_time_that_passed_does_not_come_again),
        cmocka_unit_test(test_event_ring_says_what_is_lost),
        cmocka_unit_test(test_event_ring_no_memory_is_said),
        cmocka_unit_test(test_event_ring_holds_the_latest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
