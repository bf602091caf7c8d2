#include "server/conn.h"
#include "server/pin_mail.h"

#include "base/check.h"
#include "server/access.h"
#include "server/conn_end.h"
#include "server/conn_tls.h"
#include "server/output_limit.h"
#include "server/remote.h"
#include "server/reply.h"
#include "server/serve.h"
#include "server/shm.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a connection may move in one turn before others get theirs. */
#define TURN_BUDGET_BYTES (4U << 20)
/* What one call to the kernel is asked to take. */
#define SEND_BUDGET_BYTES (4U << 20)
/* What may wait for a client that has not said its password yet: a few refusals. */
#define STRANGER_OUTPUT_BYTES_MAX 1024U
/* What is read ahead of a client that has only paused reading, and when its output counts as standing
 * still: from then on it may be one that writes all it has before it reads. */
#define AHEAD_CHUNKS_MOVING 16U
#define AHEAD_STANDING_US   50000

static void on_ready(void *argument, unsigned events)
{
    struct conn *conn = argument;
    CHECK_MAGIC(conn, CONN_MAGIC);
    if (conn->dead) {
        return;
    }
    if (wire_listen(&conn->wire)) {
        (void)conn_look_at_rings(conn);
    } else {
        events = wire_ready(&conn->wire, events);
        conn->readable = conn->readable || (events & LOOP_READ) != 0;
        conn->writable = conn->writable || (events & LOOP_WRITE) != 0;
    }
    conn_run_later(conn); /* the loop may have slept: the next turn knows what time it is */
}

static void init_lists(struct conn *conn)
{
    list_init(&conn->link);
    list_init(&conn->run_link);
    list_init(&conn->batch_link);
    list_init(&conn->dead_link);
    list_init(&conn->ring_link);
    list_init(&conn->subscriptions);
}

static void set_keepalive(const struct reactor *reactor, int descriptor)
{
    int on = 1;
    int seconds = (int)reactor->settings.tcp_keepalive;
    int interval = seconds / 3 > 0 ? seconds / 3 : 1;
    if (seconds == 0) {
        return;
    }
    /* All of these fail harmlessly on a Unix socket. */
    (void)setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
}

static enum traffic_wire wire_of(const struct conn *conn, bool tls)
{
    if (conn->is_unix) {
        return TRAFFIC_UNIX;
    }
    return tls ? TRAFFIC_TLS : TRAFFIC_TCP;
}

void conn_accept(struct reactor *reactor, int descriptor, bool tls)
{
    struct conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        (void)close(descriptor);
        return;
    }
    conn->magic = CONN_MAGIC;
    conn->reactor = reactor;
    wire_init(&conn->wire, descriptor);
    conn->id = reactor->next_conn++ * reactor->server->reactor_count + reactor->index + 1;
    init_lists(conn);
    input_init(&conn->input, &reactor->chunks);
    output_init(&conn->output, &reactor->chunks);
    request_reader_init(&conn->reader);
    conn->parse_result = READER_MORE;
    conn->resp = RESP_2;
    access_begin(conn);
    conn->writable = true;
    conn->created_us = reactor->now.mono_us;
    conn->active_us = reactor->now.mono_us;
    listener_addresses(descriptor, conn->peer, conn->local, &conn->is_unix);
    conn->traffic = &reactor->metrics.traffic.wires[wire_of(conn, tls)];
    if (!conn->is_unix) {
        set_keepalive(reactor, descriptor);
    }
    if (!tls || conn_tls_begin(conn)) {
        conn->watch = loop_watch(reactor->loop, descriptor, LOOP_READ, on_ready, conn);
    }
    if (conn->watch == NULL) {
        conn_tls_end(conn);
        wire_close(&conn->wire);
        free(conn);
        return;
    }
    list_push_back(&reactor->conns, &conn->link);
    reactor->conn_count++;
    metric_add(&reactor->metrics.connections_total, 1);
    metric_add(&reactor->metrics.connections_now, 1);
}

