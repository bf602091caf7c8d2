/* fake_transfer – what a work request does: the checks of an adapter, and a memory copy. */

#include "fake_impl.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define KEY_OURS 0xffU

static struct fake_cq *cq_of(struct ibv_cq *cq)
{
    return (struct fake_cq *)(void *)cq;
}

static void complete(struct fake_qp *qp, uint64_t id, enum ibv_wc_status status)
{
    struct fake_cq *cq = cq_of(qp->base.send_cq);
    unsigned place;
    if (cq->count == (unsigned)cq->base.cqe) {
        fake_rule_broken("a completion queue of %d entries overflows", cq->base.cqe);
        return;
    }
    place = (cq->first + cq->count++) % (unsigned)cq->base.cqe;
    cq->entries[place] = (struct ibv_wc){.wr_id = id, .status = status, .qp_num = qp->base.qp_num};
    cq->covers[place] = qp->uncovered;
    qp->uncovered = 0;
    if (cq->armed && cq->base.channel != NULL) {
        struct fake_channel *channel = (struct fake_channel *)(void *)cq->base.channel;
        cq->armed = false;
        (void)!write(channel->write_fd, "", 1);
    }
}

/* ---- one transfer ---- */

static bool within(uint64_t address, uint64_t bytes, uint64_t base, uint64_t length)
{
    return address >= base && address - base <= length && bytes <= length - (address - base);
}

static struct fake_key *find_key(uint32_t key)
{
    struct fake_key *entry = &fake.keys[(key >> 8) % FAKE_KEYS_MAX];
    return (key >> 8) < FAKE_KEYS_MAX ? entry : NULL;
}

static struct fake_mr *find_mr(uint32_t key, const struct ibv_pd *pd)
{
    struct fake_key *entry = find_key(key);
    struct fake_mr *mr = entry != NULL ? entry->mr : NULL;
    return mr != NULL && mr->base.lkey == key && mr->base.pd == pd ? mr : NULL;
}

static bool remote_allowed(const struct fake_qp *peer, const struct fake_request *request,
                           uint64_t bytes)
{
    uint32_t key = request->wr.wr.rdma.rkey;
    uint64_t address = request->wr.wr.rdma.remote_addr;
    unsigned right =
        request->wr.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    const struct fake_key *entry = find_key(key);
    const struct fake_mr *mr = find_mr(key, peer->base.pd);
    const struct fake_mw *mw = entry != NULL ? entry->mw : NULL;
    if ((peer->attributes.qp_access_flags & right) == 0) {
        return false;
    }
    if (mr != NULL) {
        return (mr->access & right) != 0 &&
               within(address, bytes, (uintptr_t)mr->base.addr, mr->base.length);
    }
    return mw != NULL && mw->key == key && (mw->bound || mw->lies) && mw->qp == peer &&
           (mw->access & right) != 0 && within(address, bytes, mw->address, mw->bytes);
}

