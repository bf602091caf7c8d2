#pragma once
/* link – one connection to one reactor of the server: its state, what it has yet to send, the commands
 * whose replies are outstanding, and its shared memory. Driven by the engine; one thread. Owns its
 * socket, buffers and mappings; the requests its commands belong to are borrowed from the client.
 *
 * Replies come in the order of the commands. A reply is never skipped by guessing: when a deadline
 * passes in the middle of one, or the caller's memory is still referred to, the link is dropped. */

#include "base/compiler.h"
#include "client/channel.h"
#include "client/endpoint.h"
#include "client/greeting.h"
#include "client/outbox.h"
#include "client/queue_pair.h"
#include "client/segment.h"
#include "client/shm_map.h"
#include "proto/reply_reader.h"

#include <kvasir/client.h>

/* Commands in flight: of requests, and in all (the rest is kept for releases and aborts). */
#define LINK_COMMANDS_REQUEST_MAX 192U
#define LINK_COMMANDS_MAX         256U
/* The reader takes lines of up to 64 KiB whole. */
#define LINK_INBOX_BYTES (68U << 10)
/* Leases that ended here and not yet at the server. */
#define LINK_RELEASES_MAX 1024U

enum link_state {
    LINK_DOWN,       /* no socket; next: CONNECTING or GREETING when there is work */
    LINK_CONNECTING, /* waits for the socket; next: GREETING or DOWN */
    LINK_GREETING,   /* waits for HELLO, KV.HELLO and KV.CONNECT; next: UP or DOWN */
    LINK_UP,         /* carries requests; next: DOWN */
};

enum link_command_kind {
    LINK_HELLO,
    LINK_KV_HELLO,
    LINK_CONNECT_SHM,
    LINK_CONNECT_RING,
    LINK_CONNECT_RDMA,
    LINK_PUT,
    LINK_GET,
    LINK_PUT_FROM, /* by the queue pair */
    LINK_GET_INTO,
    LINK_MATCH,
    LINK_DELETE,
    LINK_STAT,
    LINK_EVENTS,
    LINK_LEASE,
    LINK_RESERVE,
    LINK_COMMIT,
    LINK_RELEASE,
    LINK_ABORT,
};

struct link_command {
    enum link_command_kind kind;
    uint32_t
        first; /* item index; further items by job_item.next. Of CONNECT_RDMA: the queue pair */
    uint32_t count;                 /* items */
    uint8_t pair_mask;              /* queue pairs that its payload moves by */
    struct kvasir_request *request; /* borrowed; NULL: of the link itself, or withdrawn */
    size_t weight_bytes;            /* payload expected to move by the socket */
    uint64_t out_end;               /* outbox position at which it is wholly sent */
    int64_t deadline_us;            /* of leases and reservations, on our clock, minus skew */
};

/* Progress within the reply that is being read. */
struct link_answer {
    bool begun;
    uint32_t item;     /* whose part is being read */
    uint32_t answered; /* items before it */
    uint32_t field;
    uint64_t pairs_left;
    uint64_t extents_left;
    uint64_t offset_bytes;
    uint64_t grant_id;
    uint64_t length_bytes;
    uint64_t got_bytes;
    enum kvasir_status status;
    struct segment_cursor cursor;
    struct kvasir_view *view; /* being filled; owned */
    struct rdma_move *move;   /* likewise */
    uint64_t grant_key;
    uint32_t extent_word; /* which part of an extent comes next */
    struct kvasir_stat stat;
};

/* A long bulk string on its way into the caller's memory, or past it. */
struct link_sink {
    bool open;
    bool discard;
    uint64_t left_bytes;
    struct segment_cursor cursor;
};

