#pragma once
/* rdma_queue – one thread's completions of all its links on one domain, and the events made of them. */

#include "rdma_impl.h"

/* Operations of struct kvasir_transport_ops. */
enum kvasir_status rdma_queue_create(struct kvasir_domain *domain,
                                     const struct kvasir_queue_options *options,
                                     struct kvasir_queue **queue_p, char *said);
void rdma_queue_destroy(struct kvasir_queue **queue_p);
int rdma_queue_fd(const struct kvasir_queue *queue);
unsigned rdma_queue_poll(struct kvasir_queue *queue, struct kvasir_event *events,
                         unsigned capacity);
enum kvasir_status rdma_queue_arm(struct kvasir_queue *queue);
void rdma_queue_stats(const struct kvasir_queue *queue, struct kvasir_queue_stats *stats_p);

/* Takes all completions that are there, tears what broke, and posts what had to wait for room. */
void rdma_queue_collect(struct kvasir_queue *queue);
