#pragma once
/* rdma_job – takes jobs in, refuses what is malformed, and makes their events. Used by the thread of the
 * link's queue. */

#include "rdma_impl.h"

/* Operation of struct kvasir_transport_ops. */
enum kvasir_status rdma_job_submit(struct kvasir_link *link, struct kvasir_job *job);

/* Takes the record out of its link, settles its windows and queues its event. A revoke ends well in any
 * case: whoever calls this after a failure has ended the queue pair and its windows. */
void rdma_job_finish(struct kvasir_link *link, struct rdma_record *record,
                     enum kvasir_status status, const char *reason);
