#include "rdma_link.h"

#include "rdma_connect.h"
#include "rdma_device.h"
#include "rdma_job.h"
#include "rdma_qp.h"
#include "rdma_queue.h"
#include "rdma_said.h"
#include "rdma_window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_RIGHTS (KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE)
#define NUMBER_MAX  0xffffffU /* of a queue pair, and of a packet */
/* Broken links that are all logged, and how many of the others stand behind one line. */
#define LOGGED_ALL     16
#define LOGGED_EACH    64
#define CLOSED_REASON  "the link was closed"
#define EARLIER_REASON "an earlier job of this link failed"

/* ---- making ---- */

static unsigned or_else(unsigned value, unsigned otherwise)
{
    return value != 0 ? value : otherwise;
}

static struct rdma_slot *find_slot(struct kvasir_queue *queue)
{
    for (unsigned i = 0; i < queue->links_max; i++) {
        if (queue->slots[i].link == NULL) {
            return &queue->slots[i];
        }
    }
    return NULL;
}

/* What the peer is told. */
static enum kvasir_status fill_local(struct kvasir_link *link,
                                     const struct kvasir_link_options *options, char *said)
{
    struct kvasir_domain *domain = link->queue->domain;
    const struct kvasir_device *device = &domain->facts.device;
    struct kvasir_link_address *local = &link->local;
    local->mtu_bytes = or_else(options->mtu_bytes, device->mtu_bytes);
    if (rdma_device_mtu_code(local->mtu_bytes) == 0 || local->mtu_bytes > device->mtu_bytes) {
        return rdma_said(said, KVASIR_INVALID,
                         "device %s: an MTU of %u is not possible; 256, 512, 1024, 2048, 4096 are, "
                         "up to %u that its port has",
                         device->name, (unsigned)local->mtu_bytes, (unsigned)device->mtu_bytes);
    }
    (void)snprintf(local->device, sizeof(local->device), "%s", device->name);
    local->layer = device->layer;
    local->lid = device->lid;
    local->rd_atomic = (uint32_t)domain->attributes.max_qp_rd_atom;
    local->packet_sequence = rdma_window_random(&link->queue->windows);
    return rdma_device_choose_gid(NULL, device, options->gid_index, NULL, &local->gid, said);
}

static enum kvasir_status make_queue_pair(struct kvasir_link *link, char *said)
{
    struct kvasir_queue *queue = link->queue;
    struct rdma_qp_options options = {.cq = queue->cq,
                                      .context = link,
                                      .depth = link->depth,
                                      .sges_max = queue->sges_read_max > queue->sges_write_max
                                                      ? queue->sges_read_max
                                                      : queue->sges_write_max,
                                      .inline_bytes = RDMA_INLINE_BYTES};
    link->qp = rdma_qp_create(queue->domain, &options, &link->inline_bytes);
    if (link->qp == NULL) {
        return rdma_said(said, errno == ENOMEM ? KVASIR_NO_MEMORY : KVASIR_IO,
                         "device %s: no queue pair: %s", queue->domain->facts.device.name,
                         strerror(errno));
    }
    link->local.queue_pair = link->qp->qp_num;
    return KVASIR_OK;
}

enum kvasir_status rdma_link_create(struct kvasir_queue *queue,
                                    const struct kvasir_link_options *options,
                                    struct kvasir_link **link_p,
                                    struct kvasir_link_address *local_p, char *said)
{
    const char *device = queue->domain->facts.device.name;
    unsigned depth_max = (unsigned)queue->domain->attributes.max_qp_wr;
    struct rdma_slot *slot = find_slot(queue);
    struct kvasir_link *link;
    enum kvasir_status status;
    if (slot == NULL) {
        return rdma_said(said, KVASIR_BUSY, "device %s: there are %u links already", device,
                         queue->links_max);
    }
    if ((options->rights & ~LINK_RIGHTS) != 0) {
        return rdma_said(said, KVASIR_INVALID, "device %s: a link has no rights %#x", device,
                         options->rights);
    }
    link = calloc(1, sizeof(*link));
    if (link == NULL) {
        return rdma_said(said, KVASIR_NO_MEMORY, "device %s: no memory for a link", device);
    }
    TAILQ_INIT(&link->records);
    TAILQ_INIT(&link->windows);
    link->queue = queue;
    link->state = RDMA_LINK_CREATED;
    link->cookie = options->cookie;
    link->rights = options->rights;
    link->traffic_class = options->traffic_class;
    link->jobs_max = or_else(options->jobs_max, RDMA_JOBS_DEFAULT);
    link->depth = or_else(options->depth, RDMA_DEPTH_DEFAULT);
    link->depth = link->depth < depth_max ? link->depth : depth_max;
    link->slot = (uint32_t)(slot - queue->slots);
    status = fill_local(link, options, said);
    if (status == KVASIR_OK) {
        status = make_queue_pair(link, said);
    }
    if (status != KVASIR_OK) {
        free(link);
        return status;
    }
    slot->link = link;
    queue->link_count++;
    *link_p = link;
    *local_p = link->local;
    return KVASIR_OK;
}

