#pragma once
/* remote – a connection's queue pair, by which the server reads and writes the client's memory. Made by
 * KV.CONNECT RDMA, owned by the connection, used by its thread. A queue pair in error is closed at once,
 * and then no device touches memory for it any more; what was under way comes back as failed. The
 * client may open another. */

#include "base/compiler.h"
#include "server/loan.h"
#include "server/transfer.h"

#include <kvasir/transport.h>

struct conn;

/* Jobs of a queue pair that may be under way: posts, and those of loans. */
#define REMOTE_JOBS_MAX 64U

struct remote {
    struct kvasir_link *link; /* owned; NULL: broken */
    bool connecting;          /* the transport has not said yet whether the client can be reached */
    bool awaited;             /* the batch waits for that */
    enum kvasir_status connect_status; /* of use when it has */
    struct kvasir_link_address local;  /* what the client must know */
    char said[KVASIR_SAID_BYTES];      /* why the client cannot be reached */
    struct transfers transfers;
    struct loans loans;
};

/* Makes the connection's queue pair and begins to connect it to the client's; with lends the client may
 * reach, by it, what windows are bound to. On failure said holds a sentence for the client. KVASIR_OK: see
 * remote_await; KVASIR_BUSY (rdma-clients-max), KVASIR_NO_MEMORY, KVASIR_CLOSED (the device is gone) or what
 * the transport says. */
ATTR_MUST_USE enum kvasir_status
remote_open(struct conn *conn, const struct kvasir_link_address *client, bool lends, char *said);
/* The batch waits until the queue pair is connected or cannot be. */
void remote_await(struct conn *conn);
/* The transport has said it. */
void remote_connected(struct conn *conn, enum kvasir_status status, const char *reason);
/* Closes the queue pair; the rest stays until what was under way has come back. */
void remote_break(struct conn *conn);
/* The same, because it does not work. */
void remote_fail(struct conn *conn);
/* Whether jobs are under way. */
bool remote_is_busy(const struct remote *remote);
/* The connection ends, nothing is under way. Without a remote it does nothing. */
void remote_close(struct conn *conn);

/* KVASIR_OK: the hub will hand the job back; KVASIR_AGAIN; else it cannot be done. */
ATTR_MUST_USE enum kvasir_status remote_submit(struct conn *conn, struct kvasir_job *job);

static inline bool remote_is_broken(const struct remote *remote)
{
    return remote->link == NULL;
}
