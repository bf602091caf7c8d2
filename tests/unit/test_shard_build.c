/* Unit tests of store/shard_build and store/shard_bits: values that are built a step a turn, and bits. */
#include "test_shard_fixture.h"

#define LONG_BYTES (3U << 20)

static struct fixture_options roomy(void)
{
    return (struct fixture_options){.payload_bytes = 32U << 20};
}

static int setup_roomy(void **state)
{
    struct fixture_options options = roomy();
    *state = fixture_create(&options);
    return 0;
}

static enum kvasir_status step(struct fixture *fixture, struct op *op)
{
    shard_execute(fixture->shard, op, &fixture->now);
    return op->status;
}

/* Executes until the op no longer says PENDING; returns how often that was. */
static unsigned run_to_end(struct fixture *fixture, struct op *op)
{
    unsigned count = 1;
    while (step(fixture, op) == KVASIR_PENDING) {
        assert_true(++count < 100);
    }
    return count;
}

static uint8_t *set_long(struct fixture *fixture, const char *key, uint8_t seed)
{
    uint8_t *bytes = malloc(LONG_BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < LONG_BYTES; i++) {
        bytes[i] = (uint8_t)(i * 31 + i / 4096 + seed);
    }
    struct op op = fixture_op(OP_SET, key);
    op.payload = slice_of(bytes, LONG_BYTES);
    op.put.length_bytes = LONG_BYTES;
    (void)run_to_end(fixture, &op);
    assert_int_equal(op.status, KVASIR_OK);
    return bytes;
}

static struct value *pin(struct fixture *fixture, const char *key)
{
    struct op op = fixture_op(OP_GET, key);
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    return op.value;
}

static void assert_bytes(struct fixture *fixture, const char *key, const uint8_t *expected,
                         size_t length_bytes)
{
    struct value *value = pin(fixture, key);
    struct layout_cursor cursor;
    assert_int_equal(value->length_bytes, length_bytes);
    layout_cursor_init(&cursor, fixture->payload, &value->layout, value->length_bytes);
    for (size_t at = 0; at < length_bytes;) {
        struct iovec piece = layout_cursor_peek(&cursor);
        assert_memory_equal(piece.iov_base, expected + at, piece.iov_len);
        layout_cursor_skip(&cursor, piece.iov_len);
        at += piece.iov_len;
    }
    shard_unpin(fixture->shard, &value);
}

static void test_shard_build_copies_a_step_a_turn_and_keeps_what_is_known(void **state)
{
    struct fixture *fixture = *state;
    uint8_t *bytes = set_long(fixture, "from", 1);
    struct value *source = pin(fixture, "from");
    struct op op = fixture_op(OP_SET_FROM, "to");
    op.combine = OP_COMBINE_COPY;
    op.sources = &source;
    op.source_count = 1;
    op.flags = OP_SET_CHECKSUM;
    op.put.checksum = 7;
    op.put.expires_at_ms = fixture->now.wall_ms + 1000;
    assert_int_equal(run_to_end(fixture, &op), LONG_BYTES / SHARD_STEP_BYTES);
    assert_int_equal(op.status, KVASIR_OK);
    assert_null(op.value);
    assert_bytes(fixture, "to", bytes, LONG_BYTES);
    struct value *copy = pin(fixture, "to");
    assert_int_equal(copy->checksum, 7);
    assert_true(copy->expires_at_ms == fixture->now.wall_ms + 1000);
    shard_unpin(fixture->shard, &copy);
    shard_unpin(fixture->shard, &source);
    free(bytes);
}

static void test_shard_build_leaves_what_came_first_when_it_may_not_replace(void **state)
{
    struct fixture *fixture = *state;
    uint8_t *bytes = set_long(fixture, "from", 1);
    struct value *source = pin(fixture, "from");
    struct op op = fixture_op(OP_SET_FROM, "to");
    op.sources = &source;
    op.source_count = 1;
    op.flags = OP_SET_IF_ABSENT;
    assert_int_equal(step(fixture, &op), KVASIR_PENDING);
    (void)fixture_set(fixture, "to", "first");
    (void)run_to_end(fixture, &op);
    assert_int_equal(op.status, KVASIR_EXISTS);
    fixture_assert_value(fixture, "to", "first");
    shard_unpin(fixture->shard, &source);
    assert_int_equal(fixture_stats(fixture).value_count, 2);
    free(bytes);
}