/* ---- connecting ---- */

static bool is_zero(const struct kvasir_gid *gid)
{
    static const uint8_t zero[KVASIR_GID_BYTES];
    return memcmp(gid->raw, zero, sizeof(zero)) == 0;
}

/* What is wrong with the pair; NULL: nothing. */
static const char *mismatch(const struct kvasir_link_address *local,
                            const struct kvasir_link_address *remote)
{
    if (local->layer != remote->layer) {
        return "one side is InfiniBand, the other Ethernet";
    }
    if (rdma_device_mtu_code(remote->mtu_bytes) == 0) {
        return "the peer's MTU is none of 256, 512, 1024, 2048, 4096";
    }
    if (remote->queue_pair == 0 || remote->queue_pair > NUMBER_MAX ||
        remote->packet_sequence > NUMBER_MAX || remote->rd_atomic > UINT16_MAX ||
        remote->lid > UINT16_MAX) {
        return "the peer's queue pair, sequence, LID or depth is out of range";
    }
    if (local->layer == KVASIR_LAYER_INFINIBAND) {
        return remote->lid == 0 && is_zero(&remote->gid) ? "the peer has neither LID nor GID"
                                                         : NULL;
    }
    if (is_zero(&remote->gid)) {
        return "the peer has no GID";
    }
    if (local->gid.type != remote->gid.type) {
        return "the GIDs are of different types; choose another GID index";
    }
    if (rdma_device_gid_is_ipv4(&local->gid) != rdma_device_gid_is_ipv4(&remote->gid)) {
        return "one GID is an IPv4 address, the other is not; choose another GID index";
    }
    return NULL;
}

static enum kvasir_status say_both(const struct kvasir_link *link,
                                   const struct kvasir_link_address *remote,
                                   enum kvasir_status status, const char *what, char *said)
{
    char here[RDMA_SIDE_TEXT_BYTES];
    char there[RDMA_SIDE_TEXT_BYTES];
    rdma_said_side(&link->local, here);
    rdma_said_side(remote, there);
    return rdma_said(said, status, "no RDMA link: %s; here %s; there %s", what, here, there);
}

enum kvasir_status rdma_link_connect(struct kvasir_link *link,
                                     const struct kvasir_link_address *remote, char *said)
{
    const char *wrong = mismatch(&link->local, remote);
    int error;
    if (link->state != RDMA_LINK_CREATED) {
        return say_both(link, remote, KVASIR_INVALID, "it was connected before", said);
    }
    if (wrong != NULL) {
        return say_both(link, remote, KVASIR_INVALID, wrong, said);
    }
    link->remote = *remote;
    error = rdma_connect_start(link);
    if (error != 0) {
        return say_both(link, remote, KVASIR_NO_MEMORY, strerror(error), said);
    }
    link->state = RDMA_LINK_CONNECTING;
    return KVASIR_PENDING;
}

/* ---- completions ---- */

uint64_t rdma_link_request_id(const struct kvasir_link *link, uint32_t number)
{
    uint64_t generation = link->queue->slots[link->slot].generation;
    return (uint64_t)link->slot << 48 | generation << 32 | number;
}

