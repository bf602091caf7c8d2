#include "server/push.h"

#include "base/check.h"
#include "server/conn.h"
#include "server/output_limit.h"

#include <stdlib.h>
#include <string.h>

/* One message that waits. */
struct push {
    struct push *next;
    size_t length_bytes;
    uint8_t text[];
};

static size_t encode(const struct conn *conn, uint8_t *to, const struct slice *parts,
                     uint32_t part_count)
{
    uint8_t *at = to;
    at += resp_encode_push_header(at, conn->resp, part_count);
    for (uint32_t i = 0; i < part_count; i++) {
        at += resp_encode_bulk(at, parts[i]);
    }
    return (size_t)(at - to);
}

void push_cut(struct conn *conn)
{
    metric_add(&conn->reactor->metrics.output_limit_closed, 1);
    log_limited(&conn->reactor->log_limit, LOG_WARN,
                "connection %llu closed: it does not take its messages in time "
                "(client-output-buffer-limit pubsub)",
                (unsigned long long)conn->id);
    conn_kill(conn);
}

static bool has_room(const struct conn *conn, size_t length_bytes)
{
    const struct output_limit *limit = &conn->reactor->output_limits.classes[OUTPUT_CLASS_PUBSUB];
    uint64_t waiting = conn->output.pending_bytes + conn->push_bytes + length_bytes;
    return limit->hard_bytes == 0 || waiting <= limit->hard_bytes;
}

/* Room for one message that waits; NULL: no memory. */
static struct push *make(struct conn *conn, size_t text_bytes)
{
    struct chunk_pool *pool = &conn->reactor->chunks;
    size_t bytes = sizeof(struct push) + text_bytes;
    struct push *push = pool->large_bytes + bytes > pool->large_bytes_max ? NULL : malloc(bytes);
    if (push != NULL) {
        pool->large_bytes += bytes;
        push->next = NULL;
        conn->push_bytes += bytes; /* what is given back when it is gone */
    }
    return push;
}

static void append(struct conn *conn, struct push *push)
{
    if (conn->pushes == NULL) {
        conn->pushes = push;
    } else {
        conn->pushes_last->next = push;
    }
    conn->pushes_last = push;
}

/* False: the connection gets nothing more. One that passes its limit with so many bytes is cut. */
static bool admit(struct conn *conn, size_t bytes)
{
    if (conn->dead || conn->closing || conn->output.failed) {
        return false;
    }
    if (!has_room(conn, bytes)) {
        push_cut(conn);
        return false;
    }
    return true;
}

static bool may_go_at_once(const struct conn *conn)
{
    return conn->batch == NULL && conn->pushes == NULL;
}

void push_strings(struct conn *conn, const struct slice *parts, uint32_t part_count)
{
    struct push *push;
    size_t bytes = RESP_HEADER_BYTES_MAX;
    for (uint32_t i = 0; i < part_count; i++) {
        bytes += parts[i].length_bytes + RESP_HEADER_BYTES_MAX + 2;
    }
    if (!admit(conn, bytes)) {
        return;
    }
    if (may_go_at_once(conn)) {
        uint8_t header[RESP_HEADER_BYTES_MAX];
        output_text(&conn->output, header, resp_encode_push_header(header, conn->resp, part_count));
        for (uint32_t i = 0; i < part_count; i++) {
            output_text(&conn->output, header,
                        resp_encode_bulk_header(header, parts[i].length_bytes));
            output_text(&conn->output, parts[i].data, parts[i].length_bytes);
            output_text(&conn->output, "\r\n", 2);
        }
        conn_run_later(conn);
        return;
    }
    push = make(conn, bytes);
    if (push == NULL) {
        push_cut(conn);
        return;
    }
    push->length_bytes = encode(conn, push->text, parts, part_count);
    append(conn, push);
}

void push_line(struct conn *conn, struct slice line)
{
    struct push *push;
    if (!admit(conn, line.length_bytes)) {
        return;
    }
    if (may_go_at_once(conn)) {
        output_text(&conn->output, line.data, line.length_bytes);
        conn_run_later(conn);
        return;
    }
    push = make(conn, line.length_bytes);
    if (push == NULL) {
        push_cut(conn);
        return;
    }
    memcpy(push->text, line.data, line.length_bytes);
    push->length_bytes = line.length_bytes;
    append(conn, push);
}

static void drop_all(struct conn *conn, bool send)
{
    while (conn->pushes != NULL) {
        struct push *push = conn->pushes;
        conn->pushes = push->next;
        if (send) {
            output_text(&conn->output, push->text, push->length_bytes);
        }
        free(push);
    }
    conn->reactor->chunks.large_bytes -= conn->push_bytes;
    conn->push_bytes = 0;
    conn->pushes_last = NULL;
}

void push_flush(struct conn *conn)
{
    drop_all(conn, true);
}

void push_fini(struct conn *conn)
{
    drop_all(conn, false);
}