static void test_shard_build_begins_anew_when_the_value_changes_meanwhile(void **state)
{
    struct fixture *fixture = *state;
    uint8_t *bytes = set_long(fixture, "k", 1);
    struct op op = fixture_op(OP_SET_RANGE, "k");
    op.payload = slice_of_text("xyz");
    op.offset_bytes = 2;
    assert_int_equal(step(fixture, &op), KVASIR_PENDING);
    (void)fixture_set(fixture, "k", "abcdefg");
    (void)run_to_end(fixture, &op);
    assert_int_equal(op.status, KVASIR_OK);
    assert_int_equal(op.integer, 7);
    assert_int_equal(op.restarts, 1);
    fixture_assert_value(fixture, "k", "abxyzfg");
    assert_int_equal(fixture_stats(fixture).value_count, 1);
    free(bytes);
}

/* The key gets other values until the edit goes first; a step of it is done then. */
static void starve(struct fixture *fixture, struct op *edit)
{
    assert_int_equal(step(fixture, edit), KVASIR_PENDING);
    for (uint32_t i = 1; i <= 3; i++) {
        free(set_long(fixture, "k", (uint8_t)i));
        assert_int_equal(step(fixture, edit), KVASIR_PENDING);
        assert_int_equal(edit->restarts, i);
        assert_true(edit->done_bytes == SHARD_STEP_BYTES);
    }
}

static struct op edit_of_k(void)
{
    struct op edit = fixture_op(OP_SET_RANGE, "k");
    edit.payload = slice_of_text("xyz");
    edit.offset_bytes = 2;
    return edit;
}

static void test_shard_build_lets_an_edit_go_first_that_began_anew_often(void **state)
{
    struct fixture *fixture = *state;
    free(set_long(fixture, "k", 1));
    struct op edit = edit_of_k();
    starve(fixture, &edit);
    struct op set = fixture_op(OP_SET, "k");
    set.payload = slice_of_text("last");
    set.put.length_bytes = 4;
    /* Whoever is asked, none copies more than a step. */
    assert_int_equal(step(fixture, &set), KVASIR_PENDING);
    assert_true(edit.done_bytes == 2 * SHARD_STEP_BYTES);
    assert_int_equal(step(fixture, &edit), KVASIR_OK);
    assert_int_equal(edit.integer, LONG_BYTES);
    assert_int_equal(edit.restarts, 3);
    assert_int_equal(step(fixture, &set), KVASIR_OK);
    fixture_assert_value(fixture, "k", "last");
    assert_int_equal(fixture_stats(fixture).value_count, 1);
}

static void count_notices(void *argument, enum notice_kind kind, uint8_t database, struct slice key)
{
    (void)database;
    (void)key;
    unsigned *counts = argument;
    counts[kind]++;
}

static void test_shard_build_carries_an_edit_on_for_who_cannot_wait(void **state)
{
    struct fixture *fixture = *state;
    free(set_long(fixture, "k", 1));
    struct op edit = edit_of_k();
    starve(fixture, &edit);
    shard_notices_want(fixture->shard, UINT32_MAX);
    /* Readers pass. */
    struct op get = fixture_op(OP_GET, "k");
    assert_int_equal(step(fixture, &get), KVASIR_OK);
    shard_unpin(fixture->shard, &get.value);
    struct op append = fixture_op(OP_APPEND, "k");
    append.payload = slice_of_text("!");
    (void)run_to_end(fixture, &append);
    assert_int_equal(append.status, KVASIR_TOO_LARGE); /* the fixture's limit, met in its turn */
    assert_int_equal(edit.status, KVASIR_OK);
    struct op remove = fixture_op(OP_REMOVE, "k");
    assert_int_equal(step(fixture, &remove), KVASIR_OK);
    assert_int_equal(step(fixture, &edit), KVASIR_OK);
    assert_int_equal(edit.integer, LONG_BYTES);
    assert_int_equal(fixture_stats(fixture).value_count, 0);
    unsigned counts[NOTICE_KIND_COUNT] = {0};
    while (shard_notices_take(fixture->shard, count_notices, counts)) {
    }
    assert_int_equal(counts[NOTICE_SETRANGE], 1);
    assert_int_equal(counts[NOTICE_DEL], 1);
}

static void test_shard_build_ends_an_edit_whose_key_was_flushed_while_it_went_first(void **state)
{
    struct fixture *fixture = *state;
    free(set_long(fixture, "k", 1));
    struct op edit = edit_of_k();
    starve(fixture, &edit);
    shard_flush(fixture->shard, 0);
    assert_int_equal(step(fixture, &edit), KVASIR_OK);
    assert_int_equal(edit.integer, 5);
    assert_bytes(fixture, "k", (const uint8_t *)"\0\0xyz", 5);
}