struct kvasir_link *rdma_link_of_request(const struct kvasir_queue *queue, uint64_t id,
                                         uint32_t *number_p)
{
    uint32_t slot = (uint32_t)(id >> 48);
    uint16_t generation = (uint16_t)(id >> 32);
    if (slot >= queue->links_max || queue->slots[slot].generation != generation) {
        return NULL;
    }
    *number_p = (uint32_t)id;
    return queue->slots[slot].link;
}

/* Whether the work request of that number is with the adapter. */
static bool is_out(const struct kvasir_link *link, uint32_t number)
{
    return number - link->done < link->next - link->done;
}

void rdma_link_retire(struct kvasir_link *link, uint32_t number)
{
    struct rdma_record *record;
    if (link->state != RDMA_LINK_READY || !is_out(link, number)) {
        return;
    }
    link->queue->credits += number + 1 - link->done;
    link->done = number + 1;
    /* What is posted ends within a depth of done, so the difference is small or, seen so, huge. */
    for (record = TAILQ_FIRST(&link->records);
         record != NULL && record->posted && link->done - record->end <= link->depth;
         record = TAILQ_FIRST(&link->records)) {
        rdma_job_finish(link, record, KVASIR_OK, ibv_wc_status_str(IBV_WC_SUCCESS));
    }
}

static enum kvasir_status status_of(enum ibv_wc_status status)
{
    if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
        status == IBV_WC_REM_OP_ERR) {
        return KVASIR_DENIED;
    }
    if (status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR ||
        status == IBV_WC_RESP_TIMEOUT_ERR) {
        return KVASIR_TIMEOUT;
    }
    if (status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_PROT_ERR ||
        status == IBV_WC_LOC_QP_OP_ERR || status == IBV_WC_MW_BIND_ERR ||
        status == IBV_WC_LOC_ACCESS_ERR) {
        return KVASIR_INVALID;
    }
    return status == IBV_WC_WR_FLUSH_ERR ? KVASIR_CLOSED : KVASIR_IO;
}

void rdma_link_fail(struct kvasir_link *link, uint32_t number, enum ibv_wc_status status)
{
    struct rdma_record *record;
    if (link->state != RDMA_LINK_READY || !is_out(link, number)) {
        return;
    }
    /* The first job that does not end before that request. */
    for (record = TAILQ_FIRST(&link->records); record != NULL; record = TAILQ_NEXT(record, entry)) {
        if (!record->posted || record->end - number - 1 < link->depth) {
            break;
        }
    }
    rdma_link_break(link, record, status_of(status), ibv_wc_status_str(status));
}

/* ---- ending ---- */

void rdma_link_break(struct kvasir_link *link, struct rdma_record *culprit,
                     enum kvasir_status status, const char *reason)
{
    struct kvasir_queue *queue = link->queue;
    link->state = RDMA_LINK_BROKEN;
    link->culprit = culprit;
    if (culprit != NULL) {
        culprit->status = status;
        culprit->reason = reason;
    }
    link->down.status = status;
    link->down.reason = reason;
    queue->stats.links_failed++;
    TAILQ_INSERT_TAIL(&queue->broken, link, broken_entry);
}

void rdma_link_wait(struct kvasir_link *link)
{
    if (!link->waiting) {
        link->waiting = true;
        TAILQ_INSERT_TAIL(&link->queue->waiting, link, waiting_entry);
    }
}

/* Stops the adapter: after this nothing of the link moves, and no window of it is good. */
static void end_queue_pair(struct kvasir_link *link)
{
    struct kvasir_queue *queue = link->queue;
    int error;
    rdma_qp_stop(link->qp);
    queue->stats.windows_replaced += rdma_window_lose(link);
    error = ibv_destroy_qp(link->qp);
    if (error != 0) {
        rdma_said_log(queue->domain->module, KVASIR_LOG_ERROR,
                      "device %s: a queue pair cannot be destroyed: %s",
                      queue->domain->facts.device.name, strerror(error));
    }
    link->qp = NULL;
    queue->credits += link->next - link->done;
    link->done = link->next;
    link->posting = NULL;
    if (link->waiting) {
        TAILQ_REMOVE(&queue->waiting, link, waiting_entry);
        link->waiting = false;
    }
}

