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

/* A queue pair's cookie holds its connection's id: it may be gone when word of it comes. */
static struct conn *find_remote(struct reactor *reactor, uint64_t cookie)
{
    uint64_t id = cookie / REMOTE_LINKS_MAX;
    list_foreach (cursor, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        if (conn->id == id && conn->remote != NULL) {
            return conn;
        }
    }
    return NULL;
}

static void break_one(struct reactor *reactor, uint64_t cookie)
{
    struct conn *conn = find_remote(reactor, cookie);
    if (conn != NULL) {
        remote_fail_link(conn, cookie % REMOTE_LINKS_MAX);
    }
}

static void connect_one(struct reactor *reactor, const struct kvasir_event *event)
{
    struct conn *conn = find_remote(reactor, event->cookie);
    if (conn != NULL) {
        remote_connected(conn, event->cookie % REMOTE_LINKS_MAX, event->status, event->reason);
    }
}

static void break_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)index;
    if (gather->pointer == NULL) {
        break_one(reactor, (uint64_t)gather->number);
        return;
    }
    list_foreach (cursor, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        if (conn->remote != NULL) {
            remote_fail_device(conn, (uint32_t)gather->number);
        }
    }
}

static void break_done(struct reactor *reactor, struct gather *gather)
{
    (void)reactor;
    gather_destroy(&gather);
}

/* On whichever reactor has it: the queue pair of that cookie, or all of the device of that number. */
static void break_anywhere(struct reactor *reactor, uint64_t number, struct fabric_device *device)
{
    struct gather *gather = gather_create(reactor, break_run, break_done);
    if (gather == NULL) {
        /* Its next job will find out. */
        log_limited(&reactor->log_limit, LOG_WARN, "out of memory to close broken queue pairs");
        return;
    }
    gather->number = (int64_t)number;
    gather->pointer = device;
    (void)gather_start(reactor, gather, NULL);
}

/* ---- the device ---- */

static void on_domain(void *argument, unsigned events)
{
    struct hub_queue *queue = argument;
    struct fabric *fabric = queue->reactor->hub.fabric;
    struct fabric_device *device = &fabric->devices[queue->device];
    const char *name = fabric_device(fabric, queue->device)->name;
    struct kvasir_event event;
    (void)events;
    while (fabric->ops->domain_poll(device->domain, &event, 1) == 1) {
        switch ((int)event.kind) {
        case KVASIR_EVENT_PORT_DOWN:
            log_warn("RDMA device %s: the port is down; requests go by other paths: %s", name,
                     event.reason);
            break;
        case KVASIR_EVENT_PORT_UP:
            log_info("RDMA device %s: the port is up", name);
            break;
        case KVASIR_EVENT_DEVICE_GONE:
            log_error("RDMA device %s is gone: %s; it is not on offer until the server is started "
                      "again",
                      name, event.reason);
            metric_set(&device->gone, 1);
            loop_interest(queue->domain_watch, 0);
            break_anywhere(queue->reactor, queue->device, device);
            return;
        case KVASIR_EVENT_LINK_BROKEN:
            break_anywhere(queue->reactor, event.cookie, NULL);
            break;
        default:
            break;
        }
    }
}

/* ---- completions ---- */

static void on_queue(void *argument, unsigned events)
{
    struct hub_queue *queue = argument;
    (void)events;
    queue->ready = true;
    queue->reactor->hub.ready = true; /* the next turn knows what time it is */
}

static void take_stats(struct hub_queue *queue)
{
    struct traffic *traffic = &queue->reactor->metrics.traffic;
    const struct kvasir_queue_stats before = queue->counted;
    struct kvasir_queue_stats *now = &queue->counted;
    queue->reactor->hub.fabric->ops->queue_stats(queue->queue, now);
    metric_add(&traffic->work_requests, now->work_requests - before.work_requests);
    metric_add(&traffic->completions, now->completions - before.completions);
    metric_add(&traffic->windows_bound, now->binds - before.binds);
    metric_add(&traffic->windows_revoked, now->revocations - before.revocations);
    metric_add(&traffic->windows_replaced, now->windows_replaced - before.windows_replaced);
}

