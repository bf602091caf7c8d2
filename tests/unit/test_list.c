/* test_list – the intrusive list. */

#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
    int number;
    struct list link;
};

static void assert_numbers(struct list *head, const int *expected, int count)
{
    int i = 0;
    list_foreach (cursor, head) {
        assert_true(i < count);
        assert_int_equal(list_entry(cursor, struct item, link)->number, expected[i]);
        i++;
    }
    assert_int_equal(i, count);
}

static void test_list_keeps_the_order_of_its_pushes(void **state)
{
    (void)state;
    struct list head;
    struct item items[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    list_init(&head);
    assert_true(list_empty(&head));
    list_push_back(&head, &items[0].link);
    list_push_back(&head, &items[1].link);
    list_push_front(&head, &items[2].link);
    assert_false(list_empty(&head));
    assert_numbers(&head, (const int[]){3, 1, 2}, 3);
}

static void test_list_remove_twice_is_harmless(void **state)
{
    (void)state;
    struct list head;
    struct item items[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    list_init(&head);
    for (int i = 0; i < 3; i++) {
        list_push_back(&head, &items[i].link);
    }
    assert_true(list_linked(&items[1].link));
    list_remove(&items[1].link);
    list_remove(&items[1].link);
    assert_false(list_linked(&items[1].link));
    assert_numbers(&head, (const int[]){1, 3}, 2);
}

static void test_list_foreach_safe_lets_the_body_remove(void **state)
{
    (void)state;
    struct list head;
    struct item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    list_init(&head);
    for (int i = 0; i < 4; i++) {
        list_push_back(&head, &items[i].link);
    }
    list_foreach_safe (cursor, after, &head) {
        if (list_entry(cursor, struct item, link)->number % 2 == 0) {
            list_remove(cursor);
        }
    }
    assert_numbers(&head, (const int[]){1, 3}, 2);
}

static void test_list_splice_moves_all_to_the_back(void **state)
{
    (void)state;
    struct list to;
    struct list from;
    struct item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    list_init(&to);
    list_init(&from);
    list_splice_back(&to, &from);
    assert_true(list_empty(&to));
    for (int i = 0; i < 4; i++) {
        list_push_back(i < 2 ? &to : &from, &items[i].link);
    }
    list_splice_back(&to, &from);
    assert_true(list_empty(&from));
    assert_numbers(&to, (const int[]){0, 1, 2, 3}, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_keeps_the_order_of_its_pushes),
        cmocka_unit_test(test_list_remove_twice_is_harmless),
        cmocka_unit_test(test_list_foreach_safe_lets_the_body_remove),
        cmocka_unit_test(test_list_splice_moves_all_to_the_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
