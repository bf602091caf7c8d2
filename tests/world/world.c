#include "world.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/fault.h"
#include "server/conn.h"
#include "server/pause.h"
#include "server/server.h"
#include "store/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* More turns than any input needs; one that needs more hangs. */
#define TURNS_MAX 20000
/* So many times it waits for the timer. */
#define TICKS_MAX     500
#define REPLIES_BYTES (2 * (size_t)REPLY_TEXT_BYTES_MAX)

/* ---- clients --------------------------------------------------------------------------------- */

bool world_has(const struct world *world, const struct world_client *client)
{
    if (client->conn == NULL) {
        return false;
    }
    list_foreach (cursor, &world->server->reactors[client->reactor]->conns) {
        const struct conn *conn = list_entry(cursor, struct conn, link);
        if (conn == client->conn && conn->id == client->id) {
            return true;
        }
    }
    return false;
}

bool world_open_client(struct world *world, struct world_client *client)
{
    struct reactor *reactor = world->server->reactors[client->reactor];
    uint32_t conn_count = reactor->conn_count;
    int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    check(descriptor >= 0);
    memset(client->memory, 0, RING_CHANNEL_BYTES(WORLD_RING_BYTES));
    fault_hold(world->is_spared);
    conn_accept(reactor, descriptor, false);
    fault_hold(true);
    client->conn = NULL;
    if (reactor->conn_count == conn_count) {
        return false;
    }
    client->conn = list_entry(reactor->conns.prev, struct conn, link);
    client->id = client->conn->id;
    wire_use_rings(&client->conn->wire, client->memory, WORLD_RING_BYTES);
    list_push_back(&reactor->rings, &client->conn->ring_link);
    reactor->ring_count++;
    /* The bell is never heard: the reactors are run by hand. */
    ring_channel_open(&client->rings, -1, client->memory, WORLD_RING_BYTES, RING_CHANNEL_CLIENT);
    reply_reader_init(&client->reader);
    client->held_bytes = 0;
    client->skip_bytes = 0;
    return true;
}

/* Passes over the rest of a long bulk string; returns how much of it was there. */
static size_t skip(struct world_client *client, size_t there_bytes)
{
    size_t part = there_bytes < client->skip_bytes ? there_bytes : (size_t)client->skip_bytes;
    client->skip_bytes -= part;
    if (client->skip_bytes == 0) {
        (void)reply_reader_bulk_done(&client->reader);
    }
    return part;
}

/* Reads what was answered; it must be RESP. */
static void world_read(struct world *world, struct world_client *client)
{
    struct iovec piece = {.iov_base = client->replies + client->held_bytes,
                          .iov_len = REPLIES_BYTES - client->held_bytes};
    ssize_t got = client->conn != NULL ? ring_channel_receive(&client->rings, &piece, 1) : 0;
    size_t at = 0;
    if (got > 0) {
        client->held_bytes += (size_t)got;
        if (world->heard != NULL) {
            world->heard(world->argument, client, piece.iov_base, (size_t)got);
        }
    }
    while (at < client->held_bytes) {
        struct reply_token token;
        size_t consumed = 0;
        enum reply_result result;
        if (client->skip_bytes > 0) {
            at += skip(client, client->held_bytes - at);
            continue;
        }
        result = reply_reader_advance(&client->reader, client->replies + at,
                                      client->held_bytes - at, &token, &consumed);
        check(result != REPLY_BROKEN);
        if (result == REPLY_MORE) {
            break;
        }
        if (token.kind == REPLY_BULK_HEADER) {
            client->skip_bytes = token.count + 2;
        }
        at += consumed;
    }
    client->held_bytes -= at;
    memmove(client->replies, client->replies + at, client->held_bytes);
}

/* ---- the server ------------------------------------------------------------------------------ */

static bool world_is_quiet(const struct world *world)
{
    for (uint32_t i = 0; i < world->server->reactor_count; i++) {
        const struct reactor *reactor = world->server->reactors[i];
        if (!list_empty(&reactor->runnable) || !list_empty(&reactor->dead) ||
            !list_empty(&reactor->stalled) || reactor->errand_count > 0) {
            return false;
        }
        list_foreach (cursor, &reactor->conns) {
            const struct conn *conn = list_entry(cursor, struct conn, link);
            /* Every client reads what comes. */
            if ((conn->batch != NULL && conn->batch->waiting > 0) ||
                conn->output.pending_bytes > 0) {
                return false;
            }
        }
    }
    return true;
}

