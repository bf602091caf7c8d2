/* test_kills – kill -9 of either side at each step of a transfer: what the dead one held comes back to the
 * last page, grant and window, nobody sees bytes that are not his, and the other side's calls end. */

#include "server_client.h"

#include <poll.h>
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

#define MIB         ((size_t)1 << 20)
#define VALUE_BYTES (8 * MIB + 77)
#define PIECES_MAX  16
/* Requests of a step in which the server moves the bytes. */
#define PIPELINED 3
/* Of the first reactor alone: all clients shall use the same windows, which are few. */
#define PORT          (SERVER_PORT + 1)
#define WINDOWS       "16"
#define OLD_SEED      5U
#define NEW_SEED      6U
#define LENT_MS       60000
#define DEADLINE_MS   60000
#define LEASES_MAX    16U
#define DESCRIPTOR    "3"
#define DESCRIPTOR_NR 3

/* Where one side is killed. */
enum step {
    STEP_CONNECT_ASKED, /* the server's answer is not read */
    STEP_CONNECT_ANSWERED,
    STEP_CONNECTED,
    STEP_PUTS_UNDER_WAY, /* the server reads from the client */
    STEP_GETS_UNDER_WAY,
    STEP_RESERVE_ASKED,
    STEP_RESERVED,
    STEP_WRITE_UNDER_WAY, /* the client writes to the server */
    STEP_WRITTEN,
    STEP_COMMIT_ASKED,
    STEP_LEASE_ASKED,
    STEP_LEASED,
    STEP_READ_UNDER_WAY,
    STEP_READ,
    STEP_RELEASE_ASKED,
    STEP_COUNT
};

static const char *const NAMES[STEP_COUNT] = {
    "connect asked", "connect answered", "connected",   "puts under way", "gets under way",
    "reserve asked", "reserved",         "write begun", "written",        "commit asked",
    "lease asked",   "leased",           "read begun",  "read",           "release asked",
};

static const char *const OPTIONS[] = {"--rdma-windows-max", WINDOWS, NULL};

/* What a client was lent. */
struct loan {
    long long id;
    unsigned count;
    struct kvasir_remote pieces[PIECES_MAX];
    struct kvasir_local local; /* the whole of the client's memory for it */
    struct kvasir_job job;
};

struct world {
    struct server server;
    struct pair pair;
    struct client client;
    struct loan loan;
};

/* ---- up to a step, as a client ----------------------------------------------------------------- */

static void send_now(struct client *client)
{
    int done = 0;
    while (!done) {
        assert_int_equal(redisBufferWrite(client->redis, &done), REDIS_OK);
    }
}

static void ask_to_connect(struct client *client)
{
    struct kvasir_link_address own;
    pair_create_link(client->pair, client->end, &client->link, &own);
    assert_int_equal(redisAppendCommand(client->redis,
                                        "KV.CONNECT RDMA QPN %u PSN %u GID ::ffff:%s MTU %u "
                                        "RD_ATOMIC %u MODE CLIENT",
                                        own.queue_pair, own.packet_sequence,
                                        pair_text("VM_ADDRESS2"), own.mtu_bytes, own.rd_atomic),
                     REDIS_OK);
    send_now(client);
}

static void queue_requests(struct client *client, int put)
{
    for (unsigned i = 0; i < PIPELINED; i++) {
        if (put) {
            client_queue_put(client, "new", 0, VALUE_BYTES, 0);
        } else {
            client_queue_get(client, "old", 0, VALUE_BYTES);
        }
    }
    send_now(client);
}

static void ask_for_loan(struct client *client, int put)
{
    assert_int_equal(put ? redisAppendCommand(client->redis, "KV.RESERVE new %llu",
                                              (unsigned long long)VALUE_BYTES)
                         : redisAppendCommand(client->redis, "KV.LEASE %d old", LENT_MS),
                     REDIS_OK);
    send_now(client);
}

static void read_loan(struct client *client, int put, struct loan *loan)
{
    redisReply *reply = NULL;
    assert_int_equal(redisGetReply(client->redis, (void **)&reply), REDIS_OK);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    const redisReply *lent = put ? reply : reply->element[0];
    const redisReply *list = lent->element[put ? 2 : 3];
    loan->id = lent->element[0]->integer;
    loan->count = (unsigned)(list->elements / 3);
    assert_true(loan->count > 0 && loan->count <= PIECES_MAX);
    for (unsigned i = 0; i < loan->count; i++) {
        loan->pieces[i] = (struct kvasir_remote){
            .address = (uint64_t)list->element[3UL * i]->integer,
            .key = (uint32_t)list->element[3UL * i + 1]->integer,
            .bytes = (uint64_t)list->element[3UL * i + 2]->integer,
        };
    }
    freeReplyObject(reply);
    loan->local = (struct kvasir_local){.memory = client->end->memory,
                                        .address = (uintptr_t)client->end->bytes,
                                        .bytes = VALUE_BYTES};
    loan->job = (struct kvasir_job){.kind = put ? KVASIR_JOB_WRITE : KVASIR_JOB_READ,
                                    .cookie = (uintptr_t)loan,
                                    .locals = &loan->local,
                                    .local_count = 1,
                                    .remotes = loan->pieces,
                                    .remote_count = loan->count};
}

