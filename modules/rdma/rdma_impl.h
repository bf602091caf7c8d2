#pragma once
/* rdma_impl – the structures behind the handles of kvasir/transport.h, for the units of this module
 * only. A domain and its memories are set-up state that any thread may read; a queue and all that hangs
 * off it belong to the thread that drives it. */

#include <kvasir/module.h>

#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/queue.h>

#define RDMA_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* What an adapter's own limits are cut to: longer chains and lists gain nothing. */
#define RDMA_CHAIN_MAX         64
#define RDMA_SGES_MAX          16
#define RDMA_DEPTH_DEFAULT     256
#define RDMA_JOBS_DEFAULT      256
#define RDMA_LINKS_MAX         65536U
#define RDMA_COMPLETIONS_MAX   16384
#define RDMA_MESSAGE_BYTES_MAX (UINT64_C(1) << 30)
/* A queue pair that cannot have this much goes without: 220 bytes fit a work request of 256 bytes. */
#define RDMA_INLINE_BYTES 220
/* A registration's length is a multiple of a huge page, so no page of the store, which is as large, crosses
 * the edge between two. */
#define RDMA_PAGE_BYTES (UINT64_C(2) << 20)
#define RDMA_PART_BYTES (UINT64_C(1) << 30)

struct rdma_module {
    const struct kvasir_host *host; /* borrowed until teardown */
};

struct kvasir_domain {
    const struct rdma_module *module; /* borrowed */
    struct ibv_context *context;      /* owned */
    struct ibv_pd *pd;                /* owned */
    struct ibv_device_attr attributes;
    struct kvasir_domain_facts facts;
};

struct kvasir_memory {
    struct kvasir_domain *domain; /* borrowed: outlives us */
    uint64_t base;
    uint64_t bytes;
    unsigned rights;
    uint64_t part_bytes; /* of each part but the last */
    unsigned part_count;
    struct ibv_mr *parts[]; /* owned */
};

enum rdma_window_state {
    RDMA_WINDOW_FREE,     /* in the pool, unbound; next: binding */
    RDMA_WINDOW_BINDING,  /* its bind is posted or waits; next: bound, or lost with the link */
    RDMA_WINDOW_BOUND,    /* the peer may use it; next: revoking, or lost */
    RDMA_WINDOW_REVOKING, /* its invalidation is posted or waits; next: free */
    RDMA_WINDOW_LOST      /* the link broke: no right is left, a grant still names it; next: free */
};

struct kvasir_window {
    TAILQ_ENTRY(kvasir_window) entry; /* in its link's list, unless free */
    enum rdma_window_state state;
    struct ibv_mw *mw;        /* owned; NULL: lost, and the adapter had no other */
    struct kvasir_link *link; /* borrowed: whose peer may use it; NULL when free */
};
TAILQ_HEAD(rdma_window_list, kvasir_window);

struct rdma_windows {
    struct kvasir_domain *domain; /* borrowed */
    unsigned count;               /* of all */
    unsigned free_count;
    unsigned lost_count;         /* could not be replaced */
    struct kvasir_window *all;   /* owned */
    struct kvasir_window **free; /* owned; the first free_count are free, in no order */
    uint8_t random[256];         /* bytes for keys and choices, used once each */
    unsigned random_left;
};

/* A job from submit until its event is taken; also a link's first event and its last. */
struct rdma_record {
    TAILQ_ENTRY(rdma_record) entry; /* in its link's list, then in its queue's done list */
    enum kvasir_event_kind kind;
    struct kvasir_job job; /* its lists are borrowed until the event */
    /* How far posting has come: the next entry of each list, and what was used of it. */
    unsigned local_index;
    unsigned remote_index;
    unsigned grant_index;
    uint64_t local_used;
    uint64_t remote_used;
    uint32_t end; /* number of the work request behind its last one; of use when posted */
    bool posted;  /* all of it */
    enum kvasir_status status;
    const char *reason; /* static */
};
TAILQ_HEAD(rdma_record_list, rdma_record);

