#include "rdma_qp.h"

#include "rdma_device.h"

#include <errno.h>
#include <string.h>

/* 4.096 us * 2^17 = 0.5 s until a packet is sent again, 6 times: a peer that is gone is noticed within
 * 4 s, one that is only busy is not given up. 7 would mean for ever to some adapters. */
#define ACK_TIMEOUT 17
#define RETRIES     6
/* Code of 0.64 ms. Nobody sends what needs a receive, so it never matters. */
#define RNR_TIMER 12
/* As many routers as an IP packet of Linux passes. */
#define HOPS_MAX 64

unsigned rdma_qp_access(unsigned rights)
{
    unsigned access = 0;
    access |= (rights & KVASIR_RIGHT_REMOTE_READ) != 0 ? IBV_ACCESS_REMOTE_READ : 0;
    access |= (rights & KVASIR_RIGHT_REMOTE_WRITE) != 0 ? IBV_ACCESS_REMOTE_WRITE : 0;
    return access;
}

static int to_init(struct ibv_qp *qp, const struct kvasir_domain *domain)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                     .port_num = (uint8_t)domain->facts.device.port};
    return ibv_modify_qp(qp, &attributes,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

struct ibv_qp *rdma_qp_create(struct kvasir_domain *domain, const struct rdma_qp_options *options,
                              unsigned *inline_bytes_p)
{
    struct ibv_qp_init_attr attributes = {.qp_context = options->context,
                                          .send_cq = options->cq,
                                          .recv_cq = options->cq,
                                          .qp_type = IBV_QPT_RC,
                                          .cap = {.max_send_wr = options->depth,
                                                  .max_recv_wr = 1,
                                                  .max_send_sge = options->sges_max,
                                                  .max_recv_sge = 1,
                                                  .max_inline_data = options->inline_bytes}};
    struct ibv_qp *qp = ibv_create_qp(domain->pd, &attributes);
    int error;
    if (qp == NULL && options->inline_bytes > 0) {
        attributes.cap.max_inline_data = 0;
        qp = ibv_create_qp(domain->pd, &attributes);
    }
    if (qp == NULL) {
        return NULL;
    }
    error = to_init(qp, domain);
    if (error != 0) {
        (void)ibv_destroy_qp(qp);
        errno = error;
        return NULL;
    }
    *inline_bytes_p = attributes.cap.max_inline_data;
    return qp;
}

static void fill_path(struct ibv_ah_attr *path, const struct kvasir_domain *domain,
                      const struct kvasir_link_address *local,
                      const struct kvasir_link_address *remote, uint8_t traffic_class)
{
    path->port_num = (uint8_t)domain->facts.device.port;
    path->dlid = (uint16_t)remote->lid;
    /* Within an InfiniBand subnet the LID is enough. */
    if (local->layer == KVASIR_LAYER_ETHERNET || remote->lid == 0) {
        path->is_global = 1;
        memcpy(path->grh.dgid.raw, remote->gid.raw, sizeof(path->grh.dgid.raw));
        path->grh.sgid_index = (uint8_t)local->gid.index;
        path->grh.hop_limit = HOPS_MAX;
        path->grh.traffic_class = traffic_class;
    }
}

static uint8_t lesser(uint32_t a, uint32_t b)
{
    uint32_t least = a < b ? a : b;
    return (uint8_t)(least < UINT8_MAX ? least : UINT8_MAX);
}

int rdma_qp_reach(struct ibv_qp *qp, const struct kvasir_domain *domain,
                  const struct kvasir_link_address *local, const struct kvasir_link_address *remote,
                  uint8_t traffic_class)
{
    uint32_t mtu_bytes =
        local->mtu_bytes < remote->mtu_bytes ? local->mtu_bytes : remote->mtu_bytes;
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTR,
                                     .path_mtu = (enum ibv_mtu)rdma_device_mtu_code(mtu_bytes),
                                     .dest_qp_num = remote->queue_pair,
                                     .rq_psn = remote->packet_sequence,
                                     .max_dest_rd_atomic = lesser(local->rd_atomic, UINT8_MAX),
                                     .min_rnr_timer = RNR_TIMER};
    fill_path(&attributes.ah_attr, domain, local, remote, traffic_class);
    return ibv_modify_qp(qp, &attributes,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int rdma_qp_start(struct ibv_qp *qp, const struct kvasir_domain *domain,
                  const struct kvasir_link_address *local, const struct kvasir_link_address *remote,
                  unsigned rights)
{
    const int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ACCESS_FLAGS;
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_RTS,
        .timeout = ACK_TIMEOUT,
        .retry_cnt = RETRIES,
        .rnr_retry = RETRIES,
        .sq_psn = local->packet_sequence,
        .max_rd_atomic =
            lesser((uint32_t)domain->attributes.max_qp_init_rd_atom, remote->rd_atomic),
        .qp_access_flags = rdma_qp_access(rights),
    };
    if (domain->facts.device.windows && rights != 0) {
        attributes.qp_access_flags |= IBV_ACCESS_MW_BIND;
        if (ibv_modify_qp(qp, &attributes, mask) == 0) {
            return 0;
        }
        /* Some drivers do not want to be told. */
        attributes.qp_access_flags &= ~(unsigned)IBV_ACCESS_MW_BIND;
    }
    return ibv_modify_qp(qp, &attributes, mask);
}

void rdma_qp_stop(struct ibv_qp *qp)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_ERR};
    /* A queue pair that cannot even be stopped belongs to an adapter that is gone. */
    (void)ibv_modify_qp(qp, &attributes, IBV_QP_STATE);
}
