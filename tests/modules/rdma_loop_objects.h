#pragma once
/* rdma_loop_objects – what stands behind the handles that rdma_loop gives out. Part of rdma_loop.c alone. */

#include "rdma_loop_table.h"

struct kvasir_domain {
    struct state *state;
    struct kvasir_domain_facts facts;
    int fd;
    bool told;
};

struct kvasir_memory {
    struct kvasir_domain *domain;
    uint64_t base, bytes;
    unsigned rights;
    struct key *key; /* NULL: no remote rights */
};

struct kvasir_link {
    struct kvasir_queue *queue;
    struct kvasir_link *next;
    struct kvasir_link_options options;
    struct pair *pair;
    struct table *peer; /* mapped */
    pid_t peer_process;
    uint32_t peer_number;
    unsigned job_count;
    bool connected, failed, told;
    bool connecting; /* its event is due when connecting is not slow */
    enum kvasir_status connect_status;
    const char *connect_reason;
};

struct entry {
    struct kvasir_link *link; /* NULL: cancelled */
    struct kvasir_job *job;
    int64_t due_ns;
};

struct kvasir_queue {
    struct kvasir_domain *domain;
    struct kvasir_queue_options options;
    struct kvasir_link *links;
    unsigned link_count;
    struct entry *entries; /* in the order of submission */
    unsigned entry_count;
    int fd;
    struct kvasir_queue_stats stats;
};
