#pragma once
/* batch – the requests of one connection that are being served together, and the ops they need, sorted
 * into one part per shard. A batch is taken from the reactor's pool when a connection has input and
 * goes back when its replies are written; parts for other shards travel there and back as mail. Owned
 * by the reactor; the connection holds it meanwhile. */

#include "base/list.h"
#include "base/slice.h"
#include "net/mailbox.h"
#include "proto/command_table.h"
#include "store/op.h"

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct gather;
struct kept;
struct reactor;

#define BATCH_MAGIC        0x42415443U
#define BATCH_OPS_MAX      256
#define BATCH_REQUESTS_MAX 128
#define BATCH_ARGS_MAX     1024
/* A request is only begun when it may have this many arguments in the batch's own array. */
#define BATCH_ARGS_MIN 16
/* Memory of one batch, for the shares of maxmemory: connections beyond the reactor's number of batches
 * wait their turn. */
#define BATCH_BYTES(shard_count) (sizeof(struct batch) + (shard_count) * sizeof(struct batch_part))
#define BATCH_OP_NONE            UINT16_MAX

/* Why a request is refused before it runs; the text is made when it is its turn to be answered. */
enum request_refusal {
    REFUSAL_NONE,
    /* By a plan: it ran, and failed. */
    REFUSAL_TEXT,               /* request.error */
    REFUSAL_TIME,               /* of a lease, reservation or pin: not within lease-max-ms */
    REFUSAL_TOO_LARGE,          /* request.number bytes of a value */
    REFUSAL_UNSUPPORTED_OPTION, /* args[next_arg] of EXPIRE and its kin */
    /* By others: it did not run. */
    REFUSAL_UNKNOWN_COMMAND,
    REFUSAL_UNKNOWN_SUBCOMMAND,
    REFUSAL_ARITY,
    REFUSAL_SUBSCRIBED, /* in RESP2 a subscriber may do little else */
    REFUSAL_MONITOR,    /* it listens by MONITOR, and has no business with keys */
    REFUSAL_NOAUTH,
    REFUSAL_NOPERM_COMMAND,
    REFUSAL_NOPERM_KEY,
    REFUSAL_NOPERM_CHANNEL,
    REFUSAL_NOT_IN_MULTI,
    REFUSAL_NO_MEMORY, /* behind MULTI: there is none for what it would store */
    REFUSAL_QUEUED,    /* behind MULTI: no refusal, but it does not run now, either */
};

static inline bool refusal_is_of_plan(uint8_t refusal)
{
    return refusal > REFUSAL_NONE && refusal <= REFUSAL_UNSUPPORTED_OPTION;
}

struct request {
    const struct command *command;
    struct slice *args; /* borrowed: the batch's or the connection's array */
    uint32_t arg_count;
    uint32_t start_bytes; /* of the input: where it begins */
    uint16_t op_first;    /* this round's ops in the batch */
    uint16_t op_count;
    uint32_t next_arg;  /* how far a command of many keys has come; 0 at first */
    uint32_t round_arg; /* the handler's own: where this round began */
    uint32_t first_arg; /* the handler's own: the first key */
    bool failed;        /* an error was replied */
    bool more;          /* plan must be called again after this round's reply */
    bool judged;        /* access_judge has looked at it */
    uint8_t refusal;    /* enum request_refusal */
    uint8_t database;   /* of the shards, see database_map.h: whose keys it names */
    uint8_t transfer;   /* enum transfer_kind: what moves between its op and its answer */
    enum kvasir_status transfer_result;
    uint8_t transfer_link; /* the queue pair that failed it */
    const char *error;     /* static; the whole text of an error reply, without '-' */
    int64_t count;         /* the handler's own: a sum, a flag, a start … */
    int64_t number;
    uint64_t spent_ns; /* its share of the rounds so far */
    uint32_t flags;
    struct gather *gather; /* owned while it waits for other reactors */
    struct kept *kept;     /* owned: what it needs in the next round; NULL: nothing */
};

struct batch_op {
    struct op op;
    uint16_t next; /* of the same shard, or BATCH_OP_NONE */
    uint16_t shard;
};

