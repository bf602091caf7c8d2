#pragma once
/* transport – the contract of a module that moves payload between the memories of two machines without
 * either CPU copying it (RDMA). Server and libkvasir use it alike: what one side of it makes, another
 * instance of the same module, on the other machine, talks to. How the two exchange their
 * struct kvasir_link_address is their affair (KV.CONNECT).
 *
 *   device   one port of a network adapter, as listed
 *   domain   a device opened: keys of one domain are nothing to another. Any thread, set-up only
 *   memory   a range registered in a domain, so that the adapter may touch it
 *   queue    where completions arrive: one for each reactor and domain
 *   link     a connection to one peer: a queue pair
 *   window   a revocable key to a part of one memory, good on one link only
 *
 * A queue, its links and its windows belong to one thread; there are no locks. Calls of set-up may
 * block for as long as the adapter and the kernel take (microseconds; registering a second for each
 * 10 GiB); connect, submit, poll, arm never do. Only destroying a queue waits for links that were closed
 * while they were being connected: a second at most.
 *
 * Submitting: a job (transfer, bind, revoke) waits in its link's bounded queue, is posted in order, in
 * as many work requests as it takes with one completion asked for, and ends with exactly one event.
 * Until that event the job, its lists and the memory that they name belong to the transport.
 *
 * A link in error never recovers: its jobs end with a failure, KVASIR_EVENT_LINK_DOWN follows once, and
 * the owner closes it and makes another. Others on the same queue notice nothing. Grants of a link that
 * was closed are gone with it: their windows may not be named again.
 *
 * Order of going: links (close takes their windows' rights away first), queue, memories, domain.
 *
 * said, everywhere: at least KVASIR_SAID_BYTES, filled on failure with a sentence for log and peer that
 * names the device and what to change; untouched on KVASIR_OK. */

#include <kvasir/transport_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the table ---- */

/* All operations are there, or the table is refused. state is what was given at registration. */
struct kvasir_transport_ops {
    size_t struct_size; /* sizeof(struct kvasir_transport_ops) */
    const char *name;   /* "rdma" */

    /* Fills up to capacity and tells how many there are, which may be more, or 0. KVASIR_OK;
     * KVASIR_IO: the list cannot be had. */
    enum kvasir_status (*devices)(void *state, struct kvasir_device *devices, unsigned capacity,
                                  unsigned *count_p, char *said);
    /* The GID to speak from: the one of index, if the device has it, else by rule: RoCE v2 before v1,
     * an IPv4 address before others, and among equals the longest prefix in common with peer (may be
     * NULL). KVASIR_OK, KVASIR_NOT_FOUND. Any thread. */
    enum kvasir_status (*choose_gid)(void *state, const struct kvasir_device *device, int index,
                                     const struct kvasir_gid *peer, struct kvasir_gid *gid_p,
                                     char *said);

    /* Opens a port and tries whether windows do what they must. KVASIR_OK, KVASIR_NOT_FOUND,
     * KVASIR_CLOSED (the port is down), KVASIR_NO_MEMORY, KVASIR_IO. */
    enum kvasir_status (*domain_open)(void *state, const char *device, uint32_t port, int gid_index,
                                      struct kvasir_domain **domain_p, char *said);
    /* Nothing of the domain is in use any more; what is left is logged and never freed. */
    void (*domain_close)(struct kvasir_domain **domain_p);
    const struct kvasir_domain_facts *(*domain_facts)(const struct kvasir_domain *domain);
    /* Readable when domain_poll has something. One thread at a time calls domain_poll. */
    int (*domain_fd)(const struct kvasir_domain *domain);
    unsigned (*domain_poll)(struct kvasir_domain *domain, struct kvasir_event *events,
                            unsigned capacity);

