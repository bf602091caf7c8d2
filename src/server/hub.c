#include "server/hub.h"

#include "base/log.h"
#include "server/conn.h"
#include "server/gather.h"
#include "server/reactor.h"
#include "server/remote.h"
#include "server/transfer.h"

#include <stdio.h>

/* Events taken at once. */
#define EVENTS_MAX 32

/* ---- connections by their id ---- */

/* A queue pair's cookie is its connection's id: it may be gone when word of it comes. */
static struct conn *find_remote(struct reactor *reactor, uint64_t id)
{
    list_foreach (cursor, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        if (conn->id == id && conn->remote != NULL) {
            return conn;
        }
    }
    return NULL;
}

static void break_one(struct reactor *reactor, uint64_t id)
{
    struct conn *conn = find_remote(reactor, id);
    if (conn != NULL) {
        remote_fail(conn);
    }
}

static void connect_one(struct reactor *reactor, const struct kvasir_event *event)
{
    struct conn *conn = find_remote(reactor, event->cookie);
    if (conn != NULL) {
        remote_connected(conn, event->status, event->reason);
    }
}

static void break_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)index;
    if (gather->number != 0) {
        break_one(reactor, (uint64_t)gather->number);
        return;
    }
    list_foreach (cursor, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        if (conn->remote != NULL) {
            remote_fail(conn);
        }
    }
}

static void break_done(struct reactor *reactor, struct gather *gather)
{
    (void)reactor;
    gather_destroy(&gather);
}

/* On whichever reactor has it; 0: all. */
static void break_anywhere(struct reactor *reactor, uint64_t id)
{
    struct gather *gather = gather_create(reactor, break_run, break_done);
    if (gather == NULL) {
        /* Its next job will find out. */
        log_limited(&reactor->log_limit, LOG_WARN, "out of memory to close broken queue pairs");
        return;
    }
    gather->number = (int64_t)id;
    (void)gather_start(reactor, gather, NULL);
}

/* ---- the device ---- */

static void on_domain(void *argument, unsigned events)
{
    struct reactor *reactor = argument;
    struct fabric *fabric = reactor->hub.fabric;
    struct kvasir_event event;
    (void)events;
    while (fabric->ops->domain_poll(fabric->domain, &event, 1) == 1) {
        switch ((int)event.kind) {
        case KVASIR_EVENT_PORT_DOWN:
            log_warn("RDMA device %s: the port is down; requests go by other paths: %s",
                     fabric_device(fabric)->name, event.reason);
            break;
        case KVASIR_EVENT_PORT_UP:
            log_info("RDMA device %s: the port is up", fabric_device(fabric)->name);
            break;
        case KVASIR_EVENT_DEVICE_GONE:
            log_error("RDMA device %s is gone: %s; RDMA is not on offer until the server is "
                      "started again",
                      fabric_device(fabric)->name, event.reason);
            metric_set(&fabric->gone, 1);
            loop_interest(reactor->hub.domain_watch, 0);
            break_anywhere(reactor, 0);
            return;
        case KVASIR_EVENT_LINK_BROKEN:
            break_anywhere(reactor, event.cookie);
            break;
        default:
            break;
        }
    }
}

/* ---- completions ---- */

static void on_queue(void *argument, unsigned events)
{
    struct reactor *reactor = argument;
    (void)events;
    reactor->hub.ready = true; /* the next turn knows what time it is */
}

void hub_take_stats(struct reactor *reactor)
{
    struct hub *hub = &reactor->hub;
    struct reactor_metrics *metrics = &reactor->metrics;
    struct traffic *traffic = &metrics->traffic;
    const struct kvasir_queue_stats before = hub->counted;
    struct kvasir_queue_stats *now = &hub->counted;
    hub->fabric->ops->queue_stats(hub->queue, now);
    metric_add(&traffic->work_requests, now->work_requests - before.work_requests);
    metric_add(&traffic->completions, now->completions - before.completions);
    metric_add(&traffic->windows_bound, now->binds - before.binds);
    metric_add(&traffic->windows_revoked, now->revocations - before.revocations);
    metric_add(&traffic->windows_replaced, now->windows_replaced - before.windows_replaced);
    metric_set(&metrics->rdma_windows, now->windows);
    metric_set(&metrics->rdma_windows_free, now->windows_free);
}

/* Both begin with their magic. */
static void job_done(void *what, enum kvasir_status status)
{
    if (*(const uint32_t *)what == LOAN_MAGIC) {
        loan_event(what, status);
    } else {
        transfer_post_done(what, status);
    }
}

void hub_advance(struct reactor *reactor)
{
    struct hub *hub = &reactor->hub;
    const struct kvasir_transport_ops *ops = hub->fabric->ops;
    struct kvasir_event events[EVENTS_MAX];
    unsigned count;
    hub->armed = hub->armed && !hub->ready;
    hub->ready = false;
    do {
        count = ops->queue_poll(hub->queue, events, EVENTS_MAX);
        for (unsigned i = 0; i < count; i++) {
            if (events[i].kind == KVASIR_EVENT_JOB) {
                hub->out_count--;
                job_done((void *)(uintptr_t)events[i].cookie, events[i].status);
            } else if (events[i].kind == KVASIR_EVENT_LINK_DOWN) {
                break_one(reactor, events[i].cookie);
            } else if (events[i].kind == KVASIR_EVENT_LINK_UP) {
                connect_one(reactor, &events[i]);
            }
        }
        if (count > 0) {
            hub_take_stats(reactor);
        }
    } while (count == EVENTS_MAX);
}

bool hub_sleep(struct hub *hub)
{
    if (hub->fabric == NULL || hub->armed) {
        return true;
    }
    if (hub->fabric->ops->queue_arm(hub->queue) != KVASIR_OK) {
        hub->ready = true;
        return false;
    }
    hub->armed = true;
    return true;
}

bool hub_init(struct reactor *reactor, struct fabric *fabric, char *said)
{
    struct hub *hub = &reactor->hub;
    const struct kvasir_queue_options options = {
        .links_max = (unsigned)reactor->settings.rdma_clients_max,
        .jobs_max =
            (unsigned)reactor->settings.rdma_clients_max * TRANSFER_POSTS_MAX + REMOTE_JOBS_MAX,
        .windows_max = fabric->ops->domain_facts(fabric->domain)->windows
                           ? (unsigned)reactor->settings.rdma_windows_max
                           : 0,
    };
    if (fabric->ops->queue_create(fabric->domain, &options, &hub->queue, said) != KVASIR_OK) {
        hub->queue = NULL;
        return false;
    }
    hub->fabric = fabric;
    hub_take_stats(reactor);
    hub->watch =
        loop_watch(reactor->loop, fabric->ops->queue_fd(hub->queue), LOOP_READ, on_queue, reactor);
    if (reactor->index == 0) {
        hub->domain_watch = loop_watch(reactor->loop, fabric->ops->domain_fd(fabric->domain),
                                       LOOP_READ, on_domain, reactor);
    }
    if (hub->watch == NULL || (reactor->index == 0 && hub->domain_watch == NULL)) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "out of memory or file descriptors");
        hub_fini(reactor);
        return false;
    }
    return true;
}

void hub_fini(struct reactor *reactor)
{
    struct hub *hub = &reactor->hub;
    loop_unwatch(&hub->watch);
    loop_unwatch(&hub->domain_watch);
    if (hub->queue != NULL) {
        hub->fabric->ops->queue_destroy(&hub->queue);
    }
    hub->fabric = NULL;
}
