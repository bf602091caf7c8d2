#pragma once
/* rdma_domain – an opened port: its protection domain, what it can do, and what happens to it. Opening and
 * closing: any thread; polling: one thread at a time. The functions are operations of struct
 * kvasir_transport_ops. */

#include "rdma_impl.h"

enum kvasir_status rdma_domain_open(void *state, const char *device, uint32_t port, int gid_index,
                                    struct kvasir_domain **domain_p, char *said);
void rdma_domain_close(struct kvasir_domain **domain_p);
const struct kvasir_domain_facts *rdma_domain_facts(const struct kvasir_domain *domain);
int rdma_domain_fd(const struct kvasir_domain *domain);
unsigned rdma_domain_poll(struct kvasir_domain *domain, struct kvasir_event *events,
                          unsigned capacity);
