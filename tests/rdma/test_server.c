/* test_server – the whole server over RDMA: what clients put they get, from one byte to 64 MiB and in
 * pipelines; what fails names its cause, harms nobody else, and leaves nothing behind. */

#include "server_client.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KIB      ((size_t)1 << 10)
#define MIB      ((size_t)1 << 20)
#define PIPELINE 256U
#define NO_KEY   0x00badbadU

struct world {
    struct server server;
    struct pair pair;
    struct client client;
};

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    *state = world;
    server_start(&world->server, NULL);
    pair_open_peer(&world->pair);
    client_open(&world->client, &world->pair, &world->pair.peer, SERVER_PORT, 1);
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    if (world->client.redis != NULL) {
        client_close(&world->client);
    }
    server_stop(&world->server);
    pair_close(&world->pair);
    free(world);
    return 0;
}

/* Only the module; the test starts servers of its own. */
static int set_up_alone(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    *state = world;
    pair_open_peer(&world->pair);
    return 0;
}

static void check_value(struct client *client, const char *key, size_t length_bytes, uint32_t seed)
{
    uint8_t *bytes = client->end->bytes;
    pair_fill(bytes, length_bytes, seed);
    client_put(client, key, 0, length_bytes);
    memset(bytes, PAIR_UNTOUCHED, length_bytes);
    client_get(client, key, 0, length_bytes);
    assert_true(pair_holds(bytes, length_bytes, seed));
}

/* ---- transfers -------------------------------------------------------------------------------- */

static void test_server_keeps_one_byte_to_many(void **state)
{
    static const size_t SIZES[] = {1, 100, 4096, 64 * KIB + 1, 2 * MIB, 5 * MIB + 3};
    struct world *world = *state;
    for (uint32_t i = 0; i < sizeof(SIZES) / sizeof(SIZES[0]); i++) {
        check_value(&world->client, "k", SIZES[i], i);
        assert_true(pair_untouched(world->pair.peer.bytes + SIZES[i], 64));
    }
    assert_int_equal(server_info("rdma_puts"), 6);
    assert_int_equal(server_info("rdma_gets"), 6);
    assert_int_equal(server_info("rdma_failed"), 0);
}

static void test_server_keeps_64_mib(void **state)
{
    struct world *world = *state;
    check_value(&world->client, "big", 64 * MIB, 64);
}

static void test_server_and_tcp_see_the_same_value(void **state)
{
    struct world *world = *state;
    pair_fill(world->pair.peer.bytes, 300 * KIB, 8);
    client_put(&world->client, "shared", 0, 300 * KIB);
    redisReply *reply = client_call(&world->client, "GET shared");
    assert_int_equal(reply->len, 300 * KIB);
    assert_memory_equal(reply->str, world->pair.peer.bytes, 300 * KIB);
    freeReplyObject(reply);
}

static void test_server_answers_a_pipeline_of_256_in_order(void **state)
{
    struct world *world = *state;
    struct client *client = &world->client;
    char key[16];
    char answer[256];
    pair_fill(client->end->bytes, PIPELINE * 4 * KIB, 12);
    for (unsigned i = 0; i < PIPELINE; i++) {
        (void)snprintf(key, sizeof(key), "p%u", i);
        client_queue_put(client, key, i * 4 * KIB, 4 * KIB - i, 0);
    }
    for (unsigned i = 0; i < PIPELINE; i++) {
        client_answer(client, answer, sizeof(answer));
        assert_string_equal(answer, "OK");
    }
    uint8_t *copy = malloc(PIPELINE * 4 * KIB);
    assert_non_null(copy);
    memcpy(copy, client->end->bytes, PIPELINE * 4 * KIB);
    memset(client->end->bytes, PAIR_UNTOUCHED, PIPELINE * 4 * KIB);
    for (unsigned i = 0; i < PIPELINE; i++) {
        (void)snprintf(key, sizeof(key), "p%u", i);
        client_queue_get(client, key, i * 4 * KIB, 4 * KIB);
    }
    for (unsigned i = 0; i < PIPELINE; i++) {
        size_t length_bytes = 4 * KIB - i;
        client_answer(client, answer, sizeof(answer));
        assert_int_equal(strtoul(answer, NULL, 10), length_bytes);
        assert_memory_equal(client->end->bytes + i * 4 * KIB, copy + i * 4 * KIB, length_bytes);
        assert_true(pair_untouched(client->end->bytes + i * 4 * KIB + length_bytes, i));
    }
    free(copy);
}

