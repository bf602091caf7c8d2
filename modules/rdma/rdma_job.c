#include "rdma_job.h"

#include "rdma_chain.h"
#include "rdma_memory.h"
#include "rdma_window.h"

#define GRANT_RIGHTS (KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE)

/* ---- what is refused ---- */

static bool local_valid(const struct kvasir_link *link, const struct kvasir_local *local)
{
    return local->memory != NULL && local->memory->domain == link->queue->domain &&
           rdma_memory_holds(local->memory, local->address, local->bytes);
}

static bool transfer_valid(const struct kvasir_link *link, const struct kvasir_job *job)
{
    uint64_t local_bytes = 0;
    uint64_t remote_bytes = 0;
    for (unsigned i = 0; i < job->local_count; i++) {
        const struct kvasir_local *local = &job->locals[i];
        /* Lengths within memories of one address space do not overflow a sum unless by intent. */
        if (!local_valid(link, local) ||
            __builtin_add_overflow(local_bytes, local->bytes, &local_bytes) ||
            (job->kind == KVASIR_JOB_READ &&
             (local->memory->rights & KVASIR_RIGHT_READ_ONLY) != 0)) {
            return false;
        }
    }
    for (unsigned i = 0; i < job->remote_count; i++) {
        const struct kvasir_remote *remote = &job->remotes[i];
        if (remote->bytes == 0 || remote->address > UINT64_MAX - remote->bytes ||
            __builtin_add_overflow(remote_bytes, remote->bytes, &remote_bytes)) {
            return false;
        }
    }
    return local_bytes > 0 && local_bytes == remote_bytes;
}

static bool grant_valid(const struct kvasir_link *link, const struct kvasir_grant *grant)
{
    const struct kvasir_local *local = &grant->local;
    unsigned rights = grant->rights;
    uint64_t left = 0;
    if (!local_valid(link, local) || rights == 0 || (rights & ~GRANT_RIGHTS) != 0 ||
        (rights & ~link->rights) != 0 || (local->memory->rights & KVASIR_RIGHT_WINDOWS) == 0 ||
        ((rights & KVASIR_RIGHT_REMOTE_WRITE) != 0 &&
         (local->memory->rights & KVASIR_RIGHT_READ_ONLY) != 0)) {
        return false;
    }
    (void)rdma_memory_part(local->memory, local->address, &left);
    return local->bytes <= left;
}

static bool all_grants_valid(const struct kvasir_link *link, const struct kvasir_job *job)
{
    for (unsigned i = 0; i < job->grant_count; i++) {
        if (!grant_valid(link, &job->grants[i])) {
            return false;
        }
    }
    return job->grant_count > 0;
}

/* Marks the windows of all grants; one that is not this link's, or is not bound (twice in one list counts
 * as that), undoes it. A broken link's windows may be lost already. */
static bool mark_revoking(const struct kvasir_link *link, const struct kvasir_job *job)
{
    for (unsigned i = 0; i < job->grant_count; i++) {
        struct kvasir_window *window = job->grants[i].window;
        if (window == NULL || window->link != link ||
            (window->state != RDMA_WINDOW_BOUND && window->state != RDMA_WINDOW_LOST)) {
            while (i > 0) {
                window = job->grants[--i].window;
                window->state = window->mw != NULL ? RDMA_WINDOW_BOUND : RDMA_WINDOW_LOST;
            }
            return false;
        }
        window->state = RDMA_WINDOW_REVOKING;
    }
    return job->grant_count > 0;
}

/* ---- taking in ---- */

static void take_in(struct kvasir_link *link, const struct kvasir_job *job)
{
    struct kvasir_queue *queue = link->queue;
    struct rdma_record *record = TAILQ_FIRST(&queue->unused);
    TAILQ_REMOVE(&queue->unused, record, entry);
    *record = (struct rdma_record){.kind = KVASIR_EVENT_JOB, .job = *job};
    TAILQ_INSERT_TAIL(&link->records, record, entry);
    link->job_count++;
    queue->stats.jobs++;
    if (link->posting == NULL) {
        link->posting = record;
    }
    if (link->state == RDMA_LINK_TORN) {
        rdma_job_finish(link, record, KVASIR_CLOSED, "the link is down");
        link->posting = NULL;
        return;
    }
    rdma_chain_post(link);
}