void conn_run_later(struct conn *conn)
{
    if (!conn->dead && !list_linked(&conn->run_link)) {
        list_push_back(&conn->reactor->runnable, &conn->run_link);
    }
}

/* ---- rings ---- */

/* The reply to KV.CONNECT RING is out: from here on the socket is only the bell. */
static void begin_rings(struct conn *conn)
{
    conn->ring_asked = false;
    wire_use_rings(&conn->wire, conn->staging->base + conn->staging->size_bytes, SHM_RING_BYTES);
    list_push_back(&conn->reactor->rings, &conn->ring_link);
    conn->traffic = &conn->reactor->metrics.traffic.wires[TRAFFIC_RINGS];
}

/* What the connection waits for. What it cannot use just now is no reason to stay awake. */
static bool wants_bytes(const struct conn *conn)
{
    return !conn->readable && !conn->closing;
}

static bool wants_room(const struct conn *conn)
{
    return !conn->writable && conn->output.pending_bytes > 0;
}

bool conn_look_at_rings(struct conn *conn)
{
    struct ring_channel *rings = &conn->wire.rings;
    /* The end is to be read, too, and writing to who is gone fails. */
    bool bytes = wants_bytes(conn) && (rings->gone || ring_channel_is_ready(rings, true, false));
    bool room = wants_room(conn) && (rings->gone || ring_channel_is_ready(rings, false, true));
    bool over = UNLIKELY(conn->paused) && rings->gone;
    conn->readable = conn->readable || bytes;
    conn->writable = conn->writable || room;
    if (bytes || room || over) {
        conn_run_later(conn);
    }
    return bytes || room || over;
}

bool conn_sleep_on_rings(struct conn *conn)
{
    return ring_channel_sleep(&conn->wire.rings, wants_bytes(conn), wants_room(conn));
}

void conn_awake_on_rings(struct conn *conn)
{
    ring_channel_awake(&conn->wire.rings);
}

/* ---- sending ---- */

static void send_output(struct conn *conn)
{
    struct reactor *reactor = conn->reactor;
    uint64_t sent = 0;
    enum kvasir_status status;
    if (conn->output.failed) {
        metric_add(&reactor->metrics.output_limit_closed, 1);
        log_limited(&reactor->log_limit, LOG_WARN,
                    "connection %llu closed: buffer-memory is used up by replies that clients do "
                    "not read",
                    (unsigned long long)conn->id);
        conn_kill(conn);
        return;
    }
    if (conn->output.first == NULL || !conn->writable) {
        return;
    }
    status = output_flush(&conn->output, &conn->wire, SEND_BUDGET_BYTES, pin_mail_release_output,
                          reactor, &sent);
    metric_add(&conn->traffic->bytes_out, sent);
    conn->bytes_out += sent;
    if (sent > 0) {
        conn->active_us = reactor->now.mono_us;
        conn->budget_bytes -= sent < conn->budget_bytes ? (uint32_t)sent : conn->budget_bytes;
    }
    if (status == KVASIR_CLOSED) {
        conn_kill(conn);
        return;
    }
    if (status == KVASIR_AGAIN) {
        conn->writable = false;
        if (conn->blocked_us == 0 || sent > 0) {
            conn->blocked_us = reactor->now.mono_us;
        }
        return;
    }
    conn->blocked_us = 0;
    if (conn->output.pending_bytes > 0) {
        conn_run_later(conn);
    } else if (UNLIKELY(conn->ring_asked)) {
        begin_rings(conn);
    }
}

/* ---- receiving ---- */

/* How much may be read now. After an upload the next request is expected to look like the last: only
 * its header is read into the buffer, so that its payload goes straight to where it belongs. What has
 * become twice as long is another sort of request. */
