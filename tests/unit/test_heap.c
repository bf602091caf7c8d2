/* test_heap – the heap of deadlines, against a plain search. */

#include "base/heap.h"

#include "base/random.h"
#include "test_seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MEMBER_COUNT 64

static void test_heap_gives_the_earliest_first(void **state)
{
    (void)state;
    struct heap heap;
    struct heap_member *places[MEMBER_COUNT];
    heap_init(&heap, places, MEMBER_COUNT);
    assert_null(heap_find_first(&heap));
    struct heap_member members[5];
    static const int64_t deadlines[] = {30, 10, 50, 20, 40};
    for (int i = 0; i < 5; i++) {
        members[i] = (struct heap_member){.deadline_us = deadlines[i], .place = HEAP_NONE};
        assert_true(heap_push(&heap, &members[i]));
    }
    for (int64_t expected = 10; expected <= 50; expected += 10) {
        struct heap_member *first = heap_find_first(&heap);
        assert_int_equal(first->deadline_us, expected);
        heap_remove(&heap, first);
        assert_int_equal(first->place, HEAP_NONE);
    }
    assert_null(heap_find_first(&heap));
}

static void test_heap_refuses_what_does_not_fit(void **state)
{
    (void)state;
    struct heap heap;
    struct heap_member a = {.deadline_us = 1, .place = HEAP_NONE};
    struct heap_member b = {.deadline_us = 2, .place = HEAP_NONE};
    struct heap_member *places[1];
    heap_init(&heap, places, 1);
    assert_true(heap_push(&heap, &a));
    assert_false(heap_push(&heap, &b));
    assert_int_equal(b.place, HEAP_NONE);
    heap_remove(&heap, &a);
    assert_true(heap_push(&heap, &b));
}

static struct heap_member *find_earliest(struct heap_member *members)
{
    struct heap_member *earliest = NULL;
    for (int i = 0; i < MEMBER_COUNT; i++) {
        if (members[i].place != HEAP_NONE &&
            (earliest == NULL || members[i].deadline_us < earliest->deadline_us)) {
            earliest = &members[i];
        }
    }
    return earliest;
}

static void test_heap_agrees_with_a_search_under_random_moves(void **state)
{
    (void)state;
    struct heap heap;
    struct random random;
    struct heap_member members[MEMBER_COUNT];
    random_init(&random, test_seed());
    struct heap_member *places[MEMBER_COUNT];
    heap_init(&heap, places, MEMBER_COUNT);
    for (int i = 0; i < MEMBER_COUNT; i++) {
        members[i].place = HEAP_NONE;
    }
    for (int step = 0; step < 20000; step++) {
        struct heap_member *member = &members[random_below(&random, MEMBER_COUNT)];
        if (member->place == HEAP_NONE) {
            /* Few deadlines, so that many are equal. */
            member->deadline_us = (int64_t)random_below(&random, 40) - 20;
            assert_true(heap_push(&heap, member));
        } else {
            heap_remove(&heap, member);
        }
        struct heap_member *expected = find_earliest(members);
        struct heap_member *first = heap_find_first(&heap);
        assert_true((expected == NULL) == (first == NULL));
        if (expected != NULL) {
            assert_int_equal(first->deadline_us, expected->deadline_us);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heap_gives_the_earliest_first),
        cmocka_unit_test(test_heap_refuses_what_does_not_fit),
        cmocka_unit_test(test_heap_agrees_with_a_search_under_random_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
