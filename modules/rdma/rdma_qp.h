#pragma once
/* rdma_qp – a reliable-connection queue pair through its states. Called by who owns the queue pair, and
 * once by the opening of a domain; owns nothing. */

#include "rdma_impl.h"

struct rdma_qp_options {
    struct ibv_cq *cq;
    void *context; /* what asynchronous events name */
    unsigned depth;
    unsigned sges_max;
    unsigned inline_bytes; /* wished for */
};

/* What the verbs call a peer's rights: KVASIR_RIGHT_REMOTE_READ, KVASIR_RIGHT_REMOTE_WRITE. */
unsigned rdma_qp_access(unsigned rights);

/* Creates it and takes it to INIT, where the peer has no right. NULL: see errno. inline_bytes_p: what it
 * got. */
struct ibv_qp *rdma_qp_create(struct kvasir_domain *domain, const struct rdma_qp_options *options,
                              unsigned *inline_bytes_p);

/* Takes it to RTR. The system resolves the peer's address, which may take it a second. 0, or the system's
 * error. Any thread. */
int rdma_qp_reach(struct ibv_qp *qp, const struct kvasir_domain *domain,
                  const struct kvasir_link_address *local, const struct kvasir_link_address *remote,
                  uint8_t traffic_class);

/* Takes it on to RTS and gives the peer its rights (KVASIR_RIGHT_REMOTE_READ, KVASIR_RIGHT_REMOTE_WRITE). 0,
 * or the system's error. */
int rdma_qp_start(struct ibv_qp *qp, const struct kvasir_domain *domain,
                  const struct kvasir_link_address *local, const struct kvasir_link_address *remote,
                  unsigned rights);

/* From here on neither side moves a byte through it that is not on its way. */
void rdma_qp_stop(struct ibv_qp *qp);
