/* test_copy – payload copies are whole at every length and place, and counted. */

#include "base/copy.h"

#include <pthread.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define GUARD_BYTES 128
#define AREA_BYTES  (COPY_STREAM_BYTES_MIN + 1024)

static void assert_copies(size_t to_offset, size_t from_offset, size_t length_bytes)
{
    uint8_t *from = test_malloc(AREA_BYTES);
    uint8_t *to = test_malloc(AREA_BYTES + GUARD_BYTES);
    for (size_t i = 0; i < AREA_BYTES; i++) {
        from[i] = (uint8_t)(i * 31 + i / 251);
    }
    memset(to, 0xee, AREA_BYTES + GUARD_BYTES);
    uint64_t before_bytes = copy_payload_bytes();
    copy_payload(to + to_offset, from + from_offset, length_bytes);
    assert_int_equal(copy_payload_bytes() - before_bytes, length_bytes);
    assert_memory_equal(to + to_offset, from + from_offset, length_bytes);
    for (size_t i = 0; i < to_offset; i++) {
        assert_int_equal(to[i], 0xee);
    }
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        assert_int_equal(to[to_offset + length_bytes + i], 0xee);
    }
    test_free(from);
    test_free(to);
}

static void test_copy_short_ones_are_whole(void **state)
{
    (void)state;
    for (size_t length_bytes = 0; length_bytes < 80; length_bytes++) {
        assert_copies(3, 1, length_bytes);
    }
}

static void test_copy_streamed_ones_are_whole_at_any_place(void **state)
{
    (void)state;
    static const size_t offsets[] = {0, 1, 15, 16, 31, 63, 64, 65};
    for (size_t i = 0; i < 8; i++) {
        for (size_t extra = 0; extra < 130; extra += 13) {
            assert_copies(offsets[i], offsets[7 - i], COPY_STREAM_BYTES_MIN + extra);
        }
    }
}

static void test_copy_nothing_from_nowhere(void **state)
{
    (void)state;
    copy_payload(NULL, NULL, 0);
    assert_copies(0, 0, COPY_STREAM_BYTES_MIN - 1);
}

static void *copy_elsewhere(void *argument)
{
    uint64_t *counted_p = argument;
    char from[64] = {0};
    char to[64];
    copy_payload(to, from, sizeof(from));
    *counted_p = copy_payload_bytes();
    return NULL;
}

static void test_copy_is_counted_by_thread(void **state)
{
    (void)state;
    uint64_t before_bytes = copy_payload_bytes();
    uint64_t counted_bytes = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, copy_elsewhere, &counted_bytes), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(counted_bytes, 64);
    assert_int_equal(copy_payload_bytes(), before_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_short_ones_are_whole),
        cmocka_unit_test(test_copy_streamed_ones_are_whole_at_any_place),
        cmocka_unit_test(test_copy_nothing_from_nowhere),
        cmocka_unit_test(test_copy_is_counted_by_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
