/* test_ring_channel – two sides in one process: bytes, bells, and a peer that goes. */

#include "base/compiler.h"
#include "base/ring_channel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CAPACITY 4096U

struct pair {
    int ends[2];
    void *memory;
    struct ring_channel client;
    struct ring_channel server;
};

static int set_up(void **state)
{
    struct pair *pair = calloc(1, sizeof(*pair));
    pair->memory = mmap(NULL, RING_CHANNEL_BYTES(CAPACITY), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pair->memory == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM, 0, pair->ends) != 0) {
        free(pair);
        return -1;
    }
    ring_channel_open(&pair->client, pair->ends[0], pair->memory, CAPACITY, RING_CHANNEL_CLIENT);
    ring_channel_open(&pair->server, pair->ends[1], pair->memory, CAPACITY, RING_CHANNEL_SERVER);
    *state = pair;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;
    (void)close(pair->ends[0]);
    if (pair->ends[1] >= 0) {
        (void)close(pair->ends[1]);
    }
    (void)munmap(pair->memory, RING_CHANNEL_BYTES(CAPACITY));
    free(pair);
    return 0;
}

static ssize_t say(struct ring_channel *channel, size_t length)
{
    static char bytes[2 * CAPACITY];
    struct iovec piece = {.iov_base = bytes, .iov_len = length};
    return ring_channel_send(channel, &piece, 1);
}

static ssize_t hear(struct ring_channel *channel, size_t length)
{
    char bytes[2 * CAPACITY];
    struct iovec piece = {.iov_base = bytes, .iov_len = length};
    return ring_channel_receive(channel, &piece, 1);
}

static bool rang(const struct ring_channel *channel)
{
    struct pollfd wait = {.fd = channel->bell, .events = POLLIN};
    return poll(&wait, 1, 0) == 1;
}

static void test_ring_channel_both_ways_without_a_bell(void **state)
{
    struct pair *pair = *state;
    assert_int_equal(hear(&pair->server, 10), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(say(&pair->client, 5), 5);
    assert_int_equal(hear(&pair->server, 10), 5);
    assert_int_equal(say(&pair->server, 7), 7);
    assert_true(ring_channel_is_ready(&pair->client, true, false));
    assert_int_equal(hear(&pair->client, 10), 7);
    assert_false(ring_channel_is_ready(&pair->client, true, false));
    assert_false(rang(&pair->client));
    assert_false(rang(&pair->server));
}

static void test_ring_channel_rings_for_who_sleeps(void **state)
{
    struct pair *pair = *state;
    assert_true(ring_channel_sleep(&pair->server, true, false));
    assert_int_equal(say(&pair->client, 1), 1);
    assert_true(rang(&pair->server));
    ring_channel_listen(&pair->server);
    assert_false(rang(&pair->server));
    ring_channel_awake(&pair->server);
    assert_int_equal(say(&pair->client, CAPACITY), CAPACITY - 1);
    assert_int_equal(say(&pair->client, 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_true(ring_channel_sleep(&pair->client, true, true));
    assert_int_equal(hear(&pair->server, 1), 1);
    assert_true(rang(&pair->client));
    assert_false(ring_channel_sleep(&pair->client, true, true));
}

static void test_ring_channel_end_comes_after_the_last_words(void **state)
{
    struct pair *pair = *state;
    assert_int_equal(say(&pair->server, 3), 3);
    (void)close(pair->ends[1]);
    pair->ends[1] = -1;
    ring_channel_listen(&pair->client);
    assert_true(pair->client.gone);
    assert_int_equal(hear(&pair->client, 10), 3);
    assert_int_equal(hear(&pair->client, 10), 0);
    assert_int_equal(say(&pair->client, 2 * CAPACITY), CAPACITY);
    assert_int_equal(say(&pair->client, 1), -1);
    assert_int_equal(errno, EPIPE);
}

static void test_ring_channel_broken_rings(void **state)
{
    struct pair *pair = *state;
    uint32_t *words = pair->memory;
    words[0] = CAPACITY + 1; /* written, of the requests */
    assert_int_equal(hear(&pair->server, 10), -1);
    assert_int_equal(errno, EPROTO);
    words[(BYTE_RING_BYTES(CAPACITY) + CACHE_LINE_BYTES) / sizeof(*words)] = 1; /* read */
    assert_int_equal(say(&pair->server, 1), -1);
    assert_int_equal(errno, EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ring_channel_both_ways_without_a_bell, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_ring_channel_rings_for_who_sleeps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ring_channel_end_comes_after_the_last_words, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_ring_channel_broken_rings, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
