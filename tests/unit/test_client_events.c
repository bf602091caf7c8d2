/* test_client_events – subscriptions of libkvasir to what happens to keys, against a fake server that
 * answers what the test lays before it. */

#include "test_client_fake.h"

#include <kvasir/client.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NOW  "*2\r\n:640\r\n*0\r\n"
#define LOST "-OVERRUN 1280 events were lost\r\n"

struct rig {
    struct fake fake;
    struct kvasir_client *client;
    struct kvasir_events *events;
};

static void begin(struct rig *rig, const char *const *replies, uint64_t since)
{
    char address[64];
    char error[256] = "";
    struct kvasir_options options;
    *rig = (struct rig){.fake = {.reactor_count = 1, .event_replies = replies}};
    fake_start(&rig->fake);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", rig->fake.ports[0]);
    kvasir_options_init(&options);
    options.address = address;
    options.shm = false;
    options.timeout_ms = 20000;
    options.backoff_min_ms = 1;
    options.backoff_max_ms = 1;
    if (kvasir_connect(&options, error, sizeof error, &rig->client) != KVASIR_OK) {
        fail_msg("connect: %s", error);
    }
    assert_int_equal(kvasir_events_open(rig->client, since, 0, 0, &rig->events), KVASIR_OK);
}

static void end(struct rig *rig)
{
    kvasir_events_close(&rig->events);
    assert_null(rig->events);
    kvasir_events_close(&rig->events);
    kvasir_close(&rig->client);
    fake_stop(&rig->fake);
}

