#pragma once
/* test_rdma_rig – the rdma module on the fake libibverbs, with two ends that are linked: an owner, as the
 * server, whose memory has no remote rights, and a peer, as the client, whose memory has all. Used by the
 * thread of a test; owns all that it opens. */

#include "../fake/fake_verbs.h"

#include <kvasir/module.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RIG_MEMORY_BYTES (256U << 10)
#define RIG_EVENTS_MAX   64
#define RIG_LIMIT_MS     60000
#define RIG_RIGHTS       (KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE)

struct rig_end {
    uint8_t *bytes; /* owned; RIG_MEMORY_BYTES */
    struct kvasir_domain *domain;
    struct kvasir_memory *memory;
    struct kvasir_queue *queue;
    struct kvasir_link *link;
    uint32_t key; /* of all its memory, when it has remote rights and one part */
};

struct rig {
    struct kvasir_host host;
    const struct kvasir_transport_ops *ops;
    void *state;  /* of ops */
    void *module; /* the module's own */
    struct rig_end owner;
    struct rig_end peer;
    char said[KVASIR_SAID_BYTES];
    char logged[KVASIR_SAID_BYTES]; /* the last line of warn or error */
    /* Takes the events that come while a link connects; NULL: there must be none. */
    void (*take)(void *taker, const struct rig_end *end, const struct kvasir_event *event);
    void *taker;
};

/* How the ends are made; 0: as usual. */
struct rig_options {
    struct fake_options fake;
    unsigned depth;
    unsigned jobs_max;
    unsigned windows_max;
};

static inline void rig_log(const struct kvasir_host *host, enum kvasir_log_level level,
                           const char *text)
{
    struct rig *rig = host->context;
    if (level <= KVASIR_LOG_WARN) {
        (void)snprintf(rig->logged, sizeof(rig->logged), "%s", text);
    }
}

static inline enum kvasir_status rig_register(const struct kvasir_host *host,
                                              const struct kvasir_transport_ops *ops, void *state)
{
    struct rig *rig = host->context;
    rig->ops = ops;
    rig->state = state;
    return KVASIR_OK;
}

/* The module alone, set up. */
static inline enum kvasir_status rig_load(struct rig *rig, const struct fake_options *options)
{
    memset(rig, 0, sizeof(*rig));
    fake_start(options);
    rig->host = (struct kvasir_host){.struct_size = sizeof(rig->host),
                                     .server_version = "0.0.0",
                                     .context = rig,
                                     .log = rig_log,
                                     .register_transport = rig_register};
    return kvasir_module.setup(&rig->host, &rig->module);
}

static inline void rig_unload(struct rig *rig)
{
    const char *wrong;
    kvasir_module.teardown(rig->module);
    wrong = fake_finish();
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
}

static inline enum kvasir_status rig_open_end(struct rig *rig, struct rig_end *end,
                                              const char *device, unsigned rights,
                                              const struct rig_options *options)
{
    const struct kvasir_memory_options memory = {
        .base = end->bytes, .bytes = RIG_MEMORY_BYTES, .rights = rights, .threads = 1};
    const struct kvasir_queue_options queue = {
        .links_max = 4,
        .jobs_max = options->jobs_max != 0 ? options->jobs_max : 512,
        .windows_max = options->windows_max != 0 ? options->windows_max : 32};
    struct kvasir_remote remote;
    unsigned count = 0;
    enum kvasir_status status = rig->ops->domain_open(rig->state, device, 1, KVASIR_GID_INDEX_AUTO,
                                                      &end->domain, rig->said);
    if (status == KVASIR_OK) {
        status = rig->ops->memory_register(end->domain, &memory, &end->memory, rig->said);
    }
    if (status == KVASIR_OK) {
        status = rig->ops->queue_create(end->domain, &queue, &end->queue, rig->said);
    }
    if (status == KVASIR_OK && (rights & RIG_RIGHTS) != 0 &&
        rig->ops->memory_expose(end->memory, (uintptr_t)end->bytes, RIG_MEMORY_BYTES, &remote, 1,
                                &count) == KVASIR_OK) {
        end->key = remote.key;
    }
    return status;
}

