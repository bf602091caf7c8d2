#pragma once
/* transport_types – what the calls of a transport (transport.h) take and answer: devices, memory, links,
 * jobs and events. Plain data; owns nothing. */

#include <kvasir/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVASIR_SAID_BYTES        512
#define KVASIR_DEVICE_NAME_BYTES 64
#define KVASIR_GID_BYTES         16
#define KVASIR_GIDS_MAX          32
#define KVASIR_GID_INDEX_AUTO    (-1) /* let choose_gid decide */

/* ---- devices ---- */

enum kvasir_link_layer {
    KVASIR_LAYER_ETHERNET = 0,
    KVASIR_LAYER_INFINIBAND = 1
};

enum kvasir_gid_type {
    KVASIR_GID_INFINIBAND = 0,
    KVASIR_GID_ROCE_V1 = 1,
    KVASIR_GID_ROCE_V2 = 2
};

struct kvasir_gid {
    uint32_t index;
    enum kvasir_gid_type type;
    uint8_t raw[KVASIR_GID_BYTES]; /* ::ffff:a.b.c.d where it stands for an IPv4 address */
};

struct kvasir_device {
    char name[KVASIR_DEVICE_NAME_BYTES];
    uint32_t port; /* from 1 */
    enum kvasir_link_layer layer;
    bool up;            /* the port carries data */
    bool windows;       /* claims type 2 windows; a domain knows whether that is true */
    int numa_node;      /* -1: unknown */
    uint32_t lid;       /* 0 on Ethernet */
    uint32_t mtu_bytes; /* in force: 256 to 4096 */
    uint32_t rd_atomic; /* READs at a time, the lesser of asked and answered */
    uint64_t message_bytes_max;
    unsigned gid_count; /* the first so many are valid */
    struct kvasir_gid gids[KVASIR_GIDS_MAX];
};

/* ---- memory ---- */

/* What memory may be used for. The owner's own transfers always may; 0 gives no peer any right. */
#define KVASIR_RIGHT_REMOTE_READ  (1U << 0)
#define KVASIR_RIGHT_REMOTE_WRITE (1U << 1)
#define KVASIR_RIGHT_WINDOWS      (1U << 2) /* windows can be bound to it */
#define KVASIR_RIGHT_RELAXED      (1U << 3) /* payload only: writes may become visible in any order */
#define KVASIR_RIGHT_DMABUF       (1U << 4) /* a device's memory, by dmabuf_fd */
#define KVASIR_RIGHT_READ_ONLY    (1U << 5) /* the mapping cannot be written; peers read it at most */

struct kvasir_memory_options {
    void *base;
    size_t bytes;
    unsigned rights;
    unsigned threads; /* 0: as many as pay, 8 at most */
    int dmabuf_fd;    /* with KVASIR_RIGHT_DMABUF; borrowed for the call */
    uint64_t dmabuf_offset;
    /* Called by the caller's thread after each part; NULL: not wanted. */
    void (*progress)(void *argument, size_t done_bytes, size_t bytes);
    void *argument;
};

struct kvasir_domain;
struct kvasir_memory;
struct kvasir_queue;
struct kvasir_link;
struct kvasir_window;

/* A part of the owner's memory. A list of them need not know how a memory is cut for the adapter. */
struct kvasir_local {
    const struct kvasir_memory *memory;
    uint64_t address; /* within the memory; as the owner sees it */
    uint64_t bytes;
};

/* A part of the peer's memory. */
struct kvasir_remote {
    uint64_t address; /* as the peer sees it */
    uint64_t bytes;
    uint32_t key;
};

/* ---- domains, queues, links ---- */

struct kvasir_domain_facts {
    struct kvasir_device device;            /* as it was when the domain was opened */
    bool windows;                           /* bind, use and revocation were tried and held */
    char windows_reason[KVASIR_SAID_BYTES]; /* why not; "" if they work */
};

struct kvasir_queue_options {
    unsigned links_max;
    unsigned jobs_max;    /* of all links together */
    unsigned windows_max; /* allocated now; fewer if the adapter has fewer, see stats */
};

