#include "client/engine.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "client/borrow.h"
#include "client/bounce.h"
#include "client/client_impl.h"
#include "client/pipeline.h"

#include <errno.h>
#include <poll.h>

/* How long a client looks for an answer before it sleeps. */
#define BUSY_POLL_US 30
/* Between two looks at copies to and from a device. */
#define COPY_LOOK_US 20
/* Looks at the rings before the core is offered to others. */
#define RING_LOOKS 32

/* A connection unused for this long may have been closed by the server meanwhile: look first. */
#define ENGINE_IDLE_US 100000

static void start_or_refuse(struct link *link, int64_t now_us)
{
    struct kvasir_client *client = link->client;
    if (now_us >= client->retry_at_us) {
        link_start(link, now_us);
        return;
    }
    client_explain(client, "%s is out of reach; the next attempt is due in %lld ms",
                   client->shared.text, (long long)(client->retry_at_us - now_us) / 1000 + 1);
    list_foreach_safe (member, after, &client->requests) {
        struct kvasir_request *request = list_entry(member, struct kvasir_request, member);
        job_fail_queue(request, link->index, KVASIR_CLOSED);
    }
}

/* One link's part of a round, before waiting. */
static void advance(struct link *link, int64_t now_us)
{
    bool has_work = pipeline_has_work(link);
    if (link->state == LINK_UP && has_work && link->command_count == 0 &&
        now_us - link->last_receive_us > ENGINE_IDLE_US &&
        now_us - link->last_look_us > ENGINE_IDLE_US) {
        link->last_look_us = now_us;
        channel_listen(&link->channel);
        link_receive(link, now_us);
    }
    if (link->state == LINK_DOWN && has_work) {
        start_or_refuse(link, now_us);
    }
    if ((link->state == LINK_CONNECTING || link->state == LINK_GREETING) &&
        now_us >= link->attempt_deadline_us) {
        client_explain(link->client, "%s: no answer to the greeting in %u ms",
                       link->client->shared.text, link->client->options.connect_timeout_ms);
        link_attempt_failed(link, KVASIR_TIMEOUT, now_us);
    }
    if (link->state == LINK_UP) {
        pipeline_fill(link, now_us);
    }
    link_flush(link, now_us);
}

/* ---- ending requests ----------------------------------------------------------------------- */

static bool is_busy_with(struct link *link, const struct kvasir_request *request)
{
    for (uint32_t i = 0; i < link->command_count; i++) {
        if (link_command_at(link, i)->request == request) {
            return true;
        }
    }
    return false;
}

/* Whether the link still needs the request's memory, or is in the middle of a reply to it. */
static bool is_entangled(struct link *link, const struct kvasir_request *request)
{
    for (uint32_t i = 0; i < link->command_count; i++) {
        const struct link_command *command = link_command_at(link, i);
        if (command->request != request) {
            continue;
        }
        if (command->out_end > link->outbox.sent_bytes ||
            (i == 0 && (link->answer.begun || link->inbox_tail > link->inbox_head))) {
            return true;
        }
    }
    return false;
}

static void orphan(struct link *link, struct kvasir_request *request, int64_t now_us)
{
    for (uint32_t i = 0; i < link->command_count; i++) {
        struct link_command *command = link_command_at(link, i);
        if (command->request != request) {
            continue;
        }
        if (command->kind == LINK_RESERVE || command->kind == LINK_COMMIT) {
            borrow_staging_done(link, request, command->first);
        } else if (command->kind == LINK_PUT_FROM || command->kind == LINK_GET_INTO) {
            queue_pair_break_some(link, command->pair_mask,
                                  now_us); /* the server must not touch the caller's memory now */
        }
        command->request = NULL;
    }
}

/* Reservations whose commit was still to be sent. */
static void abort_queued_commits(struct link *link, struct kvasir_request *request)
{
    uint32_t index = request->queues[link->index].head;
    while (index != JOB_NONE) {
        if (request->work[index].mode == JOB_COMMIT) {
            borrow_staging_done(link, request, index);
            pipeline_abort(link, request->work[index].grant_id);
        }
        index = request->work[index].next;
    }
}

void engine_withdraw(struct kvasir_client *client, struct kvasir_request *request,
                     enum kvasir_status status)
{
    for (uint32_t i = 0; i < client->link_count && !request->finished; i++) {
        struct link *link = client->links[i];
        if (is_entangled(link, request)) {
            link_drop(link, KVASIR_CLOSED);
        } else {
            orphan(link, request, clock_mono_us());
            rdma_move_withdraw(link, request, clock_mono_us());
            abort_queued_commits(link, request);
        }
    }
    if (!request->finished) {
        job_fail_all(request, status);
    }
}

