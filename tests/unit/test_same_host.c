/* Sockets of one machine against those whose ends have two addresses, and what their buffers hold. */
#include "base/same_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* Both ends of a connection from one loopback address to another. */
static void connect_pair(const char *from, const char *to, int pair[2])
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    struct sockaddr_in there = {.sin_family = AF_INET};
    socklen_t length = sizeof(there);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listening >= 0 && pair[0] >= 0);
    assert_int_equal(inet_pton(AF_INET, from, &here.sin_addr), 1);
    assert_int_equal(inet_pton(AF_INET, to, &there.sin_addr), 1);
    assert_return_code(bind(listening, (const struct sockaddr *)&there, sizeof(there)), 0);
    assert_return_code(listen(listening, 1), 0);
    assert_return_code(getsockname(listening, (struct sockaddr *)&there, &length), 0);
    assert_return_code(bind(pair[0], (const struct sockaddr *)&here, sizeof(here)), 0);
    assert_return_code(connect(pair[0], (const struct sockaddr *)&there, sizeof(there)), 0);
    pair[1] = accept(listening, NULL, NULL);
    assert_true(pair[1] >= 0);
    assert_return_code(close(listening), 0);
}

static void close_pair(const int pair[2])
{
    assert_return_code(close(pair[0]), 0);
    assert_return_code(close(pair[1]), 0);
}

static int send_bytes(int descriptor)
{
    int bytes = 0;
    socklen_t length = sizeof(bytes);
    assert_return_code(getsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, &length), 0);
    return bytes;
}

/* Bytes that the kernel takes while nobody reads. */
static size_t taken_unread(int descriptor)
{
    static const uint8_t bytes[64 << 10];
    size_t taken = 0;
    ssize_t got;
    while ((got = send(descriptor, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0) {
        taken += (size_t)got;
        assert_true(taken < (size_t)256 << 20);
    }
    return taken;
}

static void test_same_host_is_one_address_at_both_ends(void **state)
{
    int pair[2];
    (void)state;
    connect_pair("127.0.0.1", "127.0.0.1", pair);
    assert_true(same_host_is(pair[0]));
    assert_true(same_host_is(pair[1]));
    close_pair(pair);
    connect_pair("127.0.0.2", "127.0.0.1", pair);
    assert_false(same_host_is(pair[0]));
    assert_false(same_host_is(pair[1]));
    close_pair(pair);
}

static void test_same_host_is_no_unix_socket(void **state)
{
    int pair[2];
    int before;
    (void)state;
    assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    before = send_bytes(pair[0]);
    same_host_bound_send(pair[0]);
    assert_false(same_host_is(pair[0]));
    assert_int_equal(send_bytes(pair[0]), before);
    close_pair(pair);
}

static void test_same_host_bound_send_bounds_what_waits_unread(void **state)
{
    int pair[2];
    (void)state;
    connect_pair("127.0.0.1", "127.0.0.1", pair);
    same_host_bound_send(pair[0]);
    /* The sender's own bound, and what the receiver's side took of it before it was full. */
    assert_in_range(send_bytes(pair[0]), 128 << 10, 1 << 20);
    assert_in_range(taken_unread(pair[0]), 64 << 10, 8 << 20);
    close_pair(pair);
}

static void test_same_host_bound_send_leaves_others_to_the_kernel(void **state)
{
    int pair[2];
    int before;
    (void)state;
    connect_pair("127.0.0.2", "127.0.0.1", pair);
    before = send_bytes(pair[0]);
    same_host_bound_send(pair[0]);
    assert_int_equal(send_bytes(pair[0]), before);
    close_pair(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_host_is_one_address_at_both_ends),
        cmocka_unit_test(test_same_host_is_no_unix_socket),
        cmocka_unit_test(test_same_host_bound_send_bounds_what_waits_unread),
        cmocka_unit_test(test_same_host_bound_send_leaves_others_to_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