static size_t read_length(const struct conn *conn)
{
    size_t room = input_room(&conn->input);
    size_t have = input_length(&conn->input);
    if (have < 2 * (size_t)conn->header_bytes) {
        size_t want = have < conn->header_bytes ? conn->header_bytes - have : conn->header_bytes;
        return want < room ? want : room;
    }
    return room;
}

static void protocol_failure(struct conn *conn, const char *text)
{
    log_limited(&conn->reactor->log_limit, LOG_WARN, "connection %llu from %s closed: %s",
                (unsigned long long)conn->id, conn->peer, text);
    metric_add(&conn->reactor->metrics.protocol_errors, 1);
    reply_errorf(conn, "ERR %s", text);
    conn_close_soon(conn);
}

/* Makes room as bytes arrive, not as lengths are declared. */
static bool make_room(struct conn *conn)
{
    size_t have = input_length(&conn->input);
    if (input_make_room(&conn->input, 1, conn->reactor->settings.query_buffer_limit)) {
        return true;
    }
    /* Without a chunk the timer tries again; a request that outgrew its chunk would hold what it has
     * for ever while others like it wait for the same. */
    if (have > 0) {
        protocol_failure(conn, "Protocol error: requests are longer than "
                               "client-query-buffer-limit, this one alone or all together");
    }
    return false;
}

/* Reads once. True: something arrived. */
static bool receive_input(struct conn *conn)
{
    struct iovec piece;
    ssize_t got;
    if (!conn_has_bytes(conn) || !make_room(conn)) {
        return false;
    }
    piece.iov_base = conn->input.data + conn->input.end_bytes;
    piece.iov_len = read_length(conn);
    got = conn_receive(conn, &piece, 1, piece.iov_len);
    if (got <= 0) {
        input_use(&conn->input, 0);
        if (got == 0) {
            conn_close_soon(conn);
        } else if (errno != EAGAIN) {
            conn_kill(conn);
        }
        return false;
    }
    conn->input.end_bytes += (size_t)got;
    return true;
}

static void spend(struct conn *conn, size_t bytes)
{
    conn->budget_bytes -= bytes < conn->budget_bytes ? (uint32_t)bytes : conn->budget_bytes;
}

static void count_received(struct conn *conn, size_t bytes)
{
    conn->active_us = conn->reactor->now.mono_us;
    conn->bytes_in += bytes;
    metric_add(&conn->traffic->bytes_in, bytes);
}

ssize_t conn_receive(struct conn *conn, struct iovec *pieces, size_t count, size_t asked_bytes)
{
    ssize_t got;
    if (UNLIKELY(!read_ahead_is_empty(&conn->ahead))) {
        got = (ssize_t)read_ahead_take(&conn->ahead, &conn->reactor->chunks, pieces, count);
        spend(conn, (size_t)got);
        return got;
    }
    got = wire_receive(&conn->wire, pieces, count);
    if (got <= 0) {
        conn->readable = false;
        return got;
    }
    if ((size_t)got < asked_bytes) {
        conn->readable = wire_has_ended(&conn->wire);
    }
    count_received(conn, (size_t)got);
    spend(conn, (size_t)got);
    return got;
}

/* No request is begun while output waits, but a client may write all of them before it reads: what it
 * writes is taken off its hands. */
static void receive_ahead(struct conn *conn)
{
    bool stands = conn->reactor->now.mono_us - conn->blocked_us >= AHEAD_STANDING_US;
    if (conn->dead || conn->closing) {
        return;
    }
    while (conn->readable && conn->budget_bytes > 0) {
        bool all = false;
        ssize_t got = read_ahead_receive(&conn->ahead, &conn->reactor->chunks, &conn->wire,
                                         stands ? UINT32_MAX : AHEAD_CHUNKS_MOVING, &all);
        if (got > 0) {
            conn->readable = !all || wire_has_ended(&conn->wire);
            count_received(conn, (size_t)got);
            spend(conn, (size_t)got);
        } else if (got < 0 && errno == EAGAIN) {
            conn->readable = false;
        } else {
            /* The end is read again in its turn; where there is no room the timer tries again. */
            if (got < 0 && errno != ENOBUFS) {
                conn_kill(conn);
            }
            return;
        }
    }
    if (conn->readable) {
        conn_run_later(conn);
    }
}

