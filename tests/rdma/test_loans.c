/* test_loans – the client-driven mode of the server: keys to exactly one value's memory, for one client
 * and for a time, and no byte moves by a key that was taken back. */

#include "server_client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MIB         ((size_t)1 << 20)
#define VALUE_BYTES (5 * MIB + 77)
#define PIECES_MAX  16
#define LOANS_MAX   256
#define SHORT_MS    1500

struct world {
    struct server server;
    struct pair pair;
    struct client client;
    int lends; /* the server offers it */
};

/* What a lease or a reservation hands out. */
struct loan {
    long long id;
    unsigned count;
    struct kvasir_remote pieces[PIECES_MAX];
};

static int offers_loans(struct client *client)
{
    int found = 0;
    redisReply *reply = client_call(client, "KV.HELLO");
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *list = reply->element[i + 1];
        if (strcmp(reply->element[i]->str, "transports") != 0) {
            continue;
        }
        for (size_t k = 0; k < list->elements; k++) {
            const redisReply *last = list->element[k]->element[list->element[k]->elements - 1];
            for (size_t m = 0; last->type == REDIS_REPLY_ARRAY && m < last->elements; m++) {
                found |= strcmp(last->element[m]->str, "client") == 0;
            }
        }
    }
    freeReplyObject(reply);
    return found;
}

