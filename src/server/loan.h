#pragma once
/* loan – a value's memory in a client's hands: memory windows on exactly its pieces, to read a sealed value
 * (KV.LEASE) or to fill a reserved one (KV.RESERVE), on connections that asked for it (KV.CONNECT RDMA …
 * MODE CLIENT). Owned by the connection's struct remote, used by its thread. A loan holds a pin; it gives
 * it back, or hands it to the op that commits, when the windows are revoked and not before: when it is
 * taken back, its time is up, or the queue pair is closed, which revokes all at once. */

#include "base/compiler.h"
#include "base/list.h"
#include "store/op.h"
#include "store/recall.h"

#include <kvasir/transport.h>

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct remote;

#define LOAN_MAGIC 0x4c4f414eU
/* Loans of one connection. */
#define LOANS_MAX 256U

enum loan_state {
    LOAN_NEW,      /* its windows are to be bound; next: BINDING, or OVER when that is impossible */
    LOAN_BINDING,  /* a job; next: OUT or OVER */
    LOAN_OUT,      /* the client has it; next: DUE, or OVER with the queue pair */
    LOAN_DUE,      /* its windows are to be revoked; next: REVOKING */
    LOAN_REVOKING, /* a job; next: OVER */
    LOAN_OVER,     /* no peer reaches the memory; freed, unless a request looks at it first */
};

struct loan {
    uint32_t magic;
    uint8_t state;       /* enum loan_state */
    bool wanted;         /* the connection's batch waits for it, and frees it or gives it out */
    bool writes;         /* of a reserved value */
    uint8_t remote_link; /* that its windows are bound on */
    bool recalled;       /* its key died before its windows were bound: they are revoked at once */
    enum kvasir_status status; /* KVASIR_OK, or why it could not be made */
    struct list link;          /* of the remote */
    struct conn *conn;         /* borrowed: it outlives what is under way */
    uint64_t id;               /* never used twice in its reactor */
    uint32_t shard;
    uint32_t flags;      /* of the put */
    struct value *value; /* owned pin; NULL once it is committed */
    uint64_t bytes;      /* counted in the reactor's metrics */
    int64_t deadline_us;
    struct op_put put;
    struct kvasir_job job;
    uint32_t grant_count;
    struct kvasir_grant grants[];
};

struct loans {
    bool on; /* the connection may have some */
    struct list list;
    uint32_t count;
    uint32_t job_count;    /* under way */
    uint32_t wanted_count; /* the batch waits for so many */
    /* What was recalled while a batch was finding values to lend: they are not lent any more. */
    struct recall_list missed;
};

static inline bool loan_is_under_way(const struct loan *loan)
{
    return loan->state == LOAN_BINDING || loan->state == LOAN_REVOKING;
}

void loan_init(struct loans *loans);
/* Whether loans of this kind may hold so many bytes more. */
bool loan_fits(const struct conn *conn, bool writes, uint64_t bytes);
/* A loan of op's value, whose pin it takes over, wanted by the batch. NULL: KVASIR_BUSY or
 * KVASIR_NO_MEMORY in op->status. */
struct loan *loan_create(struct conn *conn, uint32_t shard, struct op *op, bool writes);
/* The loan of that id and kind that is out; NULL: there is none. */
struct loan *loan_find(const struct conn *conn, uint64_t id, bool writes);
/* It is to be revoked, and the batch waits for that. */
void loan_take_back(struct loan *loan);
/* Posts what is to be posted. Ends what cannot be. */
void loan_post(struct conn *conn);
/* A job came back. */
void loan_event(struct loan *loan, enum kvasir_status status);
/* Over and not wanted any more. */
void loan_free(struct loan **loan_p);
/* The queue pair was closed. */
void loan_end_all(struct conn *conn, uint32_t remote_link);
/* Whether jobs on this queue pair are under way. */
bool loan_is_busy(const struct remote *remote, uint32_t remote_link);
/* The queue pair's place is left, no job on it is under way. */
void loan_fini(struct conn *conn, uint32_t remote_link);
/* Keys died: revokes at once what is lent of their values, and has the batch not lend what it is about to. */
void loan_recall(struct conn *conn, uint32_t shard, const struct recall_list *list);
/* Revokes what is past its time. */
void loan_tick(struct conn *conn);
