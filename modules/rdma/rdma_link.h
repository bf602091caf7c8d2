#pragma once
/* rdma_link – a queue pair to one peer, the jobs that wait on it, and how it ends. Used by the thread of
 * its queue. */

#include "rdma_impl.h"

/* Operations of struct kvasir_transport_ops. */
enum kvasir_status rdma_link_create(struct kvasir_queue *queue,
                                    const struct kvasir_link_options *options,
                                    struct kvasir_link **link_p,
                                    struct kvasir_link_address *local_p, char *said);
enum kvasir_status rdma_link_connect(struct kvasir_link *link,
                                     const struct kvasir_link_address *remote, char *said);
void rdma_link_close(struct kvasir_link **link_p);

/* Its connecting has ended: 0, or the system's error. An abandoned link is freed. */
void rdma_link_connected(struct kvasir_link *link, int error);

/* What a work request of that number carries as its id; link and number of it, or NULL: of a link that is
 * gone. */
uint64_t rdma_link_request_id(const struct kvasir_link *link, uint32_t number);
struct kvasir_link *rdma_link_of_request(const struct kvasir_queue *queue, uint64_t id,
                                         uint32_t *number_p);

/* All work requests up to number are done, well. */
void rdma_link_retire(struct kvasir_link *link, uint32_t number);
/* The request of that number failed: the link breaks. */
void rdma_link_fail(struct kvasir_link *link, uint32_t number, enum ibv_wc_status status);
/* Nothing is posted any more; the queue tears the link on its next turn. status and reason are those of
 * the culprit's event. */
void rdma_link_break(struct kvasir_link *link, struct rdma_record *culprit,
                     enum kvasir_status status, const char *reason);
/* Ends a broken link's queue pair, windows and jobs. */
void rdma_link_tear(struct kvasir_link *link);
/* To post again when the completion queue has room. */
void rdma_link_wait(struct kvasir_link *link);
