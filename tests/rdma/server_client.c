#include "server_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#define LOG_PATH     "/tmp/server.log"
#define OPTIONS_MAX  32
#define DEADLINE_S   120
#define NOBODY       65534
#define NUMBER_BYTES 24
#define SEGMENTS_MAX 4
#define PUT_WORDS    4 /* KV.PUT key length FROM */
#define GET_WORDS    3 /* KV.GET key INTO */

/* ---- the server ------------------------------------------------------------------------------- */

static time_t now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void nap(void)
{
    (void)poll(NULL, 0, 20);
}

static void show_log(void)
{
    char line[512];
    FILE *log = fopen(LOG_PATH, "re");
    while (log != NULL && fgets(line, sizeof(line), log) != NULL) {
        print_message("server: %s", line);
    }
    if (log != NULL) {
        (void)fclose(log);
    }
}

int server_logged(const char *text)
{
    char line[1024];
    int found = 0;
    FILE *log = fopen(LOG_PATH, "re");
    while (log != NULL && !found && fgets(line, sizeof(line), log) != NULL) {
        found = strstr(line, text) != NULL;
    }
    if (log != NULL) {
        (void)fclose(log);
    }
    return found;
}

static void run_server(const char *const *options, size_t memlock_bytes)
{
    const char *words[OPTIONS_MAX] = {
        pair_text("KVASIR_SERVER"),
        "--port",
        "7400",
        "--reactors",
        "2",
        "--maxmemory",
        "256mb",
        "--loadmodule",
        pair_text("KVASIR_RDMA_MODULE"),
        "--rdma-device",
        pair_text("VM_DEVICE"),
    };
    size_t count = 11;
    for (size_t i = 0; options != NULL && options[i] != NULL && count + 1 < OPTIONS_MAX; i++) {
        words[count++] = options[i];
    }
    int log = open(LOG_PATH, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) {
        _exit(127);
    }
    if (memlock_bytes > 0) {
        struct rlimit limit = {.rlim_cur = memlock_bytes, .rlim_max = memlock_bytes};
        if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0) {
            _exit(127);
        }
    }
    (void)execv(words[0], (char *const *)(uintptr_t)words);
    _exit(127);
}

static int answers(void)
{
    redisContext *redis = redisConnect("127.0.0.1", SERVER_PORT);
    int good = redis != NULL && redis->err == 0;
    if (good) {
        redisReply *reply = redisCommand(redis, "PING");
        good = reply != NULL && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
    }
    redisFree(redis);
    return good;
}

static void start(struct server *server, const char *const *options, size_t memlock_bytes)
{
    time_t end_s = now_s() + DEADLINE_S;
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        run_server(options, memlock_bytes);
    }
    while (!answers()) {
        int status;
        if (now_s() > end_s || waitpid(server->pid, &status, WNOHANG) != 0) {
            show_log();
            fail_msg("the server does not answer");
        }
        nap();
    }
}

void server_start(struct server *server, const char *const *options)
{
    start(server, options, 0);
}

void server_start_limited(struct server *server, size_t memlock_bytes)
{
    start(server, NULL, memlock_bytes);
}

void server_stop(struct server *server)
{
    int status = 0;
    time_t end_s = now_s() + DEADLINE_S;
    if (server->pid == 0) {
        return;
    }
    (void)kill(server->pid, SIGTERM);
    while (waitpid(server->pid, &status, WNOHANG) == 0) {
        if (now_s() > end_s) {
            show_log();
            fail_msg("the server does not end");
        }
        nap();
    }
    server->pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        show_log();
        fail_msg("the server ended with status %#x", (unsigned)status);
    }
}

void server_kill(struct server *server)
{
    if (server->pid != 0) {
        (void)kill(server->pid, SIGKILL);
        (void)waitpid(server->pid, NULL, 0);
        server->pid = 0;
    }
}

