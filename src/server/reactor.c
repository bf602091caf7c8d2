#include "server/reactor.h"

#include "base/check.h"
#include "base/compiler.h"
#include "base/copy.h"
#include "net/tls_context.h"
#include "route/slot.h"
#include "server/accept.h"
#include "server/balance.h"
#include "server/batch.h"
#include "server/conn.h"
#include "server/conn_end.h"
#include "server/cores.h"
#include "server/events.h"
#include "server/key_notice.h"
#include "server/loan_recall.h"
#include "server/output_limit.h"
#include "server/pin_mail.h"
#include "server/published.h"
#include "server/resize.h"
#include "server/secret.h"
#include "server/shed.h"
#include "server/tenants.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Background work is due so often; leases and expired keys are seen with this delay at most. */
#define TICK_MS 10
/* Steps of the shard's background work in one turn. */
#define TICK_BUDGET 256
/* More than one such round when there is much to do, but no longer than this. */
#define TICK_US_MAX 1000
/* Connections are looked at for timeouts once in so many ticks. */
#define CONN_TICKS 10
/* A tick this late: the loop was held up, and what clients did meanwhile is not known yet. */
#define HELD_UP_US_MIN 250000
/* Steps of TLS handshakes in one turn: one costs up to a millisecond, for its signature. */
#define HANDSHAKES_MAX 4
/* Chunks taken from the system at start. */
#define CHUNKS_AT_START 64
/* Looks at the rings before the loop and others have their turn: about a microsecond. */
#define RING_LOOKS 32
/* Turns that may go by with requests from rings alone. */
#define RING_TURNS_MAX 16

uint32_t reactor_of_key(const struct reactor *reactor, struct slice key)
{
    uint32_t count = reactor->server->reactor_count;
    return count == 1 ? 0 : slot_reactor(slot_of_key(key), count);
}

void reactor_shard_enter(struct reactor *reactor)
{
    if (reactor->shard_depth++ == 0) {
        gate_enter(&reactor->shard_gate);
    }
}

void reactor_shard_leave(struct reactor *reactor)
{
    check(reactor->shard_depth > 0);
    if (--reactor->shard_depth == 0) {
        gate_leave(&reactor->shard_gate);
    }
}

struct shard *reactor_shard_borrow(struct reactor *reactor, uint32_t index)
{
    struct reactor *owner = reactor->server->reactors[index];
    bool inside = UNLIKELY((reactor->held_shards >> index & 1) != 0);
    return inside || gate_try(&owner->shard_gate) ? owner->shard : NULL;
}

void reactor_shard_return(struct reactor *reactor, uint32_t index)
{
    if (LIKELY((reactor->held_shards >> index & 1) == 0)) {
        gate_leave(&reactor->server->reactors[index]->shard_gate);
    }
}

void reactor_hold_shards(struct reactor *reactor, uint64_t shards)
{
    check(reactor->held_shards == 0 && reactor->shard_depth == 0);
    shards |=
        UINT64_C(1) << reactor->index; /* or whoever works on it meanwhile could wait for ever */
    for (uint64_t left = shards; left != 0; left &= left - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(left);
        if (index == reactor->index) {
            reactor_shard_enter(reactor);
        } else {
            gate_enter(&reactor->server->reactors[index]->shard_gate);
        }
    }
    reactor->held_shards = shards;
}

void reactor_free_shards(struct reactor *reactor)
{
    uint64_t shards = reactor->held_shards;
    reactor->held_shards = 0;
    for (; shards != 0; shards &= shards - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(shards);
        if (index == reactor->index) {
            reactor_shard_leave(reactor);
        } else {
            reactor_shard_return(reactor, index);
        }
    }
}

/* ---- timer, control ---- */

void reactor_reset_metrics(struct reactor *reactor)
{
    struct reactor_metrics *metrics = &reactor->metrics;
    struct metric *const counters[] = {
        &metrics->connections_total,
        &metrics->connections_rejected,
        &metrics->upload_bytes,
        &metrics->used_peak_bytes,
        &metrics->timeout_closed,
        &metrics->output_limit_closed,
        &metrics->protocol_errors,
        &metrics->acl_denied[ACL_DENIED_COMMAND],
        &metrics->acl_denied[ACL_DENIED_KEY],
        &metrics->acl_denied[ACL_DENIED_CHANNEL],
        &metrics->acl_denied[ACL_DENIED_AUTH],
        &metrics->tls_handshakes,
        &metrics->tls_handshake_failures,
        &metrics->hops,
        &metrics->borrows,
        &metrics->turns,
        &metrics->retries_for_pages,
        &metrics->pages_balanced,
        &metrics->expire_us,
        &metrics->expire_cut_short,
        &metrics->exceeded_us,
    };
    for (size_t i = 0; i < ARRAY_COUNT(counters); i++) {
        metric_set(counters[i], 0);
    }
    traffic_reset(&metrics->traffic);
    reactor->copied_bytes_at_reset = copy_payload_bytes();
    command_stats_reset(reactor->command_stats);
}