static void open_lender(struct world *world, struct client *client, struct pair_end *end)
{
    char error[KVASIR_SAID_BYTES];
    client_open(client, &world->pair, end, SERVER_PORT, 0);
    client->lends = 1;
    if (!client_link(client, NULL, error, sizeof(error))) {
        fail_msg("%s", error);
    }
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    struct client plain;
    assert_non_null(world);
    *state = world;
    server_start(&world->server, NULL);
    pair_open_peer(&world->pair);
    client_open(&plain, &world->pair, &world->pair.peer, SERVER_PORT, 0);
    world->lends = offers_loans(&plain);
    client_close(&plain);
    if (world->lends) {
        open_lender(world, &world->client, &world->pair.peer);
    }
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

static void need_loans(const struct world *world)
{
    if (!world->lends) {
        print_message("the server offers no client-driven mode\n");
        skip();
    }
}

static void read_pieces(const redisReply *list, struct loan *loan)
{
    assert_true(list->elements > 0 && list->elements % 3 == 0);
    assert_true(list->elements / 3 <= PIECES_MAX);
    loan->count = (unsigned)(list->elements / 3);
    for (unsigned i = 0; i < loan->count; i++) {
        loan->pieces[i] = (struct kvasir_remote){
            .address = (uint64_t)list->element[3UL * i]->integer,
            .key = (uint32_t)list->element[3UL * i + 1]->integer,
            .bytes = (uint64_t)list->element[3UL * i + 2]->integer,
        };
    }
}

static void lease(struct client *client, const char *key, unsigned ms, struct loan *loan)
{
    redisReply *reply = client_call(client, "KV.LEASE %u %s", ms, key);
    assert_int_equal(reply->elements, 1);
    assert_int_equal(reply->element[0]->type, REDIS_REPLY_ARRAY);
    loan->id = reply->element[0]->element[0]->integer;
    read_pieces(reply->element[0]->element[3], loan);
    freeReplyObject(reply);
}

static void reserve(struct client *client, const char *key, size_t length_bytes, struct loan *loan)
{
    redisReply *reply =
        client_call(client, "KV.RESERVE %s %llu", key, (unsigned long long)length_bytes);
    if (reply->type != REDIS_REPLY_ARRAY) {
        fail_msg("%s", reply->str);
    }
    loan->id = reply->element[0]->integer;
    read_pieces(reply->element[2], loan);
    freeReplyObject(reply);
}

static void call_number(struct client *client, const char *command, long long id, long long answer)
{
    redisReply *reply = client_call(client, "%s %lld", command, id);
    if (answer >= 0) {
        assert_int_equal(reply->integer, answer);
    } else {
        assert_string_equal(reply->str, "OK");
    }
    freeReplyObject(reply);
}

/* Between the loan's pieces, in order, and the client's memory from its beginning. */
static enum kvasir_status move(struct client *client, enum kvasir_job_kind kind,
                               const struct loan *loan)
{
    struct kvasir_local local = {.memory = client->end->memory,
                                 .address = (uintptr_t)client->end->bytes};
    for (unsigned i = 0; i < loan->count; i++) {
        local.bytes += loan->pieces[i].bytes;
    }
    struct kvasir_job job = {.kind = kind,
                             .locals = &local,
                             .local_count = 1,
                             .remotes = loan->pieces,
                             .remote_count = loan->count};
    return pair_run(client->pair, client->end, client->link, &job);
}

static void assert_refused(struct client *client, const struct loan *loan)
{
    memset(client->end->bytes, PAIR_UNTOUCHED, VALUE_BYTES);
    assert_int_equal(move(client, KVASIR_JOB_READ, loan), KVASIR_DENIED);
    assert_true(pair_untouched(client->end->bytes, VALUE_BYTES));
}

static void assert_read(struct client *client, const struct loan *loan, uint32_t seed)
{
    memset(client->end->bytes, PAIR_UNTOUCHED, VALUE_BYTES);
    assert_int_equal(move(client, KVASIR_JOB_READ, loan), KVASIR_OK);
    assert_true(pair_holds(client->end->bytes, VALUE_BYTES, seed));
}

/* Reserved, written by the client, committed. */
static void put(struct client *client, const char *key, uint32_t seed, struct loan *loan)
{
    reserve(client, key, VALUE_BYTES, loan);
    pair_fill(client->end->bytes, VALUE_BYTES, seed);
    assert_int_equal(move(client, KVASIR_JOB_WRITE, loan), KVASIR_OK);
    call_number(client, "KV.COMMIT", loan->id, -1);
}

static void test_loans_client_writes_and_reads_by_itself(void **state)
{
    struct world *world = *state;
    struct loan loan;
    need_loans(world);
    put(&world->client, "k", 3, &loan);
    redisReply *reply = client_call(&world->client, "GET k");
    assert_int_equal(reply->len, VALUE_BYTES);
    assert_true(pair_holds((const uint8_t *)reply->str, VALUE_BYTES, 3));
    freeReplyObject(reply);
    lease(&world->client, "k", 60000, &loan);
    assert_read(&world->client, &loan, 3);
    call_number(&world->client, "KV.RELEASE", loan.id, 1);
}

static void test_loans_released_key_moves_no_byte(void **state)
{
    struct world *world = *state;
    struct loan loan;
    need_loans(world);
    put(&world->client, "k", 3, &loan);
    lease(&world->client, "k", 60000, &loan);
    assert_read(&world->client, &loan, 3);
    call_number(&world->client, "KV.RELEASE", loan.id, 1);
    assert_refused(&world->client, &loan);
}

static void test_loans_committed_key_writes_no_byte(void **state)
{
    struct world *world = *state;
    struct loan loan;
    need_loans(world);
    put(&world->client, "k", 3, &loan);
    pair_fill(world->client.end->bytes, VALUE_BYTES, 4);
    assert_int_equal(move(&world->client, KVASIR_JOB_WRITE, &loan), KVASIR_DENIED);
    redisReply *reply = client_call(&world->client, "GET k");
    assert_true(pair_holds((const uint8_t *)reply->str, VALUE_BYTES, 3));
    freeReplyObject(reply);
}

static void test_loans_expired_key_moves_no_byte(void **state)
{
    struct world *world = *state;
    struct loan loan;
    enum kvasir_status status = KVASIR_OK;
    need_loans(world);
    put(&world->client, "k", 3, &loan);
    lease(&world->client, "k", SHORT_MS, &loan);
    /* Read until it ends: every read gives all bytes, or none may be used. */
    while (status == KVASIR_OK) {
        memset(world->client.end->bytes, PAIR_UNTOUCHED, VALUE_BYTES);
        status = move(&world->client, KVASIR_JOB_READ, &loan);
        assert_true(status != KVASIR_OK || pair_holds(world->client.end->bytes, VALUE_BYTES, 3));
    }
    /* What ends in the middle of a read is refused, or no more is answered. */
    assert_true(status == KVASIR_DENIED || status == KVASIR_TIMEOUT);
    server_wait("reserved_values", 0);
}

static void test_loans_strangers_key_moves_no_byte(void **state)
{
    struct world *world = *state;
    struct client stranger;
    struct loan loan;
    need_loans(world);
    pair_open_client(&world->pair, &world->pair.owner);
    open_lender(world, &stranger, &world->pair.owner);
    put(&world->client, "k", 3, &loan);
    lease(&world->client, "k", 60000, &loan);
    assert_refused(&stranger, &loan);
    assert_read(&world->client, &loan, 3);
    client_close(&stranger);
}

static void test_loans_end_with_the_connection(void **state)
{
    struct world *world = *state;
    struct loan loan;
    char error[KVASIR_SAID_BYTES];
    need_loans(world);
    put(&world->client, "k", 3, &loan);
    lease(&world->client, "k", 60000, &loan);
    /* Another queue pair in the place of the first. */
    assert_int_equal(client_link(&world->client, NULL, error, sizeof(error)), 1);
    assert_refused(&world->client, &loan);
    redisReply *reply = client_call(&world->client, "FLUSHALL");
    freeReplyObject(reply);
    server_wait("orphan_values", 0);
}

static void test_loans_keep_their_bytes_while_keys_are_overwritten(void **state)
{
    struct world *world = *state;
    struct loan loan;
    need_loans(world);
    put(&world->client, "k", 3, &loan);
    lease(&world->client, "k", 60000, &loan);
    for (int i = 0; i < 40; i++) {
        struct loan other;
        char key[16];
        (void)snprintf(key, sizeof(key), i % 2 == 0 ? "k" : "k%d", i);
        put(&world->client, key, 100, &other);
    }
    assert_read(&world->client, &loan, 3);
    call_number(&world->client, "KV.RELEASE", loan.id, 1);
    server_wait("orphan_values", 0);
}

static void check_end_of_key(struct world *world, const char *command)
{
    struct loan loan;
    need_loans(world);
    put(&world->client, "k", 3, &loan);
    lease(&world->client, "k", 60000, &loan);
    assert_read(&world->client, &loan, 3);
    freeReplyObject(client_call(&world->client, command));
    server_wait("rdma_loans_recalled", 1);
    server_wait("orphan_values", 0);
    assert_refused(&world->client, &loan);
}

static void test_loans_of_a_deleted_key_move_no_byte(void **state)
{
    check_end_of_key(*state, "DEL k");
}

static void test_loans_of_a_flushed_key_move_no_byte(void **state)
{
    check_end_of_key(*state, "FLUSHALL");
}

static void test_loans_are_bounded(void **state)
{
    struct world *world = *state;
    struct loan loan;
    unsigned count = 0;
    need_loans(world);
    freeReplyObject(client_call(&world->client, "SET k %s", "some bytes"));
    for (;; count++) {
        redisReply *reply = client_call(&world->client, "KV.LEASE 60000 k");
        int good = reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
                   reply->element[0]->type == REDIS_REPLY_ARRAY;
        loan.id = good ? reply->element[0]->element[0]->integer : 0;
        freeReplyObject(reply);
        if (!good) {
            break;
        }
        assert_true(count < LOANS_MAX);
    }
    assert_true(count > 0);
    char error[KVASIR_SAID_BYTES];
    assert_int_equal(client_link(&world->client, NULL, error, sizeof(error)), 1);
    lease(&world->client, "k", 60000, &loan);
    call_number(&world->client, "KV.RELEASE", loan.id, 1);
}

#define ON_WORLD(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_WORLD(test_loans_client_writes_and_reads_by_itself),
        ON_WORLD(test_loans_released_key_moves_no_byte),
        ON_WORLD(test_loans_committed_key_writes_no_byte),
        ON_WORLD(test_loans_expired_key_moves_no_byte),
        ON_WORLD(test_loans_strangers_key_moves_no_byte),
        ON_WORLD(test_loans_end_with_the_connection),
        ON_WORLD(test_loans_keep_their_bytes_while_keys_are_overwritten),
        ON_WORLD(test_loans_of_a_deleted_key_move_no_byte),
        ON_WORLD(test_loans_of_a_flushed_key_move_no_byte),
        ON_WORLD(test_loans_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