static bool has_room(const struct kvasir_link *link)
{
    return link->job_count < link->jobs_max && !TAILQ_EMPTY(&link->queue->unused);
}

static enum kvasir_status submit_revoke(struct kvasir_link *link, const struct kvasir_job *job)
{
    if (!has_room(link)) {
        return KVASIR_AGAIN;
    }
    if (!mark_revoking(link, job)) {
        return KVASIR_INVALID;
    }
    take_in(link, job);
    return KVASIR_PENDING;
}

static enum kvasir_status submit_bind(struct kvasir_link *link, const struct kvasir_job *job)
{
    struct rdma_windows *windows = &link->queue->windows;
    if (windows->count == 0) {
        return KVASIR_UNSUPPORTED;
    }
    if (!all_grants_valid(link, job)) {
        return KVASIR_INVALID;
    }
    if (job->grant_count > windows->count - windows->lost_count) {
        return KVASIR_TOO_LARGE;
    }
    if (!has_room(link) || job->grant_count > windows->free_count) {
        return KVASIR_AGAIN;
    }
    for (unsigned i = 0; i < job->grant_count; i++) {
        struct kvasir_grant *grant = &job->grants[i];
        grant->window = rdma_window_get(windows, link, &grant->key);
    }
    take_in(link, job);
    return KVASIR_PENDING;
}

static enum kvasir_status submit_transfer(struct kvasir_link *link, const struct kvasir_job *job)
{
    if (!transfer_valid(link, job)) {
        return KVASIR_INVALID;
    }
    if (!has_room(link)) {
        return KVASIR_AGAIN;
    }
    take_in(link, job);
    return KVASIR_PENDING;
}

enum kvasir_status rdma_job_submit(struct kvasir_link *link, struct kvasir_job *job)
{
    if (job->kind == KVASIR_JOB_REVOKE) {
        return submit_revoke(link, job);
    }
    if (link->state != RDMA_LINK_READY) {
        return KVASIR_CLOSED;
    }
    switch (job->kind) {
    case KVASIR_JOB_READ:
    case KVASIR_JOB_WRITE:
        return submit_transfer(link, job);
    case KVASIR_JOB_BIND:
        return submit_bind(link, job);
    case KVASIR_JOB_REVOKE:
        break;
    }
    return KVASIR_INVALID;
}

/* ---- events ---- */

/* After a bind that went well its windows are bound; after any other end they are free. */
static void settle_windows(struct kvasir_link *link, const struct kvasir_job *job,
                           enum kvasir_status status)
{
    for (unsigned i = 0; i < job->grant_count; i++) {
        struct kvasir_grant *grant = &job->grants[i];
        if (job->kind == KVASIR_JOB_BIND && status == KVASIR_OK) {
            grant->window->state = RDMA_WINDOW_BOUND;
        } else {
            rdma_window_put(&link->queue->windows, &grant->window);
            grant->key = 0;
        }
    }
}

void rdma_job_finish(struct kvasir_link *link, struct rdma_record *record,
                     enum kvasir_status status, const char *reason)
{
    struct kvasir_queue *queue = link->queue;
    enum kvasir_job_kind kind = record->job.kind;
    TAILQ_REMOVE(&link->records, record, entry);
    link->job_count--;
    if (kind == KVASIR_JOB_BIND || kind == KVASIR_JOB_REVOKE) {
        settle_windows(link, &record->job, status);
    }
    record->status = kind == KVASIR_JOB_REVOKE ? KVASIR_OK : status;
    record->reason = reason;
    queue->stats.jobs_failed += record->status != KVASIR_OK ? 1 : 0;
    TAILQ_INSERT_TAIL(&queue->done, record, entry);
}