static void tick_conns(struct reactor *reactor)
{
    struct reactor_metrics *metrics = &reactor->metrics;
    uint64_t input_bytes_max = 0;
    uint64_t output_bytes_max = 0;
    uint64_t waiting_count = 0;
    list_foreach_safe (cursor, after, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        uint64_t input_bytes = (conn->input.data != NULL ? conn->input.capacity_bytes : 0) +
                               conn->ahead.chunk_count * sizeof(struct chunk);
        uint64_t output_bytes = conn->output.pending_bytes;
        input_bytes_max = input_bytes > input_bytes_max ? input_bytes : input_bytes_max;
        output_bytes_max = output_bytes > output_bytes_max ? output_bytes : output_bytes_max;
        waiting_count +=
            list_linked(&conn->batch_link) && !conn->paused; /* those count themselves */
        conn_tick(conn, &reactor->output_limits);
    }
    metric_set(&metrics->input_bytes_max, input_bytes_max);
    metric_set(&metrics->output_bytes_max, output_bytes_max);
    metric_set(&metrics->conns_waiting, waiting_count);
}

static void note_latency(struct reactor *reactor, enum latency_event event, int64_t duration_us)
{
    uint64_t duration_ms = (uint64_t)duration_us / 1000;
    if (duration_ms >= reactor->settings.latency_monitor_threshold) {
        latency_add(&reactor->latency, event, reactor->now.wall_ms / 1000,
                    duration_ms < UINT32_MAX ? (uint32_t)duration_ms : UINT32_MAX);
    }
}

void reactor_note_request(struct reactor *reactor, const struct conn *conn,
                          const struct request *request)
{
    const struct settings *settings = &reactor->settings;
    int64_t spent_us = (int64_t)(request->spent_ns / 1000);
    if (settings->latency_monitor_threshold > 0) {
        bool fast = (request->command->flags & COMMAND_FLAG_FAST) != 0;
        note_latency(reactor, fast ? LATENCY_FAST_COMMAND : LATENCY_COMMAND, spent_us);
    }
    /* EXEC is only as slow as what it runs. */
    if (settings->slowlog_log_slower_than >= 0 && spent_us >= settings->slowlog_log_slower_than &&
        request->command->id != COMMAND_EXEC) {
        const struct slowlog_facts facts = {.time_us = clock_wall_us(),
                                            .duration_us = spent_us,
                                            .peer = conn->peer,
                                            .name = conn->name};
        slowlog_add(&reactor->slowlog, &facts, request->args, request->arg_count,
                    secret_from(request->command, request->args, request->arg_count),
                    (uint32_t)settings->slowlog_max_len);
    }
}

/* Once, and while there is more and time for it. */
static void tick_shard(struct reactor *reactor)
{
    int64_t spent_us;
    bool more;
    reactor_shard_enter(reactor);
    do {
        more = shard_tick(reactor->shard, &reactor->now, TICK_BUDGET);
        spent_us = clock_mono_us() - reactor->now.mono_us;
    } while (more && spent_us < TICK_US_MAX);
    reactor_shard_leave(reactor);
    metric_add(&reactor->metrics.expire_us, (uint64_t)spent_us);
    metric_add(&reactor->metrics.expire_cut_short, more);
    if (reactor->settings.latency_monitor_threshold > 0) {
        note_latency(reactor, LATENCY_EXPIRE_CYCLE, spent_us);
    }
}