void hub_take_stats(struct reactor *reactor)
{
    struct hub *hub = &reactor->hub;
    uint64_t windows = 0;
    uint64_t windows_free = 0;
    for (uint32_t i = 0; i < hub->fabric->device_count; i++) {
        take_stats(&hub->queues[i]);
        windows += hub->queues[i].counted.windows;
        windows_free += hub->queues[i].counted.windows_free;
    }
    metric_set(&reactor->metrics.rdma_windows, windows);
    metric_set(&reactor->metrics.rdma_windows_free, windows_free);
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

/* True: something came. */
static bool advance_queue(struct hub_queue *queue)
{
    struct reactor *reactor = queue->reactor;
    const struct kvasir_transport_ops *ops = reactor->hub.fabric->ops;
    struct kvasir_event events[EVENTS_MAX];
    bool any = false;
    unsigned count;
    queue->armed = queue->armed && !queue->ready;
    queue->ready = false;
    do {
        count = ops->queue_poll(queue->queue, events, EVENTS_MAX);
        for (unsigned i = 0; i < count; i++) {
            if (events[i].kind == KVASIR_EVENT_JOB) {
                reactor->hub.out_count--;
                job_done((void *)(uintptr_t)events[i].cookie, events[i].status);
            } else if (events[i].kind == KVASIR_EVENT_LINK_DOWN) {
                break_one(reactor, events[i].cookie);
            } else if (events[i].kind == KVASIR_EVENT_LINK_UP) {
                connect_one(reactor, &events[i]);
            }
        }
        if (count > 0) {
            any = true;
        }
    } while (count == EVENTS_MAX);
    return any;
}

void hub_advance(struct reactor *reactor)
{
    struct hub *hub = &reactor->hub;
    bool any = false;
    hub->ready = false;
    for (uint32_t i = 0; i < hub->fabric->device_count; i++) {
        any = advance_queue(&hub->queues[i]) || any;
    }
    if (any) {
        hub_take_stats(reactor);
    }
}

bool hub_sleep(struct hub *hub)
{
    for (uint32_t i = 0; hub->fabric != NULL && i < hub->fabric->device_count; i++) {
        struct hub_queue *queue = &hub->queues[i];
        if (!queue->armed && hub->fabric->ops->queue_arm(queue->queue) != KVASIR_OK) {
            hub->ready = true;
            return false;
        }
        queue->armed = true;
    }
    return true;
}

static bool init_queue(struct hub_queue *queue, char *said)
{
    struct reactor *reactor = queue->reactor;
    const struct fabric *fabric = reactor->hub.fabric;
    struct kvasir_domain *domain = fabric->devices[queue->device].domain;
    const struct kvasir_queue_options options = {
        .links_max = (unsigned)reactor->settings.rdma_clients_max,
        .jobs_max =
            (unsigned)reactor->settings.rdma_clients_max * TRANSFER_POSTS_MAX + REMOTE_JOBS_MAX,
        .windows_max = fabric_has_windows(fabric, queue->device)
                           ? (unsigned)reactor->settings.rdma_windows_max
                           : 0,
    };
    if (fabric->ops->queue_create(domain, &options, &queue->queue, said) != KVASIR_OK) {
        queue->queue = NULL;
        return false;
    }
    queue->watch =
        loop_watch(reactor->loop, fabric->ops->queue_fd(queue->queue), LOOP_READ, on_queue, queue);
    if (reactor->index == 0) {
        queue->domain_watch =
            loop_watch(reactor->loop, fabric->ops->domain_fd(domain), LOOP_READ, on_domain, queue);
    }
    if (queue->watch == NULL || (reactor->index == 0 && queue->domain_watch == NULL)) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "out of memory or file descriptors");
        return false;
    }
    return true;
}

bool hub_init(struct reactor *reactor, struct fabric *fabric, char *said)
{
    struct hub *hub = &reactor->hub;
    hub->fabric = fabric;
    for (uint32_t i = 0; i < fabric->device_count; i++) {
        hub->queues[i] = (struct hub_queue){.reactor = reactor, .device = i};
        if (!init_queue(&hub->queues[i], said)) {
            hub_fini(reactor);
            return false;
        }
    }
    hub_take_stats(reactor);
    return true;
}

void hub_fini(struct reactor *reactor)
{
    struct hub *hub = &reactor->hub;
    for (uint32_t i = 0; hub->fabric != NULL && i < hub->fabric->device_count; i++) {
        struct hub_queue *queue = &hub->queues[i];
        loop_unwatch(&queue->watch);
        loop_unwatch(&queue->domain_watch);
        if (queue->queue != NULL) {
            hub->fabric->ops->queue_destroy(&queue->queue);
        }
    }
    hub->fabric = NULL;
}