/* Nothing came for the later half of the request's time, or not even a greeting. */
static bool is_silent(const struct link *link, const struct kvasir_request *request, int64_t now_us)
{
    return link->state != LINK_UP ||
           now_us - link->last_receive_us >= (now_us - request->start_us) / 2;
}

/* A server that did not answer in time is not asked again at once: what waited on it is dropped, and
 * so is every other connection that has been silent for as long. */
static void expire(struct kvasir_client *client, struct kvasir_request *request, int64_t now_us)
{
    client_explain(client, "%s: no answer in %lld ms", client->shared.text,
                   (long long)(request->deadline_us - request->start_us) / 1000);
    bool silent = false;
    for (uint32_t i = 0; i < client->link_count; i++) {
        struct link *link = client->links[i];
        bool waiting = request->queues[i].head != JOB_NONE;
        if (link->state != LINK_DOWN && (is_busy_with(link, request) || waiting)) {
            silent = silent || is_silent(link, request, now_us);
            link_drop(link, KVASIR_TIMEOUT);
        }
        rdma_move_withdraw(link, request, now_us);
    }
    for (uint32_t i = 0; silent && i < client->link_count; i++) {
        struct link *link = client->links[i];
        if (link->state != LINK_DOWN && is_silent(link, request, now_us)) {
            link_drop(link, KVASIR_TIMEOUT);
        }
    }
    if (silent) {
        client_back_off(client, now_us);
    }
    if (!request->finished) {
        job_fail_all(request, KVASIR_TIMEOUT);
    }
}

