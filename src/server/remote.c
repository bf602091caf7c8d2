#include "server/remote.h"

#include "base/check.h"
#include "base/fault.h"
#include "server/conn.h"
#include "server/reactor.h"

#include <stdio.h>
#include <stdlib.h>

static enum kvasir_status make_link(struct conn *conn, const struct remote_wish *wish,
                                    const struct kvasir_link_address *client, char *said)
{
    struct remote *remote = conn->remote;
    struct remote_link *own = &remote->links[wish->link];
    const struct hub *hub = &conn->reactor->hub;
    const struct fabric *fabric = hub->fabric;
    struct kvasir_link_options options = {
        .cookie = conn->id * REMOTE_LINKS_MAX + wish->link,
        .mtu_bytes = fabric->mtu_bytes,
        .rights = wish->lends ? KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE : 0,
        .jobs_max = REMOTE_JOBS_MAX,
        .traffic_class = fabric->traffic_class,
    };
    struct kvasir_gid gid;
    enum kvasir_status status =
        fabric->ops->choose_gid(fabric->state, fabric_device(fabric, wish->device),
                                fabric->gid_index, &client->gid, &gid, said);
    if (status != KVASIR_OK) {
        return status;
    }
    options.gid_index = (int)gid.index;
    status = fabric->ops->link_create(hub->queues[wish->device].queue, &options, &own->link,
                                      &remote->local, said);
    if (status == KVASIR_BUSY) {
        (void)snprintf(said, KVASIR_SAID_BYTES,
                       "this reactor has rdma-clients-max %llu of them already",
                       (unsigned long long)conn->reactor->settings.rdma_clients_max);
    }
    if (status != KVASIR_OK) {
        own->link = NULL;
        return status;
    }
    status = fabric->ops->link_connect(own->link, client, said);
    if (status != KVASIR_PENDING) {
        fabric->ops->link_close(&own->link);
        own->link = NULL;
        return status;
    }
    own->device = wish->device;
    remote->connecting = true;
    remote->connecting_link = wish->link;
    remote->transfers.moved_us = conn->reactor->now.mono_us;
    return KVASIR_OK;
}

bool remote_is_busy(const struct remote *remote)
{
    return remote->transfers.out_count > 0 || remote->loans.job_count > 0;
}

/* Whoever asks again has lost the other end of the link. */
static enum kvasir_status make_room(struct conn *conn, const struct remote_wish *wish, char *said)
{
    struct remote *remote = conn->remote;
    remote_break_link(conn, wish->link);
    if (loan_is_busy(remote, wish->link)) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "loans of the last one are still being revoked");
        return KVASIR_BUSY;
    }
    loan_fini(conn, wish->link);
    if (!remote_is_broken(remote) && remote->loans.on != wish->lends) {
        (void)snprintf(said, KVASIR_SAID_BYTES,
                       "MODE is another than that of the connection's other queue pairs");
        return KVASIR_INVALID;
    }
    return KVASIR_OK;
}

static enum kvasir_status make_remote(struct conn *conn, char *said)
{
    conn->remote = fault_hit("server.remote") ? NULL : calloc(1, sizeof(*conn->remote));
    if (conn->remote == NULL) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "out of memory");
        return KVASIR_NO_MEMORY;
    }
    loan_init(&conn->remote->loans);
    metric_add(&conn->reactor->metrics.rdma_clients, 1);
    return KVASIR_OK;
}

void remote_close_unused(struct conn *conn)
{
    if (remote_is_broken(conn->remote) && !remote_is_busy(conn->remote)) {
        remote_close(conn);
    }
}

