/* test_checksum – the sum over a value's pieces, in one go and in slices, is the sum of its bytes. */

#include "server/checksum.h"

#include "test_shard_fixture.h"

#include <xxhash.h>

/* Reserves a value, fills it, and returns the sum of what was written. */
static struct value *filled_value(struct fixture *fixture, uint64_t length_bytes, uint64_t *sum_p)
{
    struct op op = fixture_op(OP_RESERVE, "k");
    struct layout_cursor cursor;
    struct iovec piece;
    uint8_t *flat = malloc(length_bytes > 0 ? length_bytes : 1);
    size_t at = 0;
    assert_non_null(flat);
    for (uint64_t i = 0; i < length_bytes; i++) {
        flat[i] = (uint8_t)(i * 31 + i / 257);
    }
    op.put.length_bytes = length_bytes;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    layout_cursor_init(&cursor, fixture->payload, &op.value->layout, length_bytes);
    while ((piece = layout_cursor_peek(&cursor)).iov_len > 0) {
        memcpy(piece.iov_base, flat + at, piece.iov_len);
        at += piece.iov_len;
        layout_cursor_skip(&cursor, piece.iov_len);
    }
    *sum_p = XXH3_64bits(flat, length_bytes);
    free(flat);
    return op.value;
}

static void give_back(struct fixture *fixture, struct value *value)
{
    struct op op = fixture_op(OP_ABORT, "k");
    op.value = value;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
}

static void test_checksum_of_short_values_is_there_at_once(void **state)
{
    static const uint64_t lengths[] = {0, 1, 5000, FIXTURE_PAGE_BYTES, 300001};
    struct fixture *fixture = fixture_create(&(struct fixture_options){0});
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint64_t expected;
        uint64_t sum = 0;
        struct checksum *under_way = NULL;
        struct value *value = filled_value(fixture, lengths[i], &expected);
        assert_int_equal(checksum_advance(&under_way, fixture->payload, value, &sum), KVASIR_OK);
        assert_int_equal(sum, expected);
        assert_null(under_way);
        give_back(fixture, value);
    }
    fixture_destroy(fixture);
}

static void test_checksum_of_a_long_value_takes_turns(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){.payload_bytes = 24U << 20});
    uint64_t expected;
    uint64_t sum = 0;
    struct checksum *under_way = NULL;
    struct value *value = filled_value(fixture, (9U << 20) + 17, &expected);
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(checksum_advance(&under_way, fixture->payload, value, &sum),
                         KVASIR_PENDING);
        assert_non_null(under_way);
    }
    assert_int_equal(checksum_advance(&under_way, fixture->payload, value, &sum), KVASIR_OK);
    assert_int_equal(sum, expected);
    assert_null(under_way);
    give_back(fixture, value);
    fixture_destroy(fixture);
}

static void test_checksum_can_be_given_up(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){.payload_bytes = 24U << 20});
    uint64_t expected;
    uint64_t sum = 0;
    struct checksum *under_way = NULL;
    struct value *value = filled_value(fixture, 9U << 20, &expected);
    (void)state;
    fault_arm("server.checksum", 1, 1);
    assert_int_equal(checksum_advance(&under_way, fixture->payload, value, &sum), KVASIR_NO_MEMORY);
    assert_null(under_way);
    fault_disarm_all();
    assert_int_equal(checksum_advance(&under_way, fixture->payload, value, &sum), KVASIR_PENDING);
    checksum_destroy(&under_way);
    assert_null(under_way);
    checksum_destroy(&under_way);
    give_back(fixture, value);
    fixture_destroy(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksum_of_short_values_is_there_at_once),
        cmocka_unit_test(test_checksum_of_a_long_value_takes_turns),
        cmocka_unit_test(test_checksum_can_be_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