/* The ops for one shard, in order. */
struct batch_part {
    struct mail mail;
    struct list stall_link; /* of the executing reactor's stalled list */
    struct batch *batch;
    uint32_t origin; /* reactor that owns the batch */
    uint16_t first;
    uint16_t last;
    uint16_t resume; /* the op to go on with */
    uint16_t tries;  /* reclaims in vain for the op to go on with */
    uint16_t rounds; /* reclaims at all */
};

struct batch {
    uint32_t magic;
    struct list link;  /* of the free list */
    struct conn *conn; /* borrowed while taken */
    uint32_t request_count;
    uint32_t request_first;   /* not yet answered */
    uint32_t request_planned; /* planned up to here: their ops are in this round */
    uint32_t op_count;
    uint32_t arg_count;
    uint32_t waiting; /* parts and gathers still out */
    int64_t round_ns; /* spent on this round before it had to wait */
    uint32_t stat_count;
    uint32_t field_count;
    uint64_t shards;             /* bit per part that has ops in this round */
    uint32_t many_keys_op_count; /* see many_keys.h: ops of this round that are of its kind */
    bool one_step;               /* the round is executed inside the gates of all its shards */
    bool for_upload;             /* the ops are the upload's own: no request is to be answered */
    uint8_t stage;               /* enum transfer_stage: how far the round's transfers have come */
    uint32_t transfer_count;     /* requests of this round that have one */
    struct request *lending;     /* the one that is about loans, see lend.h; or NULL */
    uint32_t incoming_count;     /* of them, KV.PUTs */
    uint64_t incoming_bytes;
    struct request requests[BATCH_REQUESTS_MAX];
    struct slice args[BATCH_ARGS_MAX];
    struct batch_op ops[BATCH_OPS_MAX];
    struct op_stat stats[BATCH_REQUESTS_MAX];   /* where ops that stat leave what they found */
    struct op_field fields[BATCH_REQUESTS_MAX]; /* for requests of one field */
    struct batch_part parts[];                  /* one per shard */
};

/* A free batch, or NULL: the connection is queued and called when one is. */
struct batch *batch_take(struct reactor *reactor, struct conn *conn);
void batch_give(struct reactor *reactor, struct batch **batch_p);
void batch_pool_fini(struct reactor *reactor);

/* Ops that can still be added in this round. */
static inline uint32_t batch_op_room(const struct batch *batch)
{
    return BATCH_OPS_MAX - batch->op_count;
}

/* Forgets the round's ops, so that the next round can be planned. */
void batch_begin_round(struct batch *batch);

/* Gives back the pins that ops brought and nobody will use: the connection is gone. */
void batch_drop_results(struct reactor *reactor, struct batch *batch);

/* Adds an op for the key to request's ops (which are the batch's last). There must be room. */
struct op *batch_add_op(struct batch *batch, struct request *request, enum op_kind kind,
                        struct slice key);
/* The same in another database of the shards than the request's. */
struct op *batch_add_op_in(struct batch *batch, struct request *request, enum op_kind kind,
                           struct slice key, uint8_t database);
/* The same for a shard that is known otherwise (grants). */
struct op *batch_add_op_at(struct batch *batch, struct request *request, enum op_kind kind,
                           uint32_t shard);

/* The round goes on with other ops in the place of some that are done: after batch_begin_again those that
 * batch_add_again names are dispatched. */
void batch_begin_again(struct batch *batch);
void batch_add_again(struct batch *batch, struct request *request);

/* Sends the round's ops to their shards; those of this reactor are executed at once. True: all is
 * done. False: conn_batch_done will be called. */
bool batch_dispatch(struct reactor *reactor, struct batch *batch);

/* Executes the round's ops at once; their shards are held (reactor_hold_shards). */
void batch_execute_held(struct reactor *reactor, struct batch *batch);

/* Executes what mail brought, or goes on with a part that was stalled; sends it back when done. */
void batch_execute_part(struct reactor *reactor, struct batch_part *part);
/* A part came back. */
void batch_part_done(struct reactor *reactor, struct batch_part *part);
/* One thing less to wait for; calls conn_batch_done after the last. */
void batch_waited(struct reactor *reactor, struct batch *batch);
/* Pages may have come free: goes on with stalled parts. */
void batch_resume_stalled(struct reactor *reactor);

static inline struct op *batch_op(struct batch *batch, const struct request *request,
                                  uint32_t index)
{
    return &batch->ops[request->op_first + index].op;
}
