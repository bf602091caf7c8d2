/* test_pubsub – who listens to what: each subscription counts once, messages reach whom they should, and
 * nothing of who left stays. */

#include "test_conn_fixture.h"

#include "base/random.h"
#include "test_seed.h"

static bool join(struct conn_fixture *fixture, uint32_t conn, enum pubsub_kind kind,
                 const char *name)
{
    return pubsub_join(&fixture->reactor.pubsub, &fixture->conns[conn], kind, slice_of_text(name));
}

static bool leave(struct conn_fixture *fixture, uint32_t conn, enum pubsub_kind kind,
                  const char *name)
{
    return pubsub_leave(&fixture->reactor.pubsub, &fixture->conns[conn], kind, slice_of_text(name));
}

static uint64_t deliver(struct conn_fixture *fixture, bool shard, const char *channel,
                        const char *text)
{
    return pubsub_deliver(&fixture->reactor.pubsub, shard, slice_of_text(channel),
                          slice_of_text(text));
}

static void count_name(void *argument, struct slice name)
{
    uint64_t *count = argument;
    (void)name;
    (*count)++;
}

static uint64_t name_count(struct conn_fixture *fixture, enum pubsub_kind kind)
{
    uint64_t count = 0;
    pubsub_visit(&fixture->reactor.pubsub, kind, count_name, &count);
    return count;
}

static void test_pubsub_joining_twice_counts_once(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    (void)state;
    assert_true(join(fixture, 0, PUBSUB_CHANNEL, "c"));
    assert_true(join(fixture, 0, PUBSUB_CHANNEL, "c"));
    assert_int_equal(fixture->conns[0].subscription_counts[PUBSUB_CHANNEL], 1);
    assert_int_equal(fixture->reactor.pubsub.count, 1);
    assert_true(leave(fixture, 0, PUBSUB_CHANNEL, "c"));
    assert_false(leave(fixture, 0, PUBSUB_CHANNEL, "c"));
    assert_int_equal(fixture->conns[0].subscription_counts[PUBSUB_CHANNEL], 0);
    conn_fixture_destroy(fixture);
}

static void test_pubsub_delivers_to_channels_and_patterns(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    (void)state;
    assert_true(join(fixture, 0, PUBSUB_CHANNEL, "news"));
    assert_true(join(fixture, 1, PUBSUB_PATTERN, "n?ws"));
    assert_true(join(fixture, 1, PUBSUB_CHANNEL, "other"));
    assert_true(join(fixture, 2, PUBSUB_SHARD_CHANNEL, "news"));
    assert_int_equal(deliver(fixture, false, "news", "x"), 2);
    conn_fixture_expect(fixture, 0, "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n");
    conn_fixture_expect(fixture, 1,
                        "*4\r\n$8\r\npmessage\r\n$4\r\nn?ws\r\n$4\r\nnews\r\n$1\r\nx\r\n");
    conn_fixture_expect(fixture, 2, "");
    assert_int_equal(deliver(fixture, true, "news", ""), 1);
    conn_fixture_expect(fixture, 2, "*3\r\n$8\r\nsmessage\r\n$4\r\nnews\r\n$0\r\n\r\n");
    assert_int_equal(deliver(fixture, false, "nobody", "x"), 0);
    assert_int_equal(deliver(fixture, true, "other", "x"), 0);
    conn_fixture_destroy(fixture);
}

static void test_pubsub_names_are_any_bytes(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    struct pubsub *pubsub = &fixture->reactor.pubsub;
    struct slice binary = slice_of("a\0b", 3);
    (void)state;
    assert_true(pubsub_join(pubsub, &fixture->conns[0], PUBSUB_CHANNEL, binary));
    assert_true(pubsub_join(pubsub, &fixture->conns[0], PUBSUB_CHANNEL, slice_of(NULL, 0)));
    assert_int_equal(pubsub_count(pubsub, false, binary), 1);
    assert_int_equal(pubsub_count(pubsub, false, slice_of_text("a")), 0);
    assert_int_equal(pubsub_count(pubsub, false, slice_of(NULL, 0)), 1);
    assert_true(pubsub_leave(pubsub, &fixture->conns[0], PUBSUB_CHANNEL, binary));
    conn_fixture_destroy(fixture);
}