static void test_shard_build_lets_others_on_when_the_first_finds_no_room(void **state)
{
    struct fixture *fixture = *state;
    free(set_long(fixture, "k", 1));
    struct op edit = edit_of_k();
    starve(fixture, &edit);
    shard_flush(fixture->shard, 0);
    fault_arm("store.payload", 1, UINT32_MAX);
    struct op remove = fixture_op(OP_REMOVE, "k");
    assert_int_equal(step(fixture, &remove), KVASIR_NOT_FOUND);
    assert_int_equal(edit.status, KVASIR_NO_MEMORY);
    fault_disarm_all();
    assert_int_equal(step(fixture, &edit), KVASIR_OK);
}

static void test_shard_build_overlays_a_long_value(void **state)
{
    struct fixture *fixture = *state;
    uint8_t *bytes = set_long(fixture, "k", 5);
    struct op op = fixture_op(OP_SET_RANGE, "k");
    op.payload = slice_of_text("across a page");
    op.offset_bytes = FIXTURE_PAGE_BYTES - 5;
    memcpy(bytes + op.offset_bytes, op.payload.data, op.payload.length_bytes);
    (void)run_to_end(fixture, &op);
    assert_int_equal(op.status, KVASIR_OK);
    assert_bytes(fixture, "k", bytes, LONG_BYTES);
    free(bytes);
}

static void test_shard_build_combines_strings_of_different_lengths(void **state)
{
    static const struct {
        enum op_combine combine;
        const char *expected;
    } cases[] = {{OP_COMBINE_AND, "\x01\x02\x00\x00"},
                 {OP_COMBINE_OR, "\x0f\xf2\x33\x44"},
                 {OP_COMBINE_XOR, "\x0e\xf0\x33\x44"}};
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "a", "\x01\xf2\x33\x44");
    (void)fixture_set(fixture, "b", "\x0f\x02");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct value *sources[] = {pin(fixture, "a"), pin(fixture, "b")};
        struct op op = fixture_op(OP_SET_FROM, "c");
        op.combine = (uint8_t)cases[i].combine;
        op.sources = sources;
        op.source_count = 2;
        assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
        assert_int_equal(op.integer, 4);
        assert_bytes(fixture, "c", (const uint8_t *)cases[i].expected, 4);
        shard_unpin(fixture->shard, &sources[0]);
        shard_unpin(fixture->shard, &sources[1]);
    }
}

static void test_shard_build_takes_a_missing_string_for_zeros(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "a", "ab");
    struct value *sources[] = {NULL, pin(fixture, "a")};
    struct op op = fixture_op(OP_SET_FROM, "c");
    op.combine = OP_COMBINE_AND;
    op.sources = sources;
    op.source_count = 2;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_bytes(fixture, "c", (const uint8_t *)"\0\0", 2);
    shard_unpin(fixture->shard, &sources[1]);
}

static void test_shard_build_removes_only_the_value_that_is_meant(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "k", "one");
    struct value *first = pin(fixture, "k");
    (void)fixture_set(fixture, "k", "two");
    struct op op = fixture_op(OP_REMOVE, "k");
    op.flags = OP_REMOVE_SAME;
    op.same = first;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_NOT_FOUND);
    fixture_assert_value(fixture, "k", "two");
    shard_unpin(fixture->shard, &first);
}

/* ---- bits ---- */

static int64_t field(struct fixture *fixture, struct op_field *field)
{
    struct op op = fixture_op(OP_FIELDS, "k");
    op.fields = field;
    op.field_count = 1;
    (void)run_to_end(fixture, &op);
    assert_int_equal(op.status, KVASIR_OK);
    return field->number;
}

static void test_shard_bits_fields_cross_bytes_and_grow_the_value(void **state)
{
    struct fixture *fixture = *state;
    struct op_field set = {
        .kind = OP_FIELD_SET, .offset_bits = 5, .bit_count = 64, .is_signed = true, .number = -2};
    assert_int_equal(field(fixture, &set), 0);
    struct op_field get = {
        .kind = OP_FIELD_GET, .offset_bits = 5, .bit_count = 64, .is_signed = true};
    assert_int_equal(field(fixture, &get), -2);
    struct op_field beyond = {.kind = OP_FIELD_GET, .offset_bits = 4000, .bit_count = 63};
    assert_int_equal(field(fixture, &beyond), 0);
    struct op look = fixture_op(OP_EXISTS, "k");
    assert_int_equal(fixture_run(fixture, &look), KVASIR_OK);
    assert_int_equal(look.integer, 9);
}