struct link {
    struct kvasir_client *client; /* the owner */
    uint32_t index;
    enum link_state state;
    struct channel channel;
    bool is_unix;
    bool on_shared; /* the reactor's own endpoint could not be reached */
    bool shm_wanted;
    struct endpoint own; /* address_bytes 0: none */
    uint64_t generation; /* grows with every connection */
    int64_t attempt_deadline_us;
    int64_t last_receive_us;
    int64_t last_look_us;              /* when an idle link was last asked whether it still lives */
    enum kvasir_status attempt_status; /* why the last attempt failed */

    struct outbox outbox;
    uint8_t *inbox; /* owned */
    size_t inbox_head;
    size_t inbox_tail;
    bool skipping_push;
    struct reply_reader reader;
    struct link_sink sink;
    struct link_answer answer;

    struct link_command commands[LINK_COMMANDS_MAX]; /* ring */
    uint32_t command_first;
    uint32_t command_count;
    size_t weight_bytes; /* of the commands in flight */

    struct greeting_reader greeting_reader;
    struct greeting *greeting; /* owned */
    struct greeting_shm greeting_shm;
    int passed_fds[2]; /* owned until mapped */
    uint32_t passed_fd_count;
    struct shm_map shm;
    struct queue_pair pairs[RAILS_MAX];
    uint32_t pair_next; /* to begin with, so that each gets its share */
    size_t staging_used_bytes;
    uint32_t leases_in_flight;   /* keys in LEASE commands without a reply */
    uint32_t reserves_in_flight; /* RESERVE commands without a reply */
    uint32_t move_count;         /* transfers that items wait for */
    uint64_t releases[LINK_RELEASES_MAX];
    uint32_t release_count;
    uint64_t release_bytes; /* payload those leases hold */
};

/* NULL: out of memory. */
struct link *link_create(struct kvasir_client *client, uint32_t index);
void link_destroy(struct link **link_p);

/* Begins to connect, to the reactor's own endpoint first; failure shows in the state. */
void link_start(struct link *link, int64_t now_us);
/* The socket is readable, writable or broken. */
void link_ready(struct link *link, short events, int64_t now_us);
/* Sends what it can. */
void link_flush(struct link *link, int64_t now_us);
/* Reads what is there; notices a peer that is gone. */
void link_receive(struct link *link, int64_t now_us);
/* Closes; what is in flight fails with status; what is queued stays queued. */
void link_drop(struct link *link, enum kvasir_status status);
/* The attempt to connect came to nothing: tries the shared endpoint, or gives up, fails what is
 * queued and makes the client wait before the next attempt. */
void link_attempt_failed(struct link *link, enum kvasir_status status, int64_t now_us);
/* Like link_attempt_failed, with no second endpoint. */
void link_give_up(struct link *link, enum kvasir_status status, int64_t now_us);

/* A command was encoded into the outbox. */
struct link_command *link_command_push(struct link *link, enum link_command_kind kind);
struct link_command *link_command_at(struct link *link, uint32_t position);

/* A lease of this link is over; the server is told with the next command. */
void link_release_later(struct link *link, uint64_t lease_id, uint64_t length_bytes);

static inline bool link_has_rdma(const struct link *link)
{
    for (uint32_t i = 0; i < RAILS_MAX; i++) {
        if (link->pairs[i].state == QUEUE_PAIR_UP) {
            return true;
        }
    }
    return false;
}

/* Payload of registered buffers is moved by this side. */
static inline bool link_lends(const struct link *link)
{
    for (uint32_t i = 0; i < RAILS_MAX; i++) {
        if (link->pairs[i].state == QUEUE_PAIR_UP && link->pairs[i].lends) {
            return true;
        }
    }
    return false;
}

/* Word of a queue pair is awaited. */
static inline bool link_asks_rdma(const struct link *link)
{
    for (uint32_t i = 0; i < RAILS_MAX; i++) {
        if (link->pairs[i].state == QUEUE_PAIR_ASKED) {
            return true;
        }
    }
    return false;
}

static inline bool link_has_shm(const struct link *link)
{
    return shm_map_is_open(&link->shm);
}
