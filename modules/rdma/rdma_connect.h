#pragma once
/* rdma_connect – connects links without holding up their queue's thread: the system may take a second to
 * resolve the peer's address, so that each link has a thread of its own meanwhile, some at a time. Called by
 * the queue's thread. Owns the pipe by which those threads report, and the descriptor that watches it and
 * the completions. */

#include "rdma_impl.h"

/* The queue has its completion channel. 0, or the system's error. */
int rdma_connect_setup(struct kvasir_queue *queue);
/* All links are closed; waits for threads that are still at it, a second at most. */
void rdma_connect_teardown(struct kvasir_queue *queue);

/* The link's peer is known: it is connected from here on. 0, or the system's error: no thread. */
int rdma_connect_start(struct kvasir_link *link);
/* A link that is being connected shall not be. True: its thread is at it, and it is freed when that ends. */
bool rdma_connect_abandon(struct kvasir_link *link);
/* Takes what threads have reported: their links are up, or have failed. */
void rdma_connect_collect(struct kvasir_queue *queue);
