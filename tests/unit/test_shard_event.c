/* test_shard_event – which events a shard keeps, and what it answers to who asks for them. */

#include "test_shard_fixture.h"

#include <stdio.h>

/* Kind, database and key of up to 32 events, as text. */
struct heard {
    char text[1024];
    uint32_t count;
    uint32_t count_max; /* 0: no limit */
};

static bool hear(void *argument, const struct event *event)
{
    static const char kinds[] = "-sedxf";
    struct heard *heard = argument;
    size_t length = strlen(heard->text);
    if (heard->count_max != 0 && heard->count == heard->count_max) {
        return false;
    }
    heard->count++;
    (void)snprintf(heard->text + length, sizeof(heard->text) - length, "%c%u:%.*s ",
                   kinds[event->kind], event->database, event->key_length_bytes, event->key);
    return true;
}

static struct shard_events_state read_all(struct fixture *fixture, uint64_t since,
                                          struct heard *heard)
{
    struct shard_events_state state;
    const struct shard_events_query query = {.since = since,
                                             .until_us = fixture->now.mono_us + 1,
                                             .count_max = UINT32_MAX,
                                             .bytes_max = UINT64_MAX};
    heard->text[0] = '\0';
    heard->count = 0;
    shard_events_read(fixture->shard, &query, &fixture->now, hear, heard, &state);
    return state;
}

static struct fixture *start(void)
{
    const struct fixture_options options = {0};
    struct fixture *fixture = fixture_create(&options);
    assert_true(shard_events_keep(fixture->shard, EVENT_RING_BYTES_MIN, fixture->now.mono_us));
    return fixture;
}

/* Numbers are times: each step has its own. */
static void step(struct fixture *fixture)
{
    fixture_move(fixture, 1);
}

static void test_shard_event_each_change_is_one_event(void **state)
{
    (void)state;
    struct fixture *fixture = start();
    struct heard heard = {0};
    assert_int_equal(fixture_set(fixture, "a", "1"), KVASIR_OK);
    assert_int_equal(fixture_set(fixture, "a", "2"), KVASIR_OK);
    assert_int_equal(fixture_fill(fixture, "long", 100000), KVASIR_OK);
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "a"), KVASIR_OK);
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "a"), KVASIR_NOT_FOUND);
    assert_int_equal(fixture_simple(fixture, OP_EXISTS, "long"), KVASIR_OK);
    step(fixture);
    (void)read_all(fixture, 0, &heard);
    assert_string_equal(heard.text, "s0:a s0:a s0:long d0:a ");
    fixture_destroy(fixture);
}

static void test_shard_event_expiry_is_told_once(void **state)
{
    (void)state;
    struct fixture *fixture = start();
    struct heard heard = {0};
    struct op op = fixture_op(OP_SET, "a");
    op.payload = slice_of_text("x");
    op.put.expires_at_ms = fixture->now.wall_ms + 10;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    fixture_move(fixture, 20);
    assert_int_equal(fixture_simple(fixture, OP_EXISTS, "a"), KVASIR_NOT_FOUND);
    assert_int_equal(fixture_simple(fixture, OP_EXISTS, "a"), KVASIR_NOT_FOUND);
    (void)read_all(fixture, 0, &heard);
    assert_string_equal(heard.text, "s0:a x0:a ");
    fixture_destroy(fixture);
}

static void test_shard_event_evictions_and_flushes(void **state)
{
    (void)state;
    struct fixture *fixture = start();
    struct heard heard = {0};
    assert_int_equal(fixture_fill(fixture, "old", 1U << 20), KVASIR_OK);
    assert_int_equal(fixture_fill(fixture, "new", (1U << 20) + (512U << 10)), KVASIR_OK);
    shard_flush(fixture->shard, 0);
    shard_flush(fixture->shard, 0); /* there is nothing left */
    shard_flush(fixture->shard, 1);
    while (shard_tick(fixture->shard, &fixture->now, 1000)) {
    }
    step(fixture);
    (void)read_all(fixture, 0, &heard);
    assert_string_equal(heard.text, "s0:old e0:old s0:new f0: ");
    fixture_destroy(fixture);
}

static void test_shard_event_reading_goes_on_where_it_ended(void **state)
{
    (void)state;
    struct fixture *fixture = start();
    struct heard heard = {.count_max = 2};
    struct shard_events_state found;
    for (int i = 0; i < 3; i++) {
        const char key[2] = {(char)('a' + i), '\0'};
        step(fixture);
        assert_int_equal(fixture_set(fixture, key, "x"), KVASIR_OK);
    }
    found = read_all(fixture, 0, &heard);
    assert_string_equal(heard.text, "s0:a s0:b ");
    found = read_all(fixture, found.reached, &heard);
    assert_string_equal(heard.text, "s0:c ");
    /* What comes in the very moment that was read has a later number. */
    assert_int_equal(fixture_set(fixture, "d", "x"), KVASIR_OK);
    step(fixture);
    (void)read_all(fixture, found.reached, &heard);
    assert_string_equal(heard.text, "s0:d ");
    fixture_destroy(fixture);
}

static void test_shard_event_want_of_memory_is_said(void **state)
{
    (void)state;
    const struct fixture_options options = {0};
    struct fixture *fixture = fixture_create(&options);
    struct heard heard = {0};
    fault_arm("store.events", 1, 1);
    assert_false(shard_events_keep(fixture->shard, EVENT_RING_BYTES_MIN, 1000));
    assert_int_equal(shard_events_bytes(fixture->shard), 0);
    assert_int_equal(fixture_set(fixture, "a", "x"), KVASIR_OK);
    assert_int_equal(read_all(fixture, 0, &heard).capacity_bytes, 0);
    assert_true(shard_events_keep(fixture->shard, EVENT_RING_BYTES_MIN, 1000));
    assert_int_equal(shard_events_bytes(fixture->shard), EVENT_RING_BYTES_MIN);
    fixture_move(fixture, 1000);
    assert_int_equal(shard_events_idle_us(fixture->shard, &fixture->now), 1000000);
    assert_true(shard_events_keep(fixture->shard, 0, 0));
    assert_int_equal(shard_events_bytes(fixture->shard), 0);
    assert_int_equal(shard_events_idle_us(fixture->shard, &fixture->now), 0);
    fixture_destroy(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard_event_each_change_is_one_event),
        cmocka_unit_test(test_shard_event_expiry_is_told_once),
        cmocka_unit_test(test_shard_event_evictions_and_flushes),
        cmocka_unit_test(test_shard_event_reading_goes_on_where_it_ended),
        cmocka_unit_test(test_shard_event_want_of_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