static void on_tick(void *argument)
{
    struct reactor *reactor = argument;
    reactor->now = clock_moment();
    if (reactor->now.mono_us - reactor->tick_us > HELD_UP_US_MIN) {
        reactor->held_up_us = reactor->now.mono_us;
    }
    reactor->tick_us = reactor->now.mono_us;
    tick_shard(reactor);
    metric_set(&reactor->metrics.chunks_taken, reactor->chunks.taken_count);
    metric_set(&reactor->metrics.long_request_bytes,
               reactor->chunks.large_bytes + reactor->kept_bytes);
    reactor->ticks++;
    events_tick(reactor);
    pause_tick(reactor);
    balance_tick(reactor);
    resize_tick(reactor);
    if (reactor->ticks % CONN_TICKS == 0) {
        tick_conns(reactor);
        if (reactor->spare_descriptor < 0) {
            reactor->spare_descriptor = eventfd(0, EFD_CLOEXEC);
        }
        published_tick(reactor);
    }
    /* Other reactors' uploads may have ended. Not before connections are looked at: as long as one waits
     * is seen which of them hold it up. */
    upload_wake_waiters(reactor);
    shed_if_short(reactor);
    if (!list_empty(&reactor->stalled) && !reactor->reclaiming) {
        batch_resume_stalled(reactor);
    }
}

static void begin_drain(struct reactor *reactor)
{
    reactor->draining = true;
    pause_end(reactor);
    accept_stop(reactor);
}

/* Connections with nothing under way are closed; true: none is left, and nothing of theirs is on its
 * way to another reactor, which could leave before it gets there. */
static bool drain(struct reactor *reactor)
{
    list_foreach_safe (cursor, after, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        bool busy = (conn->batch != NULL && conn->batch->waiting > 0) ||
                    conn->output.pending_bytes > 0 || conn->upload.state != UPLOAD_NONE ||
                    conn_has_bytes(conn) || list_linked(&conn->batch_link);
        if (!busy || reactor->closing_all) {
            conn_kill(conn);
        }
    }
    return list_empty(&reactor->conns) && list_empty(&reactor->dead) && reactor->errand_count == 0;
}

static void on_control(void *argument, unsigned events)
{
    struct reactor *reactor = argument;
    uint64_t order = 0;
    ssize_t got = read(reactor->control_descriptor, &order, sizeof(order));
    (void)events;
    if (got != (ssize_t)sizeof(order)) {
        return;
    }
    reactor->closing_all = reactor->closing_all || (order & REACTOR_ORDER_CLOSE) != 0;
    reactor->leaving = reactor->leaving || (order & REACTOR_ORDER_LEAVE) != 0;
    if (!reactor->draining) {
        begin_drain(reactor);
    }
}

static void say_drained(struct reactor *reactor)
{
    uint64_t one = 1;
    ssize_t written;
    if (reactor->drained) {
        return;
    }
    reactor->drained = true;
    written = write(reactor->server->done_descriptor, &one, sizeof(one));
    check(written == (ssize_t)sizeof(one));
}

/* ---- the loop ---- */

static void on_mail(void *argument, unsigned events)
{
    struct reactor *reactor = argument;
    (void)events;
    mailbox_wake(reactor->server->mailbox, reactor->index);
}

static void run_runnable(struct reactor *reactor)
{
    struct list now;
    list_init(&now);
    list_splice_back(&now, &reactor->runnable);
    while (!list_empty(&now)) {
        struct conn *conn = list_entry(now.next, struct conn, run_link);
        list_remove(&conn->run_link);
        conn_run(conn);
    }
}

static bool look_at_rings(struct reactor *reactor)
{
    bool found = false;
    list_foreach (cursor, &reactor->rings) {
        found = conn_look_at_rings(list_entry(cursor, struct conn, ring_link)) || found;
    }
    return found;
}

static bool sleep_on_rings(struct reactor *reactor)
{
    list_foreach (cursor, &reactor->rings) {
        if (!conn_sleep_on_rings(list_entry(cursor, struct conn, ring_link))) {
            return false;
        }
    }
    return true;
}

static void awake(struct reactor *reactor)
{
    mailbox_wake(reactor->server->mailbox, reactor->index);
    list_foreach (cursor, &reactor->rings) {
        conn_awake_on_rings(list_entry(cursor, struct conn, ring_link));
    }
}

/* True when there is nothing to do before an event or mail comes. */
static bool may_sleep(struct reactor *reactor, bool flushed)
{
    return flushed && list_empty(&reactor->runnable) && !reactor->draining &&
           (!reactor->making_room || reactor->reclaiming) &&
           reactor->now.mono_us >= reactor->busy_until_us && sleep_on_rings(reactor) &&
           hub_sleep(&reactor->hub) && mailbox_sleep(reactor->server->mailbox, reactor->index);
}

