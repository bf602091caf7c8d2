/* test_read_ahead – bytes taken before they are used: order, ends, and how much of the pool they get. */

#include "net/read_ahead.h"

#include "base/random.h"
#include "net/wire.h"
#include "test_seed.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CHUNK_DATA   sizeof(((struct chunk *)0)->data)
#define POOL_COUNT   16
#define SOCKET_BYTES (512 << 10)

struct fixture {
    struct chunk_pool pool;
    struct wire wire;
    struct read_ahead ahead;
    int peer;
};

static void setup(struct fixture *fixture)
{
    int ends[2];
    int size = SOCKET_BYTES;
    memset(fixture, 0, sizeof(*fixture));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    (void)setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    wire_init(&fixture->wire, ends[0]);
    fixture->peer = ends[1];
    chunk_pool_init(&fixture->pool, 0, POOL_COUNT);
}

static void teardown(struct fixture *fixture)
{
    read_ahead_fini(&fixture->ahead, &fixture->pool);
    wire_close(&fixture->wire);
    (void)close(fixture->peer);
    assert_int_equal(fixture->pool.taken_count, 0);
    chunk_pool_fini(&fixture->pool);
}

static void send_bytes(struct fixture *fixture, const uint8_t *bytes, size_t length)
{
    assert_int_equal(write(fixture->peer, bytes, length), (ssize_t)length);
}

/* Reads until nothing comes; the bytes that came. errno says why it ended. */
static size_t receive_all(struct fixture *fixture, uint32_t chunk_count_max)
{
    size_t length = 0;
    bool all = false;
    ssize_t got;
    while ((got = read_ahead_receive(&fixture->ahead, &fixture->pool, &fixture->wire,
                                     chunk_count_max, &all)) > 0) {
        length += (size_t)got;
    }
    return length;
}

static void test_read_ahead_gives_back_in_order(void **state)
{
    struct fixture fixture;
    struct random random;
    static uint8_t sent[3 * CHUNK_DATA];
    static uint8_t got[3 * CHUNK_DATA];
    size_t taken = 0;
    (void)state;
    setup(&fixture);
    random_init(&random, test_seed());
    for (size_t i = 0; i < sizeof(sent); i++) {
        sent[i] = (uint8_t)random_u64(&random);
    }
    send_bytes(&fixture, sent, sizeof(sent));

    assert_int_equal(receive_all(&fixture, UINT32_MAX), sizeof(sent));
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(fixture.ahead.length_bytes, sizeof(sent));
    assert_int_equal(fixture.pool.taken_count, 3);
    while (taken < sizeof(sent)) {
        size_t left = sizeof(sent) - taken;
        size_t part = (size_t)random_below(&random, 5000) + 1;
        size_t first = (part < left ? part : left) / 3;
        struct iovec pieces[] = {{got + taken, first},
                                 {got + taken + first, (part < left ? part : left) - first}};
        taken += read_ahead_take(&fixture.ahead, &fixture.pool, pieces, 2);
    }

    assert_memory_equal(got, sent, sizeof(sent));
    assert_true(read_ahead_is_empty(&fixture.ahead));
    assert_int_equal(fixture.ahead.length_bytes, 0);
    teardown(&fixture);
}

static void test_read_ahead_leaves_others_half_of_the_pool(void **state)
{
    struct fixture fixture;
    struct chunk *other;
    static uint8_t bytes[10 * CHUNK_DATA];
    (void)state;
    setup(&fixture);
    memset(bytes, 'x', sizeof(bytes));
    other = chunk_take(&fixture.pool);
    assert_non_null(other);
    send_bytes(&fixture, bytes, sizeof(bytes));

    size_t length = receive_all(&fixture, UINT32_MAX);

    assert_int_equal(errno, ENOBUFS);
    assert_int_equal(length,
                     4 * CHUNK_DATA); /* of 8: one is taken, and it leaves as many as it has */
    chunk_give(&fixture.pool, &other);
    teardown(&fixture);
}

static void test_read_ahead_stops_at_the_count_asked_for(void **state)
{
    struct fixture fixture;
    static uint8_t bytes[4 * CHUNK_DATA];
    (void)state;
    setup(&fixture);
    memset(bytes, 'x', sizeof(bytes));
    send_bytes(&fixture, bytes, sizeof(bytes));

    assert_int_equal(receive_all(&fixture, 2), 2 * CHUNK_DATA);
    assert_int_equal(errno, ENOBUFS);
    teardown(&fixture);
}

static void test_read_ahead_tells_the_end_again(void **state)
{
    struct fixture fixture;
    bool all = false;
    (void)state;
    setup(&fixture);
    send_bytes(&fixture, (const uint8_t *)"abc", 3);
    assert_int_equal(shutdown(fixture.peer, SHUT_WR), 0);

    assert_int_equal(
        read_ahead_receive(&fixture.ahead, &fixture.pool, &fixture.wire, UINT32_MAX, &all), 3);
    assert_true(all);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            read_ahead_receive(&fixture.ahead, &fixture.pool, &fixture.wire, UINT32_MAX, &all), 0);
    }
    assert_int_equal(fixture.pool.taken_count, 1);
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_ahead_gives_back_in_order),
        cmocka_unit_test(test_read_ahead_leaves_others_half_of_the_pool),
        cmocka_unit_test(test_read_ahead_stops_at_the_count_asked_for),
        cmocka_unit_test(test_read_ahead_tells_the_end_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