static void test_client_events_tells_all_of_an_event(void **state)
{
    static const char *const replies[] = {
        NOW,
        "*2\r\n:904\r\n*3\r\n"
        "*6\r\n:705\r\n$6\r\nsealed\r\n:3\r\n$3\r\nkey\r\n:77\r\n$4\r\ndram\r\n"
        /* Of a newer server: a kind that is not known, and elements behind the known ones. */
        "*8\r\n:768\r\n$7\r\nrenamed\r\n:0\r\n$0\r\n\r\n:0\r\n$3\r\nssd\r\n*2\r\n:1\r\n:2\r\n+x\r\n"
        "*6\r\n:833\r\n+FLUSHED\r\n:9\r\n$0\r\n\r\n:0\r\n$40\r\n"
        "0123456789012345678901234567890123456789\r\n",
        "*2\r\n:904\r\n*0\r\n", NULL};
    const struct kvasir_key_event *list = NULL;
    size_t count = 99;
    struct rig rig;
    (void)state;
    begin(&rig, replies, KVASIR_EVENTS_NOW);
    assert_int_equal(kvasir_events_number(rig.events), 640);
    assert_int_equal(kvasir_events_poll(rig.events, 0, &list, &count), KVASIR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(list[0].number, 705);
    assert_int_equal(list[0].shard, 705 % 64);
    assert_int_equal(list[0].kind, KVASIR_KEY_SEALED);
    assert_int_equal(list[0].database, 3);
    assert_int_equal(list[0].key_length_bytes, 3);
    assert_memory_equal(list[0].key, "key", 3);
    assert_int_equal(list[0].length_bytes, 77);
    assert_string_equal(list[0].tier, "dram");
    assert_int_equal(list[1].kind, KVASIR_KEY_OTHER);
    assert_string_equal(list[1].tier, "ssd");
    assert_int_equal(list[2].kind, KVASIR_KEY_FLUSHED);
    assert_int_equal(list[2].key_length_bytes, 0);
    assert_string_equal(list[2].tier, "012345678901234");
    assert_int_equal(kvasir_events_number(rig.events), 904);
    assert_int_equal(kvasir_events_poll(rig.events, 0, &list, &count), KVASIR_OK);
    assert_int_equal(count, 0);
    end(&rig);
    assert_int_equal(rig.fake.events_asked, 3);
    assert_string_equal(rig.fake.events_since[0], "$");
    assert_string_equal(rig.fake.events_since[1], "640");
    assert_string_equal(rig.fake.events_since[2], "904");
}

/* Only the number is asked for again: what was lost is not. */
static void test_client_events_goes_on_behind_what_was_lost(void **state)
{
    static const char *const replies[] = {
        LOST, NOW, "*2\r\n:700\r\n*0\r\n", LOST, "-ERR busy\r\n", "*2\r\n:1300\r\n*0\r\n", NULL};
    const struct kvasir_key_event *list = NULL;
    size_t count = 99;
    struct rig rig;
    (void)state;
    begin(&rig, replies, 5);
    assert_int_equal(kvasir_events_number(rig.events), 5);
    assert_int_equal(kvasir_events_poll(rig.events, 0, &list, &count), KVASIR_OVERRUN);
    assert_int_equal(count, 99);
    assert_int_equal(kvasir_events_number(rig.events), 640);
    assert_int_equal(kvasir_events_poll(rig.events, 0, &list, &count), KVASIR_OK);
    /* Where "from now on" cannot be had, the end of the loss is where it goes on. */
    assert_int_equal(kvasir_events_poll(rig.events, 0, &list, &count), KVASIR_OVERRUN);
    assert_non_null(strstr(kvasir_error(rig.client), "events were lost"));
    assert_int_equal(kvasir_events_number(rig.events), 1280);
    assert_int_equal(kvasir_events_poll(rig.events, 0, &list, &count), KVASIR_OK);
    end(&rig);
    assert_string_equal(rig.fake.events_since[1], "$");
    assert_string_equal(rig.fake.events_since[2], "640");
    assert_string_equal(rig.fake.events_since[5], "1280");
}

static void test_client_events_asks_again_for_what_it_was_denied(void **state)
{
    static const char *const replies[] = {"-NOPERM no events for you\r\n", "*2\r\n:70\r\n*0\r\n",
                                          NULL};
    const struct kvasir_key_event *list = NULL;
    size_t count = 0;
    struct rig rig;
    (void)state;
    begin(&rig, replies, 64);
    assert_int_equal(kvasir_events_poll(rig.events, 0, &list, &count), KVASIR_DENIED);
    assert_int_equal(kvasir_events_number(rig.events), 64);
    assert_int_equal(kvasir_events_poll(rig.events, 0, &list, &count), KVASIR_OK);
    end(&rig);
    assert_string_equal(rig.fake.events_since[1], "64");
}

static void test_client_events_refuses_malformed_answers(void **state)
{
    static const char *const wrong[] = {
        ":5\r\n",
        "*1\r\n:5\r\n",
        "*2\r\n:-5\r\n*0\r\n",
        "*2\r\n$1\r\n5\r\n*0\r\n",
        "*2\r\n:5\r\n:6\r\n",
        "*2\r\n:5\r\n*1\r\n:6\r\n",
        "*2\r\n:5\r\n*1\r\n*5\r\n:1\r\n+sealed\r\n:0\r\n+k\r\n:1\r\n",
        "*2\r\n:5\r\n*1\r\n*6\r\n:-1\r\n+sealed\r\n:0\r\n+k\r\n:1\r\n+dram\r\n",
        "*2\r\n:5\r\n*1\r\n*6\r\n:1\r\n:2\r\n:0\r\n+k\r\n:1\r\n+dram\r\n",
        "*2\r\n:5\r\n*1\r\n*6\r\n:1\r\n+sealed\r\n:0\r\n:4\r\n:1\r\n+dram\r\n",
        "*2\r\n:5\r\n*1001\r\n",
        "-OVERRUN\r\n",
        "-OVERRUN soon\r\n",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        const char *const replies[] = {wrong[i], NULL};
        const struct kvasir_key_event *list = NULL;
        size_t count = 99;
        struct rig rig;
        begin(&rig, replies, KVASIR_EVENTS_OLDEST);
        enum kvasir_status status = kvasir_events_poll(rig.events, 0, &list, &count);
        if (status != KVASIR_PROTOCOL) {
            fail_msg("answer %zu: %s", i, kvasir_status_name(status));
        }
        assert_null(list);
        assert_int_equal(count, 99);
        assert_int_equal(kvasir_events_number(rig.events), 0);
        end(&rig);
    }
}

static void test_client_events_refuses_what_no_server_knows(void **state)
{
    static const char *const replies[] = {"-NOPERM no\r\n", NULL};
    struct kvasir_events *events = NULL;
    struct rig rig;
    (void)state;
    begin(&rig, replies, 64);
    assert_int_equal(kvasir_events_open(rig.client, 1, 10001, 0, &events), KVASIR_INVALID);
    assert_non_null(strstr(kvasir_error(rig.client), "10000"));
    assert_int_equal(kvasir_events_open(rig.client, (uint64_t)INT64_MAX + 1, 0, 0, &events),
                     KVASIR_INVALID);
    /* What cannot begin leaves nothing behind. */
    assert_int_equal(kvasir_events_open(rig.client, KVASIR_EVENTS_NOW, 1, 0, &events),
                     KVASIR_DENIED);
    assert_null(events);
    kvasir_events_close(NULL);
    /* A subscription may outlive its client, to be closed. */
    kvasir_close(&rig.client);
    end(&rig);
}

static void test_client_events_of_a_server_that_is_gone(void **state)
{
    static const char *const replies[] = {NULL};
    const struct kvasir_key_event *list = NULL;
    size_t count = 0;
    struct rig rig;
    (void)state;
    begin(&rig, replies, 64);
    fake_stop(&rig.fake);
    assert_int_equal(kvasir_events_poll(rig.events, 0, &list, &count), KVASIR_CLOSED);
    assert_int_equal(kvasir_events_number(rig.events), 64);
    kvasir_events_close(&rig.events);
    kvasir_close(&rig.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_events_tells_all_of_an_event),
        cmocka_unit_test(test_client_events_goes_on_behind_what_was_lost),
        cmocka_unit_test(test_client_events_asks_again_for_what_it_was_denied),
        cmocka_unit_test(test_client_events_refuses_malformed_answers),
        cmocka_unit_test(test_client_events_refuses_what_no_server_knows),
        cmocka_unit_test(test_client_events_of_a_server_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
