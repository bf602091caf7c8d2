/* test_listener – sockets that accept: shared and busy ports, socket files, who is at the other end. */

#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct fixture {
    char folder[64];
    char path[96];
    char error[512];
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    (void)snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/test_listener-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    (void)snprintf(fixture->path, sizeof(fixture->path), "%s/s", fixture->folder);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    (void)unlink(fixture->path);
    assert_int_equal(rmdir(fixture->folder), 0);
    free(fixture);
    return 0;
}

static uint16_t port_of(int descriptor)
{
    struct sockaddr_in name = {0};
    socklen_t length = sizeof(name);
    assert_int_equal(getsockname(descriptor, (struct sockaddr *)&name, &length), 0);
    return ntohs(name.sin_port);
}

static enum kvasir_status open_tcp(struct fixture *fixture, const char *address, uint16_t port,
                                   bool shared, int *descriptor)
{
    return listener_open_tcp(address, port, shared, 16, fixture->error, sizeof(fixture->error),
                             descriptor);
}

static enum kvasir_status open_unix(struct fixture *fixture, const char *path, int *descriptor)
{
    return listener_open_unix(path, 0700, 16, fixture->error, sizeof(fixture->error), descriptor);
}

static void test_listener_shares_a_port_only_when_asked(void **state)
{
    struct fixture *fixture = *state;
    int first = -1;
    int second = -1;
    int third = -1;
    assert_int_equal(open_tcp(fixture, "127.0.0.1", 0, true, &first), KVASIR_OK);
    uint16_t port = port_of(first);
    assert_int_equal(open_tcp(fixture, "127.0.0.1", port, true, &second), KVASIR_OK);
    assert_int_equal(open_tcp(fixture, "127.0.0.1", port, false, &third), KVASIR_BUSY);
    char text[16];
    (void)snprintf(text, sizeof(text), "%u", (unsigned)port);
    assert_non_null(strstr(fixture->error, text));
    assert_int_equal(third, -1);
    (void)close(first);
    (void)close(second);
}

static void test_listener_bound_only_lets_no_client_through(void **state)
{
    struct fixture *fixture = *state;
    struct sockaddr_in name = {.sin_family = AF_INET};
    int bound = -1;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(client >= 0);
    assert_int_equal(
        listener_bind_tcp("127.0.0.1", 0, false, fixture->error, sizeof(fixture->error), &bound),
        KVASIR_OK);
    name.sin_port = htons(port_of(bound));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(client, (const struct sockaddr *)&name, sizeof(name)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    (void)close(client);
    (void)close(bound);
}

static void test_listener_refuses_addresses_that_are_none(void **state)
{
    struct fixture *fixture = *state;
    int descriptor = -1;
    assert_int_equal(open_tcp(fixture, "not an address", 0, false, &descriptor), KVASIR_INVALID);
    assert_non_null(strstr(fixture->error, "not an address"));
    assert_int_equal(open_tcp(fixture, "192.0.2.1", 0, false, &descriptor), KVASIR_NOT_FOUND);
    assert_int_equal(descriptor, -1);
}

static void connect_unix(const char *path, int *client)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    *client = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(*client, (const struct sockaddr *)&name, sizeof(name)), 0);
}

