/* test_client_failures – libkvasir against servers that are absent, silent, broken or gone. Times are
 * measured against generous bounds: a failure may come early, never much after its deadline. */

#include "test_client_fake.h"

#include "base/clock.h"

#include <kvasir/client.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

/* Slack for a loaded machine. */
#define SLACK_MS 1500

static enum kvasir_status try_connect(const char *address, uint32_t timeout_ms, char *error,
                                      struct kvasir_client **client_p)
{
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = address;
    options.connect_timeout_ms = timeout_ms;
    options.shm = false;
    return kvasir_connect(&options, error, 256, client_p);
}

static struct kvasir_client *connect_with(struct fake *fake, uint32_t backoff_ms)
{
    fake_start(fake);
    char address[64];
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", fake->ports[0]);
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = address;
    options.backoff_min_ms = backoff_ms;
    options.backoff_max_ms = backoff_ms;
    options.shm = false;
    char error[256] = "";
    struct kvasir_client *client = NULL;
    if (kvasir_connect(&options, error, sizeof error, &client) != KVASIR_OK) {
        fail_msg("connect: %s", error);
    }
    return client;
}

static void test_client_failures_names_a_malformed_address(void **state)
{
    (void)state;
    static const char *const addresses[] = {
        NULL,    "",         "host",    "host:",  "host:0", "host:65536",   "host:12x",
        ":6400", "unix://x", "unix://", "[::1:5", "::1:5",  "tcp://[]:123", "1.2.3.4:-1"};
    for (size_t i = 0; i < ARRAY_COUNT(addresses); i++) {
        char error[256] = "";
        struct kvasir_client *client = NULL;
        assert_int_equal(try_connect(addresses[i], 100, error, &client), KVASIR_INVALID);
        assert_null(client);
        assert_non_null(strstr(error, "must be tcp://host:port"));
    }
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = "127.0.0.1:1";
    options.struct_size--;
    struct kvasir_client *client = NULL;
    assert_int_equal(kvasir_connect(&options, NULL, 0, &client), KVASIR_INVALID);
}

static void test_client_failures_refused_connection_is_closed(void **state)
{
    (void)state;
    char error[256] = "";
    struct kvasir_client *client = NULL;
    assert_int_equal(try_connect("tcp://127.0.0.1:1", 1000, error, &client), KVASIR_CLOSED);
    assert_non_null(strstr(error, "127.0.0.1:1: Connection refused"));
    assert_int_equal(try_connect("unix:///nowhere/at/all", 1000, error, &client), KVASIR_CLOSED);
    assert_non_null(strstr(error, "/nowhere/at/all"));
}

static void test_client_failures_silent_greeting_times_out(void **state)
{
    (void)state;
    struct fake fake = {.silent_greeting = true};
    fake_start(&fake);
    char address[64];
    char error[256] = "";
    struct kvasir_client *client = NULL;
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", fake.ports[0]);
    int64_t before_us = clock_mono_us();
    assert_int_equal(try_connect(address, 100, error, &client), KVASIR_TIMEOUT);
    assert_in_range(clock_mono_us() - before_us, 100000, 100000 + SLACK_MS * 1000);
    assert_non_null(strstr(error, "no answer to the greeting"));
    fake_stop(&fake);
}

static void meet_wrong_peer(struct fake *fake, enum kvasir_status expected)
{
    fake_start(fake);
    char address[64];
    char error[256] = "";
    struct kvasir_client *client = NULL;
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", fake->ports[0]);
    assert_int_equal(try_connect(address, 1000, error, &client), expected);
    assert_true(strlen(error) > 0);
    fake_stop(fake);
}

static void test_client_failures_other_server_is_protocol(void **state)
{
    (void)state;
    struct fake fake = {.wrong_greeting = true};
    meet_wrong_peer(&fake, KVASIR_PROTOCOL);
}

static void test_client_failures_wrong_password_is_denied(void **state)
{
    (void)state;
    struct fake fake = {.refuse_greeting = true};
    meet_wrong_peer(&fake, KVASIR_DENIED);
}

