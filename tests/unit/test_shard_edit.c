/* Unit tests of store/shard_edit: numbers, APPEND, SETRANGE. */
#include "test_shard_fixture.h"

static void test_shard_edit_add_counts_from_nothing_and_keeps_the_expiry(void **state)
{
    struct fixture *fixture = *state;
    struct op op = fixture_op(OP_ADD, "n");
    op.delta = -5;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(op.integer, -5);
    fixture_assert_value(fixture, "n", "-5");
    struct op expire = fixture_op(OP_EXPIRE, "n");
    expire.expires_at_ms = fixture->now.wall_ms + 1000;
    assert_int_equal(fixture_run(fixture, &expire), KVASIR_OK);
    op.delta = 105;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(op.integer, 100);
    struct op look = fixture_op(OP_EXISTS, "n");
    assert_int_equal(fixture_run(fixture, &look), KVASIR_OK);
    assert_true(look.expires_at_ms == fixture->now.wall_ms + 1000);
    assert_int_equal(fixture_stats(fixture).value_count, 1);
}

static void test_shard_edit_add_refuses_what_is_no_integer(void **state)
{
    struct fixture *fixture = *state;
    const char *const texts[] = {"",
                                 " 1",
                                 "1 ",
                                 "+1",
                                 "01",
                                 "1.0",
                                 "x",
                                 "9223372036854775808",
                                 "1111111111111111111111111111"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        (void)fixture_set(fixture, "n", texts[i]);
        struct op op = fixture_op(OP_ADD, "n");
        op.delta = 1;
        assert_int_equal(fixture_run(fixture, &op), KVASIR_INVALID);
        fixture_assert_value(fixture, "n", texts[i]);
    }
}

static void test_shard_edit_add_refuses_overflow(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "n", "9223372036854775807");
    struct op op = fixture_op(OP_ADD, "n");
    op.delta = 1;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_TOO_LARGE);
    fixture_assert_value(fixture, "n", "9223372036854775807");
    op.delta = INT64_MIN;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    fixture_assert_value(fixture, "n", "-1");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_TOO_LARGE);
}

static void add_float(struct fixture *fixture, long double delta, const char *expected)
{
    struct op op = fixture_op(OP_ADD_FLOAT, "f");
    op.delta_float = delta;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    fixture_assert_bytes(fixture, op.value, slice_of_text(expected));
    shard_unpin(fixture->shard, &op.value);
    fixture_assert_value(fixture, "f", expected);
}

static void test_shard_edit_add_float_writes_as_redis_does(void **state)
{
    struct fixture *fixture = *state;
    add_float(fixture, 10.50L, "10.5");
    add_float(fixture, 0.1L, "10.6");
    add_float(fixture, -5.6L, "5");
    add_float(fixture, 200.0L, "205");
    add_float(fixture, -205.0L, "0");
    (void)fixture_set(fixture, "f", "5.0e3");
    add_float(fixture, 200.0L, "5200");
    (void)fixture_set(fixture, "f", "1e18");
    add_float(fixture, 1.0L, "1000000000000000001");
    (void)fixture_set(fixture, "f", "0");
    add_float(fixture, -1e-30L, "0");
}

static void test_shard_edit_add_float_refuses_what_is_no_float(void **state)
{
    struct fixture *fixture = *state;
    const char *const texts[] = {"", " 1", "1 ", "abc", "nan", "1e", "1e99999"};
    struct op op = fixture_op(OP_ADD_FLOAT, "f");
    op.delta_float = 1;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        (void)fixture_set(fixture, "f", texts[i]);
        assert_int_equal(fixture_run(fixture, &op), KVASIR_INVALID);
        assert_null(op.value);
    }
    (void)fixture_set(fixture, "f", "inf");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_TOO_LARGE);
    assert_int_equal(fixture_fill(fixture, "f", 6000), KVASIR_OK);
    assert_int_equal(fixture_run(fixture, &op), KVASIR_INVALID);
}

static enum kvasir_status append(struct fixture *fixture, struct slice bytes, int64_t *length_p)
{
    struct op op = fixture_op(OP_APPEND, "a");
    op.payload = bytes;
    enum kvasir_status status = fixture_run(fixture, &op);
    *length_p = op.integer;
    return status;
}

