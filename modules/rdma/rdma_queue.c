#include "rdma_queue.h"

#include "rdma_chain.h"
#include "rdma_connect.h"
#include "rdma_link.h"
#include "rdma_said.h"
#include "rdma_window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define COMPLETIONS_AT_ONCE 32

/* ---- life ---- */

static unsigned within(uint64_t value, unsigned lowest, unsigned highest)
{
    if (value < lowest) {
        return lowest;
    }
    return value < highest ? (unsigned)value : highest;
}

static void take_limits(struct kvasir_queue *queue)
{
    const struct ibv_device_attr *attributes = &queue->domain->attributes;
    uint64_t message_bytes_max = queue->domain->facts.device.message_bytes_max;
    unsigned sges_max = attributes->max_sge > 0 ? (unsigned)attributes->max_sge : 1;
    unsigned sges_read_max = attributes->max_sge_rd > 0 ? (unsigned)attributes->max_sge_rd : 1;
    queue->sges_write_max = within(sges_max, 1, RDMA_SGES_MAX);
    queue->sges_read_max = within(sges_read_max, 1, queue->sges_write_max);
    queue->message_bytes_max = message_bytes_max > 0 && message_bytes_max < RDMA_MESSAGE_BYTES_MAX
                                   ? message_bytes_max
                                   : RDMA_MESSAGE_BYTES_MAX;
}

/* Tables and pools, all that the data path will need. */
static enum kvasir_status make_pools(struct kvasir_queue *queue,
                                     const struct kvasir_queue_options *options)
{
    queue->slots = calloc(options->links_max, sizeof(*queue->slots));
    queue->records = calloc(options->jobs_max, sizeof(*queue->records));
    if (queue->slots == NULL || queue->records == NULL) {
        return KVASIR_NO_MEMORY;
    }
    queue->links_max = options->links_max;
    for (unsigned i = 0; i < options->jobs_max; i++) {
        TAILQ_INSERT_TAIL(&queue->unused, &queue->records[i], entry);
    }
    return rdma_window_setup(&queue->windows, queue->domain, options->windows_max);
}

