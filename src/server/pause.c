#include "server/pause.h"

#include "server/conn.h"
#include "server/transaction.h"

/* As in Redis: while nobody may write, nothing changes by itself either. */
static void hold_expired(struct reactor *reactor, bool held)
{
    reactor_shard_enter(reactor);
    shard_hold_expired(reactor->shard, held);
    reactor_shard_leave(reactor);
}

void pause_begin(struct reactor *reactor, int64_t until_us, bool all)
{
    struct pause *pause = &reactor->pause;
    if (reactor->draining) {
        return;
    }
    pause->until_us = until_us > pause->until_us ? until_us : pause->until_us;
    pause->all = pause->all || all;
    hold_expired(reactor, true);
}

void pause_end(struct reactor *reactor)
{
    struct pause *pause = &reactor->pause;
    if (pause->until_us != 0) {
        hold_expired(reactor, false);
    }
    pause->until_us = 0;
    pause->all = false;
    while (!list_empty(&pause->waiting)) {
        struct conn *conn = list_entry(pause->waiting.next, struct conn, batch_link);
        pause_forget(conn);
        conn_run_later(conn);
    }
}

void pause_tick(struct reactor *reactor)
{
    if (reactor->pause.until_us != 0 && reactor->now.mono_us >= reactor->pause.until_us) {
        pause_end(reactor);
    }
}

bool pause_holds_conn(const struct conn *conn)
{
    /* A payload that went straight to its place is a write, and cannot be read a second time. */
    return conn->upload.state == UPLOAD_READY;
}

bool pause_holds(const struct conn *conn, const struct request *request)
{
    const struct command *command = request->command;
    if (request->refusal != REFUSAL_NONE && request->refusal != REFUSAL_QUEUED) {
        return false; /* what is wrong with it can be said at once */
    }
    return conn->reactor->pause.all || command_writes(command) ||
           (command->id == COMMAND_EXEC && conn->transaction != NULL && conn->transaction->writes);
}

void pause_wait(struct conn *conn)
{
    struct reactor *reactor = conn->reactor;
    if (!conn->paused) {
        conn->paused = true;
        metric_add(&reactor->metrics.paused_clients, 1);
        list_push_back(&reactor->pause.waiting, &conn->batch_link);
    }
}

void pause_forget(struct conn *conn)
{
    if (conn->paused) {
        conn->paused = false;
        metric_sub(&conn->reactor->metrics.paused_clients, 1);
        list_remove(&conn->batch_link);
    }
}