    /* Registers in parts, by several threads. Any thread. KVASIR_OK, KVASIR_INVALID, KVASIR_UNSUPPORTED
     * (dmabuf), KVASIR_NO_MEMORY (memlock: said names the limit and what it must be), KVASIR_IO. */
    enum kvasir_status (*memory_register)(struct kvasir_domain *domain,
                                          const struct kvasir_memory_options *options,
                                          struct kvasir_memory **memory_p, char *said);
    /* No job and no window uses it any more. */
    void (*memory_deregister)(struct kvasir_memory **memory_p);
    /* How the peer names this part: one entry for each registration that it touches. KVASIR_OK,
     * KVASIR_INVALID (not within the memory, or without remote rights), KVASIR_TOO_SMALL. */
    enum kvasir_status (*memory_expose)(const struct kvasir_memory *memory, uint64_t address,
                                        uint64_t bytes, struct kvasir_remote *remotes,
                                        unsigned capacity, unsigned *count_p);

    /* KVASIR_OK, KVASIR_NO_MEMORY, KVASIR_INVALID, KVASIR_IO. */
    enum kvasir_status (*queue_create)(struct kvasir_domain *domain,
                                       const struct kvasir_queue_options *options,
                                       struct kvasir_queue **queue_p, char *said);
    /* Closes links that are still there; what they had under way ends without an event. */
    void (*queue_destroy)(struct kvasir_queue **queue_p);
    /* Readable after arm when there is something to poll, and without it when a link is up or could not be
     * connected; for an event loop. */
    int (*queue_fd)(const struct kvasir_queue *queue);
    /* Up to capacity events; fewer: there are no more now. */
    unsigned (*queue_poll)(struct kvasir_queue *queue, struct kvasir_event *events,
                           unsigned capacity);
    /* Before waiting for the fd. KVASIR_OK: wait; KVASIR_AGAIN: poll first, there is something. */
    enum kvasir_status (*queue_arm)(struct kvasir_queue *queue);
    void (*queue_stats)(const struct kvasir_queue *queue, struct kvasir_queue_stats *stats_p);

    /* A queue pair that is not connected yet. KVASIR_OK, KVASIR_BUSY (links_max), KVASIR_NOT_FOUND (no
     * such GID), KVASIR_NO_MEMORY, KVASIR_IO. */
    enum kvasir_status (*link_create)(struct kvasir_queue *queue,
                                      const struct kvasir_link_options *options,
                                      struct kvasir_link **link_p,
                                      struct kvasir_link_address *local_p, char *said);
    /* Once a link. KVASIR_PENDING: KVASIR_EVENT_LINK_UP will come, while the peer's address is resolved
     * (a second at most); before that the peer has no right to anything, and the link takes no job.
     * KVASIR_INVALID: an address that cannot be, or does not fit (said names device, GID and MTU of both
     * sides); KVASIR_NO_MEMORY. */
    enum kvasir_status (*link_connect)(struct kvasir_link *link,
                                       const struct kvasir_link_address *remote, char *said);
    /* Never fails. When it returns, the peer reaches nothing and the adapter touches nothing through this
     * link; every job still under way has its event waiting in the queue, revokes as KVASIR_OK, the rest
     * as KVASIR_CANCELLED; every window of the link is back in the pool. No LINK_DOWN comes any more.
     * Revoking first, in chains, is faster where many windows are out. */
    void (*link_close)(struct kvasir_link **link_p);

    /* KVASIR_PENDING: an event will come. KVASIR_AGAIN: jobs_max are under way, or no window is free;
     * offer it again after the next event. KVASIR_CLOSED: not connected, or in error; a revoke never
     * gets this answer. KVASIR_INVALID: an empty or contradictory job, a part outside its memory, a
     * right that the memory or the link has not, a grant that is revoked twice or elsewhere.
     * KVASIR_UNSUPPORTED: no windows here; KVASIR_TOO_LARGE: not so many. */
    KVASIR_MUST_USE enum kvasir_status (*submit)(struct kvasir_link *link, struct kvasir_job *job);
};

#ifdef __cplusplus
}
#endif