static void test_server_keeps_thousands_of_keys_of_two_clients(void **state)
{
    enum {
        ROUNDS = 8
    };
    struct world *world = *state;
    struct client other;
    char key[16];
    char answer[256];
    /* Each reactor has a port of its own besides. */
    client_open(&other, &world->pair, &world->pair.peer, SERVER_PORT + 1, 1);
    struct client *clients[2] = {&world->client, &other};
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct client *client = clients[round % 2];
        pair_fill(client->end->bytes, PIPELINE * 1 * KIB, round);
        for (unsigned i = 0; i < PIPELINE; i++) {
            (void)snprintf(key, sizeof(key), "%u:%u", round, i);
            client_queue_put(client, key, i * KIB, KIB, 0);
        }
        for (unsigned i = 0; i < PIPELINE; i++) {
            client_answer(client, answer, sizeof(answer));
            assert_string_equal(answer, "OK");
        }
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct client *client = clients[(round + 1) % 2];
        memset(client->end->bytes, PAIR_UNTOUCHED, PIPELINE * KIB);
        for (unsigned i = 0; i < PIPELINE; i++) {
            (void)snprintf(key, sizeof(key), "%u:%u", round, i);
            client_queue_get(client, key, i * KIB, KIB);
        }
        for (unsigned i = 0; i < PIPELINE; i++) {
            client_answer(client, answer, sizeof(answer));
            assert_string_equal(answer, "1024");
        }
        assert_true(pair_holds(client->end->bytes, PIPELINE * KIB, round));
    }
    client_close(&other);
}

static void test_server_expiry_gives_all_or_nothing(void **state)
{
    struct world *world = *state;
    struct client *client = &world->client;
    char answer[256];
    char text[32];
    size_t length_bytes = 4 * MIB;
    unsigned gone = 0;
    pair_fill(client->end->bytes, length_bytes, 77);
    client_put(client, "short", 0, length_bytes);
    freeReplyObject(client_call(client, "PEXPIRE short 400"));
    (void)snprintf(text, sizeof(text), "%zu", length_bytes);
    while (gone == 0) {
        memset(client->end->bytes, PAIR_UNTOUCHED, length_bytes);
        client_queue_get(client, "short", 0, length_bytes);
        client_answer(client, answer, sizeof(answer));
        gone = strcmp(answer, "nil") == 0;
        if (!gone) {
            assert_string_equal(answer, text);
            assert_true(pair_holds(client->end->bytes, length_bytes, 77));
        }
    }
    assert_true(pair_untouched(client->end->bytes, length_bytes));
}

/* ---- keys that are none ------------------------------------------------------------------------ */

static void test_server_wrong_key_harms_its_client_only(void **state)
{
    struct world *world = *state;
    struct client other;
    char answer[KVASIR_SAID_BYTES];
    client_open(&other, &world->pair, &world->pair.peer, SERVER_PORT, 1);
    client_queue_put(&world->client, "w", 0, 64 * KIB, NO_KEY);
    client_answer(&world->client, answer, sizeof(answer));
    assert_non_null(strstr(answer, "IO "));
    redisReply *reply = client_call(&world->client, "EXISTS w");
    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
    check_value(&other, "o", 64 * KIB, 1);

    assert_int_equal(client_link(&world->client, NULL, answer, sizeof(answer)), 1);
    check_value(&world->client, "w", 64 * KIB, 2);
    assert_true(server_info("rdma_failed") > 0);
    client_close(&other);
}