/* Waits for the end of a link's connecting. */
static inline enum kvasir_status rig_await_up(struct rig *rig, struct rig_end *end)
{
    struct kvasir_event event = {.reason = NULL};
    for (;;) {
        if (rig->ops->queue_poll(end->queue, &event, 1) == 0) {
            struct pollfd wait = {.fd = rig->ops->queue_fd(end->queue), .events = POLLIN};
            assert_int_equal(poll(&wait, 1, RIG_LIMIT_MS), 1);
        } else if (event.kind != KVASIR_EVENT_LINK_UP && rig->take != NULL) {
            rig->take(rig->taker, end, &event);
        } else {
            break;
        }
    }
    assert_int_equal(event.kind, KVASIR_EVENT_LINK_UP);
    if (event.status != KVASIR_OK) {
        (void)snprintf(rig->said, sizeof(rig->said), "%s", event.reason);
    }
    return event.status;
}

/* Connects a link and waits for it. */
static inline enum kvasir_status rig_connect(struct rig *rig, struct rig_end *end,
                                             struct kvasir_link *link,
                                             const struct kvasir_link_address *remote)
{
    enum kvasir_status status = rig->ops->link_connect(link, remote, rig->said);
    return status == KVASIR_PENDING ? rig_await_up(rig, end) : status;
}

/* A pair of links, connected. owner_p and peer_p stay NULL on failure. */
static inline enum kvasir_status rig_link(struct rig *rig, const struct rig_options *options,
                                          struct kvasir_link **owner_p, struct kvasir_link **peer_p)
{
    struct kvasir_link_options wanted = {.cookie = 1000,
                                         .gid_index = KVASIR_GID_INDEX_AUTO,
                                         .rights = RIG_RIGHTS,
                                         .depth = options->depth,
                                         .jobs_max = options->jobs_max};
    struct kvasir_link_address owner;
    struct kvasir_link_address peer;
    enum kvasir_status status =
        rig->ops->link_create(rig->owner.queue, &wanted, owner_p, &owner, rig->said);
    wanted.cookie = 2000;
    if (status == KVASIR_OK) {
        status = rig->ops->link_create(rig->peer.queue, &wanted, peer_p, &peer, rig->said);
    }
    if (status == KVASIR_OK) {
        status = rig_connect(rig, &rig->owner, *owner_p, &peer);
    }
    if (status == KVASIR_OK) {
        status = rig_connect(rig, &rig->peer, *peer_p, &owner);
    }
    return status;
}

/* Everything; what was opened before a failure stays for rig_close. */
static inline enum kvasir_status rig_open(struct rig *rig, const struct rig_options *options)
{
    enum kvasir_status status = rig_load(rig, &options->fake);
    /* The ends' own memory is not the module's: it never fails. */
    rig->owner.bytes = malloc(RIG_MEMORY_BYTES);
    rig->peer.bytes = malloc(RIG_MEMORY_BYTES);
    memset(rig->owner.bytes, 0, RIG_MEMORY_BYTES);
    memset(rig->peer.bytes, 0, RIG_MEMORY_BYTES);
    if (status == KVASIR_OK) {
        status = rig_open_end(rig, &rig->owner, "fake0", KVASIR_RIGHT_WINDOWS, options);
    }
    if (status == KVASIR_OK) {
        status = rig_open_end(rig, &rig->peer, "fake1", RIG_RIGHTS, options);
    }
    return status == KVASIR_OK ? rig_link(rig, options, &rig->owner.link, &rig->peer.link) : status;
}

static inline void rig_close_end(struct rig *rig, struct rig_end *end)
{
    if (rig->ops != NULL) {
        rig->ops->link_close(&end->link);
        rig->ops->queue_destroy(&end->queue);
        rig->ops->memory_deregister(&end->memory);
        rig->ops->domain_close(&end->domain);
    }
    free(end->bytes);
    end->bytes = NULL;
}

static inline void rig_close(struct rig *rig)
{
    rig_close_end(rig, &rig->peer);
    rig_close_end(rig, &rig->owner);
    rig_unload(rig);
}