struct kvasir_link_options {
    uint64_t cookie;       /* comes back in events that concern the link */
    int gid_index;         /* KVASIR_GID_INDEX_AUTO: by choose_gid's rule, without a peer */
    uint32_t mtu_bytes;    /* 0: the device's */
    unsigned rights;       /* REMOTE_READ, REMOTE_WRITE: what the peer may do at all, given a key */
    unsigned depth;        /* work requests at a time; 0: 256 */
    unsigned jobs_max;     /* waiting or posted at a time; 0: 256 */
    uint8_t traffic_class; /* of its packets: DSCP times four, and ECN; 0: the device's */
};

/* What a peer must know to connect. */
struct kvasir_link_address {
    char device[KVASIR_DEVICE_NAME_BYTES]; /* for messages only; may be "" */
    enum kvasir_link_layer layer;
    uint32_t queue_pair;      /* 24 bits */
    uint32_t packet_sequence; /* 24 bits, random */
    uint32_t lid;
    uint32_t mtu_bytes; /* the lower of both is used */
    uint32_t rd_atomic; /* READs at a time that it answers */
    struct kvasir_gid gid;
};

/* ---- jobs ---- */

enum kvasir_job_kind {
    KVASIR_JOB_READ = 0,  /* remotes to locals */
    KVASIR_JOB_WRITE = 1, /* locals to remotes */
    KVASIR_JOB_BIND = 2,  /* grants get windows and keys */
    KVASIR_JOB_REVOKE = 3 /* grants lose them */
};

/* A right to a part of one memory that is to be given to the peer of one link, and taken back. */
struct kvasir_grant {
    struct kvasir_local local; /* 1 byte at least; a part that spans two registrations is refused */
    unsigned rights;           /* REMOTE_READ, REMOTE_WRITE or both */
    struct kvasir_window *window; /* filled by submitting a bind; NULL after a revoke's event */
    uint32_t key; /* filled with window; tell the peer after the bind's event, not before */
};

struct kvasir_job {
    enum kvasir_job_kind kind;
    uint64_t cookie; /* comes back in the event */
    /* READ and WRITE: both lists have the same number of bytes, 1 at least; they may be cut
     * differently. */
    const struct kvasir_local *locals;
    unsigned local_count;
    const struct kvasir_remote *remotes;
    unsigned remote_count;
    /* BIND and REVOKE. */
    struct kvasir_grant *grants;
    unsigned grant_count;
};

enum kvasir_event_kind {
    KVASIR_EVENT_JOB = 0,       /* cookie: the job's; no byte of it moves any more */
    KVASIR_EVENT_LINK_DOWN = 1, /* cookie: the link's; after the last of its jobs */
    KVASIR_EVENT_PORT_DOWN = 2, /* domain_poll only, as are those below */
    KVASIR_EVENT_PORT_UP = 3,
    KVASIR_EVENT_DEVICE_GONE = 4, /* close what uses the domain, at once */
    KVASIR_EVENT_LINK_BROKEN = 5, /* cookie: the link's; tell its owner, who closes it */
    KVASIR_EVENT_LINK_UP = 6      /* cookie: the link's; the end of its connecting, see status */
};

/* Of a job: KVASIR_OK; KVASIR_DENIED: the peer's adapter refused the key, the range or the right;
 * KVASIR_TIMEOUT: the peer does not answer; KVASIR_CLOSED: an earlier one failed, so this one was
 * dropped; KVASIR_CANCELLED: the link was closed; KVASIR_INVALID: our adapter refused it; KVASIR_IO.
 * A bind that failed has given no right and keeps no window. A revoke always ends with KVASIR_OK: the
 * rights are gone, whatever became of the link. Of a LINK_UP: KVASIR_OK says that the addresses fit, not
 * that the peer answers, which the first job will tell; KVASIR_TIMEOUT, KVASIR_IO: there is no way to the
 * peer, reason is a sentence with device, GID and MTU of both sides, and the link can only be closed. */
struct kvasir_event {
    enum kvasir_event_kind kind;
    enum kvasir_status status;
    uint64_t cookie;
    const char
        *reason; /* in the adapter's words; never NULL. Static; of a LINK_UP good until its link is
                           closed */
};

struct kvasir_queue_stats {
    uint64_t work_requests, doorbells, completions;
    uint64_t read_bytes, written_bytes, inline_bytes;
    uint64_t jobs, jobs_failed, links_failed;
    uint64_t windows, windows_free, binds, revocations, windows_replaced;
};

#ifdef __cplusplus
}
#endif
