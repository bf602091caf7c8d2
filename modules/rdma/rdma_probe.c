#include "rdma_probe.h"

#include "rdma_qp.h"
#include "rdma_said.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096U
/* The window is the second half of the first page, what it is read into the second page. */
#define WINDOW_BYTES (PAGE_BYTES / 2)
#define DEPTH        8
/* An adapter that needs longer for one page is not one that we want to wait for. */
#define WAIT_MS_MAX 2000

/* All that the trial needs: two queue pairs of ours, connected to each other. One that is connected to
 * itself would not do, as a refusal ends the side that is asked, too. */
struct trial {
    struct kvasir_domain *domain; /* borrowed */
    uint8_t *pages;               /* owned; two */
    struct ibv_mr *mr;            /* owned */
    struct ibv_cq *cq;            /* owned */
    struct ibv_qp *owner;         /* owned; the window is bound on it */
    struct ibv_qp *reader;        /* owned */
    struct ibv_mw *mw;            /* owned */
    uint32_t key;
};

static bool say(struct trial *trial, const char *what, const char *why)
{
    (void)rdma_said(trial->domain->facts.windows_reason, KVASIR_UNSUPPORTED, "%s: %s", what, why);
    return false;
}

/* Waits for one completion. */
static bool wait_completion(struct trial *trial, enum ibv_wc_status *status_p)
{
    struct ibv_wc completion;
    for (unsigned waited_ms = 0; waited_ms < WAIT_MS_MAX; waited_ms++) {
        int count = ibv_poll_cq(trial->cq, 1, &completion);
        if (count < 0) {
            return false;
        }
        if (count > 0) {
            *status_p = completion.status;
            return true;
        }
        (void)poll(NULL, 0, 1);
    }
    return false;
}

/* Posts one work request and tells how it ended; false, with the reason said: not at all. */
static bool run(struct trial *trial, struct ibv_send_wr *request, const char *what,
                enum ibv_wc_status *status_p)
{
    struct ibv_qp *qp = request->opcode == IBV_WR_RDMA_READ ? trial->reader : trial->owner;
    struct ibv_send_wr *bad = NULL;
    int error;
    request->send_flags = IBV_SEND_SIGNALED;
    error = ibv_post_send(qp, request, &bad);
    if (error != 0) {
        return say(trial, what, strerror(error));
    }
    if (!wait_completion(trial, status_p)) {
        return say(trial, what, "no completion");
    }
    return true;
}

static bool succeeds(struct trial *trial, struct ibv_send_wr *request, const char *what)
{
    enum ibv_wc_status status = IBV_WC_GENERAL_ERR;
    if (!run(trial, request, what, &status)) {
        return false;
    }
    return status == IBV_WC_SUCCESS || say(trial, what, ibv_wc_status_str(status));
}

static struct ibv_send_wr read_request(const struct trial *trial, struct ibv_sge *sge)
{
    struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_READ, .sg_list = sge, .num_sge = 1};
    *sge = (struct ibv_sge){.addr = (uintptr_t)trial->pages + PAGE_BYTES,
                            .length = WINDOW_BYTES,
                            .lkey = trial->mr->lkey};
    request.wr.rdma.remote_addr = (uintptr_t)trial->pages + WINDOW_BYTES;
    request.wr.rdma.rkey = trial->key;
    return request;
}

static bool try_bind(struct trial *trial)
{
    struct ibv_send_wr request = {.opcode = IBV_WR_BIND_MW};
    request.bind_mw.mw = trial->mw;
    request.bind_mw.rkey = ibv_inc_rkey(trial->mw->rkey);
    request.bind_mw.bind_info =
        (struct ibv_mw_bind_info){.mr = trial->mr,
                                  .addr = (uintptr_t)trial->pages + WINDOW_BYTES,
                                  .length = WINDOW_BYTES,
                                  .mw_access_flags = IBV_ACCESS_REMOTE_READ};
    trial->key = request.bind_mw.rkey;
    return succeeds(trial, &request, "binding a window");
}

/* Through the window the bytes are the right ones. */
static bool try_use(struct trial *trial)
{
    struct ibv_sge sge;
    struct ibv_send_wr request = read_request(trial, &sge);
    memset(trial->pages, 0x5a, PAGE_BYTES);
    memset(trial->pages + PAGE_BYTES, 0, PAGE_BYTES);
    if (!succeeds(trial, &request, "reading through a window")) {
        return false;
    }
    return memcmp(trial->pages + PAGE_BYTES, trial->pages + WINDOW_BYTES, WINDOW_BYTES) == 0 ||
           say(trial, "reading through a window", "wrong bytes");
}