/* Whoever was answered may ask again at once. True: a ring has something, and the loop, which costs a
 * system call, can be asked later. */
static bool wait_busily(struct reactor *reactor)
{
    for (unsigned i = 0; i < RING_LOOKS && !list_empty(&reactor->rings); i++) {
        if (look_at_rings(reactor)) {
            reactor->ring_turns++;
            return reactor->ring_turns < RING_TURNS_MAX;
        }
        CPU_RELAX();
    }
    clock_sleep_us(0); /* the client may need this very core to ask */
    return false;
}

void reactor_turn(struct reactor *reactor, bool may_wait)
{
    bool flushed;
    reactor_receive(reactor);
    if (hub_has_work(&reactor->hub)) {
        hub_advance(reactor);
    }
    (void)look_at_rings(reactor);
    reactor->handshakes_left = HANDSHAKES_MAX;
    run_runnable(reactor);
    if (reactor->making_room && !reactor->reclaiming) {
        reactor->making_room = false;
        batch_resume_stalled(reactor);
    }
    if (UNLIKELY(reactor->notices_kept)) {
        key_notice_collect(reactor);
    }
    if (UNLIKELY(hub_lends(&reactor->hub))) {
        loan_recall_collect(reactor);
    }
    if (UNLIKELY(!feed_is_empty(&reactor->feed))) {
        feed_flush(reactor);
    }
    conn_bury(reactor);
    if (reactor->draining && drain(reactor)) {
        say_drained(reactor);
    }
    pin_mail_flush(reactor); /* the dead gave theirs back, too */
    flushed = mailbox_flush(reactor->server->mailbox, reactor->index);
    metric_add(&reactor->metrics.turns, 1);
    if (may_wait && may_sleep(reactor, flushed)) {
        loop_turn(reactor->loop, true);
        awake(reactor);
    } else if (reactor->now.mono_us >= reactor->busy_until_us || !wait_busily(reactor)) {
        reactor->ring_turns = 0;
        loop_turn(reactor->loop, false);
    }
    reactor->now = clock_moment();
}

void *reactor_main(void *argument)
{
    struct reactor *reactor = argument;
    char name[16];
    CHECK_MAGIC(reactor, REACTOR_MAGIC);
    (void)snprintf(name, sizeof(name), "reactor-%u", reactor->index);
    log_set_thread_name(name);
    (void)pthread_setname_np(pthread_self(), name);
    reactor->now = clock_moment();
    while (!reactor->leaving) {
        reactor_turn(reactor, true);
        if (reactor->draining && list_empty(&reactor->runnable)) {
            /* Draining polls: what it waits for need not make an event. */
            clock_sleep_us(200);
        }
    }
    return NULL;
}

/* ---- life ---- */

static struct shard *make_shard(struct reactor *reactor)
{
    const struct settings *settings = &reactor->settings;
    struct shard_config config = {
        .index = reactor->index,
        .shard_count = reactor->server->reactor_count,
        .node = numa_find_core(&reactor->server->numa, cores_at(reactor->index)),
        .payload = reactor->server->payload,
        .metadata = reactor->server->metadata,
        .reuse = reactor->server->reuse,
        .policy = policy_find(settings->maxmemory_policy), /* noeviction is none's name */
        .value_bytes_max = settings->proto_max_bulk_len,
        .append_bytes_max = settings->proto_max_bulk_len,
        .hash_seed = settings->hash_seed,
        .grants_max = (uint32_t)settings->grants_max,
        .database_count = (uint32_t)settings->databases,
        .tenant_uses = reactor->server->tenant_uses,
        .events_zero_us = reactor->server->events_zero_us,
        .now = reactor->now,
    };
    return shard_create(&config);
}

static void init_lists(struct reactor *reactor)
{
    list_init(&reactor->conns);
    list_init(&reactor->runnable);
    list_init(&reactor->batch_waiters);
    list_init(&reactor->upload_waiters);
    list_init(&reactor->dead);
    list_init(&reactor->rings);
    list_init(&reactor->free_batches);
    list_init(&reactor->stalled);
    list_init(&reactor->monitors);
    list_init(&reactor->event_listeners);
    list_init(&reactor->pause.waiting);
    reactor->control_descriptor = -1;
    reactor->spare_descriptor = -1;
}

