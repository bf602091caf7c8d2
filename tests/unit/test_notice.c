/* test_notice – what is wanted comes back in order, once; what does not fit is said to be lost. */

#include "store/notice.h"

#include "base/fault.h"

#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct heard {
    unsigned count;
    enum notice_kind kinds[64];
    char keys[64][16];
};

static void hear(void *argument, enum notice_kind kind, uint8_t database, struct slice key)
{
    struct heard *heard = argument;
    if (heard->count < 64) {
        heard->kinds[heard->count] = kind;
        (void)snprintf(heard->keys[heard->count], sizeof(heard->keys[0]), "%u%.*s",
                       (unsigned)database, (int)key.length_bytes, (const char *)key.data);
    }
    heard->count++;
}

static void test_notice_only_wanted_classes_are_kept_in_order(void **state)
{
    struct notice_queue queue = {.classes = NOTICE_STRING | NOTICE_EXPIRY};
    struct heard heard = {0};
    (void)state;

    notice_add(&queue, NOTICE_SET, 0, slice_of_text("a"));
    notice_add(&queue, NOTICE_DEL, 0, slice_of_text("b"));
    notice_add(&queue, NOTICE_EXPIRED, 3, slice_of_text(""));
    bool lost = notice_take(&queue, hear, &heard);

    assert_false(lost);
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.kinds[0], NOTICE_SET);
    assert_string_equal(heard.keys[0], "0a");
    assert_int_equal(heard.kinds[1], NOTICE_EXPIRED);
    assert_string_equal(heard.keys[1], "3");
    notice_fini(&queue);
}

static void test_notice_taken_ones_are_forgotten(void **state)
{
    struct notice_queue queue = {.classes = NOTICE_STRING};
    struct heard heard = {0};
    (void)state;

    notice_add(&queue, NOTICE_SET, 0, slice_of_text("a"));
    (void)notice_take(&queue, hear, &heard);
    notice_add(&queue, NOTICE_APPEND, 0, slice_of_text("b"));
    (void)notice_take(&queue, hear, &heard);
    (void)notice_take(&queue, hear, &heard);

    assert_int_equal(heard.count, 2);
    notice_fini(&queue);
}

static void test_notice_too_many_are_lost_once_and_said_so(void **state)
{
    static const char key[1000] = "x";
    struct notice_queue queue = {.classes = NOTICE_STRING};
    struct heard heard = {0};
    unsigned added = NOTICE_BYTES_MAX / sizeof(key) + 10;
    (void)state;

    for (unsigned i = 0; i < added; i++) {
        notice_add(&queue, NOTICE_SET, 0, slice_of(key, sizeof(key)));
    }
    size_t capacity_bytes = queue.capacity_bytes;
    bool lost = notice_take(&queue, hear, &heard);
    notice_add(&queue, NOTICE_SET, 0, slice_of_text("a"));
    bool lost_again = notice_take(&queue, hear, &heard);

    assert_true(capacity_bytes <= NOTICE_BYTES_MAX);
    assert_true(lost);
    assert_true(heard.count > 1000 && heard.count < added);
    assert_false(lost_again);
    notice_fini(&queue);
}

static void test_notice_no_memory_is_a_loss(void **state)
{
    struct notice_queue queue = {.classes = NOTICE_STRING};
    struct heard heard = {0};
    (void)state;

    fault_arm("store.notices", 1, 1);
    notice_add(&queue, NOTICE_SET, 0, slice_of_text("a"));
    fault_disarm_all();

    assert_true(notice_take(&queue, hear, &heard));
    assert_int_equal(heard.count, 0);
    notice_fini(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notice_only_wanted_classes_are_kept_in_order),
        cmocka_unit_test(test_notice_taken_ones_are_forgotten),
        cmocka_unit_test(test_notice_too_many_are_lost_once_and_said_so),
        cmocka_unit_test(test_notice_no_memory_is_a_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
