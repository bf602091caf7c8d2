/* test_push – messages go between two replies, in order, in the connection's protocol, and who does not
 * take them is cut. */

#include "test_conn_fixture.h"

static void push_two(struct conn *conn, const char *a, const char *b)
{
    const struct slice parts[] = {slice_of_text(a), slice_of_text(b)};
    push_strings(conn, parts, 2);
}

static void test_push_goes_at_once_when_nothing_is_answered(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    (void)state;
    push_two(&fixture->conns[0], "message", "");
    assert_true(list_linked(&fixture->conns[0].run_link));
    conn_fixture_expect(fixture, 0, "*2\r\n$7\r\nmessage\r\n$0\r\n\r\n");
    fixture->conns[1].resp = RESP_3;
    push_two(&fixture->conns[1], "a", "b");
    conn_fixture_expect(fixture, 1, ">2\r\n$1\r\na\r\n$1\r\nb\r\n");
    push_line(&fixture->conns[2], slice_of_text("+one line\r\n"));
    conn_fixture_expect(fixture, 2, "+one line\r\n");
    conn_fixture_destroy(fixture);
}

static void test_push_waits_for_the_replies_under_way(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    struct conn *conn = &fixture->conns[0];
    (void)state;
    conn_fixture_begin_answer(fixture, conn);
    output_text(&conn->output, "+first", 6);
    push_two(conn, "a", "b");
    push_line(conn, slice_of_text("+line\r\n"));
    output_text(&conn->output, " reply\r\n", 8);
    assert_true(fixture->reactor.chunks.large_bytes > 0);
    conn_fixture_end_answer(conn);
    assert_int_equal(fixture->reactor.chunks.large_bytes, 0);
    conn_fixture_expect(fixture, 0, "+first reply\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n+line\r\n");
    /* Later ones do not overtake those that wait. */
    conn_fixture_begin_answer(fixture, conn);
    push_line(conn, slice_of_text("+1\r\n"));
    conn->batch = NULL;
    push_line(conn, slice_of_text("+2\r\n"));
    push_flush(conn);
    conn_fixture_expect(fixture, 0, "+1\r\n+2\r\n");
    conn_fixture_destroy(fixture);
}

static void test_push_cuts_who_passes_the_limit(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    struct conn *conn = &fixture->conns[0];
    unsigned count = 0;
    (void)state;
    fixture->reactor.output_limits.classes[OUTPUT_CLASS_PUBSUB].hard_bytes = 1000;
    conn_fixture_begin_answer(fixture, conn);
    while (!conn->dead && count < 1000) {
        push_two(conn, "message", "0123456789");
        count++;
    }
    assert_in_range(count, 2, 30);
    assert_int_equal(metric_get(&fixture->reactor.metrics.output_limit_closed), 1);
    push_two(conn, "to", "nobody");
    push_fini(conn);
    assert_int_equal(fixture->reactor.chunks.large_bytes, 0);
    assert_false(fixture->conns[1].dead);
    conn_fixture_destroy(fixture);
}

static void test_push_cuts_whose_messages_find_no_memory(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    struct conn *conn = &fixture->conns[0];
    (void)state;
    chunk_pool_allow_large(&fixture->reactor.chunks, 100);
    push_two(conn, "this goes", "at once");
    assert_false(conn->dead);
    conn_fixture_begin_answer(fixture, conn);
    push_line(conn, slice_of_text("+there is memory for this\r\n"));
    assert_false(conn->dead);
    push_two(conn, "and not", "for this one beside it, which is too long");
    assert_true(conn->dead);
    conn_fixture_destroy(fixture);
}

static void test_push_sends_nothing_to_who_is_closing(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    (void)state;
    fixture->conns[0].closing = true;
    push_line(&fixture->conns[0], slice_of_text("+x\r\n"));
    conn_fixture_expect(fixture, 0, "");
    conn_fixture_destroy(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_goes_at_once_when_nothing_is_answered),
        cmocka_unit_test(test_push_waits_for_the_replies_under_way),
        cmocka_unit_test(test_push_cuts_who_passes_the_limit),
        cmocka_unit_test(test_push_cuts_whose_messages_find_no_memory),
        cmocka_unit_test(test_push_sends_nothing_to_who_is_closing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