static void test_listener_unix_accepts_and_knows_the_peer(void **state)
{
    struct fixture *fixture = *state;
    int listening = -1;
    int client = -1;
    int accepted = -1;
    uint32_t uid = 12345;
    char peer[LISTENER_ADDRESS_BYTES];
    char local[LISTENER_ADDRESS_BYTES];
    bool is_unix = false;
    struct stat facts;
    assert_int_equal(open_unix(fixture, fixture->path, &listening), KVASIR_OK);
    assert_int_equal(stat(fixture->path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    assert_int_equal(listener_accept(listening, &accepted), KVASIR_AGAIN);
    connect_unix(fixture->path, &client);
    assert_int_equal(listener_accept(listening, &accepted), KVASIR_OK);
    assert_true(listener_peer_uid(accepted, &uid));
    assert_int_equal(uid, geteuid());
    listener_addresses(accepted, peer, local, &is_unix);
    assert_true(is_unix);
    assert_non_null(strstr(local, fixture->path));
    (void)close(client);
    (void)close(accepted);
    (void)close(listening);
}

static void test_listener_tcp_peer_has_no_user(void **state)
{
    struct fixture *fixture = *state;
    int listening = -1;
    int accepted = -1;
    int client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = {.sin_family = AF_INET};
    char peer[LISTENER_ADDRESS_BYTES];
    char local[LISTENER_ADDRESS_BYTES];
    bool is_unix = true;
    uint32_t uid;
    assert_int_equal(open_tcp(fixture, "127.0.0.1", 0, false, &listening), KVASIR_OK);
    name.sin_port = htons(port_of(listening));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(client, (const struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(listener_accept(listening, &accepted), KVASIR_OK);
    listener_addresses(accepted, peer, local, &is_unix);
    assert_false(is_unix);
    assert_ptr_equal(strstr(peer, "127.0.0.1:"), peer);
    assert_false(listener_peer_uid(accepted, &uid) && uid != (uint32_t)-1);
    (void)close(client);
    (void)close(accepted);
    (void)close(listening);
}

static void test_listener_unix_busy_dead_and_foreign_files(void **state)
{
    struct fixture *fixture = *state;
    int first = -1;
    int second = -1;
    assert_int_equal(open_unix(fixture, fixture->path, &first), KVASIR_OK);
    assert_int_equal(open_unix(fixture, fixture->path, &second), KVASIR_BUSY);
    /* Its server is gone, the file is still there. */
    (void)close(first);
    assert_int_equal(open_unix(fixture, fixture->path, &second), KVASIR_OK);
    (void)close(second);
    (void)unlink(fixture->path);
    FILE *file = fopen(fixture->path, "w");
    assert_non_null(file);
    (void)fclose(file);
    assert_int_not_equal(open_unix(fixture, fixture->path, &first), KVASIR_OK);
    assert_int_equal(access(fixture->path, F_OK), 0);
}

static void test_listener_unix_path_too_long_is_named(void **state)
{
    struct fixture *fixture = *state;
    char path[200];
    int descriptor = -1;
    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(open_unix(fixture, path, &descriptor), KVASIR_INVALID);
    assert_non_null(strstr(fixture->error, "107"));
}

static void test_listener_bind_is_taken_apart(void **state)
{
    struct listener_bind binds[LISTENER_BIND_MAX];
    (void)state;
    assert_int_equal(listener_parse_bind("  127.0.0.1\t-::1 * ", binds), 3);
    assert_string_equal(binds[0].address, "127.0.0.1");
    assert_false(binds[0].optional);
    assert_true(listener_bind_is_local(&binds[0]));
    assert_string_equal(binds[1].address, "::1");
    assert_true(binds[1].optional);
    assert_true(listener_bind_is_local(&binds[1]));
    assert_string_equal(binds[2].address, "*");
    assert_false(listener_bind_is_local(&binds[2]));
}

static void test_listener_bind_of_none_or_too_many_is_refused(void **state)
{
    struct listener_bind binds[LISTENER_BIND_MAX];
    char text[400] = "";
    (void)state;
    for (unsigned i = 0; i < LISTENER_BIND_MAX; i++) {
        memcpy(text + (size_t)4 * i, "::1 ", 4);
    }
    assert_int_equal(listener_parse_bind(text, binds), LISTENER_BIND_MAX);
    memcpy(text + (size_t)4 * LISTENER_BIND_MAX, "::1", 3);
    assert_int_equal(listener_parse_bind(text, binds), 0);
    assert_int_equal(listener_parse_bind("", binds), 0);
    assert_int_equal(listener_parse_bind("- ::1", binds), 0);
    memset(text, 'a', LISTENER_ADDRESS_BYTES);
    text[LISTENER_ADDRESS_BYTES] = '\0';
    assert_int_equal(listener_parse_bind(text, binds), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_listener_shares_a_port_only_when_asked, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_listener_bound_only_lets_no_client_through, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_listener_refuses_addresses_that_are_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_listener_unix_accepts_and_knows_the_peer, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_listener_tcp_peer_has_no_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_listener_unix_busy_dead_and_foreign_files, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_listener_unix_path_too_long_is_named, setup, teardown),
        cmocka_unit_test(test_listener_bind_is_taken_apart),
        cmocka_unit_test(test_listener_bind_of_none_or_too_many_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