static enum kvasir_status submit(struct client *client, struct loan *loan)
{
    return client->pair->ops->submit(client->link, &loan->job);
}

static void ask_for_end(struct client *client, const char *command, long long id)
{
    assert_int_equal(redisAppendCommand(client->redis, "%s %lld", command, id), REDIS_OK);
    send_now(client);
}

/* RESERVE, write, COMMIT, or LEASE, read, RELEASE. */
static void reach_driven(struct client *client, enum step step, struct loan *loan)
{
    int put = step <= STEP_COMMIT_ASKED;
    enum step first = put ? STEP_RESERVE_ASKED : STEP_LEASE_ASKED;
    ask_for_loan(client, put);
    if (step == first) {
        return;
    }
    read_loan(client, put, loan);
    if (step == first + 1) {
        return;
    }
    assert_int_equal(submit(client, loan), KVASIR_PENDING);
    if (step == first + 2) {
        return;
    }
    assert_int_equal(pair_wait(client->pair, client->end).status, KVASIR_OK);
    if (step == first + 3) {
        return;
    }
    ask_for_end(client, put ? "KV.COMMIT" : "KV.RELEASE", loan->id);
}

static void reach(struct client *client, enum step step, struct loan *loan)
{
    char said[KVASIR_SAID_BYTES];
    pair_fill(client->end->bytes, VALUE_BYTES, NEW_SEED);
    if (step <= STEP_CONNECT_ANSWERED) {
        redisReply *reply = NULL;
        ask_to_connect(client);
        if (step == STEP_CONNECT_ANSWERED) {
            assert_int_equal(redisGetReply(client->redis, (void **)&reply), REDIS_OK);
            freeReplyObject(reply);
        }
        return;
    }
    client->lends = 1;
    if (!client_link(client, NULL, said, sizeof(said))) {
        fail_msg("%s", said);
    }
    if (step == STEP_PUTS_UNDER_WAY || step == STEP_GETS_UNDER_WAY) {
        queue_requests(client, step == STEP_PUTS_UNDER_WAY);
    } else if (step > STEP_GETS_UNDER_WAY) {
        reach_driven(client, step, loan);
    }
}

/* ---- the client is killed ------------------------------------------------------------------------ */

/* This program anew, as a client that goes up to a step, says so, and stays there. */
_Noreturn static void be_client(const char *step)
{
    static struct pair pair;
    static struct client client;
    static struct loan loan;
    pair_open_peer(&pair);
    client_open(&client, &pair, &pair.peer, PORT, 0);
    reach(&client, (enum step)strtoul(step, NULL, 10), &loan);
    assert_int_equal(write(DESCRIPTOR_NR, "r", 1), 1);
    for (;;) {
        (void)pause();
    }
}

static pid_t start_client(enum step step)
{
    int ends[2];
    char number[16];
    char said = 0;
    (void)snprintf(number, sizeof(number), "%d", (int)step);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        /* Whatever else is open here is not the client's. */
        if (dup2(ends[1], DESCRIPTOR_NR) >= 0) {
            (void)execl("/proc/self/exe", "test_kills", number, (char *)NULL);
        }
        _exit(127);
    }
    (void)close(ends[1]);
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    if (poll(&ready, 1, DEADLINE_MS) != 1 || read(ends[0], &said, 1) != 1) {
        fail_msg("the client did not come as far as \"%s\"", NAMES[step]);
    }
    (void)close(ends[0]);
    return pid;
}

/* How many leases the windows are enough for. */
static unsigned count_leases(struct world *world)
{
    struct client *client = &world->client;
    char said[KVASIR_SAID_BYTES];
    unsigned count = 0;
    int good = 1;
    client_open(client, &world->pair, &world->pair.peer, PORT, 0);
    client->lends = 1;
    if (!client_link(client, NULL, said, sizeof(said))) {
        fail_msg("%s", said);
    }
    for (; good && count < LEASES_MAX; count += good ? 1 : 0) {
        redisReply *reply = client_call(client, "KV.LEASE %d old", LENT_MS);
        good = reply->type == REDIS_REPLY_ARRAY && reply->element[0]->type == REDIS_REPLY_ARRAY;
        freeReplyObject(reply);
    }
    client_close(client);
    return count;
}