enum rdma_link_state {
    RDMA_LINK_CREATED,    /* waits for connect */
    RDMA_LINK_CONNECTING, /* waits for its thread, or for one; next: ready, torn, abandoned */
    RDMA_LINK_READY,      /* jobs are posted; next: broken */
    RDMA_LINK_BROKEN,     /* waits for the queue to tear it; nothing is posted any more */
    RDMA_LINK_TORN,       /* its queue pair is gone; waits for close */
    RDMA_LINK_ABANDONED   /* closed while its thread was at it; freed when that has ended */
};

struct kvasir_link {
    struct kvasir_queue *queue; /* borrowed: outlives us */
    struct ibv_qp *qp;          /* owned; NULL when torn */
    enum rdma_link_state state;
    uint64_t cookie;
    uint32_t slot; /* in the queue's table */
    unsigned rights;
    unsigned depth;
    unsigned inline_bytes;
    unsigned jobs_max;
    uint8_t traffic_class;
    unsigned job_count;
    /* Work requests are numbered; those from done up to next are with the adapter. */
    uint32_t next;
    uint32_t done;
    struct rdma_record_list records; /* in order of submission; not yet done */
    struct rdma_record *posting;     /* the first that is not all posted; borrowed from records */
    struct rdma_record *culprit;     /* whose work request broke the link; likewise */
    struct rdma_window_list windows; /* not free, and ours */
    TAILQ_ENTRY(kvasir_link) waiting_entry;
    TAILQ_ENTRY(kvasir_link) broken_entry;
    bool waiting;            /* in the queue's list: for room in the completion queue */
    bool down_waiting;       /* down is in the done list */
    struct rdma_record down; /* the event LINK_DOWN */
    bool up_waiting;         /* likewise */
    struct rdma_record up;   /* the event LINK_UP */
    TAILQ_ENTRY(kvasir_link) connect_entry; /* in the queue's list: for a thread */
    pthread_t connect_thread;               /* while connect_running */
    bool connect_running;
    int connect_error;            /* the thread's; of use when it has reported */
    char said[KVASIR_SAID_BYTES]; /* why it could not be connected */
    struct kvasir_link_address local;
    struct kvasir_link_address remote; /* of use from connecting on */
};
TAILQ_HEAD(rdma_link_list, kvasir_link);

/* A place for a link; the generation tells completions of a former one. */
struct rdma_slot {
    struct kvasir_link *link; /* owned; NULL: free */
    uint16_t generation;
};

/* Links that are being connected. */
struct rdma_connects {
    int watch_fd;     /* owned; readable when a completion or a report has come */
    int ends[2];      /* owned: the pipe of reports, each a link */
    unsigned running; /* threads */
    struct rdma_link_list waiting;
};

struct kvasir_queue {
    struct kvasir_domain *domain;     /* borrowed: outlives us */
    struct ibv_comp_channel *channel; /* owned */
    struct ibv_cq *cq;                /* owned */
    bool armed;                       /* the channel may have an event for us */
    bool more;                        /* completions were left for the next turn */
    unsigned credits;                 /* work requests that the completion queue has room for */
    unsigned links_max;
    unsigned link_count;
    struct rdma_slot *slots;        /* owned; links_max */
    unsigned sges_read_max;         /* per work request */
    unsigned sges_write_max;        /* likewise */
    uint64_t message_bytes_max;     /* likewise */
    struct rdma_record *records;    /* owned: all of them */
    struct rdma_record_list unused; /* of records */
    struct rdma_record_list done;   /* events that wait to be taken */
    struct rdma_link_list broken;
    struct rdma_link_list waiting;
    struct rdma_connects connects;
    struct rdma_windows windows;
    struct kvasir_queue_stats stats;
    struct ibv_send_wr chain[RDMA_CHAIN_MAX];
    struct ibv_sge sges[RDMA_CHAIN_MAX][RDMA_SGES_MAX];
};