/* Runs turns until both reactors have nothing to do and all answers are read. */
void world_run(struct world *world)
{
    unsigned turns = 0;
    unsigned quiet = 0;
    while (quiet < 3) {
        check(turns < TURNS_MAX);
        turns++;
        fault_hold(world->is_spared);
        for (uint32_t i = 0; i < world->server->reactor_count; i++) {
            reactor_turn(world->server->reactors[i], false);
        }
        fault_hold(true);
        for (uint32_t i = 0; i < WORLD_CLIENTS; i++) {
            world_read(world, &world->clients[i]);
        }
        quiet = world_is_quiet(world) ? quiet + 1 : 0;
    }
}

void world_wait(struct world *world)
{
    for (uint32_t i = 0; i < world->server->reactor_count; i++) {
        fault_hold(world->is_spared);
        reactor_turn(world->server->reactors[i], true);
        fault_hold(true);
    }
    world_run(world);
}

size_t world_send(struct world *world, struct world_client *client, const uint8_t *data,
                  size_t length_bytes)
{
    size_t sent_bytes = 0;
    while (sent_bytes < length_bytes && world_has(world, client)) {
        struct iovec piece = {.iov_base = (void *)(uintptr_t)(data + sent_bytes),
                              .iov_len = length_bytes - sent_bytes};
        ssize_t sent = ring_channel_send(&client->rings, &piece, 1);
        if (sent > 0) {
            sent_bytes += (size_t)sent;
        } else {
            world_run(world);
            if (world_has(world, client) && !byte_ring_has_room(&client->rings.out)) {
                break; /* it waits for others, as for a batch or an upload's memory */
            }
        }
    }
    return sent_bytes;
}

void world_close_client(struct world *world, struct world_client *client)
{
    if (world_has(world, client)) {
        client->conn->wire.rings.gone = true;
    }
    world_run(world);
    /* To see the end takes a buffer: without one the timer tries again. */
    for (unsigned i = 0; i < TICKS_MAX && world_has(world, client); i++) {
        world_wait(world);
    }
    check(!world_has(world, client));
}

enum kvasir_status world_make_server(const char *policy, struct server **server_p)
{
    struct settings settings;
    char error[256] = "";
    settings_init(&settings);
    settings.port = 0;
    settings.reactors = 2;
    settings.maxmemory = 48ULL << 20;
    settings.maxmemory_reserve = settings.maxmemory; /* the sanitizer marks all of it, each time */
    settings.populate = false;
    (void)snprintf(settings.maxmemory_policy, sizeof(settings.maxmemory_policy), "%s", policy);
    settings.huge_pages = false;
    settings.busy_poll_us = 0;
    settings.upload_timeout_ms = 1000000;
    settings.grants_max = 256; /* each costs time at every start; 256 are reached, too */
    enum kvasir_status status = server_create(&settings, error, sizeof(error), server_p);
    check(status == KVASIR_OK || error[0] != '\0'); /* it says why */
    return status;
}

void world_open(struct world *world, const char *policy)
{
    check(world_make_server(policy, &world->server) == KVASIR_OK);
    for (uint32_t i = 0; i < WORLD_CLIENTS; i++) {
        struct world_client *client = &world->clients[i];
        client->memory = mmap(NULL, RING_CHANNEL_BYTES(WORLD_RING_BYTES), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        client->replies = malloc(REPLIES_BYTES);
        check(client->memory != MAP_FAILED && client->replies != NULL);
        client->reactor = i % 2;
        (void)world_open_client(world, client);
    }
}

void world_close(struct world *world)
{
    struct server *server = world->server;
    for (uint32_t i = 0; i < WORLD_CLIENTS; i++) {
        world_close_client(world, &world->clients[i]);
    }
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        pause_end(server->reactors[i]); /* CLIENT PAUSE does what it is told, too */
    }
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        struct moment later = clock_moment();
        later.mono_us += 3600LL * 1000000; /* leases and pins of keys that are gone, too */
        /* Not by FLUSHALL: the input may have taken the right to it from everybody. */
        for (unsigned database = 0; database < server->settings.databases; database++) {
            shard_flush(server->reactors[i]->shard, (uint8_t)database);
        }
        for (unsigned tick = 0; tick < 64; tick++) {
            (void)shard_tick(server->reactors[i]->shard, &later, 1000);
        }
        shard_verify(server->reactors[i]->shard);
    }
    check(pages_free_count(server->payload) == pages_present_count(server->payload));
    server_destroy(&world->server);
    for (uint32_t i = 0; i < WORLD_CLIENTS; i++) {
        free(world->clients[i].replies);
        (void)munmap(world->clients[i].memory, RING_CHANNEL_BYTES(WORLD_RING_BYTES));
    }
}
