#include "server/conn_tls.h"

#include "net/chunk.h"
#include "server/conn.h"

#include <sys/socket.h>

/* What TLS connections of a reactor take together is at most as much as its chunks. */
static uint64_t share_bytes(const struct reactor *reactor)
{
    return (uint64_t)reactor->chunks.count_max * sizeof(struct chunk);
}

static void account(struct conn *conn, size_t bytes)
{
    struct metric *metric = &conn->reactor->metrics.tls_bytes;
    metric_set(metric, metric_get(metric) + bytes - conn->tls_bytes);
    conn->tls_bytes = bytes;
}

bool conn_tls_begin(struct conn *conn)
{
    struct reactor *reactor = conn->reactor;
    size_t bytes = tls_memory_bytes(&reactor->tls, true);
    if (metric_get(&reactor->metrics.tls_bytes) + bytes > share_bytes(reactor) ||
        !wire_use_tls(&conn->wire, &reactor->tls)) {
        metric_add(&reactor->metrics.connections_rejected, 1);
        log_limited(&reactor->log_limit, LOG_WARN,
                    "TLS client %s refused: TLS connections have used up their share of "
                    "buffer-memory; raise it",
                    conn->peer);
        return false;
    }
    account(conn, bytes);
    metric_add(&reactor->metrics.tls_clients, 1);
    conn->handshaking = true;
    return true;
}

static void fail(struct conn *conn, const char *reason)
{
    struct reactor *reactor = conn->reactor;
    metric_add(&reactor->metrics.tls_handshake_failures, 1);
    log_limited(&reactor->log_limit, LOG_WARN, "TLS handshake with %s failed: %s", conn->peer,
                reason);
    conn_kill(conn);
}

/* A client that speaks plain text can be told what is wrong. */
static void tell_plainly(const struct conn *conn)
{
    static const char text[] =
        "-ERR this port speaks TLS: connect with TLS, or to another port\r\n";
    ssize_t sent = send(conn->wire.descriptor, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* it is a courtesy */
}

void conn_tls_shake_hands(struct conn *conn)
{
    struct reactor *reactor = conn->reactor;
    char failure[TLS_FAILURE_BYTES];
    enum kvasir_status status;
    if (conn->closing) {
        conn_kill(conn);
        return;
    }
    if (reactor->handshakes_left == 0) {
        conn_run_later(conn);
        return;
    }
    reactor->handshakes_left--;
    conn->readable = false;
    status = tls_shake_hands(conn->wire.tls, failure);
    if (status == KVASIR_AGAIN) {
        loop_interest(conn->watch, wire_interest(&conn->wire, false, false));
    } else if (status == KVASIR_OK) {
        conn->handshaking = false;
        conn->readable = true; /* requests may have come with the last of it */
        account(conn, tls_memory_bytes(&reactor->tls, false));
        metric_add(&reactor->metrics.tls_handshakes, 1);
        conn_run_later(conn);
    } else {
        if (tls_is_spoken_to_plainly(conn->wire.tls)) {
            tell_plainly(conn);
        }
        fail(conn, failure);
    }
}

void conn_tls_tick(struct conn *conn)
{
    int64_t age_us = conn->reactor->now.mono_us - conn->created_us;
    if (age_us / 1000 > (int64_t)conn->reactor->settings.tls_handshake_timeout_ms) {
        fail(conn, "it took longer than tls-handshake-timeout-ms");
    }
}

void conn_tls_end(struct conn *conn)
{
    if (conn->wire.tls != NULL) {
        account(conn, 0);
        metric_sub(&conn->reactor->metrics.tls_clients, 1);
    }
}
