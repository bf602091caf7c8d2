#pragma once
/* conn – one client's connection: its socket, what it sent and has to get, who it is. Lives on the
 * reactor that accepted it; used by that thread only. Owns its socket, buffers, leases and staging
 * memory; all end with it.
 *
 * Life: accepted → serving (parse a batch, wait for shards, reply, again; or take an upload) → closing
 * (nothing more is parsed; what is ready is sent) → dead (unlinked; freed at the end of the turn, or
 * when its last op has come back). */

#include "base/list.h"
#include "net/input.h"
#include "net/listener.h"
#include "net/output.h"
#include "net/read_ahead.h"
#include "proto/request_reader.h"
#include "proto/resp_encode.h"
#include "server/batch.h"
#include "server/reactor.h"
#include "server/upload.h"

#include <stdbool.h>
#include <stdint.h>

struct output_limits;
struct acl_change;
struct acl_user;
struct monitor;
struct event_listener;
struct push;
struct remote;
struct staging;
struct transaction;

#define CONN_MAGIC       0x434f4e4eU
#define CONN_ARGS_INLINE 16
#define CONN_NAME_BYTES  64
/* What makes requests of a connection something else than usual: conn->modes. */
#define CONN_MODE_SUBSCRIBED 2U /* it listens to channels */
#define CONN_MODE_MULTI      1U /* they are queued for EXEC */
#define CONN_MODE_MONITOR    4U /* it is told what others ask */
/* No more requests are begun while so much waits to be sent. */
#define CONN_OUTPUT_HIGH_BYTES (256U << 10)

struct conn {
    uint32_t magic;
    uint64_t id; /* unique in the process, growing */
    struct reactor *reactor;
    struct list link;          /* reactor->conns */
    struct list run_link;      /* reactor->runnable */
    struct list subscriptions; /* owned by reactor->pubsub */
    uint32_t subscription_counts[PUBSUB_KIND_COUNT];
    struct monitor *monitor;               /* owned; NULL: MONITOR was not said */
    struct event_listener *event_listener; /* owned by the reactor; NULL: it does not listen */
    struct push *pushes; /* owned: messages that wait until the batch is answered */
    struct push *pushes_last;
    size_t push_bytes;
    struct list batch_link; /* reactor->batch_waiters, or one of those named below */
    struct list dead_link;  /* reactor->dead */
    struct wire wire;       /* owned */
    struct loop_watch *watch;

    struct read_ahead ahead; /* what stands behind the input */
    struct input input;
    size_t parsed_bytes; /* of input: belong to requests of the current batch */
    struct request_reader reader;
    struct slice args_inline[CONN_ARGS_INLINE];
    struct slice *args; /* of a request that came in part: args_inline, owned memory, or NULL */
    uint32_t args_capacity;
    uint8_t parse_result;  /* enum reader_result that waits for the batch to be done */
    uint32_t header_bytes; /* of the last upload's request before its payload: see conn_read */
    struct output output;
    struct batch *batch;
    struct upload upload;
    struct staging *staging;         /* owned; NULL: not a shared-memory client */
    struct remote *remote;           /* owned; NULL: no queue pair */
    struct transaction *transaction; /* owned; NULL: nothing is queued or watched */
    uint64_t grant_shards;           /* bit per shard that may hold grants of this connection */

    struct list ring_link; /* reactor->rings, once the wire is a pair of rings */