static enum ibv_wc_status check_local(const struct fake_request *request, uint64_t *bytes_p)
{
    uint64_t bytes = 0;
    for (int i = 0; i < request->wr.num_sge; i++) {
        const struct ibv_sge *sge = &request->sges[i];
        const struct fake_mr *mr = find_mr(sge->lkey, request->qp->base.pd);
        bytes += sge->length;
        if ((request->wr.send_flags & IBV_SEND_INLINE) != 0) {
            continue;
        }
        if (mr == NULL ||
            !within(sge->addr, sge->length, (uintptr_t)mr->base.addr, mr->base.length) ||
            (request->wr.opcode == IBV_WR_RDMA_READ &&
             (mr->access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
            return IBV_WC_LOC_PROT_ERR;
        }
    }
    *bytes_p = bytes;
    return bytes <= fake.options.message_bytes_max ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
}

static struct fake_qp *find_peer(const struct fake_qp *qp)
{
    uint32_t place = qp->attributes.dest_qp_num - 16;
    struct fake_qp *peer = place < FAKE_PAIRS_MAX ? fake.pairs[place] : NULL;
    bool ready = peer != NULL && (peer->attributes.qp_state == IBV_QPS_RTR ||
                                  peer->attributes.qp_state == IBV_QPS_RTS);
    return ready && peer->attributes.dest_qp_num == qp->base.qp_num &&
                   peer->attributes.rq_psn == qp->attributes.sq_psn
               ? peer
               : NULL;
}

static void copy(const struct fake_request *request)
{
    uint8_t *remote = (uint8_t *)(uintptr_t)request->wr.wr.rdma.remote_addr;
    const uint8_t *inlined = request->inlined;
    for (int i = 0; i < request->wr.num_sge; i++) {
        uint8_t *local = (uint8_t *)(uintptr_t)request->sges[i].addr;
        size_t bytes = request->sges[i].length;
        if (request->wr.opcode == IBV_WR_RDMA_READ) {
            memcpy(local, remote, bytes);
        } else if ((request->wr.send_flags & IBV_SEND_INLINE) != 0) {
            memcpy(remote, inlined, bytes);
            inlined += bytes;
        } else {
            memcpy(remote, local, bytes);
        }
        remote += bytes;
    }
}

static enum ibv_wc_status transfer(const struct fake_request *request)
{
    struct fake_qp *peer = find_peer(request->qp);
    uint64_t bytes = 0;
    enum ibv_wc_status status = check_local(request, &bytes);
    if (status != IBV_WC_SUCCESS) {
        return status;
    }
    if (peer == NULL) {
        return IBV_WC_RETRY_EXC_ERR;
    }
    if (!remote_allowed(peer, request, bytes)) {
        fake_qp_fail(peer);
        fake_raise(IBV_EVENT_QP_ACCESS_ERR, peer->base.qp_num);
        return IBV_WC_REM_ACCESS_ERR;
    }
    copy(request);
    return IBV_WC_SUCCESS;
}

/* ---- windows ---- */

static enum ibv_wc_status bind_window(const struct fake_request *request)
{
    const struct ibv_mw_bind_info *info = &request->wr.bind_mw.bind_info;
    struct fake_mw *mw = (struct fake_mw *)(void *)request->wr.bind_mw.mw;
    struct fake_mr *mr = (struct fake_mr *)(void *)info->mr;
    uint32_t key = request->wr.bind_mw.rkey;
    bool writes = (info->mw_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0;
    if (mw->bound) {
        fake_rule_broken("window %#x is bound while it is bound", (unsigned)mw->key);
        return IBV_WC_MW_BIND_ERR;
    }
    if ((key & ~KEY_OURS) != (mw->key & ~KEY_OURS) || key == mw->key) {
        fake_rule_broken("window %#x cannot get the key %#x", (unsigned)mw->key, (unsigned)key);
        return IBV_WC_MW_BIND_ERR;
    }
    if (fake.options.bind_fails || mw->base.pd != request->qp->base.pd ||
        mr->base.pd != mw->base.pd || (mr->access & IBV_ACCESS_MW_BIND) == 0 ||
        (writes && (mr->access & IBV_ACCESS_LOCAL_WRITE) == 0) || info->length == 0 ||
        !within(info->addr, info->length, (uintptr_t)mr->base.addr, mr->base.length)) {
        return IBV_WC_MW_BIND_ERR;
    }
    mw->key = key;
    mw->bound = true;
    mw->lies = false;
    mw->qp = request->qp;
    mw->mr = mr;
    mw->address = info->addr;
    mw->bytes = info->length;
    mw->access = info->mw_access_flags;
    mr->bound++;
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status invalidate(const struct fake_request *request)
{
    struct fake_key *entry = find_key(request->wr.invalidate_rkey);
    struct fake_mw *mw = entry != NULL ? entry->mw : NULL;
    if (mw == NULL || mw->key != request->wr.invalidate_rkey || !mw->bound ||
        mw->qp != request->qp) {
        fake_rule_broken("key %#x is revoked, which is not bound there",
                         (unsigned)request->wr.invalidate_rkey);
        return IBV_WC_LOC_QP_OP_ERR;
    }
    mw->bound = false;
    mw->lies = fake.options.revoke_lies;
    mw->mr->bound--;
    return IBV_WC_SUCCESS;
}

/* ---- queues ---- */

static void execute(struct fake_request *request)
{
    struct fake_qp *qp = request->qp;
    enum ibv_wc_status status = IBV_WC_WR_FLUSH_ERR;
    bool signalled = (request->wr.send_flags & IBV_SEND_SIGNALED) != 0;
    qp->uncovered++;
    if (qp->attributes.qp_state == IBV_QPS_RTS) {
        if (request->wr.opcode == IBV_WR_BIND_MW) {
            status = bind_window(request);
        } else if (request->wr.opcode == IBV_WR_LOCAL_INV) {
            status = invalidate(request);
        } else {
            status = transfer(request);
        }
    }
    if (status != IBV_WC_SUCCESS) {
        qp->attributes.qp_state = IBV_QPS_ERR;
    }
    if (signalled || status != IBV_WC_SUCCESS) {
        complete(qp, request->wr.wr_id, status);
    }
}

void fake_run(unsigned count)
{
    struct fake_request request;
    while (count-- > 0 && fake.request_count > 0 && !fake.removed) {
        request = fake.requests[0];
        fake.request_count--;
        memmove(&fake.requests[0], &fake.requests[1], fake.request_count * sizeof(request));
        execute(&request);
    }
}

void fake_drop_requests(const struct fake_qp *qp)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < fake.request_count; i++) {
        if (fake.requests[i].qp != qp) {
            fake.requests[kept++] = fake.requests[i];
        }
    }
    fake.request_count = kept;
}

void fake_qp_fail(struct fake_qp *qp)
{
    qp->attributes.qp_state = IBV_QPS_ERR;
    if (fake.removed) {
        return;
    }
    for (unsigned i = 0; i < fake.request_count; i++) {
        if (fake.requests[i].qp == qp) {
            qp->uncovered++;
            complete(qp, fake.requests[i].wr.wr_id, IBV_WC_WR_FLUSH_ERR);
        }
    }
    fake_drop_requests(qp);
}

/* The copy of a request that the adapter keeps. */
static int take_request(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    struct fake_request *request = &fake.requests[fake.request_count];
    size_t used = 0;
    if (fake_fails() || qp->outstanding == qp->requests_max ||
        fake.request_count == FAKE_HELD_MAX) {
        return ENOMEM;
    }
    if (wr->num_sge < 0 || (unsigned)wr->num_sge > qp->sges_max ||
        (wr->opcode == IBV_WR_RDMA_READ && wr->num_sge > fake.options.sges_read_max)) {
        fake_rule_broken("a request has %d list entries", wr->num_sge);
        return EINVAL;
    }
    *request = (struct fake_request){.qp = qp, .wr = *wr};
    for (int i = 0; i < wr->num_sge; i++) {
        request->sges[i] = wr->sg_list[i];
        if ((wr->send_flags & IBV_SEND_INLINE) == 0) {
            continue;
        }
        if (used + wr->sg_list[i].length > qp->inline_max || wr->opcode == IBV_WR_RDMA_READ) {
            fake_rule_broken("a request cannot be inline");
            return EINVAL;
        }
        memcpy(request->inlined + used, (const void *)(uintptr_t)wr->sg_list[i].addr,
               wr->sg_list[i].length);
        used += wr->sg_list[i].length;
    }
    fake.request_count++;
    fake.last_flags = wr->send_flags;
    fake.last_sges = wr->num_sge;
    qp->outstanding++;
    return 0;
}

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_qp *own = (struct fake_qp *)(void *)qp;
    int error = 0;
    if (own->attributes.qp_state != IBV_QPS_RTS && own->attributes.qp_state != IBV_QPS_ERR) {
        fake_rule_broken("a request is posted on a queue pair that is not connected");
        error = EINVAL;
    }
    for (; wr != NULL && error == 0; wr = wr->next) {
        error = take_request(own, wr);
        if (error != 0) {
            break;
        }
    }
    *bad = wr;
    if (!fake.held) {
        fake_run(fake.request_count);
    }
    return error;
}

int fake_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *entries)
{
    struct fake_cq *own = cq_of(cq);
    int taken = 0;
    if (fake.removed) {
        return 0;
    }
    while (taken < count && own->count > 0) {
        uint32_t place = own->entries[own->first].qp_num - 16;
        entries[taken++] = own->entries[own->first];
        if (place < FAKE_PAIRS_MAX && fake.pairs[place] != NULL) {
            fake.pairs[place]->outstanding -= own->covers[own->first];
        }
        own->first = (own->first + 1) % (unsigned)own->base.cqe;
        own->count--;
    }
    return taken;
}