static void test_shard_edit_append_extends_across_pages(void **state)
{
    struct fixture *fixture = *state;
    const size_t part_bytes = 30001;
    const size_t total_bytes = 6 * part_bytes;
    uint8_t *bytes = malloc(total_bytes);
    assert_non_null(bytes);
    for (size_t i = 0; i < total_bytes; i++) {
        bytes[i] = (uint8_t)(i * 131 + (i >> 8));
    }
    int64_t length = -1;
    assert_int_equal(append(fixture, slice_of(NULL, 0), &length), KVASIR_OK);
    assert_int_equal(length, 0);
    fixture_assert_value(fixture, "a", "");
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(append(fixture, slice_of(bytes + i * part_bytes, part_bytes), &length),
                         KVASIR_OK);
        assert_int_equal(length, (i + 1) * part_bytes);
    }
    struct op op = fixture_op(OP_GET, "a");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    fixture_assert_bytes(fixture, op.value, slice_of(bytes, total_bytes));
    shard_unpin(fixture->shard, &op.value);
    free(bytes);
}

static void test_shard_edit_append_stops_at_the_limit(void **state)
{
    struct fixture *fixture = *state;
    int64_t length;
    assert_int_equal(fixture_fill(fixture, "a", 1U << 20), KVASIR_OK);
    assert_int_equal(append(fixture, slice_of_text("x"), &length), KVASIR_TOO_LARGE);
    struct op op = fixture_op(OP_EXISTS, "a");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(op.integer, 1U << 20);
}

static int64_t set_range(struct fixture *fixture, uint64_t offset_bytes, const char *text)
{
    struct op op = fixture_op(OP_SET_RANGE, "r");
    op.offset_bytes = offset_bytes;
    op.payload = slice_of_text(text);
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    return op.integer;
}

static void test_shard_edit_set_range_overlays_and_pads_with_zeroes(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(set_range(fixture, 5, ""), 0);
    assert_false(fixture_has(fixture, "r"));
    assert_int_equal(set_range(fixture, 0, "Hello World"), 11);
    assert_int_equal(set_range(fixture, 6, "Redis"), 11);
    fixture_assert_value(fixture, "r", "Hello Redis");
    assert_int_equal(set_range(fixture, 1, "i"), 11);
    fixture_assert_value(fixture, "r", "Hillo Redis");
    assert_int_equal(set_range(fixture, 3, ""), 11);
    assert_int_equal(set_range(fixture, 13, "!"), 14);
    struct op op = fixture_op(OP_GET, "r");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    fixture_assert_bytes(fixture, op.value, slice_of("Hillo Redis\0\0!", 14));
    shard_unpin(fixture->shard, &op.value);
}

static void test_shard_edit_set_range_on_nothing_pads_fresh_memory(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "dirt", "dirtdirtdirt");
    (void)fixture_simple(fixture, OP_REMOVE, "dirt");
    assert_int_equal(set_range(fixture, 4, "x"), 5);
    struct op op = fixture_op(OP_GET, "r");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    fixture_assert_bytes(fixture, op.value, slice_of("\0\0\0\0x", 5));
    shard_unpin(fixture->shard, &op.value);
    op = fixture_op(OP_SET_RANGE, "r");
    op.payload = slice_of_text("xy");
    op.offset_bytes = UINT64_MAX;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_TOO_LARGE);
    op.offset_bytes = (1U << 20) - 1;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_TOO_LARGE);
}

static void test_shard_edit_leaves_a_pinned_value_as_it_was(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "r", "before");
    struct op op = fixture_op(OP_GET, "r");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(set_range(fixture, 0, "BE"), 6);
    fixture_assert_bytes(fixture, op.value, slice_of_text("before"));
    fixture_assert_value(fixture, "r", "BEfore");
    shard_unpin(fixture->shard, &op.value);
}

static void test_shard_edit_without_memory_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "n", "41");
    struct op op = fixture_op(OP_ADD, "n");
    op.delta = 1;
    fault_arm("store.payload", 1, 100);
    assert_int_equal(fixture_run(fixture, &op), KVASIR_NO_MEMORY);
    fault_disarm_all();
    fixture_assert_value(fixture, "n", "41");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(op.integer, 42);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shard_edit_add_counts_from_nothing_and_keeps_the_expiry),
        TEST(test_shard_edit_add_refuses_what_is_no_integer),
        TEST(test_shard_edit_add_refuses_overflow),
        TEST(test_shard_edit_add_float_writes_as_redis_does),
        TEST(test_shard_edit_add_float_refuses_what_is_no_float),
        TEST(test_shard_edit_append_extends_across_pages),
        TEST(test_shard_edit_append_stops_at_the_limit),
        TEST(test_shard_edit_set_range_overlays_and_pads_with_zeroes),
        TEST(test_shard_edit_set_range_on_nothing_pads_fresh_memory),
        TEST(test_shard_edit_leaves_a_pinned_value_as_it_was),
        TEST(test_shard_edit_without_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
