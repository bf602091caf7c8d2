#pragma once
/* gather – work that every reactor does for one request: each runs it on its own state, the origin goes
 * on when all have answered. For what operators ask for and connections' ends, not for the data
 * path. A gather belongs to the origin; its tasks travel. */

#include "base/clock.h"
#include "base/slice.h"
#include "net/mailbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch;
struct chunk_pool;
struct gather;
struct reactor;

typedef void gather_run_fn(struct reactor *reactor, struct gather *gather, uint32_t index);
typedef void gather_done_fn(struct reactor *reactor, struct gather *gather);

struct gather_task {
    struct mail mail;
    struct gather *gather;
};

/* What one reactor answered. */
struct gather_answer {
    int64_t number;  /* in, where each is asked for something of its own: that */
    int64_t other;   /* negative: out of memory for the text */
    uint64_t cursor; /* the reactor's own: how far it has come, when it is asked several times */
    bool done;       /* likewise: it has nothing more to do */
    bool self;       /* the caller itself is concerned */
    uint8_t *text;   /* owned by the gather, or NULL */
    size_t text_bytes;
    size_t text_capacity;
};

#define GATHER_ARGUMENT_BYTES 512

struct gather {
    gather_run_fn *run;
    gather_done_fn *done; /* on the origin; NULL: the batch goes on */
    struct batch *batch;  /* waits, or NULL */
    uint32_t origin;
    uint32_t waiting;
    uint32_t reactor_count;
    struct chunk_pool *pool; /* borrowed from the origin: what is answered counts as large_bytes */
    uint64_t counted_bytes;  /* so much of it is this one's */
    bool on_shards; /* run touches nothing of the reactor but its shard: a transaction, which holds
                             them all, runs it at once */
    bool ordered;   /* in: every reactor runs those that are ordered in the same order, which
                             reactor 0 decides */
    struct moment now;    /* in: at the start */
    bool failed;          /* there is no memory for the answers, or not for so long ones */
    int64_t number;       /* in: the request's own */
    uint64_t cursor;      /* in: where a scan stands */
    uint64_t next_cursor; /* out: where it goes on; written by the shard that cursor names */
    uint64_t flags;
    void *pointer; /* in: the request's own; owned by whoever made the gather */
    uint8_t argument[GATHER_ARGUMENT_BYTES]; /* in: the request's own */
    struct slice text;                       /* in: borrowed from the request, which stays */
    struct gather_answer *answers;           /* owned: one per reactor */
    struct gather_task *tasks;               /* owned: one per reactor */
};

/* A gather that is not yet under way; NULL: no memory. */
struct gather *gather_create(struct reactor *reactor, gather_run_fn *run, gather_done_fn *done);
/* Runs here at once and sends it to the others; may be started again when it is done. The gather must not be touched until done, unless
 * this returns true: all is done already (done has been called). */
bool gather_start(struct reactor *reactor, struct gather *gather, struct batch *batch);
void gather_destroy(struct gather **gather_p);

/* All answers' numbers together. */
int64_t gather_sum(const struct gather *gather);

/* Adds bytes to this reactor's answer; false: no memory (gather->failed is set by the origin). */
bool gather_answer_add(struct gather_answer *answer, const void *bytes, size_t length_bytes);
void gather_answer_free(struct gather_answer *answer);

/* Mail: run a task for another reactor; one of ours came back. */
void gather_execute(struct reactor *reactor, struct gather_task *task);
void gather_returned(struct reactor *reactor, struct gather_task *task);
