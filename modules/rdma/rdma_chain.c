#include "rdma_chain.h"

#include "rdma_link.h"
#include "rdma_memory.h"
#include "rdma_qp.h"

#include <string.h>

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The next piece of the local list, limit_bytes at most, as an entry of a scatter/gather list. */
static uint64_t take_local(struct rdma_record *record, uint64_t limit_bytes, struct ibv_sge *sge)
{
    const struct kvasir_local *local = &record->job.locals[record->local_index];
    uint64_t address = local->address + record->local_used;
    uint64_t bytes = local->bytes - record->local_used;
    uint64_t left;
    const struct ibv_mr *mr = rdma_memory_part(local->memory, address, &left);
    bytes = bytes < left ? bytes : left;
    bytes = bytes < limit_bytes ? bytes : limit_bytes;
    *sge = (struct ibv_sge){.addr = address, .length = (uint32_t)bytes, .lkey = mr->lkey};
    record->local_used += bytes;
    if (record->local_used == local->bytes) {
        record->local_index++;
        record->local_used = 0;
    }
    return bytes;
}

/* One READ or WRITE: a piece of one remote entry, and of as many local ones as it takes. */
static void fill_transfer(struct kvasir_link *link, struct rdma_record *record,
                          struct ibv_send_wr *request, struct ibv_sge *sges)
{
    struct kvasir_queue *queue = link->queue;
    const struct kvasir_remote *remote = &record->job.remotes[record->remote_index];
    bool read = record->job.kind == KVASIR_JOB_READ;
    unsigned sges_max = read ? queue->sges_read_max : queue->sges_write_max;
    uint64_t limit_bytes = remote->bytes - record->remote_used;
    uint64_t bytes = 0;
    unsigned count = 0;
    limit_bytes = limit_bytes < queue->message_bytes_max ? limit_bytes : queue->message_bytes_max;
    while (count < sges_max && bytes < limit_bytes) {
        bytes += take_local(record, limit_bytes - bytes, &sges[count]);
        count++;
    }
    request->opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request->sg_list = sges;
    request->num_sge = (int)count;
    request->wr.rdma.remote_addr = remote->address + record->remote_used;
    request->wr.rdma.rkey = remote->key;
    if (!read && bytes <= link->inline_bytes) {
        request->send_flags = IBV_SEND_INLINE;
        queue->stats.inline_bytes += bytes;
    }
    queue->stats.read_bytes += read ? bytes : 0;
    queue->stats.written_bytes += read ? 0 : bytes;
    record->remote_used += bytes;
    if (record->remote_used == remote->bytes) {
        record->remote_index++;
        record->remote_used = 0;
    }
    record->posted = record->remote_index == record->job.remote_count;
}

static void fill_grant(struct kvasir_link *link, struct rdma_record *record,
                       struct ibv_send_wr *request)
{
    const struct kvasir_grant *grant = &record->job.grants[record->grant_index++];
    uint64_t left;
    record->posted = record->grant_index == record->job.grant_count;
    if (record->job.kind == KVASIR_JOB_REVOKE) {
        request->opcode = IBV_WR_LOCAL_INV;
        request->invalidate_rkey = grant->window->mw->rkey;
        link->queue->stats.revocations++;
        return;
    }
    request->opcode = IBV_WR_BIND_MW;
    request->bind_mw.mw = grant->window->mw;
    request->bind_mw.rkey = grant->key;
    request->bind_mw.bind_info = (struct ibv_mw_bind_info){
        .mr = rdma_memory_part(grant->local.memory, grant->local.address, &left),
        .addr = grant->local.address,
        .length = grant->local.bytes,
        .mw_access_flags = rdma_qp_access(grant->rights)};
    link->queue->stats.binds++;
}

/* Builds requests, as many as a chain has and there is room for; returns how many there are. */
static unsigned build(struct kvasir_link *link, unsigned room)
{
    struct kvasir_queue *queue = link->queue;
    unsigned count = 0;
    while (count < least(room, RDMA_CHAIN_MAX) && link->posting != NULL) {
        struct rdma_record *record = link->posting;
        struct ibv_send_wr *request = &queue->chain[count];
        memset(request, 0, sizeof(*request));
        request->wr_id = rdma_link_request_id(link, link->next + count);
        if (record->job.kind == KVASIR_JOB_READ || record->job.kind == KVASIR_JOB_WRITE) {
            fill_transfer(link, record, request, queue->sges[count]);
        } else {
            fill_grant(link, record, request);
        }
        if (count > 0) {
            queue->chain[count - 1].next = request;
        }
        count++;
        if (record->posted) {
            request->send_flags |= IBV_SEND_SIGNALED;
            record->end = link->next + count;
            link->posting = TAILQ_NEXT(record, entry);
        }
    }
    /* Nothing follows for want of room: the completion of the last request gives the places back. */
    if (count > 0 && count == room) {
        queue->chain[count - 1].send_flags |= IBV_SEND_SIGNALED;
    }
    return count;
}

/* Of a type 2 window the key is the owner's to keep. Posting needs the former one. */
static void keep_keys(struct kvasir_queue *queue, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (queue->chain[i].opcode == IBV_WR_BIND_MW) {
            queue->chain[i].bind_mw.mw->rkey = queue->chain[i].bind_mw.rkey;
        }
    }
}

void rdma_chain_post(struct kvasir_link *link)
{
    struct kvasir_queue *queue = link->queue;
    while (link->state == RDMA_LINK_READY && link->posting != NULL) {
        struct rdma_record *first = link->posting;
        struct ibv_send_wr *bad = NULL;
        unsigned room = link->depth - (link->next - link->done);
        unsigned count;
        int error;
        if (room > 0 && queue->credits == 0) {
            rdma_link_wait(link);
            return;
        }
        count = build(link, least(room, queue->credits));
        if (count == 0) {
            return;
        }
        error = ibv_post_send(link->qp, queue->chain, &bad);
        keep_keys(queue, count);
        link->next += count;
        queue->credits -= count;
        queue->stats.work_requests += count;
        queue->stats.doorbells++;
        if (error != 0) {
            rdma_link_break(link, first, KVASIR_INVALID, strerrordesc_np(error));
        }
    }
}