static void expire_requests(struct kvasir_client *client, int64_t now_us)
{
    list_foreach_safe (member, after, &client->requests) {
        struct kvasir_request *request = list_entry(member, struct kvasir_request, member);
        if (now_us >= request->deadline_us) {
            expire(client, request, now_us);
            /* Others may have finished with it; the next round looks at the rest. */
            return;
        }
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

static int64_t earliest_deadline(const struct kvasir_client *client, int64_t deadline_us)
{
    list_foreach (member, &client->requests) {
        const struct kvasir_request *request = list_entry(member, struct kvasir_request, member);
        if (request->deadline_us < deadline_us) {
            deadline_us = request->deadline_us;
        }
    }
    for (uint32_t i = 0; i < client->link_count; i++) {
        const struct link *link = client->links[i];
        if ((link->state == LINK_CONNECTING || link->state == LINK_GREETING) &&
            link->attempt_deadline_us < deadline_us) {
            deadline_us = link->attempt_deadline_us;
        }
    }
    return deadline_us;
}

static short events_of(const struct link *link)
{
    if (link->state == LINK_CONNECTING) {
        return POLLOUT;
    }
    bool sending = !outbox_is_empty(&link->outbox);
    if (link->command_count == 0 && !sending) {
        return 0;
    }
    /* The bell tells when a ring has room. */
    return (short)(POLLIN | (sending && !link->channel.has_rings ? POLLOUT : 0));
}

/* Rounds up, so that a deadline has passed when the wait for it is over. */
static int wait_ms(int64_t until_us, int64_t now_us)
{
    if (until_us <= now_us) {
        return 0;
    }
    int64_t left_ms = (until_us - now_us + 999) / 1000;
    return left_ms < INT32_MAX ? (int)left_ms : INT32_MAX;
}

/* The links that wait for something. */
struct waiters {
    struct pollfd polled[GREETING_REACTORS_MAX + RAILS_MAX]; /* the devices' behind the links' */
    struct link *links[GREETING_REACTORS_MAX];
    nfds_t count;
    nfds_t ring_count; /* of them, those with rings */
};

static void collect_waiters(struct kvasir_client *client, struct waiters *waiters)
{
    waiters->count = 0;
    waiters->ring_count = 0;
    for (uint32_t i = 0; i < client->link_count; i++) {
        struct link *link = client->links[i];
        short events = events_of(link);
        if (link->channel.fd >= 0 && events != 0) {
            waiters->links[waiters->count] = link;
            waiters->polled[waiters->count] =
                (struct pollfd){.fd = link->channel.fd, .events = events};
            waiters->count++;
            waiters->ring_count += link->channel.has_rings ? 1 : 0;
        }
    }
}

static bool ring_is_ready(const struct waiters *waiters)
{
    for (nfds_t i = 0; waiters->ring_count > 0 && i < waiters->count; i++) {
        const struct link *link = waiters->links[i];
        if (channel_is_ready(&link->channel, !outbox_is_empty(&link->outbox))) {
            return true;
        }
    }
    return false;
}

/* Looks at the rings for about a microsecond. */
static bool watch_rings(const struct waiters *waiters)
{
    for (unsigned i = 0; waiters->ring_count > 0 && i < RING_LOOKS; i++) {
        if (ring_is_ready(waiters)) {
            return true;
        }
        CPU_RELAX();
    }
    return false;
}

/* The answer is often but a few microseconds away, less than falling asleep and waking takes. True:
 * something is ready. */
static bool poll_busily(struct kvasir_client *client, struct waiters *waiters, int64_t until_us)
{
    int64_t end_us = clock_mono_us() + BUSY_POLL_US;
    end_us = end_us < until_us ? end_us : until_us;
    do {
        if (watch_rings(waiters) || (rdma_move_is_awaited(client) && rdma_move_poll(client))) {
            return true;
        }
        clock_sleep_us(0); /* whoever answers may need this very core */
        if (waiters->ring_count < waiters->count && poll(waiters->polled, waiters->count, 0) != 0) {
            return true;
        }
    } while (clock_mono_us() < end_us);
    return false;
}

/* Waits for a socket, or for the bell of a ring. */
static void sleep_until(struct kvasir_client *client, struct waiters *waiters, int64_t until_us)
{
    bool moved;
    int fds[RAILS_MAX];
    unsigned fd_count = rdma_move_wait_fds(client, fds, &moved);
    nfds_t count = waiters->count;
    bool sleeps = !moved;
    for (unsigned i = 0; i < fd_count; i++) {
        waiters->polled[count++] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    }
    for (nfds_t i = 0; i < waiters->count; i++) {
        struct link *link = waiters->links[i];
        sleeps = channel_sleep(&link->channel, !outbox_is_empty(&link->outbox)) && sleeps;
    }
    if (bounce_is_copying(client)) {
        sleeps = false;
        clock_sleep_us(COPY_LOOK_US);
    }
    (void)poll(waiters->polled, count, sleeps ? wait_ms(until_us, clock_mono_us()) : 0);
    for (nfds_t i = 0; i < waiters->count; i++) {
        channel_awake(&waiters->links[i]->channel);
    }
}

static void wait_for_channels(struct kvasir_client *client, int64_t deadline_us)
{
    struct waiters waiters;
    int64_t until_us = earliest_deadline(client, deadline_us);
    int64_t now_us;
    collect_waiters(client, &waiters);
    if (!poll_busily(client, &waiters, until_us)) {
        sleep_until(client, &waiters, until_us);
    }
    now_us = clock_mono_us();
    for (nfds_t i = 0; i < waiters.count; i++) {
        struct link *link = waiters.links[i];
        short events = waiters.polled[i].revents;
        /* A link may have been dropped and opened again by another's events: its old events say
         * nothing then. */
        if (link->channel.fd != waiters.polled[i].fd) {
            continue;
        }
        if (events != 0) {
            link_ready(link, events, now_us);
        } else if (channel_is_ready(&link->channel, !outbox_is_empty(&link->outbox))) {
            link_receive(link, now_us);
            link_flush(link, now_us);
        }
    }
}

/* A link was lost while it sent, and items wait for it: the next round connects or refuses them. */
static bool has_stranded_work(const struct kvasir_client *client)
{
    for (uint32_t i = 0; i < client->link_count; i++) {
        if (client->links[i]->state == LINK_DOWN && pipeline_has_work(client->links[i])) {
            return true;
        }
    }
    return false;
}

void engine_turn(struct kvasir_client *client, int64_t deadline_us)
{
    uint64_t done_before = client->done_count;
    int64_t now_us = clock_mono_us();
    /* What came may be all that the caller waits for, such as a queue pair. */
    bool moved = rdma_move_is_awaited(client) && rdma_move_poll(client);
    for (uint32_t i = 0; i < client->link_count; i++) {
        advance(client->links[i], now_us);
    }
    bool copied = client->bounces != NULL && bounce_advance(client);
    expire_requests(client, now_us);
    if (client->done_count == done_before && !moved && !copied && !has_stranded_work(client)) {
        wait_for_channels(client, deadline_us);
    }
}

void engine_run(struct kvasir_client *client, const struct kvasir_request *request)
{
    while (!request->finished) {
        engine_turn(client, request->deadline_us);
    }
    /* What the call left to be sent without an answer being awaited: ends of leases on large values. */
    int64_t now_us = clock_mono_us();
    for (uint32_t i = 0; i < client->link_count; i++) {
        struct link *link = client->links[i];
        if (link->state == LINK_UP && link->release_count > 0) {
            pipeline_fill(link, now_us);
            link_flush(link, now_us);
        }
    }
}

void engine_settle(struct kvasir_client *client, int64_t deadline_us)
{
    for (;;) {
        bool settled = true;
        for (uint32_t i = 0; i < client->link_count; i++) {
            enum link_state state = client->links[i]->state;
            settled = settled && state != LINK_CONNECTING && state != LINK_GREETING;
        }
        if (settled || clock_mono_us() >= deadline_us) {
            return;
        }
        engine_turn(client, deadline_us);
    }
}