/* ---- going on ---- */

/* One step; false: nothing more can be done now. */
static bool step(struct conn *conn)
{
    if (conn->dead || conn->closing || (conn->batch != NULL && conn->batch->waiting > 0)) {
        return false;
    }
    if (conn->output.pending_bytes > CONN_OUTPUT_HIGH_BYTES) {
        send_output(conn);
        if (conn->dead || conn->output.pending_bytes > CONN_OUTPUT_HIGH_BYTES) {
            return false;
        }
    }
    if (conn->budget_bytes == 0) {
        conn_run_later(conn);
        return false;
    }
    switch ((enum upload_state)conn->upload.state) {
    case UPLOAD_RESERVING:
        return false;
    case UPLOAD_RECEIVING:
    case UPLOAD_DISCARDING:
        return upload_advance(conn);
    case UPLOAD_NONE:
    case UPLOAD_READY:
    case UPLOAD_STAGED:
        break;
    }
    switch (serve_requests(conn)) {
    case SERVE_ON:
        return true;
    case SERVE_WAIT:
        return false;
    case SERVE_INPUT:
        return receive_input(conn);
    case SERVE_BROKEN:
        protocol_failure(conn, conn->reader.error);
        return false;
    }
    unreachable();
}

static void update_interest(struct conn *conn)
{
    if (UNLIKELY(conn->wire.kind == WIRE_RINGS)) {
        loop_interest(conn->watch, conn->wire.rings.gone ? 0 : LOOP_READ);
        return;
    }
    loop_interest(conn->watch, wire_interest(&conn->wire, wants_bytes(conn), wants_room(conn)));
}

/* Of one whose bytes nobody reads just now. */
static bool peer_is_gone(struct conn *conn)
{
    return conn->wire.kind == WIRE_RINGS ? conn->wire.rings.gone : wire_peer_is_gone(&conn->wire);
}

void conn_advance(struct conn *conn)
{
    if (UNLIKELY(conn->handshaking)) {
        conn_tls_shake_hands(conn);
        return;
    }
    if (UNLIKELY(conn->paused) && peer_is_gone(conn)) {
        conn_kill(conn); /* as in Redis: what it asked for last is not done */
        return;
    }
    while (step(conn)) {
    }
    if (conn->dead) {
        return;
    }
    send_output(conn);
    if (UNLIKELY(!conn->writable && conn->output.pending_bytes > CONN_OUTPUT_HIGH_BYTES)) {
        receive_ahead(conn);
    }
    if (conn->dead) {
        return;
    }
    if (conn->closing && conn->output.pending_bytes == 0 &&
        (conn->batch == NULL || conn->batch->waiting == 0)) {
        conn_kill(conn);
        return;
    }
    update_interest(conn);
}

void conn_batch_done(struct conn *conn)
{
    CHECK_MAGIC(conn, CONN_MAGIC);
    if (conn->dead) {
        return; /* conn_bury sees that nothing is out any more */
    }
    conn->budget_bytes = TURN_BUDGET_BYTES;
    serve_batch_done(conn);
    conn_advance(conn);
}

/* ---- time ---- */

static bool has_too_much_output(struct conn *conn, const struct output_limits *limits)
{
    static const struct output_limit stranger = {.hard_bytes = STRANGER_OUTPUT_BYTES_MAX};
    const struct output_limit *limit =
        !conn->authenticated
            ? &stranger
            : &limits->classes[conn_listens(conn) ? OUTPUT_CLASS_PUBSUB : OUTPUT_CLASS_NORMAL];
    if (!output_limit_is_passed(limit, conn->output.pending_bytes, conn->reactor->now.mono_us,
                                &conn->soft_limit_us)) {
        return false;
    }
    log_limited(&conn->reactor->log_limit, LOG_WARN,
                "connection %llu closed: %llu bytes wait for its client, which is more than %s",
                (unsigned long long)conn->id, (unsigned long long)conn->output.pending_bytes,
                conn->authenticated ? "client-output-buffer-limit allows"
                                    : "one gets who has not authenticated");
    return true;
}

