/* fuzz_server – the whole server in one process and one thread: two reactors that take turns, and
 * three connections whose bytes come and go through rings, without a socket. Whatever is sent, every
 * answer is well-formed RESP, and when the connections have ended nothing is held: no pin, no lease,
 * no page once the store is flushed.
 *
 * The input is what the connections send. 0xff N is no part of it: turns are run, and from there on
 * the bytes go to connection N mod 3; N with 0x80 ends the connection first and opens it anew, on the
 * other reactor. */

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/reply_reader.h"
#include "server/conn.h"
#include "server/pause.h"
#include "server/server.h"
#include "store/shard.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define CONNS      3
#define RING_BYTES 65536U
/* More turns than any input needs; one that needs more hangs. */
#define TURNS_MAX 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes);

/* A client: its end of the rings, and how far its replies are read. */
struct client {
    struct conn *conn; /* the server's; gone when the server closed it */
    uint64_t id;
    uint32_t reactor;
    void *memory;
    struct ring_channel rings;
    struct reply_reader reader;
    uint64_t skip_bytes; /* of a long bulk string and its CRLF */
    uint8_t *replies;
    size_t held_bytes;
};

struct world {
    struct server *server;
    struct client clients[CONNS];
};

/* ---- clients --------------------------------------------------------------------------------- */

static bool still_there(const struct world *world, const struct client *client)
{
    list_foreach (cursor, &world->server->reactors[client->reactor]->conns) {
        const struct conn *conn = list_entry(cursor, struct conn, link);
        if (conn == client->conn && conn->id == client->id) {
            return true;
        }
    }
    return false;
}

static void open_client(struct world *world, struct client *client)
{
    struct reactor *reactor = world->server->reactors[client->reactor];
    int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    check(descriptor >= 0);
    memset(client->memory, 0, RING_CHANNEL_BYTES(RING_BYTES));
    conn_accept(reactor, descriptor, false);
    client->conn = list_entry(reactor->conns.prev, struct conn, link);
    client->id = client->conn->id;
    wire_use_rings(&client->conn->wire, client->memory, RING_BYTES);
    list_push_back(&reactor->rings, &client->conn->ring_link);
    reactor->ring_count++;
    /* The bell is never heard: the reactors are run by hand. */
    ring_channel_open(&client->rings, -1, client->memory, RING_BYTES, RING_CHANNEL_CLIENT);
    reply_reader_init(&client->reader);
    client->held_bytes = 0;
    client->skip_bytes = 0;
}

/* Passes over the rest of a long bulk string; returns how much of it was there. */
static size_t skip(struct client *client, size_t there_bytes)
{
    size_t part = there_bytes < client->skip_bytes ? there_bytes : (size_t)client->skip_bytes;
    client->skip_bytes -= part;
    if (client->skip_bytes == 0) {
        (void)reply_reader_bulk_done(&client->reader);
    }
    return part;
}

/* Reads what was answered; it must be RESP. */
static void read_replies(struct client *client)
{
    struct iovec piece = {.iov_base = client->replies + client->held_bytes,
                          .iov_len = 2 * (size_t)REPLY_TEXT_BYTES_MAX - client->held_bytes};
    ssize_t got = ring_channel_receive(&client->rings, &piece, 1);
    size_t at = 0;
    client->held_bytes += got > 0 ? (size_t)got : 0;
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

static bool is_quiet(const struct world *world)
{
    for (uint32_t i = 0; i < world->server->reactor_count; i++) {
        const struct reactor *reactor = world->server->reactors[i];
        if (!list_empty(&reactor->runnable) || !list_empty(&reactor->dead) ||
            !list_empty(&reactor->stalled) || reactor->errand_count > 0) {
            return false;
        }
        list_foreach (cursor, &reactor->conns) {
            const struct conn *conn = list_entry(cursor, struct conn, link);
            if (conn->batch != NULL && conn->batch->waiting > 0) {
                return false;
            }
        }
    }
    return true;
}

/* Runs turns until both reactors have nothing to do and all answers are read. */
static void run_turns(struct world *world)
{
    unsigned turns = 0;
    unsigned quiet = 0;
    while (quiet < 3) {
        check(turns < TURNS_MAX);
        turns++;
        for (uint32_t i = 0; i < world->server->reactor_count; i++) {
            reactor_turn(world->server->reactors[i], false);
        }
        for (uint32_t i = 0; i < CONNS; i++) {
            read_replies(&world->clients[i]);
        }
        quiet = is_quiet(world) ? quiet + 1 : 0;
    }
}

static void send_bytes(struct world *world, struct client *client, const uint8_t *data,
                       size_t length_bytes)
{
    while (length_bytes > 0 && still_there(world, client)) {
        struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = length_bytes};
        ssize_t sent = ring_channel_send(&client->rings, &piece, 1);
        if (sent > 0) {
            data += sent;
            length_bytes -= (size_t)sent;
        } else {
            run_turns(world);
            if (still_there(world, client) && !byte_ring_has_room(&client->rings.out)) {
                return; /* it waits for others, as for a batch or an upload's memory */
            }
        }
    }
}