/* Ends what is under way; the culprit's answer is its own. */
static void finish_jobs(struct kvasir_link *link, enum kvasir_status status, const char *reason)
{
    struct rdma_record *record;
    while ((record = TAILQ_FIRST(&link->records)) != NULL) {
        bool culprit = record == link->culprit;
        rdma_job_finish(link, record, culprit ? record->status : status,
                        culprit ? record->reason : reason);
    }
    link->culprit = NULL;
}

/* The first of a queue, and some of those that follow: a client that breaks its links shall not fill the
 * log. */
static void log_broken(const struct kvasir_link *link)
{
    char said[KVASIR_SAID_BYTES];
    uint64_t failed = link->queue->stats.links_failed;
    if (failed > LOGGED_ALL && failed % LOGGED_EACH != 0) {
        return;
    }
    (void)say_both(link, &link->remote, link->down.status, link->down.reason, said);
    rdma_said_log(link->queue->domain->module, KVASIR_LOG_WARN, "%s", said);
}

void rdma_link_tear(struct kvasir_link *link)
{
    struct kvasir_queue *queue = link->queue;
    log_broken(link);
    TAILQ_REMOVE(&queue->broken, link, broken_entry);
    end_queue_pair(link);
    link->state = RDMA_LINK_TORN;
    finish_jobs(link, KVASIR_CLOSED, EARLIER_REASON);
    link->down.kind = KVASIR_EVENT_LINK_DOWN;
    link->down.job.cookie = link->cookie;
    link->down_waiting = true;
    TAILQ_INSERT_TAIL(&queue->done, &link->down, entry);
}

static void queue_up_event(struct kvasir_link *link, enum kvasir_status status, const char *reason)
{
    link->up.kind = KVASIR_EVENT_LINK_UP;
    link->up.status = status;
    link->up.reason = reason;
    link->up.job.cookie = link->cookie;
    link->up_waiting = true;
    TAILQ_INSERT_TAIL(&link->queue->done, &link->up, entry);
}

void rdma_link_connected(struct kvasir_link *link, int error)
{
    if (link->state == RDMA_LINK_ABANDONED) {
        end_queue_pair(link);
        free(link);
        return;
    }
    if (error == 0) {
        error =
            rdma_qp_start(link->qp, link->queue->domain, &link->local, &link->remote, link->rights);
    }
    if (error == 0) {
        link->state = RDMA_LINK_READY;
        queue_up_event(link, KVASIR_OK, ibv_wc_status_str(IBV_WC_SUCCESS));
    } else {
        bool unreachable = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
        enum kvasir_status status =
            say_both(link, &link->remote, unreachable ? KVASIR_TIMEOUT : KVASIR_IO, strerror(error),
                     link->said);
        end_queue_pair(link);
        link->state = RDMA_LINK_TORN;
        queue_up_event(link, status, link->said);
    }
}

static void leave_slot(struct kvasir_link *link)
{
    struct kvasir_queue *queue = link->queue;
    queue->slots[link->slot].link = NULL;
    queue->slots[link->slot].generation++;
    queue->link_count--;
}

void rdma_link_close(struct kvasir_link **link_p)
{
    struct kvasir_link *link = *link_p;
    struct kvasir_queue *queue;
    struct kvasir_window *window;
    if (link == NULL) {
        return;
    }
    queue = link->queue;
    *link_p = NULL;
    if (link->state == RDMA_LINK_CONNECTING && rdma_connect_abandon(link)) {
        /* The peer has no right to anything before this link is up, and now it never will be. */
        link->state = RDMA_LINK_ABANDONED;
        leave_slot(link);
        return;
    }
    if (link->state == RDMA_LINK_BROKEN) {
        rdma_link_tear(link);
    }
    if (link->down_waiting) {
        TAILQ_REMOVE(&queue->done, &link->down, entry);
    }
    if (link->up_waiting) {
        TAILQ_REMOVE(&queue->done, &link->up, entry);
    }
    if (link->state != RDMA_LINK_TORN) {
        end_queue_pair(link);
        link->state = RDMA_LINK_TORN;
        finish_jobs(link, KVASIR_CANCELLED, CLOSED_REASON);
    }
    while ((window = TAILQ_FIRST(&link->windows)) != NULL) {
        rdma_window_put(&queue->windows, &window);
    }
    leave_slot(link);
    free(link);
    /* Completions of it may still lie there; their places are promised to others. */
    rdma_queue_collect(queue);
}