struct reactor *reactor_create(struct server *server, uint32_t index, char *error,
                               size_t error_capacity)
{
    struct reactor *reactor = aligned_alloc(CACHE_LINE_BYTES, sizeof(*reactor));
    if (reactor == NULL) {
        goto no_memory;
    }
    memset(reactor, 0, sizeof(*reactor));
    reactor->magic = REACTOR_MAGIC;
    reactor->index = index;
    reactor->server = server;
    reactor->settings = server->settings;
    reactor->acl = server->acl;
    acl_log_init(&reactor->acl_log);
    reactor->now = clock_moment();
    gate_init(&reactor->shard_gate);
    init_lists(reactor);
    random_init(&reactor->random, (uint64_t)reactor->now.wall_ms + index);
    chunk_pool_init(&reactor->chunks, CHUNKS_AT_START, (uint32_t)server->buffer_chunks_max);
    chunk_pool_allow_large(&reactor->chunks, server->settings.query_buffer_limit);
    reactor->open_pins = calloc(server->reactor_count, sizeof(*reactor->open_pins));
    reactor->command_stats = calloc(1, sizeof(*reactor->command_stats));
    slowlog_init(&reactor->slowlog, index, server->reactor_count);
    check(output_limits_parse(&reactor->output_limits,
                              slice_of_text(reactor->settings.output_limits)));
    reactor->loop = loop_create();
    reactor->shard = make_shard(reactor);
    if (server->tls != NULL && !tls_maker_init(&reactor->tls, tls_context_get(server->tls))) {
        goto no_memory;
    }
    if (reactor->shard != NULL) {
        key_notice_configure(reactor);
    }
    if (reactor->command_stats != NULL) {
        reactor->command_stats->untimed = !reactor->settings.latency_tracking;
    }
    reactor->control_descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    reactor->spare_descriptor = eventfd(0, EFD_CLOEXEC);
    if (reactor->open_pins == NULL || reactor->command_stats == NULL ||
        !pubsub_init(&reactor->pubsub, reactor->settings.hash_seed) || reactor->loop == NULL ||
        reactor->shard == NULL || !events_configure(reactor) || reactor->control_descriptor < 0) {
        goto no_memory;
    }
    reactor->control_watch =
        loop_watch(reactor->loop, reactor->control_descriptor, LOOP_READ, on_control, reactor);
    reactor->mailbox_watch = loop_watch(reactor->loop, mailbox_descriptor(server->mailbox, index),
                                        LOOP_READ, on_mail, reactor);
    reactor->timer = loop_timer(reactor->loop, TICK_MS, on_tick, reactor);
    if (reactor->control_watch == NULL || reactor->mailbox_watch == NULL ||
        reactor->timer == NULL) {
        goto no_memory;
    }
    tenants_configure(reactor);
    (void)snprintf(error, error_capacity, "out of memory or file descriptors for reactor %u",
                   index);
    if (!accept_open(reactor, error, error_capacity)) {
        reactor_destroy(&reactor);
        return NULL;
    }
    return reactor;
no_memory:
    (void)snprintf(error, error_capacity, "out of memory or file descriptors for reactor %u",
                   index);
    reactor_destroy(&reactor);
    return NULL;
}

void reactor_destroy(struct reactor **reactor_p)
{
    struct reactor *reactor = *reactor_p;
    if (reactor == NULL) {
        return;
    }
    accept_close(reactor);
    tls_maker_fini(&reactor->tls);
    loop_unwatch(&reactor->control_watch);
    loop_unwatch(&reactor->mailbox_watch);
    loop_timer_unset(&reactor->timer);
    if (reactor->control_descriptor >= 0) {
        (void)close(reactor->control_descriptor);
    }
    if (reactor->spare_descriptor >= 0) {
        (void)close(reactor->spare_descriptor);
    }
    hub_fini(reactor);
    batch_pool_fini(reactor);
    pin_mail_fini(reactor);
    free(reactor->open_pins);
    free(reactor->command_stats);
    slowlog_fini(&reactor->slowlog);
    pubsub_fini(&reactor->pubsub);
    feed_fini(reactor);
    chunk_pool_fini(&reactor->chunks);
    acl_log_cut(&reactor->acl_log, 0);
    shard_destroy(&reactor->shard);
    loop_destroy(&reactor->loop);
    reactor->magic = 0;
    free(reactor);
    *reactor_p = NULL;
}