static void test_server_does_not_use_another_clients_key(void **state)
{
    struct world *world = *state;
    struct kvasir_remote theirs;
    unsigned count = 0;
    char answer[KVASIR_SAID_BYTES];
    struct pair_end *stranger = &world->pair.owner;
    pair_open_client(&world->pair, stranger);
    pair_fill(stranger->bytes, 64 * KIB, 5);
    assert_int_equal(world->pair.ops->memory_expose(stranger->memory, (uintptr_t)stranger->bytes,
                                                    64 * KIB, &theirs, 1, &count),
                     KVASIR_OK);
    redisReply *reply = client_call(&world->client, "KV.PUT stolen 65536 FROM %llu %u 65536",
                                    (unsigned long long)theirs.address, (unsigned)theirs.key);
    (void)snprintf(answer, sizeof(answer), "%s", reply->str != NULL ? reply->str : "");
    freeReplyObject(reply);
    assert_non_null(strstr(answer, "IO "));
    reply = client_call(&world->client, "EXISTS stolen");
    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
}

/* ---- sides that die ---------------------------------------------------------------------------- */

/* A client in a process of its own, which puts without end. */
static pid_t start_putter(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct pair pair;
        struct client client;
        char answer[256];
        pair_open_peer(&pair);
        client_open(&client, &pair, &pair.peer, SERVER_PORT, 1);
        for (;;) {
            for (int i = 0; i < 4; i++) {
                client_queue_put(&client, "putter", 0, 16 * MIB, 0);
            }
            for (int i = 0; i < 4; i++) {
                client_answer(&client, answer, sizeof(answer));
            }
        }
    }
    return pid;
}

static void test_server_outlives_clients_that_are_killed(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < 3; i++) {
        long long before = server_info("rdma_in_bytes");
        pid_t pid = start_putter();
        server_wait("rdma_clients", 2);
        /* At its connecting, between two transfers, and in the midst of some. */
        while (i > 0 && server_info("rdma_in_bytes") == before) {
            (void)usleep(1000 * (useconds_t)i);
        }
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        server_wait("rdma_clients", 1);
        server_wait("reserved_values", 0);
        check_value(&world->client, "after", MIB, 3);
    }
}

static void test_server_killed_under_transfers_ends_the_clients_calls(void **state)
{
    struct world *world = *state;
    struct client *client = &world->client;
    char answer[KVASIR_SAID_BYTES];
    for (int i = 0; i < 4; i++) {
        client_queue_put(client, "k", 0, 16 * MIB, 0);
    }
    int done = 0;
    assert_int_equal(redisBufferWrite(client->redis, &done), REDIS_OK);
    (void)usleep(50000);
    server_kill(&world->server);
    client_answer(client, answer, sizeof(answer));
    while (strcmp(answer, "OK") == 0) {
        client_answer(client, answer, sizeof(answer));
    }
    assert_non_null(strstr(answer, "no answer"));
    client_close(client);

    server_start(&world->server, NULL);
    client_open(client, &world->pair, &world->pair.peer, SERVER_PORT, 1);
    check_value(client, "k", MIB, 9);
}

/* ---- set-up that does not fit ------------------------------------------------------------------ */

static void test_server_names_an_unreachable_client(void **state)
{
    struct world *world = *state;
    struct kvasir_link_address wrong = {.mtu_bytes = 4096};
    char answer[KVASIR_SAID_BYTES] = "";
    assert_int_equal(inet_pton(AF_INET6, "::ffff:10.9.0.77", wrong.gid.raw), 1);
    assert_int_equal(client_link(&world->client, &wrong, answer, sizeof(answer)), 0);
    assert_non_null(strstr(answer, "10.9.0.77"));
    assert_non_null(strstr(answer, pair_text("VM_ADDRESS")));
    assert_non_null(strstr(answer, "MTU"));
    assert_int_equal(client_link(&world->client, NULL, answer, sizeof(answer)), 1);
    check_value(&world->client, "k", 4 * KIB, 9);
}

