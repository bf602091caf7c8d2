#pragma once
/* pubsub – who listens to which channels, on one reactor. One thread. Embedded in the reactor; owns the
 * subscriptions, each of which is also in a list of its connection. Their memory counts against
 * client-query-buffer-limit, as that of long requests. */

#include "base/list.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct conn;

enum pubsub_kind {
    PUBSUB_CHANNEL,
    PUBSUB_PATTERN,
    PUBSUB_SHARD_CHANNEL,
    PUBSUB_KIND_COUNT,
};

#define PUBSUB_BUCKETS 1024U

struct subscription {
    struct list link;      /* of its bucket, or of the patterns */
    struct list conn_link; /* conn->subscriptions */
    struct conn *conn;
    uint8_t kind; /* enum pubsub_kind */
    struct slice name;
    uint8_t bytes[];
};

struct pubsub {
    struct list *buckets; /* owned: PUBSUB_BUCKETS for channels, and as many for shard channels */
    struct list patterns;
    uint64_t count;
    uint64_t hash_seed; /* clients choose names: whoever knew it could have all in one chain */
};

/* False: no memory. */
bool pubsub_init(struct pubsub *pubsub, uint64_t hash_seed);
void pubsub_fini(struct pubsub *pubsub);

/* KVASIR's answer in short: true when the connection listens now (also when it did before); false: no
 * memory for one more. */
bool pubsub_join(struct pubsub *pubsub, struct conn *conn, enum pubsub_kind kind,
                 struct slice name);
/* True: it did listen. */
bool pubsub_leave(struct pubsub *pubsub, struct conn *conn, enum pubsub_kind kind,
                  struct slice name);
/* Some subscription of the kind; NULL: there is none. */
struct subscription *pubsub_any(struct conn *conn, enum pubsub_kind kind);
/* The end of a connection, and RESET. */
void pubsub_leave_all(struct pubsub *pubsub, struct conn *conn);

/* Sends the text to everybody who listens here; returns how many that are. */
uint64_t pubsub_deliver(struct pubsub *pubsub, bool shard, struct slice channel, struct slice text);

/* Calls visit for each channel of the kind that somebody listens to, once, or for each pattern. */
typedef void pubsub_visit_fn(void *argument, struct slice name);
void pubsub_visit(struct pubsub *pubsub, enum pubsub_kind kind, pubsub_visit_fn *visit,
                  void *argument);
/* The same in all that were made with the same seed. */
uint64_t pubsub_hash(const struct pubsub *pubsub, struct slice name);
/* How many listen to the channel here. */
uint64_t pubsub_count(struct pubsub *pubsub, bool shard, struct slice channel);
