#pragma once
/* server_client – a real server in the emulated machine, and clients of it that use the RDMA module by
 * hand: RESP over hiredis, a link of their own, memory that the server reads and writes. For tests; one
 * thread. */

#include "transport_pair.h"

#include <hiredis/hiredis.h>
#include <sys/types.h>

#define SERVER_PORT 7400

struct server {
    pid_t pid; /* 0: it does not run */
};

/* Starts KVASIR_SERVER with the module and two reactors; options: more of them, NULL at the end, may be
 * NULL. Returns when it answers; fails the test when it does not. */
void server_start(struct server *server, const char *const *options);
/* The same as a user who may not lock more than so many bytes. */
void server_start_limited(struct server *server, size_t memlock_bytes);
/* Ends it in an orderly way, and fails the test when that was not the server's end. */
void server_stop(struct server *server);
void server_kill(struct server *server);
/* A number of INFO, over a connection of its own. */
long long server_info(const char *name);
/* Waits until INFO says so; fails the test otherwise. */
void server_wait(const char *name, long long value);
/* True when the server's log holds the text. */
int server_logged(const char *text);

struct client {
    struct pair *pair;        /* borrowed */
    struct pair_end *end;     /* borrowed: memory and queue */
    redisContext *redis;      /* owned */
    struct kvasir_link *link; /* owned */
    int lends;                /* ask for MODE CLIENT */
};

/* Connects by TCP, and by RDMA when link is true. */
void client_open(struct client *client, struct pair *pair, struct pair_end *end, unsigned port,
                 int link);
void client_close(struct client *client);
/* KV.CONNECT RDMA with a link that is new; 0: refused, and error holds the server's words. */
int client_link(struct client *client, const struct kvasir_link_address *changes, char *error,
                size_t error_capacity);

/* Any command; fails the test when there is no answer. The caller frees it. */
redisReply *client_call(struct client *client, const char *format, ...);
/* Put from and get into the end's memory. Queued, to be answered by client_answer in order. */
void client_queue_put(struct client *client, const char *key, size_t offset, size_t length_bytes,
                      uint32_t wrong_key);
void client_queue_get(struct client *client, const char *key, size_t offset, size_t length_bytes);
/* The answer: "OK", "EXISTS", "nil", a number, or an error's words. */
void client_answer(struct client *client, char *text, size_t capacity);
/* One request and its answer, which must be what is expected. */
void client_put(struct client *client, const char *key, size_t offset, size_t length_bytes);
void client_get(struct client *client, const char *key, size_t offset, size_t length_bytes);
