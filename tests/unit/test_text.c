/* test_text – bytes that grow at their end: what is added is there, and a failure is kept in mind. */

#include "base/text.h"

#include "base/fault.h"
#include "base/random.h"
#include "test_seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_text_is_empty_at_first_and_after_its_end(void **state)
{
    struct text text = {0};
    (void)state;
    text_add(&text, slice_of(NULL, 0));
    assert_int_equal(text_slice(&text).length_bytes, 0);
    text_fini(&text);
    text_add_text(&text, "abc");
    text_fini(&text);
    assert_null(text.data);
    assert_int_equal(text.length_bytes, 0);
    assert_false(text.failed);
    text_fini(&text);
}

static void test_text_keeps_what_was_added_in_order(void **state)
{
    static uint8_t expected[200000];
    struct text text = {0};
    struct random random;
    size_t length = 0;
    (void)state;
    random_init(&random, test_seed());
    while (length + 700 < sizeof(expected)) {
        size_t part = random_below(&random, 700);
        for (size_t i = 0; i < part; i++) {
            expected[length + i] = (uint8_t)random_u64(&random);
        }
        text_add(&text, slice_of(expected + length, part));
        length += part;
    }
    assert_false(text.failed);
    assert_true(slice_equal(text_slice(&text), slice_of(expected, length)));
    text_fini(&text);
}

static void test_text_takes_nothing_after_a_failure(void **state)
{
    struct text text = {0};
    (void)state;
    text_add_text(&text, "before");
    fault_arm("base.text", 1, 1);
    text_add_text(&text, "lost");
    fault_disarm_all();
    assert_true(text.failed);
    text_add_text(&text, "after");
    assert_true(slice_equal(text_slice(&text), slice_of_text("before")));
    text_fini(&text);
    assert_false(text.failed);
}

static void test_text_is_bounded(void **state)
{
    struct text text = {0};
    uint8_t *much = calloc(1, TEXT_BYTES_MAX / 2 + 1);
    (void)state;
    assert_non_null(much);
    text_add(&text, slice_of(much, TEXT_BYTES_MAX / 2));
    text_add(&text, slice_of(much, TEXT_BYTES_MAX / 2));
    assert_false(text.failed);
    assert_int_equal(text.length_bytes, TEXT_BYTES_MAX);
    text_add(&text, slice_of(much, 1));
    assert_true(text.failed);
    text_fini(&text);
    /* A length that would wrap around. */
    text_add_text(&text, "x");
    text_add(&text, slice_of(much, SIZE_MAX));
    assert_true(text.failed);
    text_fini(&text);
    free(much);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_empty_at_first_and_after_its_end),
        cmocka_unit_test(test_text_keeps_what_was_added_in_order),
        cmocka_unit_test(test_text_takes_nothing_after_a_failure),
        cmocka_unit_test(test_text_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