static void wait_until_idle(long long pages_free)
{
    server_wait("rdma_clients", 0);
    server_wait("reserved_values", 0);
    server_wait("orphan_values", 0);
    server_wait("leases", 0);
    server_wait("rdma_lent_bytes", 0);
    server_wait("uploads_under_way_bytes", 0);
    server_wait("payload_pages_free", pages_free);
}

/* Both values are whole; the new one may be absent. */
static void check_values(struct client *client)
{
    redisReply *reply = client_call(client, "GET old");
    assert_int_equal(reply->len, VALUE_BYTES);
    assert_true(pair_holds((const uint8_t *)reply->str, VALUE_BYTES, OLD_SEED));
    freeReplyObject(reply);
    reply = client_call(client, "GETDEL new");
    if (reply->type != REDIS_REPLY_NIL) {
        assert_int_equal(reply->len, VALUE_BYTES);
        assert_true(pair_holds((const uint8_t *)reply->str, VALUE_BYTES, NEW_SEED));
    }
    freeReplyObject(reply);
}

static void open_with_old_value(struct world *world)
{
    struct client *client = &world->client;
    client_open(client, &world->pair, &world->pair.peer, PORT, 0);
    pair_fill(client->end->bytes, VALUE_BYTES, OLD_SEED);
    freeReplyObject(client_call(client, "SET old %b", client->end->bytes, VALUE_BYTES));
}

static void test_kills_of_clients_leave_nothing_behind(void **state)
{
    struct world *world = *state;
    struct client observer;
    server_start(&world->server, OPTIONS);
    open_with_old_value(world);
    client_close(&world->client);
    client_open(&observer, &world->pair, &world->pair.peer, PORT, 0);
    long long pages_free = server_info("payload_pages_free");
    unsigned leases = count_leases(world);
    assert_true(leases > 0 && leases < LEASES_MAX);
    for (enum step step = 0; step < STEP_COUNT; step++) {
        pid_t pid = start_client(step);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        print_message("killed: client, %s\n", NAMES[step]);
        server_wait("rdma_clients", 0);
        check_values(&observer);
        wait_until_idle(pages_free);
        assert_int_equal(count_leases(world), leases);
        wait_until_idle(pages_free);
    }
    client_close(&observer);
}

/* ---- the server is killed ------------------------------------------------------------------------ */

/* Of the steps with windows one only: the driver of emulated devices takes 50 s to end a process that has
 * bound some, and its sockets stay open for as long. */
static const enum step SERVER_STEPS[] = {
    STEP_CONNECT_ASKED,  STEP_CONNECT_ANSWERED, STEP_CONNECTED,
    STEP_PUTS_UNDER_WAY, STEP_GETS_UNDER_WAY,   STEP_READ_UNDER_WAY,
};

/* Every call comes to an end. */
static void check_calls_end(struct client *client, enum step step)
{
    char answer[KVASIR_SAID_BYTES] = "";
    if (step == STEP_READ_UNDER_WAY) {
        /* Whether the last byte came before the end or not. */
        struct kvasir_event event = pair_wait(client->pair, client->end);
        assert_int_equal(event.kind, KVASIR_EVENT_JOB);
        assert_true(event.status != KVASIR_OK ||
                    pair_holds(client->end->bytes, VALUE_BYTES, OLD_SEED));
    }
    while (strstr(answer, "no answer") == NULL) {
        client_answer(client, answer, sizeof(answer));
    }
}

static void test_kills_of_the_server_end_the_clients_calls(void **state)
{
    struct world *world = *state;
    struct client *client = &world->client;
    for (size_t i = 0; i < sizeof(SERVER_STEPS) / sizeof(SERVER_STEPS[0]); i++) {
        server_start(&world->server, OPTIONS);
        open_with_old_value(world);
        memset(client->end->bytes + VALUE_BYTES, PAIR_UNTOUCHED, MIB);
        reach(client, SERVER_STEPS[i], &world->loan);
        server_kill(&world->server);
        print_message("killed: server, %s\n", NAMES[SERVER_STEPS[i]]);
        check_calls_end(client, SERVER_STEPS[i]);
        client_close(client);
        pair_empty(&world->pair, client->end);
        assert_true(pair_untouched(client->end->bytes + VALUE_BYTES, MIB));
    }
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    *state = world;
    pair_open_peer(&world->pair);
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    server_stop(&world->server);
    pair_close(&world->pair);
    free(world);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kills_of_clients_leave_nothing_behind, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_kills_of_the_server_end_the_clients_calls, set_up,
                                        tear_down),
    };
    if (argc == 2) {
        be_client(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
