#pragma once
/* test_rdma_jobs – jobs between the two ends of a rig, and their events. Used by the thread of a test. */

#include "test_rdma_rig.h"

#include <poll.h>

static inline bool rig_readable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, 0) == 1;
}

/* The next event of an end; there must be one, maybe after some turns. */
static inline struct kvasir_event rig_event(struct rig *rig, struct rig_end *end)
{
    struct kvasir_event event = {.reason = NULL};
    while (rig->ops->queue_poll(end->queue, &event, 1) == 0) {
        assert_true(rig->ops->queue_arm(end->queue) == KVASIR_AGAIN ||
                    rig_readable(rig->ops->queue_fd(end->queue)));
    }
    assert_non_null(event.reason);
    return event;
}

static inline bool rig_idle(struct rig *rig, struct rig_end *end)
{
    struct kvasir_event event;
    return rig->ops->queue_poll(end->queue, &event, 1) == 0;
}

/* Submits a job that ends at once; how it ended. */
static inline enum kvasir_status rig_run(struct rig *rig, struct rig_end *end,
                                         struct kvasir_link *link, struct kvasir_job *job)
{
    struct kvasir_event event;
    job->cookie = 77;
    assert_int_equal(rig->ops->submit(link, job), KVASIR_PENDING);
    event = rig_event(rig, end);
    assert_int_equal(event.kind, KVASIR_EVENT_JOB);
    assert_int_equal(event.cookie, 77);
    return event.status;
}

/* Moves bytes between the same places of both memories by a key to the other's. */
static inline enum kvasir_status rig_move(struct rig *rig, struct rig_end *end,
                                          enum kvasir_job_kind kind, uint32_t key, size_t at,
                                          size_t bytes)
{
    const struct rig_end *other = end == &rig->owner ? &rig->peer : &rig->owner;
    const struct kvasir_local local = {
        .memory = end->memory, .address = (uintptr_t)end->bytes + at, .bytes = bytes};
    const struct kvasir_remote remote = {
        .address = (uintptr_t)other->bytes + at, .bytes = bytes, .key = key};
    struct kvasir_job job = {
        .kind = kind, .locals = &local, .local_count = 1, .remotes = &remote, .remote_count = 1};
    return rig_run(rig, end, end->link, &job);
}

/* A grant to a part of the owner's memory. */
static inline struct kvasir_grant rig_grant(const struct rig *rig, unsigned rights, size_t at,
                                            size_t bytes)
{
    return (struct kvasir_grant){.local = {.memory = rig->owner.memory,
                                           .address = (uintptr_t)rig->owner.bytes + at,
                                           .bytes = bytes},
                                 .rights = rights};
}

static inline enum kvasir_status rig_bind(struct rig *rig, struct kvasir_grant *grants,
                                          unsigned count)
{
    struct kvasir_job job = {.kind = KVASIR_JOB_BIND, .grants = grants, .grant_count = count};
    return rig_run(rig, &rig->owner, rig->owner.link, &job);
}

static inline enum kvasir_status rig_revoke(struct rig *rig, struct kvasir_grant *grants,
                                            unsigned count)
{
    struct kvasir_job job = {.kind = KVASIR_JOB_REVOKE, .grants = grants, .grant_count = count};
    return rig_run(rig, &rig->owner, rig->owner.link, &job);
}
