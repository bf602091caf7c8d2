#include "server/conn.h"
#include "server/pin_mail.h"

#include "base/check.h"
#include "server/acl_change.h"
#include "server/cmd_pubsub.h"
#include "server/cmd_transaction.h"
#include "server/conn_tls.h"
#include "server/events.h"
#include "server/gather.h"
#include "server/kept.h"
#include "server/monitor.h"
#include "server/pause.h"
#include "server/push.h"
#include "server/remote.h"
#include "server/serve.h"
#include "server/shm.h"
#include "server/transaction.h"

#include <stdlib.h>

void conn_close_soon(struct conn *conn)
{
    conn->closing = true;
    conn->readable = false;
}

void conn_kill(struct conn *conn)
{
    struct reactor *reactor = conn->reactor;
    if (conn->dead) {
        return;
    }
    conn->dead = true;
    if (conn->yielded) {
        conn->yielded = false;
        conn->batch->waiting--;
    }
    if (conn->remote != NULL) {
        remote_break(conn);
    }
    list_remove(&conn->run_link);
    upload_stop_waiting(conn);
    pause_forget(conn);
    list_remove(&conn->batch_link);
    loop_unwatch(&conn->watch);
    if (conn->ring_asked || conn->wire.kind == WIRE_RINGS) {
        conn->ring_asked = false;
        list_remove(&conn->ring_link);
        reactor->ring_count--;
    }
    conn_tls_end(conn);
    wire_close(&conn->wire);
    output_fini(&conn->output, pin_mail_release_output, reactor);
    list_remove(&conn->link);
    list_push_back(&reactor->dead, &conn->dead_link);
    reactor->conn_count--;
    metric_sub(&reactor->metrics.connections_now, 1);
}

static void drop_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    if ((gather->flags & (UINT64_C(1) << index)) != 0) {
        shard_drop_owner(reactor->shard, (uint64_t)gather->number);
    }
}

static void drop_done(struct reactor *reactor, struct gather *gather)
{
    (void)reactor;
    gather_destroy(&gather);
}

/* Ends the connection's leases and reservations on all shards that may have any. False: no memory to
 * say so just now. */
static bool drop_grants(struct conn *conn)
{
    struct gather *gather;
    if (conn->grant_shards == 0) {
        return true;
    }
    gather = gather_create(conn->reactor, drop_run, drop_done);
    if (gather == NULL) {
        return false;
    }
    gather->flags = conn->grant_shards;
    gather->number = (int64_t)conn->id;
    conn->grant_shards = 0;
    (void)gather_start(conn->reactor, gather, NULL);
    return true;
}

void conn_bury(struct reactor *reactor)
{
    list_foreach_safe (cursor, after, &reactor->dead) {
        struct conn *conn = list_entry(cursor, struct conn, dead_link);
        CHECK_MAGIC(conn, CONN_MAGIC);
        if (conn->batch != NULL && conn->batch->waiting > 0) {
            continue; /* its ops are still with a shard, and point into its input */
        }
        if (conn->remote != NULL && remote_is_busy(conn->remote)) {
            continue; /* its jobs come back with the next look at the hub */
        }
        if (!drop_grants(conn)) {
            continue;
        }
        if (conn->batch != NULL) {
            batch_drop_results(reactor, conn->batch);
            for (uint32_t i = 0; i < conn->batch->request_count; i++) {
                gather_destroy(&conn->batch->requests[i].gather);
                kept_destroy(reactor, &conn->batch->requests[i].kept);
            }
            batch_give(reactor, &conn->batch);
        }
        acl_change_destroy(&conn->acl_change);
        if (conn->transaction != NULL) {
            gather_destroy(&conn->transaction->current.gather);
            kept_destroy(reactor, &conn->transaction->current.kept);
        }
        cmd_transaction_end(conn);
        cmd_pubsub_end(conn);
        monitor_end(conn);
        (void)events_unlisten(conn);
        push_fini(conn);
        upload_abandon(conn);
        remote_close(conn);
        shm_staging_close(conn);
        serve_forget_args(conn);
        input_fini(&conn->input);
        read_ahead_fini(&conn->ahead, &reactor->chunks);
        list_remove(&conn->dead_link);
        conn->magic = 0;
        free(conn);
    }
}