long long server_info(const char *name)
{
    long long value = -1;
    char wanted[64];
    redisContext *redis = redisConnect("127.0.0.1", SERVER_PORT);
    assert_true(redis != NULL && redis->err == 0);
    redisReply *reply = redisCommand(redis, "INFO everything");
    assert_non_null(reply);
    (void)snprintf(wanted, sizeof(wanted), "\n%s:", name);
    const char *found = reply->str != NULL ? strstr(reply->str, wanted) : NULL;
    if (found != NULL) {
        value = strtoll(found + strlen(wanted), NULL, 10);
    }
    freeReplyObject(reply);
    redisFree(redis);
    return value;
}

void server_wait(const char *name, long long value)
{
    time_t end_s = now_s() + DEADLINE_S;
    while (server_info(name) != value) {
        if (now_s() > end_s) {
            show_log();
            fail_msg("%s is %lld, not %lld", name, server_info(name), value);
        }
        nap();
    }
}

/* ---- clients ---------------------------------------------------------------------------------- */

void client_open(struct client *client, struct pair *pair, struct pair_end *end, unsigned port,
                 int link)
{
    char error[KVASIR_SAID_BYTES];
    struct timeval limit = {.tv_sec = DEADLINE_S};
    *client = (struct client){.pair = pair, .end = end};
    client->redis = redisConnect("127.0.0.1", (int)port);
    assert_true(client->redis != NULL && client->redis->err == 0);
    assert_int_equal(redisSetTimeout(client->redis, limit), REDIS_OK);
    if (link && !client_link(client, NULL, error, sizeof(error))) {
        show_log();
        fail_msg("%s", error);
    }
}

void client_close(struct client *client)
{
    if (client->link != NULL) {
        client->pair->ops->link_close(&client->link);
    }
    redisFree(client->redis);
    client->redis = NULL;
}

redisReply *client_call(struct client *client, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(client->redis, format, arguments);
    va_end(arguments);
    if (reply == NULL) {
        show_log();
        fail_msg("no answer: %s", client->redis->errstr);
    }
    return reply;
}

/* The server's address out of the answer to KV.CONNECT RDMA: names and values in turn. */
static void read_address(const redisReply *reply, struct kvasir_link_address *address)
{
    memset(address, 0, sizeof(*address));
    address->gid.type = KVASIR_GID_ROCE_V2;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const char *name = reply->element[i]->str;
        const redisReply *value = reply->element[i + 1];
        if (strcmp(name, "qpn") == 0) {
            address->queue_pair = (uint32_t)value->integer;
        } else if (strcmp(name, "psn") == 0) {
            address->packet_sequence = (uint32_t)value->integer;
        } else if (strcmp(name, "mtu") == 0) {
            address->mtu_bytes = (uint32_t)value->integer;
        } else if (strcmp(name, "rd_atomic") == 0) {
            address->rd_atomic = (uint32_t)value->integer;
        } else if (strcmp(name, "gid") == 0) {
            assert_int_equal(inet_pton(AF_INET6, value->str, address->gid.raw), 1);
        }
    }
}

int client_link(struct client *client, const struct kvasir_link_address *changes, char *error,
                size_t error_capacity)
{
    char gid[INET6_ADDRSTRLEN];
    char said[KVASIR_SAID_BYTES];
    struct kvasir_link_address own;
    struct kvasir_link_address server;
    if (client->link != NULL) {
        client->pair->ops->link_close(&client->link);
    }
    pair_create_link(client->pair, client->end, &client->link, &own);
    if (changes != NULL) {
        own.gid = changes->gid;
        own.mtu_bytes = changes->mtu_bytes;
    }
    (void)inet_ntop(AF_INET6, own.gid.raw, gid, sizeof(gid));
    redisReply *reply = client_call(
        client,
        client->lends ? "KV.CONNECT RDMA QPN %u PSN %u GID %s MTU %u RD_ATOMIC %u MODE CLIENT"
                      : "KV.CONNECT RDMA QPN %u PSN %u GID %s MTU %u RD_ATOMIC %u",
        own.queue_pair, own.packet_sequence, gid, own.mtu_bytes, own.rd_atomic);
    int good = reply->type == REDIS_REPLY_ARRAY;
    if (good) {
        read_address(reply, &server);
        assert_int_equal(pair_connect(client->pair, client->end, client->link, &server, said),
                         KVASIR_OK);
    } else {
        (void)snprintf(error, error_capacity, "%s", reply->str);
    }
    freeReplyObject(reply);
    return good;
}

