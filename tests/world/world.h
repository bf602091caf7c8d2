#pragma once
/* world – the whole server in one process and one thread: two reactors that take turns, and connections
 * whose bytes come and go through rings, without a socket. Time is the machine's. Whatever is sent, every
 * answer is well-formed RESP, and when the connections have ended nothing is held: no pin, no lease, no
 * page once the store is flushed. Armed fault points fail only what the server does. */

#include "base/compiler.h"
#include "base/ring_channel.h"
#include "proto/reply_reader.h"

#include <kvasir/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORLD_CLIENTS    3U
#define WORLD_RING_BYTES 65536U

struct conn;
struct server;
struct world_client;

/* Bytes that a client received. */
typedef void world_heard_fn(void *argument, const struct world_client *client, const uint8_t *bytes,
                            size_t length_bytes);

/* A client: its end of the rings, and how far its replies are read. */
struct world_client {
    struct conn *conn; /* the server's; gone when the server closed it; NULL: it was not taken in */
    uint64_t id;
    uint32_t reactor;
    void *memory; /* owned */
    struct ring_channel rings;
    struct reply_reader reader;
    uint64_t skip_bytes; /* of a long bulk string and its CRLF */
    uint8_t *replies;    /* owned */
    size_t held_bytes;
};

struct world {
    struct server *server; /* owned */
    struct world_client clients[WORLD_CLIENTS];
    bool is_spared;        /* no fault point fails for now */
    world_heard_fn *heard; /* NULL: nobody wants to know */
    void *argument;        /* for heard */
};

/* A server as the world has it, with this maxmemory-policy, for who tries how one comes to be. */
ATTR_MUST_USE enum kvasir_status world_make_server(const char *policy, struct server **server_p);

/* The world's own needs are there, or the process ends; a client may not be taken in. */
void world_open(struct world *world, const char *policy);
/* Ends all clients, takes everything out of the store, and checks that nothing is left. */
void world_close(struct world *world);

/* False: the server did not take it in. */
bool world_open_client(struct world *world, struct world_client *client);
void world_close_client(struct world *world, struct world_client *client);
/* The connection has not been closed. */
bool world_has(const struct world *world, const struct world_client *client);

/* Runs turns until both reactors have nothing to do and all answers are read. */
void world_run(struct world *world);
/* Has both reactors sleep until there is something to do, if only because it is time, and runs turns. */
void world_wait(struct world *world);
/* Runs turns when the ring is full, and gives up where the client has to wait for others. Returns how much
 * went. */
size_t world_send(struct world *world, struct world_client *client, const uint8_t *data,
                  size_t length_bytes);
