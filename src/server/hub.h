#pragma once
/* hub – where the completions of a reactor's queue pairs arrive, in a queue for each device. While anything
 * is under way they are looked at in every turn; before the reactor sleeps their descriptors are armed.
 * Embedded in a reactor; used by its thread. Owns the queues; borrows the fabric. */

#include "base/compiler.h"
#include "server/fabric.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop_watch;
struct reactor;

struct hub_queue {
    struct reactor *reactor;           /* the owner */
    uint32_t device;                   /* of the fabric */
    struct kvasir_queue *queue;        /* owned */
    struct loop_watch *watch;          /* owned; of the queue */
    struct loop_watch *domain_watch;   /* owned; of the device: the first reactor's only */
    struct kvasir_queue_stats counted; /* of the queue, in the reactor's metrics already */
    bool ready;                        /* the descriptor said so */
    bool armed;
};

struct hub {
    struct fabric *fabric; /* borrowed; NULL: there is no RDMA, and the rest is unused */
    struct hub_queue queues[FABRIC_DEVICES_MAX]; /* as many as the fabric has devices */
    uint32_t out_count;                          /* jobs under way */
    uint64_t loan_last_id;                       /* that was given to a client */
    bool ready;                                  /* one of the descriptors said so */
};

/* False: a queue cannot be had, said tells why. Main thread. */
ATTR_MUST_USE bool hub_init(struct reactor *reactor, struct fabric *fabric, char *said);
/* Every link is closed. */
void hub_fini(struct reactor *reactor);

/* Takes what has come. */
void hub_advance(struct reactor *reactor);
/* Takes what the transport counts into the reactor's metrics. */
void hub_take_stats(struct reactor *reactor);
/* Arms the descriptors; false: there is something already. */
ATTR_MUST_USE bool hub_sleep(struct hub *hub);

/* Whether the server may have lent something to clients that drive by themselves. */
static inline bool hub_lends(const struct hub *hub)
{
    return hub->fabric != NULL && metric_get(&hub->fabric->lends) != 0;
}

static inline bool hub_has_work(const struct hub *hub)
{
    return hub->out_count > 0 || hub->ready;
}
