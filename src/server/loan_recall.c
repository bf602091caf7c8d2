#include "server/loan_recall.h"

#include "base/list.h"
#include "server/conn.h"
#include "server/gather.h"
#include "server/reactor.h"
#include "server/remote.h"

/* A pin that this shard gave out before it noted a key's end is known here already: both came from the
 * same reactor in this order, or the pin was taken on this thread. So a loan is found, or its batch. */
static void recall_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)index;
    list_foreach (cursor, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        if (conn->remote != NULL && conn->remote->loans.on) {
            loan_recall(conn, gather->origin, gather->pointer);
        }
    }
}

static void recall_done(struct reactor *reactor, struct gather *gather)
{
    gather_destroy(&gather);
    reactor->recalling = false;
}

void loan_recall_collect(struct reactor *reactor)
{
    struct gather *gather;
    bool any;
    if (reactor->recalling) {
        return;
    }
    reactor_shard_enter(reactor);
    any = shard_recalls_pending(reactor->shard);
    reactor_shard_leave(reactor);
    gather = any ? gather_create(reactor, recall_run, recall_done) : NULL;
    if (gather == NULL) {
        return; /* without memory the next turn tries again */
    }
    reactor_shard_enter(reactor);
    shard_recalls_take(reactor->shard, &reactor->recalls);
    reactor_shard_leave(reactor);
    gather->pointer = &reactor->recalls;
    reactor->recalling = true;
    (void)gather_start(reactor, gather, NULL);
}