static enum kvasir_status begin(struct conn *conn, const struct remote_wish *wish,
                                const struct kvasir_link_address *client, char *said)
{
    struct fabric *fabric = conn->reactor->hub.fabric;
    enum kvasir_status status;
    if (fabric_is_gone(fabric, wish->device)) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "the device is gone");
        return KVASIR_CLOSED;
    }
    status = conn->remote != NULL ? make_room(conn, wish, said) : make_remote(conn, said);
    if (status != KVASIR_OK) {
        return status;
    }
    conn->remote->loans.on = wish->lends;
    if (wish->lends) {
        metric_set(&fabric->lends, 1);
    }
    status = make_link(conn, wish, client, said);
    if (status != KVASIR_OK) {
        remote_close_unused(conn);
    }
    return status;
}

enum kvasir_status remote_open(struct conn *conn, const struct remote_wish *wish,
                               const struct kvasir_link_address *client, char *said)
{
    enum kvasir_status status = begin(conn, wish, client, said);
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
    uint8_t link = (uint8_t)(1U << conn->remote->connecting_link);
    if (status != KVASIR_OK) {
        metric_add(&traffic->links_refused, 1);
        return;
    }
    metric_add(&traffic->links_opened, 1);
    metric_add(&traffic->links_rebuilt, (conn->had_links & link) != 0 ? 1 : 0);
    conn->had_links |= link;
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

void remote_connected(struct conn *conn, uint32_t link, enum kvasir_status status,
                      const char *reason)
{
    struct remote *remote = conn->remote;
    if (!remote->connecting || remote->connecting_link != link) {
        return;
    }
    connect_ended(conn, status, reason);
    if (status != KVASIR_OK) {
        remote_break_link(conn, link);
    }
}

void remote_break_link(struct conn *conn, uint32_t link)
{
    struct remote *remote = conn->remote;
    struct remote_link *own = &remote->links[link];
    if (remote->connecting && remote->connecting_link == link) {
        connect_ended(conn, KVASIR_CLOSED, "the client left, time was up, or the device is gone");
    }
    if (own->link != NULL) {
        conn->reactor->hub.fabric->ops->link_close(&own->link);
        own->link = NULL;
        loan_end_all(conn, link);
    }
}

void remote_fail_link(struct conn *conn, uint32_t link)
{
    if (remote_is_up(conn->remote, link)) {
        metric_add(&conn->reactor->metrics.traffic.links_failed, 1);
    }
    remote_break_link(conn, link);
}

void remote_fail_device(struct conn *conn, uint32_t device)
{
    for (uint32_t i = 0; i < REMOTE_LINKS_MAX; i++) {
        if (conn->remote->links[i].device == device) {
            remote_fail_link(conn, i);
        }
    }
}

void remote_break(struct conn *conn)
{
    for (uint32_t i = 0; i < REMOTE_LINKS_MAX; i++) {
        remote_break_link(conn, i);
    }
}

void remote_close(struct conn *conn)
{
    if (conn->remote == NULL) {
        return;
    }
    remote_break(conn);
    for (uint32_t i = 0; i < REMOTE_LINKS_MAX; i++) {
        loan_fini(conn, i);
    }
    transfer_abandon(conn);
    metric_sub(&conn->reactor->metrics.rdma_clients, 1);
    free(conn->remote);
    conn->remote = NULL;
}

enum kvasir_status remote_submit(struct conn *conn, uint32_t link, struct kvasir_job *job)
{
    struct hub *hub = &conn->reactor->hub;
    enum kvasir_status status = hub->fabric->ops->submit(conn->remote->links[link].link, job);
    if (status != KVASIR_PENDING) {
        return status == KVASIR_OK ? KVASIR_IO : status;
    }
    hub->out_count++;
    return KVASIR_OK;
}

uint32_t remote_next_lender(struct remote *remote)
{
    for (uint32_t i = 1; i <= REMOTE_LINKS_MAX; i++) {
        uint32_t link = (remote->lend_last + i) % REMOTE_LINKS_MAX;
        if (remote_is_up(remote, link)) {
            remote->lend_last = link;
            return link;
        }
    }
    return remote->lend_last;
}

const struct kvasir_memory *remote_payload(const struct conn *conn, uint32_t link)
{
    return conn->reactor->hub.fabric->devices[conn->remote->links[link].device].payload;
}
