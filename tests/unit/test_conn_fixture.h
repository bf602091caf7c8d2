#pragma once
/* test_conn_fixture – a reactor and connections of it that are just enough for units which write to a
 * connection: buffers, lists, a socket whose other end the test reads. No loop, no shard, no thread. */

#include "server/conn.h"
#include "server/pin_mail.h"
#include "server/push.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define CONN_FIXTURE_CONNS 4U

struct conn_fixture {
    struct reactor reactor;
    struct conn conns[CONN_FIXTURE_CONNS];
    int peers[CONN_FIXTURE_CONNS]; /* owned: the other ends */
    struct batch *busy;            /* owned: what a connection that answers has */
};

static inline void conn_fixture_open(struct conn_fixture *fixture, uint32_t index)
{
    struct conn *conn = &fixture->conns[index];
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    conn->magic = CONN_MAGIC;
    conn->id = index + 1;
    conn->reactor = &fixture->reactor;
    conn->resp = RESP_2;
    list_init(&conn->run_link);
    list_init(&conn->batch_link);
    list_init(&conn->dead_link);
    list_init(&conn->ring_link);
    list_init(&conn->subscriptions);
    list_init(&conn->link);
    list_push_back(&fixture->reactor.conns, &conn->link);
    output_init(&conn->output, &fixture->reactor.chunks);
    wire_init(&conn->wire, ends[0]);
    fixture->reactor.conn_count++;
    metric_add(&fixture->reactor.metrics.connections_now, 1);
    fixture->peers[index] = ends[1];
}

static inline struct conn_fixture *conn_fixture_create(void)
{
    struct conn_fixture *fixture = aligned_alloc(CACHE_LINE_BYTES, sizeof(*fixture));
    assert_non_null(fixture);
    memset(fixture, 0, sizeof(*fixture));
    list_init(&fixture->reactor.conns);
    list_init(&fixture->reactor.runnable);
    list_init(&fixture->reactor.dead);
    chunk_pool_init(&fixture->reactor.chunks, 0, 1024);
    chunk_pool_allow_large(&fixture->reactor.chunks, 1U << 20);
    assert_true(pubsub_init(&fixture->reactor.pubsub, 0));
    fixture->busy = calloc(1, sizeof(*fixture->busy));
    assert_non_null(fixture->busy);
    for (uint32_t i = 0; i < CONN_FIXTURE_CONNS; i++) {
        conn_fixture_open(fixture, i);
    }
    return fixture;
}

/* Checks that the memory which counts came back. */
static inline void conn_fixture_destroy(struct conn_fixture *fixture)
{
    for (uint32_t i = 0; i < CONN_FIXTURE_CONNS; i++) {
        struct conn *conn = &fixture->conns[i];
        pubsub_leave_all(&fixture->reactor.pubsub, conn);
        push_fini(conn);
        conn_kill(conn);
        (void)close(fixture->peers[i]);
    }
    assert_int_equal(fixture->reactor.chunks.large_bytes, 0);
    pubsub_fini(&fixture->reactor.pubsub);
    chunk_pool_fini(&fixture->reactor.chunks);
    free(fixture->busy);
    free(fixture);
}

/* While a connection is being answered, what is not asked for waits. */
static inline void conn_fixture_begin_answer(struct conn_fixture *fixture, struct conn *conn)
{
    conn->batch = fixture->busy;
}

static inline void conn_fixture_end_answer(struct conn *conn)
{
    conn->batch = NULL;
    push_flush(conn);
}

/* What the connection was sent so far is exactly this. */
static inline void conn_fixture_expect(struct conn_fixture *fixture, uint32_t index,
                                       const char *expected)
{
    struct conn *conn = &fixture->conns[index];
    char got[4096];
    uint64_t sent = 0;
    ssize_t length;
    assert_int_equal(output_flush(&conn->output, &conn->wire, sizeof(got) - 1,
                                  pin_mail_release_output, &fixture->reactor, &sent),
                     KVASIR_OK);
    length = recv(fixture->peers[index], got, sizeof(got) - 1, 0);
    got[length > 0 ? length : 0] = '\0';
    assert_string_equal(got, expected);
}
