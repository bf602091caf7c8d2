#pragma once
/* transfer – payload that a batch's requests move through the connection's queue pair: between the ops of
 * a round and its answers. When the ops are done, the values of all requests that want it are read or
 * written, side by side and in the order of the requests; then what was read into reserved values is
 * sealed by a second lot of ops; then all are answered. Embedded in a connection's struct remote; used
 * by its thread. Until a post has come back the batch waits, and holds the pins of what it moves. */

#include "mem/layout.h"

#include <kvasir/transport_types.h>

#include <stdbool.h>
#include <stdint.h>

struct checksum;
struct conn;
struct request;

/* What moves between the ops of a round and its answers. */
enum transfer_kind {
    TRANSFER_NONE,
    TRANSFER_IN, /* KV.PUT: from the client's memory into the reserved value, which is then sealed */
    TRANSFER_OUT, /* KV.GET INTO: from the value into the client's memory */
};

/* How far a round's transfers have come. */
enum transfer_stage {
    TRANSFER_STAGE_OPS,     /* the ops are not all done */
    TRANSFER_STAGE_MOVES,   /* payload is under way */
    TRANSFER_STAGE_SUMS,    /* checksums of what came are worked out, some of it each turn */
    TRANSFER_STAGE_COMMITS, /* reserved values are being sealed */
};

/* Posts that may be out at the same time, and what one holds at most: enough to keep a network busy. */
#define TRANSFER_POSTS_MAX  8
#define TRANSFER_PIECES_MAX 64
#define TRANSFER_POST_BYTES (16U << 20)
#define TRANSFER_POST_MAGIC 0x54504f53U

/* Payload of one request or of several in a row, in one direction; comes back as a whole. */
struct transfer_post {
    uint32_t magic;
    bool out;
    uint8_t link;         /* of the remote */
    uint16_t first, last; /* requests of the batch */
    uint64_t bytes;
    struct conn *conn; /* borrowed: the connection outlives what is out */
    struct kvasir_job job;
    struct kvasir_local locals[TRANSFER_PIECES_MAX];
    struct kvasir_remote remotes[TRANSFER_PIECES_MAX];
};

/* Where posting has come to within the batch. */
struct transfer {
    uint32_t next;               /* the request whose payload is posted next */
    bool begun;                  /* that one has a cursor */
    struct layout_cursor cursor; /* in its value */
    uint64_t left_bytes;         /* of it */
    uint32_t segment_arg;        /* the argument with the address of the client's current segment */
    uint64_t segment_used_bytes;
};

/* A round's transfers; the rest of what is known about them stands in the requests. */
struct transfers {
    struct transfer at;
    struct checksum *checksum; /* owned; NULL: none is under way */
    bool moving;               /* the batch waits */
    bool lending;              /* for windows, see lend.h */
    uint32_t out_count;
    uint64_t claimed_bytes; /* counted as an upload's until they are sealed */
    int64_t moved_us;       /* when they last got on */
    struct transfer_post posts[TRANSFER_POSTS_MAX];
};

/* A request's plan has added its op: bytes of payload will move. first_arg: where its segments begin,
 * each an address, a key and a length. */
void transfer_note(struct conn *conn, struct request *request, enum transfer_kind kind,
                   uint32_t first_arg, uint64_t bytes);
/* Whether a request may be planned in this round, which has transfers: what comes behind a put must see
 * it, and puts together shall not take the whole store. */
bool transfer_may_join(const struct conn *conn, const struct request *request);

/* The round's ops are done: goes on with its transfers. True: nothing is left to wait for, it can be
 * answered. */
bool transfer_settle(struct conn *conn);
/* Nothing got on for too long: closes the queue pairs that posts are out on. */
void transfer_give_up(struct conn *conn);
/* A post came back. */
void transfer_post_done(struct transfer_post *post, enum kvasir_status status);
/* The connection ends, and nothing is out any more. */
void transfer_abandon(struct conn *conn);