static void test_server_with_a_wrong_gid_index_says_so(void **state)
{
    static const char *const OPTIONS[] = {"--rdma-gid-index", "77", NULL};
    struct world *world = *state;
    server_start(&world->server, OPTIONS);
    assert_true(server_logged("77"));
    client_open(&world->client, &world->pair, &world->pair.peer, SERVER_PORT, 0);
    redisReply *reply = client_call(&world->client, "KV.CONNECT RDMA QPN 1 PSN 1 GID ::1 MTU 1024 "
                                                    "RD_ATOMIC 1");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(reply->str, "UNSUPPORTED"));
    assert_non_null(strstr(reply->str, "77"));
    freeReplyObject(reply);
}

static void test_server_and_client_use_the_lower_mtu(void **state)
{
    static const char *const OPTIONS[] = {"--rdma-mtu", "1024", NULL};
    struct world *world = *state;
    server_start(&world->server, OPTIONS);
    client_open(&world->client, &world->pair, &world->pair.peer, SERVER_PORT, 1);
    check_value(&world->client, "k", 300 * KIB, 9);
}

static void test_server_without_locked_memory_serves_tcp(void **state)
{
    struct world *world = *state;
    server_start_limited(&world->server, 64 * KIB);
    assert_true(server_logged("memlock"));
    client_open(&world->client, &world->pair, &world->pair.peer, SERVER_PORT, 0);
    redisReply *reply = client_call(&world->client, "SET k v");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
}

static void test_server_link_down_under_transfers_falls_back_to_tcp(void **state)
{
    struct world *world = *state;
    struct client *client = &world->client;
    char answer[KVASIR_SAID_BYTES];
    pair_fill(client->end->bytes, 16 * MIB, 50);
    client_put(client, "k", 0, 16 * MIB);
    for (int i = 0; i < 4; i++) {
        client_queue_get(client, "k", (size_t)i * 16 * MIB, 16 * MIB);
    }
    int done = 0;
    assert_int_equal(redisBufferWrite(client->redis, &done), REDIS_OK);
    assert_int_equal(pair_run_program("/usr/sbin/vm_link", "down", "vm1"), 0);
    unsigned failed = 0;
    for (int i = 0; i < 4; i++) {
        client_answer(client, answer, sizeof(answer));
        failed += strstr(answer, "IO ") != NULL;
    }
    assert_true(failed > 0);
    /* By the socket, at once. */
    redisReply *reply = client_call(client, "GET k");
    assert_int_equal(reply->len, 16 * MIB);
    assert_true(pair_holds((const uint8_t *)reply->str, 16 * MIB, 50));
    freeReplyObject(reply);

    assert_int_equal(pair_run_program("/usr/sbin/vm_link", "up", "vm1"), 0);
    assert_int_equal(client_link(client, NULL, answer, sizeof(answer)), 1);
    check_value(client, "k", MIB, 51);
}

#define ON_WORLD(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define ALONE(name)    cmocka_unit_test_setup_teardown(name, set_up_alone, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_WORLD(test_server_keeps_one_byte_to_many),
        ON_WORLD(test_server_keeps_64_mib),
        ON_WORLD(test_server_and_tcp_see_the_same_value),
        ON_WORLD(test_server_answers_a_pipeline_of_256_in_order),
        ON_WORLD(test_server_keeps_thousands_of_keys_of_two_clients),
        ON_WORLD(test_server_expiry_gives_all_or_nothing),
        ON_WORLD(test_server_wrong_key_harms_its_client_only),
        ON_WORLD(test_server_does_not_use_another_clients_key),
        ON_WORLD(test_server_outlives_clients_that_are_killed),
        ON_WORLD(test_server_killed_under_transfers_ends_the_clients_calls),
        ON_WORLD(test_server_names_an_unreachable_client),
        ALONE(test_server_with_a_wrong_gid_index_says_so),
        ALONE(test_server_and_client_use_the_lower_mtu),
        ALONE(test_server_without_locked_memory_serves_tcp),
        ON_WORLD(test_server_link_down_under_transfers_falls_back_to_tcp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