/* After it is revoked the key is dead, and moves no byte. This comes last: the refusal ends both sides. */
static bool try_revoke(struct trial *trial)
{
    struct ibv_send_wr request = {.opcode = IBV_WR_LOCAL_INV};
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    struct ibv_sge sge;
    request.invalidate_rkey = trial->key;
    if (!succeeds(trial, &request, "revoking a window")) {
        return false;
    }
    memset(trial->pages + PAGE_BYTES, 0, PAGE_BYTES);
    request = read_request(trial, &sge);
    if (!run(trial, &request, "reading with a revoked key", &status)) {
        return false;
    }
    return (status != IBV_WC_SUCCESS && trial->pages[PAGE_BYTES] == 0 &&
            memcmp(trial->pages + PAGE_BYTES, trial->pages + PAGE_BYTES + 1, WINDOW_BYTES) == 0) ||
           say(trial, "reading with a revoked key", "bytes came");
}

static struct ibv_qp *make_side(struct trial *trial)
{
    unsigned inline_bytes = 0;
    const struct rdma_qp_options options = {.cq = trial->cq, .depth = DEPTH, .sges_max = 1};
    return rdma_qp_create(trial->domain, &options, &inline_bytes);
}

static int connect_side(const struct trial *trial, struct ibv_qp *qp,
                        const struct kvasir_link_address *local,
                        const struct kvasir_link_address *remote, unsigned rights)
{
    int error = rdma_qp_reach(qp, trial->domain, local, remote, 0);
    return error != 0 ? error : rdma_qp_start(qp, trial->domain, local, remote, rights);
}

static bool connect_sides(struct trial *trial, const struct kvasir_gid *gid)
{
    const struct kvasir_device *device = &trial->domain->facts.device;
    struct kvasir_link_address owner = {.layer = device->layer,
                                        .packet_sequence = 1,
                                        .lid = device->lid,
                                        .mtu_bytes = device->mtu_bytes,
                                        .rd_atomic = 1,
                                        .gid = *gid};
    struct kvasir_link_address reader = owner;
    int error;
    owner.queue_pair = trial->owner->qp_num;
    reader.queue_pair = trial->reader->qp_num;
    error = connect_side(trial, trial->owner, &owner, &reader, KVASIR_RIGHT_REMOTE_READ);
    if (error == 0) {
        error = connect_side(trial, trial->reader, &reader, &owner, 0);
    }
    return error == 0 || say(trial, "connecting two queue pairs", strerror(error));
}

static bool set_up(struct trial *trial, const struct kvasir_gid *gid)
{
    struct kvasir_domain *domain = trial->domain;
    trial->pages = aligned_alloc(PAGE_BYTES, 2 * (size_t)PAGE_BYTES);
    if (trial->pages == NULL) {
        return say(trial, "memory", strerror(ENOMEM));
    }
    trial->mr = ibv_reg_mr(domain->pd, trial->pages, 2 * (size_t)PAGE_BYTES,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    if (trial->mr == NULL) {
        return say(trial, "registering memory that windows can be bound to", strerror(errno));
    }
    trial->cq = ibv_create_cq(domain->context, DEPTH, NULL, NULL, 0);
    if (trial->cq == NULL) {
        return say(trial, "a completion queue", strerror(errno));
    }
    trial->owner = make_side(trial);
    trial->reader = make_side(trial);
    if (trial->owner == NULL || trial->reader == NULL) {
        return say(trial, "a queue pair", strerror(errno));
    }
    trial->mw = ibv_alloc_mw(domain->pd, IBV_MW_TYPE_2);
    if (trial->mw == NULL) {
        return say(trial, "allocating a window", strerror(errno));
    }
    return connect_sides(trial, gid);
}

/* Windows go before the queue pair that they are bound on. */
static void take_down(struct trial *trial)
{
    if (trial->reader != NULL) {
        rdma_qp_stop(trial->reader);
        (void)ibv_destroy_qp(trial->reader);
    }
    if (trial->owner != NULL) {
        rdma_qp_stop(trial->owner);
    }
    if (trial->mw != NULL) {
        (void)ibv_dealloc_mw(trial->mw);
    }
    if (trial->owner != NULL) {
        (void)ibv_destroy_qp(trial->owner);
    }
    if (trial->cq != NULL) {
        (void)ibv_destroy_cq(trial->cq);
    }
    if (trial->mr != NULL) {
        (void)ibv_dereg_mr(trial->mr);
    }
    free(trial->pages);
}

void rdma_probe_windows(struct kvasir_domain *domain, const struct kvasir_gid *gid)
{
    struct trial trial = {.domain = domain};
    struct kvasir_domain_facts *facts = &domain->facts;
    if (!facts->device.windows) {
        (void)say(&trial, "windows", "the device has none of type 2B");
    } else {
        facts->windows =
            set_up(&trial, gid) && try_bind(&trial) && try_use(&trial) && try_revoke(&trial);
        take_down(&trial);
    }
    /* Claimed but not kept is worth a look. */
    rdma_said_log(domain->module,
                  facts->windows || !facts->device.windows ? KVASIR_LOG_INFO : KVASIR_LOG_WARN,
                  "device %s port %u: memory windows %s%s", facts->device.name,
                  (unsigned)facts->device.port, facts->windows ? "work" : "are not offered, ",
                  facts->windows_reason);
}