/* Words of a command: what it begins with, and address, key and length of each piece of memory. */
static void queue_command(struct client *client, const char **words, int count, size_t offset,
                          size_t length_bytes, uint32_t wrong_key)
{
    char numbers[3 * SEGMENTS_MAX][NUMBER_BYTES];
    struct kvasir_remote pieces[SEGMENTS_MAX];
    unsigned piece_count = 0;
    int number = 0;
    assert_int_equal(client->pair->ops->memory_expose(
                         client->end->memory, (uintptr_t)client->end->bytes + offset, length_bytes,
                         pieces, SEGMENTS_MAX, &piece_count),
                     KVASIR_OK);
    for (unsigned i = 0; i < piece_count; i++) {
        uint32_t key = wrong_key != 0 ? wrong_key : pieces[i].key;
        uint64_t values[3] = {pieces[i].address, key, pieces[i].bytes};
        for (int k = 0; k < 3; k++) {
            (void)snprintf(numbers[number], NUMBER_BYTES, "%llu", (unsigned long long)values[k]);
            words[count++] = numbers[number++];
        }
    }
    assert_int_equal(redisAppendCommandArgv(client->redis, count, words, NULL), REDIS_OK);
}

void client_queue_put(struct client *client, const char *key, size_t offset, size_t length_bytes,
                      uint32_t wrong_key)
{
    char length[NUMBER_BYTES];
    const char *words[PUT_WORDS + 3 * SEGMENTS_MAX] = {"KV.PUT", key, length, "FROM"};
    (void)snprintf(length, sizeof(length), "%zu", length_bytes);
    queue_command(client, words, PUT_WORDS, offset, length_bytes, wrong_key);
}

void client_queue_get(struct client *client, const char *key, size_t offset, size_t length_bytes)
{
    const char *words[GET_WORDS + 3 * SEGMENTS_MAX] = {"KV.GET", key, "INTO"};
    queue_command(client, words, GET_WORDS, offset, length_bytes, 0);
}

void client_answer(struct client *client, char *text, size_t capacity)
{
    redisReply *reply = NULL;
    if (redisGetReply(client->redis, (void **)&reply) != REDIS_OK) {
        (void)snprintf(text, capacity, "no answer: %s", client->redis->errstr);
        return;
    }
    if (reply->type == REDIS_REPLY_INTEGER) {
        (void)snprintf(text, capacity, "%lld", reply->integer);
    } else if (reply->type == REDIS_REPLY_NIL) {
        (void)snprintf(text, capacity, "nil");
    } else {
        (void)snprintf(text, capacity, "%s", reply->str != NULL ? reply->str : "?");
    }
    freeReplyObject(reply);
}

static void expect(struct client *client, const char *expected)
{
    char answer[KVASIR_SAID_BYTES];
    client_answer(client, answer, sizeof(answer));
    if (strcmp(answer, expected) != 0) {
        show_log();
        fail_msg("%s, not %s", answer, expected);
    }
}

void client_put(struct client *client, const char *key, size_t offset, size_t length_bytes)
{
    client_queue_put(client, key, offset, length_bytes, 0);
    expect(client, "OK");
}

void client_get(struct client *client, const char *key, size_t offset, size_t length_bytes)
{
    char length[NUMBER_BYTES];
    (void)snprintf(length, sizeof(length), "%zu", length_bytes);
    client_queue_get(client, key, offset, length_bytes);
    expect(client, length);
}
