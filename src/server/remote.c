#include "server/remote.h"

#include "base/check.h"
#include "base/fault.h"
#include "server/conn.h"
#include "server/reactor.h"

#include <stdio.h>
#include <stdlib.h>

static enum kvasir_status make_link(struct conn *conn, const struct kvasir_link_address *client,
                                    char *said)
{
    struct remote *remote = conn->remote;
    struct hub *hub = &conn->reactor->hub;
    const struct fabric *fabric = hub->fabric;
    struct kvasir_link_options options = {
        .cookie = conn->id,
        .mtu_bytes = fabric->mtu_bytes,
        .rights = remote->loans.on ? KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE : 0,
        .jobs_max = REMOTE_JOBS_MAX,
    };
    struct kvasir_gid gid;
    enum kvasir_status status = fabric->ops->choose_gid(
        fabric->state, fabric_device(fabric), fabric->gid_index, &client->gid, &gid, said);
    if (status != KVASIR_OK) {
        return status;
    }
    options.gid_index = (int)gid.index;
    status = fabric->ops->link_create(hub->queue, &options, &remote->link, &remote->local, said);
    if (status == KVASIR_BUSY) {
        (void)snprintf(said, KVASIR_SAID_BYTES,
                       "this reactor has rdma-clients-max %llu of them already",
                       (unsigned long long)conn->reactor->settings.rdma_clients_max);
    }
    if (status != KVASIR_OK) {
        remote->link = NULL;
        return status;
    }
    status = fabric->ops->link_connect(remote->link, client, said);
    if (status != KVASIR_PENDING) {
        fabric->ops->link_close(&remote->link);
        remote->link = NULL;
        return status;
    }
    remote->connecting = true;
    remote->transfers.moved_us = conn->reactor->now.mono_us;
    return KVASIR_OK;
}

bool remote_is_busy(const struct remote *remote)
{
    return remote->transfers.out_count > 0 || remote->loans.job_count > 0;
}

static enum kvasir_status begin(struct conn *conn, const struct kvasir_link_address *client,
                                bool lends, char *said)
{
    enum kvasir_status status;
    if (fabric_is_gone(conn->reactor->hub.fabric)) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "the device is gone");
        return KVASIR_CLOSED;
    }
    if (conn->remote != NULL && remote_is_busy(conn->remote)) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "loans of the last one are still being revoked");
        return KVASIR_BUSY;
    }
    remote_close(conn); /* whoever asks again has lost the other end */
    conn->remote = fault_hit("server.remote") ? NULL : calloc(1, sizeof(*conn->remote));
    if (conn->remote == NULL) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "out of memory");
        return KVASIR_NO_MEMORY;
    }
    loan_init(&conn->remote->loans, lends);
    if (lends) {
        metric_set(&conn->reactor->hub.fabric->lends, 1);
    }
    metric_add(&conn->reactor->metrics.rdma_clients, 1);
    status = make_link(conn, client, said);
    if (status != KVASIR_OK) {
        remote_close(conn);
    }
    return status;
}

enum kvasir_status remote_open(struct conn *conn, const struct kvasir_link_address *client,
                               bool lends, char *said)
{
    enum kvasir_status status = begin(conn, client, lends, said);
    if (status != KVASIR_OK) {
        metric_add(&conn->reactor->metrics.traffic.links_refused, 1);
    }
    return status;
}

void remote_await(struct conn *conn)
{
    if (conn->remote->connecting) {
        conn->remote->awaited = true;
        conn->batch->waiting++;
    }
}

static void count_connect(struct conn *conn, enum kvasir_status status)
{
    struct traffic *traffic = &conn->reactor->metrics.traffic;
    if (status != KVASIR_OK) {
        metric_add(&traffic->links_refused, 1);
        return;
    }
    metric_add(&traffic->links_opened, 1);
    metric_add(&traffic->links_rebuilt, conn->had_remote ? 1 : 0);
    conn->had_remote = true;
}

/* The batch goes on in this connection's next turn. */
static void connect_ended(struct conn *conn, enum kvasir_status status, const char *reason)
{
    struct remote *remote = conn->remote;
    remote->connecting = false;
    remote->connect_status = status;
    count_connect(conn, status);
    (void)snprintf(remote->said, sizeof(remote->said), "%s", reason);
    if (remote->awaited && conn->dead) {
        conn->batch->waiting--;
    } else if (remote->awaited) {
        conn->yielded = true; /* what gives back is what the batch waits for */
        conn_run_later(conn);
    }
    remote->awaited = false;
}

void remote_connected(struct conn *conn, enum kvasir_status status, const char *reason)
{
    struct remote *remote = conn->remote;
    if (!remote->connecting) {
        return;
    }
    connect_ended(conn, status, reason);
    if (status != KVASIR_OK) {
        remote_break(conn);
    }
}

void remote_break(struct conn *conn)
{
    struct remote *remote = conn->remote;
    if (remote->connecting) {
        connect_ended(conn, KVASIR_CLOSED, "the client left, time was up, or the device is gone");
    }
    if (remote->link != NULL) {
        conn->reactor->hub.fabric->ops->link_close(&remote->link);
        remote->link = NULL;
        loan_end_all(conn);
    }
}

void remote_fail(struct conn *conn)
{
    if (!conn->remote->connecting && !remote_is_broken(conn->remote)) {
        metric_add(&conn->reactor->metrics.traffic.links_failed, 1);
    }
    remote_break(conn);
}

void remote_close(struct conn *conn)
{
    if (conn->remote == NULL) {
        return;
    }
    remote_break(conn);
    loan_fini(conn);
    transfer_abandon(conn);
    metric_sub(&conn->reactor->metrics.rdma_clients, 1);
    free(conn->remote);
    conn->remote = NULL;
}

enum kvasir_status remote_submit(struct conn *conn, struct kvasir_job *job)
{
    struct hub *hub = &conn->reactor->hub;
    enum kvasir_status status = hub->fabric->ops->submit(conn->remote->link, job);
    if (status != KVASIR_PENDING) {
        return status == KVASIR_OK ? KVASIR_IO : status;
    }
    hub->out_count++;
    return KVASIR_OK;
}