static void test_pubsub_visits_each_name_once(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    (void)state;
    for (uint32_t i = 0; i < CONN_FIXTURE_CONNS; i++) {
        assert_true(join(fixture, i, PUBSUB_CHANNEL, "same"));
        assert_true(join(fixture, i, PUBSUB_PATTERN, "s*"));
        assert_true(join(fixture, i, PUBSUB_SHARD_CHANNEL, "same"));
    }
    assert_true(join(fixture, 2, PUBSUB_CHANNEL, "own"));
    assert_int_equal(name_count(fixture, PUBSUB_CHANNEL), 2);
    assert_int_equal(name_count(fixture, PUBSUB_PATTERN), 1);
    assert_int_equal(name_count(fixture, PUBSUB_SHARD_CHANNEL), 1);
    assert_int_equal(pubsub_count(&fixture->reactor.pubsub, false, slice_of_text("same")), 4);
    assert_int_equal(pubsub_count(&fixture->reactor.pubsub, true, slice_of_text("own")), 0);
    conn_fixture_destroy(fixture);
}

static void test_pubsub_any_finds_one_of_the_kind(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    (void)state;
    assert_true(join(fixture, 0, PUBSUB_CHANNEL, "c"));
    assert_null(pubsub_any(&fixture->conns[0], PUBSUB_PATTERN));
    assert_true(join(fixture, 0, PUBSUB_PATTERN, "p"));
    assert_true(
        slice_equal(pubsub_any(&fixture->conns[0], PUBSUB_PATTERN)->name, slice_of_text("p")));
    pubsub_leave_all(&fixture->reactor.pubsub, &fixture->conns[0]);
    assert_null(pubsub_any(&fixture->conns[0], PUBSUB_CHANNEL));
    conn_fixture_destroy(fixture);
}

static void test_pubsub_subscriptions_are_bounded(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    char name[16];
    unsigned count = 0;
    (void)state;
    chunk_pool_allow_large(&fixture->reactor.chunks, 10000);
    do {
        (void)snprintf(name, sizeof(name), "channel%u", count);
        count++;
    } while (count < 1000 && join(fixture, 0, PUBSUB_CHANNEL, name));
    assert_in_range(count, 10, 999);
    assert_true(fixture->reactor.chunks.large_bytes <= 10000);
    assert_true(join(fixture, 0, PUBSUB_CHANNEL, "channel0"));
    assert_true(leave(fixture, 0, PUBSUB_CHANNEL, "channel0"));
    assert_true(join(fixture, 0, PUBSUB_CHANNEL, name));
    conn_fixture_destroy(fixture);
}

/* Random joins and leaves against a table of who listens to what. */
static void test_pubsub_counts_agree_with_a_model(void **state)
{
    struct conn_fixture *fixture = conn_fixture_create();
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    bool listens[CONN_FIXTURE_CONNS][6][PUBSUB_KIND_COUNT] = {{{false}}};
    struct random random;
    (void)state;
    random_init(&random, test_seed());
    for (int step = 0; step < 5000; step++) {
        uint32_t conn = (uint32_t)random_below(&random, CONN_FIXTURE_CONNS);
        uint32_t name = (uint32_t)random_below(&random, 6);
        enum pubsub_kind kind = (enum pubsub_kind)random_below(&random, PUBSUB_KIND_COUNT);
        uint64_t expected = 0;
        if (random_below(&random, 2) == 0) {
            assert_true(join(fixture, conn, kind, names[name]));
            listens[conn][name][kind] = true;
        } else {
            assert_int_equal(leave(fixture, conn, kind, names[name]), listens[conn][name][kind]);
            listens[conn][name][kind] = false;
        }
        if (kind == PUBSUB_PATTERN) {
            continue;
        }
        for (uint32_t i = 0; i < CONN_FIXTURE_CONNS; i++) {
            expected += listens[i][name][kind];
        }
        assert_int_equal(pubsub_count(&fixture->reactor.pubsub, kind == PUBSUB_SHARD_CHANNEL,
                                      slice_of_text(names[name])),
                         expected);
    }
    conn_fixture_destroy(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pubsub_joining_twice_counts_once),
        cmocka_unit_test(test_pubsub_delivers_to_channels_and_patterns),
        cmocka_unit_test(test_pubsub_names_are_any_bytes),
        cmocka_unit_test(test_pubsub_visits_each_name_once),
        cmocka_unit_test(test_pubsub_any_finds_one_of_the_kind),
        cmocka_unit_test(test_pubsub_subscriptions_are_bounded),
        cmocka_unit_test(test_pubsub_counts_agree_with_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