    size_t tls_bytes; /* counted in the reactor's tls_bytes */
    bool handshaking; /* TLS has not begun: see conn_tls */
    bool readable;
    bool writable;
    bool closing;
    bool dead;
    bool is_unix;
    bool upload_waits; /* in reactor->upload_waiters, by batch_link */
    uint8_t had_links; /* queue pairs, some time: a bit for each of its places */
    bool ring_asked;   /* the rings take over when the reply to KV.CONNECT RING is out */
    bool yielded;      /* the batch waits for nothing but this connection's next turn */
    bool authenticated;
    bool restricted;               /* its user may not do everything: requests are judged */
    const struct acl_user *user;   /* borrowed from the reactor's table: access_update renews it */
    struct acl_change *acl_change; /* owned; of the request being served, or NULL */
    bool reply_off;                /* CLIENT REPLY OFF */
    bool reply_skip;               /* CLIENT REPLY SKIP: the next one */
    bool skip_armed;               /* CLIENT REPLY SKIP itself is being served */
    bool muted;                    /* the reply being written is dropped */
    bool no_evict, no_touch;
    bool paused;      /* in reactor->pause.waiting, by batch_link */
    uint8_t database; /* as the client knows it (SELECT) */
    uint8_t tenant;   /* of its user: row of the shards' tables; 0: none */
    uint8_t modes;    /* CONN_MODE_… */
    enum resp_version resp;
    uint32_t budget_bytes; /* left of this turn */

    int64_t created_us;
    int64_t active_us;     /* last byte read or sent */
    int64_t blocked_us;    /* since when output stands still; 0: it does not */
    int64_t soft_limit_us; /* since when more than the soft limit waits; 0: it does not */
    uint64_t bytes_in, bytes_out, commands;
    struct wire_traffic *traffic; /* of the reactor, by what the wire is */
    uint64_t error_replies;
    const struct command *last_command; /* NULL: none yet */
    char peer[LISTENER_ADDRESS_BYTES];
    char local[LISTENER_ADDRESS_BYTES];
    char name[CONN_NAME_BYTES];
    char library_name[CONN_NAME_BYTES];
    char library_version[CONN_NAME_BYTES];
};

static inline void conn_mode_set(struct conn *conn, uint8_t mode)
{
    conn->modes = (uint8_t)(conn->modes | mode);
}

static inline void conn_mode_clear(struct conn *conn, uint8_t mode)
{
    conn->modes = (uint8_t)(conn->modes & ~mode);
}

/* Whether it gets messages that it does not ask for one by one: it may be idle, and has a limit of its
 * own for what waits. */
static inline bool conn_listens(const struct conn *conn)
{
    return (conn->modes & (CONN_MODE_SUBSCRIBED | CONN_MODE_MONITOR)) != 0;
}

/* Whether reading may give something now. */
static inline bool conn_has_bytes(const struct conn *conn)
{
    return conn->readable || UNLIKELY(!read_ahead_is_empty(&conn->ahead));
}

/* The database of the shards that it works on just now. */
static inline uint8_t conn_database(const struct conn *conn)
{
    return database_map_place(&conn->reactor->server->databases, conn->database);
}

/* Takes over an accepted socket (closes it when there is no memory). */
void conn_accept(struct reactor *reactor, int descriptor, bool tls);
/* Goes on as far as it can. */
void conn_advance(struct conn *conn);
/* The batch's last op has come back. */
void conn_batch_done(struct conn *conn);
/* Nothing more is read; closes when everything is sent. */
void conn_close_soon(struct conn *conn);
/* Closes now; freed at the end of the turn. Nothing of the connection may be used afterwards but by
 * the loop. */
void conn_kill(struct conn *conn);
/* Frees what died. */
void conn_bury(struct reactor *reactor);
/* Periodic checks: idle, stuck or too much output, stuck upload. */
void conn_tick(struct conn *conn, const struct output_limits *limits);
/* A handler's plan has more to do, in the next turn: the round is not done before. */
void conn_yield(struct conn *conn);
/* Whether the rings have requests, or room for replies: the connection then runs in this turn. */
bool conn_look_at_rings(struct conn *conn);
/* The client shall ring the bell from now on; false: no need to sleep. */
ATTR_MUST_USE bool conn_sleep_on_rings(struct conn *conn);
void conn_awake_on_rings(struct conn *conn);
/* Has the connection advance again in this or the next turn. */
void conn_run_later(struct conn *conn);