static void test_client_failures_unreachable_own_port_falls_back(void **state)
{
    (void)state;
    struct fake fake = {.reactor_count = 3, .dead_ports = true};
    struct kvasir_client *client = connect_with(&fake, 50);
    for (int i = 0; i < 20; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(kvasir_put(client, key, strlen(key), "v", 1, NULL, 0), KVASIR_OK);
    }
    kvasir_close(&client);
    fake_stop(&fake);
    assert_int_equal(fake.sets, 20);
}

/* The special key's outcome, within a deadline of 150 ms, and that the next call does not block. */
static void check_failure(const char *key, enum kvasir_status expected, size_t capacity)
{
    struct fake fake = {0};
    struct kvasir_client *client = connect_with(&fake, 10000);
    static uint8_t buffer[200000];
    memset(buffer, 0x55, sizeof buffer);
    int64_t before_us = clock_mono_us();
    assert_int_equal(kvasir_get(client, key, strlen(key), buffer, capacity, NULL, 150), expected);
    assert_true(clock_mono_us() - before_us < (150 + SLACK_MS) * 1000);
    assert_true(strlen(kvasir_error(client)) > 0);
    before_us = clock_mono_us();
    enum kvasir_status next = kvasir_get(client, "k", 1, buffer, capacity, NULL, 5000);
    /* After a timeout the server is left alone for a while; else the connection is made anew. */
    assert_int_equal(next, expected == KVASIR_TIMEOUT ? KVASIR_CLOSED : KVASIR_NOT_FOUND);
    assert_true(clock_mono_us() - before_us < SLACK_MS * 1000);
    for (size_t i = capacity; i < sizeof buffer; i++) {
        assert_int_equal(buffer[i], 0x55);
    }
    kvasir_close(&client);
    fake_stop(&fake);
}

static void test_client_failures_silence_times_out(void **state)
{
    (void)state;
    check_failure("!silent", KVASIR_TIMEOUT, 100);
}

static void test_client_failures_half_a_payload_times_out(void **state)
{
    (void)state;
    check_failure("!half", KVASIR_TIMEOUT, 100000);
    check_failure("!half", KVASIR_TIMEOUT, 10);
}

static void test_client_failures_sudden_close_is_closed(void **state)
{
    (void)state;
    check_failure("!close", KVASIR_CLOSED, 100);
    check_failure("!halfclose", KVASIR_CLOSED, 100000);
}

static void test_client_failures_bytes_that_are_no_reply(void **state)
{
    (void)state;
    check_failure("!garbage", KVASIR_PROTOCOL, 100);
    check_failure("!array", KVASIR_PROTOCOL, 100);
    check_failure("!nocrlf", KVASIR_PROTOCOL, 5000);
}

static void test_client_failures_unanswered_items_carry_the_reason(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_with(&fake, 10000);
    struct kvasir_item items[] = {
        {.key = "a", .key_length_bytes = 1},
        {.key = "!silent", .key_length_bytes = 7},
        {.key = "b", .key_length_bytes = 1},
    };
    assert_int_equal(kvasir_delete_batch(client, items, 3, 150), KVASIR_TIMEOUT);
    assert_int_equal(items[0].status, KVASIR_NOT_FOUND);
    assert_int_equal(items[1].status, KVASIR_TIMEOUT);
    assert_int_equal(items[2].status, KVASIR_TIMEOUT);
    struct kvasir_counters counters;
    kvasir_counters(client, &counters);
    assert_int_equal(counters.timeouts, 2);
    kvasir_close(&client);
    fake_stop(&fake);
}

/* The connection is found lost while sending: what was in flight fails, and what was queued does not
 * wait for its deadline either. */