static void test_shard_bits_overflow_wraps_saturates_or_fails(void **state)
{
    static const struct {
        enum op_overflow overflow;
        bool is_signed, refused;
        int64_t start, add, expected;
    } cases[] = {
        {OP_OVERFLOW_WRAP, false, false, 250, 10, 4},
        {OP_OVERFLOW_SATURATE, false, false, 250, 10, 255},
        {OP_OVERFLOW_FAIL, false, true, 250, 10, 250},
        {OP_OVERFLOW_WRAP, false, false, 3, -4, 255},
        {OP_OVERFLOW_SATURATE, false, false, 3, INT64_MIN, 0},
        {OP_OVERFLOW_WRAP, true, false, 127, 1, -128},
        {OP_OVERFLOW_SATURATE, true, false, 127, INT64_MAX, 127},
        {OP_OVERFLOW_SATURATE, true, false, -100, -100, -128},
        {OP_OVERFLOW_FAIL, true, true, -100, -100, -100},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct op_field set = {.kind = OP_FIELD_SET,
                               .bit_count = 8,
                               .is_signed = cases[i].is_signed,
                               .number = cases[i].start};
        (void)field(fixture, &set);
        struct op_field add = {.kind = OP_FIELD_ADD,
                               .overflow = (uint8_t)cases[i].overflow,
                               .bit_count = 8,
                               .is_signed = cases[i].is_signed,
                               .number = cases[i].add};
        (void)field(fixture, &add);
        assert_int_equal(add.refused, cases[i].refused);
        struct op_field get = {
            .kind = OP_FIELD_GET, .bit_count = 8, .is_signed = cases[i].is_signed};
        assert_int_equal(field(fixture, &get), cases[i].expected);
    }
}

static void test_shard_bits_counts_and_finds_in_a_long_value(void **state)
{
    struct fixture *fixture = *state;
    uint8_t *bytes = set_long(fixture, "k", 0);
    int64_t expected = 0;
    for (size_t i = 3; i < LONG_BYTES; i++) {
        expected += __builtin_popcount(bytes[i]);
    }
    expected += __builtin_popcount(bytes[2] & 0x07U);
    struct op count = fixture_op(OP_BIT_COUNT, "k");
    count.range = (struct op_range){.start = 21, .end = -1, .in_bits = true};
    assert_true(run_to_end(fixture, &count) > 1);
    assert_int_equal(count.status, KVASIR_OK);
    assert_int_equal(count.integer, expected);
    free(bytes);

    struct op_field last = {
        .kind = OP_FIELD_SET, .offset_bits = 8 * 900000 + 3, .bit_count = 1, .number = 1};
    struct op remove = fixture_op(OP_REMOVE, "k");
    assert_int_equal(fixture_run(fixture, &remove), KVASIR_OK);
    (void)field(fixture, &last);
    struct op find = fixture_op(OP_BIT_FIND, "k");
    find.range = (struct op_range){.whole = true, .bit = true};
    (void)run_to_end(fixture, &find);
    assert_int_equal(find.integer, 8 * 900000 + 3);
    find = fixture_op(OP_BIT_FIND, "k");
    find.range = (struct op_range){.start = 900000, .open = true, .bit = false};
    (void)run_to_end(fixture, &find);
    assert_int_equal(find.integer, 8 * 900000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_roomy, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shard_build_copies_a_step_a_turn_and_keeps_what_is_known),
        TEST(test_shard_build_leaves_what_came_first_when_it_may_not_replace),
        TEST(test_shard_build_begins_anew_when_the_value_changes_meanwhile),
        TEST(test_shard_build_lets_an_edit_go_first_that_began_anew_often),
        TEST(test_shard_build_carries_an_edit_on_for_who_cannot_wait),
        TEST(test_shard_build_ends_an_edit_whose_key_was_flushed_while_it_went_first),
        TEST(test_shard_build_lets_others_on_when_the_first_finds_no_room),
        TEST(test_shard_build_overlays_a_long_value),
        TEST(test_shard_build_combines_strings_of_different_lengths),
        TEST(test_shard_build_takes_a_missing_string_for_zeros),
        TEST(test_shard_build_removes_only_the_value_that_is_meant),
        TEST(test_shard_bits_fields_cross_bytes_and_grow_the_value),
        TEST(test_shard_bits_overflow_wraps_saturates_or_fails),
        TEST(test_shard_bits_counts_and_finds_in_a_long_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
