#pragma once
/* rdma_window – the pool of memory windows of a queue, allocated at start. Used by the queue's thread. A
 * window's state is kept here and asked before anything is posted: an adapter is never told to bind what
 * is bound or to revoke what is not. */

#include "rdma_impl.h"

/* As many as wanted, or as the adapter has. KVASIR_OK, KVASIR_NO_MEMORY (of the process). */
enum kvasir_status rdma_window_setup(struct rdma_windows *windows, struct kvasir_domain *domain,
                                     unsigned wanted);
void rdma_window_teardown(struct rdma_windows *windows);

/* A free window, any one of them, for a bind through this link; there must be one. key_p: a new key, whose
 * low bits nobody can foretell, and not the one before. */
struct kvasir_window *rdma_window_get(struct rdma_windows *windows, struct kvasir_link *link,
                                      uint32_t *key_p);
/* Takes back what is revoked or lost. */
void rdma_window_put(struct rdma_windows *windows, struct kvasir_window **window_p);

/* Ends the rights of all windows of a link whose queue pair has been stopped; they become lost. Returns
 * how many there were. */
unsigned rdma_window_lose(struct kvasir_link *link);

/* 24 unforeseeable bits. */
uint32_t rdma_window_random(struct rdma_windows *windows);