static bool stands_too_long(const struct conn *conn)
{
    uint64_t limit_ms = conn->reactor->settings.output_timeout_ms;
    if (conn->blocked_us == 0 ||
        (conn->reactor->now.mono_us - conn->blocked_us) / 1000 <= (int64_t)limit_ms) {
        return false;
    }
    log_limited(
        &conn->reactor->log_limit, LOG_WARN,
        "connection %llu closed: its client has read nothing for output-timeout-ms %llu; %llu "
        "bytes wait for it, and %llu bytes of its requests were read ahead",
        (unsigned long long)conn->id, (unsigned long long)limit_ms,
        (unsigned long long)conn->output.pending_bytes,
        (unsigned long long)conn->ahead.length_bytes);
    return true;
}

/* Nothing is read while transfers are under way, so that the client's end must be looked for. */
static void tick_transfers(struct conn *conn)
{
    int64_t timeout_us = (int64_t)conn->reactor->settings.rdma_timeout_ms * 1000;
    if (conn->reactor->now.mono_us - conn->remote->transfers.moved_us > timeout_us) {
        log_limited(&conn->reactor->log_limit, LOG_WARN,
                    "connection %llu: its RDMA transfers got no further for rdma-timeout-ms",
                    (unsigned long long)conn->id);
        transfer_give_up(conn);
    } else if (wire_peer_is_gone(&conn->wire)) {
        remote_break(conn);
    }
}

void conn_tick(struct conn *conn, const struct output_limits *limits)
{
    const struct settings *settings = &conn->reactor->settings;
    int64_t now_us = conn->reactor->now.mono_us;
    int64_t quiet_ms = (now_us - conn->active_us) / 1000;
    bool uploading = conn->upload.state == UPLOAD_RECEIVING ||
                     conn->upload.state == UPLOAD_DISCARDING || conn->upload.state == UPLOAD_READY;
    if (conn->remote != NULL) {
        if (conn->remote->transfers.moving || conn->remote->awaited) {
            tick_transfers(conn);
        }
        loan_tick(conn);
    }
    if (UNLIKELY(conn->handshaking)) {
        conn_tls_tick(conn);
    } else if (stands_too_long(conn) || has_too_much_output(conn, limits)) {
        metric_add(&conn->reactor->metrics.output_limit_closed, 1);
        conn_kill(conn);
    } else if (conn->paused) {
        conn_run_later(conn); /* it is held here, and does not stand still; but it may be gone */
    } else if (upload_is_too_slow(conn) ||
               (uploading && quiet_ms > (int64_t)settings->upload_timeout_ms) ||
               (settings->timeout > 0 && !conn_listens(conn) &&
                quiet_ms > (int64_t)settings->timeout * 1000)) {
        metric_add(&conn->reactor->metrics.timeout_closed, 1);
        conn_kill(conn);
    } else if (conn_has_bytes(conn) || list_linked(&conn->batch_link)) {
        /* Not at once: what it does may end the connection that is looked at next. */
        conn_run_later(conn);
    }
}

void conn_run(struct conn *conn)
{
    conn->budget_bytes = TURN_BUDGET_BYTES;
    if (conn->yielded) {
        conn->yielded = false;
        batch_waited(conn->reactor, conn->batch);
    } else {
        conn_advance(conn);
    }
}

void conn_yield(struct conn *conn)
{
    check(conn->batch != NULL && !conn->yielded);
    conn->yielded = true;
    conn->batch->waiting++;
    conn_run_later(conn);
}
