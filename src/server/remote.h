#pragma once
/* remote – a connection's queue pairs, by which the server reads and writes the client's memory: up to four,
 * by devices of the client's choice. Made by KV.CONNECT RDMA, owned by the connection, used by its thread.
 * A queue pair in error is closed at once, and then no device touches memory for it any more; what was
 * under way by it comes back as failed, and the others notice nothing. The client may open another. */

#include "base/compiler.h"
#include "server/loan.h"
#include "server/transfer.h"

#include <kvasir/transport.h>

struct conn;

/* Jobs of a queue pair that may be under way: posts, and those of loans. */
#define REMOTE_JOBS_MAX 64U

/* Queue pairs of one connection; a key that a client is told or tells names its own in the bits from 32 on. */
#define REMOTE_LINKS_MAX     4U
#define REMOTE_KEY_LINK_BITS 32

struct remote_link {
    struct kvasir_link *link; /* owned; NULL: none, or broken */
    uint32_t device;          /* of the fabric */
};

/* What KV.CONNECT RDMA asks for. */
struct remote_wish {
    uint32_t link;   /* which of the connection's */
    uint32_t device; /* of the fabric */
    bool lends;      /* the client may reach, by it, what windows are bound to */
};

struct remote {
    struct remote_link links[REMOTE_LINKS_MAX];
    uint32_t lend_last; /* the link that was lent on last */
    uint32_t connecting_link;
    bool
        connecting; /* the transport has not said yet whether the client can be reached by that one */
    bool awaited;   /* the batch waits for that */
    enum kvasir_status connect_status; /* of use when it has */
    struct kvasir_link_address local;  /* what the client must know */
    char said[KVASIR_SAID_BYTES];      /* why the client cannot be reached */
    struct transfers transfers;
    struct loans loans;
};

/* Makes a queue pair of the connection, in the place of the one it had there, and begins to connect it to the
 * client's. On failure said holds a sentence for the client. KVASIR_OK: see remote_await; KVASIR_BUSY
 * (rdma-clients-max), KVASIR_NO_MEMORY, KVASIR_INVALID (the others are of another mode), KVASIR_CLOSED (the
 * device is gone) or what the transport says. */
ATTR_MUST_USE enum kvasir_status remote_open(struct conn *conn, const struct remote_wish *wish,
                                             const struct kvasir_link_address *client, char *said);
/* The batch waits until the queue pair is connected or cannot be. */
void remote_await(struct conn *conn);
/* The transport has said it. */
void remote_connected(struct conn *conn, uint32_t link, enum kvasir_status status,
                      const char *reason);
/* Closes the queue pair; the rest stays until what was under way has come back. */
void remote_break_link(struct conn *conn, uint32_t link);
/* The same for all. */
void remote_break(struct conn *conn);
/* The same, because it does not work, or because its device does not. */
void remote_fail_link(struct conn *conn, uint32_t link);
void remote_fail_device(struct conn *conn, uint32_t device);
/* Whether jobs are under way. */
bool remote_is_busy(const struct remote *remote);
/* The connection ends, nothing is under way. Without a remote it does nothing. */
void remote_close(struct conn *conn);
/* Only when no queue pair is left, and nothing under way. */
void remote_close_unused(struct conn *conn);

/* KVASIR_OK: the hub will hand the job back; KVASIR_AGAIN; else it cannot be done. */
ATTR_MUST_USE enum kvasir_status remote_submit(struct conn *conn, uint32_t link,
                                               struct kvasir_job *job);
/* The link to lend by next, each in its turn; one that is broken when all are. */
uint32_t remote_next_lender(struct remote *remote);
/* The payload as the link's device knows it. */
const struct kvasir_memory *remote_payload(const struct conn *conn, uint32_t link);

static inline bool remote_is_up(const struct remote *remote, uint32_t link)
{
    return remote->links[link].link != NULL &&
           !(remote->connecting && remote->connecting_link == link);
}

/* Not one queue pair is left. */
static inline bool remote_is_broken(const struct remote *remote)
{
    for (uint32_t i = 0; i < REMOTE_LINKS_MAX; i++) {
        if (remote->links[i].link != NULL) {
            return false;
        }
    }
    return true;
}