static void close_client(struct world *world, struct client *client)
{
    if (still_there(world, client)) {
        client->conn->wire.rings.gone = true;
    }
    run_turns(world);
    check(!still_there(world, client));
}

static void open_world(struct world *world)
{
    struct settings settings;
    char error[256];
    settings_init(&settings);
    settings.port = 0;
    settings.reactors = 2;
    settings.maxmemory = 48ULL << 20;
    settings.maxmemory_reserve = settings.maxmemory; /* the sanitizer marks all of it, each time */
    settings.populate = false;
    settings.huge_pages = false;
    settings.busy_poll_us = 0;
    settings.upload_timeout_ms = 1000000;
    settings.grants_max = 256; /* each costs time at every start; 256 are reached, too */
    check(server_create(&settings, error, sizeof(error), &world->server) == KVASIR_OK);
    for (uint32_t i = 0; i < CONNS; i++) {
        world->clients[i].reactor = i % 2;
        open_client(world, &world->clients[i]);
    }
}

static void close_world(struct world *world)
{
    struct server *server = world->server;
    for (uint32_t i = 0; i < CONNS; i++) {
        close_client(world, &world->clients[i]);
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
}

/* DEBUG SLEEP does what it is told. */
static bool sleeps(const uint8_t *data, size_t length_bytes)
{
    for (size_t i = 0; i + 5 <= length_bytes; i++) {
        if (strncasecmp((const char *)data + i, "sleep", 5) == 0) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes)
{
    static struct world world;
    uint32_t to = 0;
    size_t at = 0;
    if (sleeps(data, length_bytes)) {
        return 0;
    }
    (void)signal(SIGTERM, SIG_IGN); /* SHUTDOWN */
    for (uint32_t i = 0; i < CONNS && world.clients[i].memory == NULL; i++) {
        world.clients[i].memory = mmap(NULL, RING_CHANNEL_BYTES(RING_BYTES), PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        world.clients[i].replies = malloc(2 * (size_t)REPLY_TEXT_BYTES_MAX);
        check(world.clients[i].memory != MAP_FAILED && world.clients[i].replies != NULL);
    }
    log_set_level(LOG_ERROR);
    open_world(&world);
    while (at < length_bytes) {
        const uint8_t *mark = memchr(data + at, 0xff, length_bytes - at);
        size_t end = mark != NULL ? (size_t)(mark - data) : length_bytes;
        send_bytes(&world, &world.clients[to], data + at, end - at);
        run_turns(&world);
        if (end + 1 < length_bytes) {
            uint8_t order = data[end + 1];
            to = (order & 0x7fU) % CONNS;
            if ((order & 0x80U) != 0 || !still_there(&world, &world.clients[to])) {
                close_client(&world, &world.clients[to]);
                world.clients[to].reactor ^= 1U;
                open_client(&world, &world.clients[to]);
            }
        }
        at = end + 2;
    }
    close_world(&world);
    return 0;
}
