#pragma once
/* rdma_probe – tries whether an adapter's windows do what they must, by using one. Called once, when a
 * domain is opened; leaves nothing behind. */

#include "rdma_impl.h"

/* Fills windows and windows_reason of the domain's facts. */
void rdma_probe_windows(struct kvasir_domain *domain, const struct kvasir_gid *gid);