static enum kvasir_status make_completions(struct kvasir_queue *queue,
                                           const struct kvasir_queue_options *options, char *said)
{
    struct kvasir_domain *domain = queue->domain;
    const char *device = domain->facts.device.name;
    unsigned most = within((uint64_t)domain->attributes.max_cqe, 1, RDMA_COMPLETIONS_MAX);
    unsigned wanted = within((uint64_t)options->links_max * RDMA_DEPTH_DEFAULT, 1, most);
    int flags;
    int error;
    queue->channel = ibv_create_comp_channel(domain->context);
    if (queue->channel == NULL) {
        return rdma_said(said, KVASIR_IO, "device %s: no completion channel: %s", device,
                         strerror(errno));
    }
    flags = fcntl(queue->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(queue->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return rdma_said(said, KVASIR_IO, "device %s: completions cannot be waited for: %s", device,
                         strerror(errno));
    }
    queue->cq = ibv_create_cq(domain->context, (int)wanted, queue, queue->channel, 0);
    if (queue->cq == NULL) {
        return rdma_said(said, KVASIR_IO, "device %s: no completion queue of %u entries: %s",
                         device, wanted, strerror(errno));
    }
    queue->credits = (unsigned)queue->cq->cqe;
    error = rdma_connect_setup(queue);
    if (error != 0) {
        return rdma_said(said, KVASIR_IO, "device %s: links cannot be waited for: %s", device,
                         strerror(error));
    }
    return KVASIR_OK;
}

enum kvasir_status rdma_queue_create(struct kvasir_domain *domain,
                                     const struct kvasir_queue_options *options,
                                     struct kvasir_queue **queue_p, char *said)
{
    enum kvasir_status status;
    struct kvasir_queue *queue;
    const char *device = domain->facts.device.name;
    if (options->links_max == 0 || options->links_max > RDMA_LINKS_MAX || options->jobs_max == 0) {
        return rdma_said(said, KVASIR_INVALID, "device %s: no queue for %u links and %u jobs",
                         device, options->links_max, options->jobs_max);
    }
    queue = calloc(1, sizeof(*queue));
    if (queue == NULL) {
        return rdma_said(said, KVASIR_NO_MEMORY, "device %s: no memory for a queue", device);
    }
    queue->domain = domain;
    TAILQ_INIT(&queue->unused);
    TAILQ_INIT(&queue->done);
    TAILQ_INIT(&queue->broken);
    TAILQ_INIT(&queue->waiting);
    TAILQ_INIT(&queue->connects.waiting);
    queue->connects.watch_fd = queue->connects.ends[0] = queue->connects.ends[1] = -1;
    take_limits(queue);
    status = make_pools(queue, options);
    if (status != KVASIR_OK) {
        (void)rdma_said(said, status, "device %s: no memory for a queue of %u jobs", device,
                        options->jobs_max);
    } else {
        status = make_completions(queue, options, said);
    }
    if (status != KVASIR_OK) {
        rdma_queue_destroy(&queue);
        return status;
    }
    *queue_p = queue;
    return KVASIR_OK;
}

void rdma_queue_destroy(struct kvasir_queue **queue_p)
{
    struct kvasir_queue *queue = *queue_p;
    if (queue == NULL) {
        return;
    }
    for (unsigned i = 0; i < queue->links_max; i++) {
        rdma_link_close(&queue->slots[i].link);
    }
    rdma_connect_teardown(queue);
    rdma_window_teardown(&queue->windows);
    if (queue->cq != NULL) {
        (void)ibv_destroy_cq(queue->cq);
    }
    if (queue->channel != NULL) {
        (void)ibv_destroy_comp_channel(queue->channel);
    }
    free(queue->slots);
    free(queue->records);
    free(queue);
    *queue_p = NULL;
}

/* ---- completions ---- */

/* Who has just made room does not go before those who wait for some. */
static void post_in_turn(struct kvasir_link *link)
{
    if (TAILQ_EMPTY(&link->queue->waiting)) {
        rdma_chain_post(link);
    } else if (link->posting != NULL) {
        rdma_link_wait(link);
    }
}

/* Looks at all that are there, as many as the queue holds at most: what is done may make more. */
static void take_completions(struct kvasir_queue *queue)
{
    struct ibv_wc completions[COMPLETIONS_AT_ONCE];
    int left = queue->cq->cqe;
    int count;
    do {
        count = ibv_poll_cq(queue->cq, COMPLETIONS_AT_ONCE, completions);
        for (int i = 0; i < count; i++) {
            uint32_t number = 0;
            struct kvasir_link *link = rdma_link_of_request(queue, completions[i].wr_id, &number);
            queue->stats.completions++;
            if (link == NULL) {
                continue;
            }
            if (completions[i].status == IBV_WC_SUCCESS) {
                rdma_link_retire(link, number);
            } else {
                rdma_link_fail(link, number, completions[i].status);
            }
            post_in_turn(link);
        }
        left -= count;
    } while (count == COMPLETIONS_AT_ONCE && left > 0);
    queue->more = count == COMPLETIONS_AT_ONCE;
}

void rdma_queue_collect(struct kvasir_queue *queue)
{
    unsigned waiting = 0;
    struct kvasir_link *link;
    if (queue->connects.running > 0) {
        rdma_connect_collect(queue);
    }
    take_completions(queue);
    while ((link = TAILQ_FIRST(&queue->broken)) != NULL) {
        rdma_link_tear(link);
        /* Its last completions have no place of their own any more. */
        take_completions(queue);
    }
    /* Each that waits gets one turn; who finds no room waits again, behind the others. */
    for (link = TAILQ_FIRST(&queue->waiting); link != NULL;
         link = TAILQ_NEXT(link, waiting_entry)) {
        waiting++;
    }
    while (waiting-- > 0 && queue->credits > 0 && (link = TAILQ_FIRST(&queue->waiting)) != NULL) {
        TAILQ_REMOVE(&queue->waiting, link, waiting_entry);
        link->waiting = false;
        rdma_chain_post(link);
    }
}

/* The channel says only that there may be something. */
static void take_wakeups(struct kvasir_queue *queue)
{
    struct ibv_cq *cq = NULL;
    void *context = NULL;
    while (queue->armed && ibv_get_cq_event(queue->channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
    }
    queue->armed = false;
}

static void give_event(struct kvasir_queue *queue, struct kvasir_event *event)
{
    struct rdma_record *record = TAILQ_FIRST(&queue->done);
    struct kvasir_link *link;
    TAILQ_REMOVE(&queue->done, record, entry);
    *event = (struct kvasir_event){.kind = record->kind,
                                   .status = record->status,
                                   .cookie = record->job.cookie,
                                   .reason = record->reason};
    if (record->kind == KVASIR_EVENT_JOB) {
        TAILQ_INSERT_HEAD(&queue->unused, record, entry);
        return;
    }
    /* A link's own first and last event lie within the link. */
    if (record->kind == KVASIR_EVENT_LINK_UP) {
        link = (void *)((uint8_t *)record - offsetof(struct kvasir_link, up));
        link->up_waiting = false;
    } else {
        link = (void *)((uint8_t *)record - offsetof(struct kvasir_link, down));
        link->down_waiting = false;
    }
}

unsigned rdma_queue_poll(struct kvasir_queue *queue, struct kvasir_event *events, unsigned capacity)
{
    unsigned count = 0;
    take_wakeups(queue);
    rdma_queue_collect(queue);
    while (count < capacity && !TAILQ_EMPTY(&queue->done)) {
        give_event(queue, &events[count++]);
    }
    return count;
}

enum kvasir_status rdma_queue_arm(struct kvasir_queue *queue)
{
    if (ibv_req_notify_cq(queue->cq, 0) != 0) {
        return KVASIR_AGAIN;
    }
    queue->armed = true;
    /* What came before the arming wakes nobody. */
    rdma_queue_collect(queue);
    return TAILQ_EMPTY(&queue->done) && !queue->more ? KVASIR_OK : KVASIR_AGAIN;
}

int rdma_queue_fd(const struct kvasir_queue *queue)
{
    return queue->connects.watch_fd;
}

void rdma_queue_stats(const struct kvasir_queue *queue, struct kvasir_queue_stats *stats_p)
{
    *stats_p = queue->stats;
    stats_p->windows = queue->windows.count - queue->windows.lost_count;
    stats_p->windows_free = queue->windows.free_count;
}