static void test_client_failures_loss_while_sending_does_not_strand_the_rest(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_with(&fake, 10000);
    enum {
        ITEMS = 40,
        LENGTH = 2000000
    };
    uint8_t *bytes = calloc(1, LENGTH);
    assert_non_null(bytes);
    struct kvasir_item items[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        items[i] = (struct kvasir_item){.key = "!silent",
                                        .key_length_bytes = 7,
                                        .segment = {.iov_base = bytes, .iov_len = LENGTH}};
    }
    struct kvasir_submit_options options = {.timeout_ms = 20000};
    struct kvasir_request *request = NULL;
    assert_int_equal(kvasir_submit(client, KVASIR_CALL_PUT, items, ITEMS, &options, &request),
                     KVASIR_PENDING);
    fake_stop(&fake);
    int64_t before_us = clock_mono_us();
    assert_int_equal(kvasir_poll(client, -1, &request), KVASIR_OK);
    assert_true(clock_mono_us() - before_us < 10000000);
    assert_int_equal(kvasir_request_status(request), KVASIR_CLOSED);
    for (int i = 0; i < ITEMS; i++) {
        assert_int_equal(items[i].status, KVASIR_CLOSED);
    }
    kvasir_request_free(client, &request);
    free(bytes);
    kvasir_close(&client);
}

/* A server that went away while the client was idle and came back is reached again by the very next
 * call. */
static void test_client_failures_restarted_server_is_found_again(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_with(&fake, 1);
    assert_int_equal(kvasir_put(client, "k", 1, "v", 1, NULL, 0), KVASIR_OK);
    uint16_t port = fake.ports[0];
    fake_stop(&fake);
    char byte;
    enum kvasir_status status = KVASIR_OK;
    int64_t before_us = clock_mono_us();
    status = kvasir_get(client, "k", 1, &byte, 1, NULL, 2000);
    assert_int_equal(status, KVASIR_CLOSED);
    assert_true(clock_mono_us() - before_us < SLACK_MS * 1000);
    memset(&fake, 0, sizeof fake);
    fake.fixed_port = port;
    fake_start(&fake);
    int64_t until_us = clock_mono_us() + SLACK_MS * 1000;
    do {
        status = kvasir_get(client, "k", 1, &byte, 1, NULL, 2000);
    } while (status == KVASIR_CLOSED && clock_mono_us() < until_us);
    assert_int_equal(status, KVASIR_NOT_FOUND);
    struct kvasir_counters counters;
    kvasir_counters(client, &counters);
    assert_true(counters.reconnects > 0);
    kvasir_close(&client);
    fake_stop(&fake);
}

static void test_client_failures_forked_child_may_not_use_it(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_with(&fake, 50);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        enum kvasir_status status = kvasir_get(client, "k", 1, &byte, 1, NULL, 0);
        kvasir_close(&client);
        _exit(status == KVASIR_INVALID && client == NULL ? 0 : 1);
    }
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    /* The parent's connection is as it was. */
    assert_int_equal(kvasir_put(client, "k", 1, "v", 1, NULL, 0), KVASIR_OK);
    kvasir_close(&client);
    fake_stop(&fake);
    assert_int_equal(fake.connections, 1);
}

static void test_client_failures_close_takes_requests_along(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_with(&fake, 50);
    struct kvasir_item item = {.key = "!silent", .key_length_bytes = 7};
    struct kvasir_request *request = NULL;
    assert_int_equal(kvasir_submit(client, KVASIR_CALL_DELETE, &item, 1, NULL, &request),
                     KVASIR_PENDING);
    kvasir_close(&client);
    assert_int_equal(item.status, KVASIR_CANCELLED);
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_failures_names_a_malformed_address),
        cmocka_unit_test(test_client_failures_refused_connection_is_closed),
        cmocka_unit_test(test_client_failures_silent_greeting_times_out),
        cmocka_unit_test(test_client_failures_other_server_is_protocol),
        cmocka_unit_test(test_client_failures_wrong_password_is_denied),
        cmocka_unit_test(test_client_failures_unreachable_own_port_falls_back),
        cmocka_unit_test(test_client_failures_silence_times_out),
        cmocka_unit_test(test_client_failures_half_a_payload_times_out),
        cmocka_unit_test(test_client_failures_sudden_close_is_closed),
        cmocka_unit_test(test_client_failures_bytes_that_are_no_reply),
        cmocka_unit_test(test_client_failures_unanswered_items_carry_the_reason),
        cmocka_unit_test(test_client_failures_loss_while_sending_does_not_strand_the_rest),
        cmocka_unit_test(test_client_failures_restarted_server_is_found_again),
        cmocka_unit_test(test_client_failures_forked_child_may_not_use_it),
        cmocka_unit_test(test_client_failures_close_takes_requests_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
