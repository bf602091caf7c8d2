#pragma once
/* rdma_chain – turns jobs into chains of work requests and posts them. Used by the thread of the link's
 * queue. */

#include "rdma_impl.h"

/* Posts what the link's jobs have to post and adapter and completion queue have room for. Where it is the
 * latter that has none, the link is put on the queue's waiting list. The adapter refuses: the link breaks. */
void rdma_chain_post(struct kvasir_link *link);
