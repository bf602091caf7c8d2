#include "server/shed.h"

#include "server/conn.h"
#include "server/reactor.h"

/* Of the pool: chunks are short when less than one part in SHORT_DIVISOR can still be taken, and no
 * longer when one part in ENOUGH_DIVISOR can. */
#define SHORT_DIVISOR  8
#define ENOUGH_DIVISOR 4
/* A peer that did something within this time is not at a standstill. */
#define STANDSTILL_US_MIN 500000

static bool fewer_left(const struct chunk_pool *pool, uint32_t divisor)
{
    return pool->count_max - pool->taken_count < pool->count_max / divisor;
}

/* While the reactor itself stands still no peer can get on. */
static int64_t since_us(const struct reactor *reactor, int64_t start_us)
{
    return reactor->now.mono_us - (start_us > reactor->held_up_us ? start_us : reactor->held_up_us);
}

/* For how long the connection holds chunks and waits for nothing but its peer; 0: it does not. */
static int64_t standstill_us(const struct conn *conn)
{
    if (conn->output.first != NULL && conn->blocked_us != 0) {
        return since_us(conn->reactor, conn->blocked_us);
    }
    if (conn->input.chunk == NULL || conn_has_bytes(conn) ||
        (conn->batch != NULL && conn->batch->waiting > 0) || list_linked(&conn->run_link) ||
        list_linked(&conn->batch_link) ||
        (conn->upload.state != UPLOAD_NONE && conn->upload.state != UPLOAD_RECEIVING &&
         conn->upload.state != UPLOAD_DISCARDING)) {
        return 0;
    }
    return since_us(conn->reactor, conn->active_us);
}

static int64_t longest_standstill_us(const struct reactor *reactor)
{
    int64_t longest = 0;
    list_foreach (cursor, &reactor->conns) {
        int64_t quiet = standstill_us(list_entry(cursor, struct conn, link));
        longest = quiet > longest ? quiet : longest;
    }
    return longest;
}

void shed_if_short(struct reactor *reactor)
{
    int64_t limit_us;
    if (!fewer_left(&reactor->chunks, SHORT_DIVISOR)) {
        return;
    }
    limit_us = longest_standstill_us(reactor) / 2;
    limit_us = limit_us > STANDSTILL_US_MIN ? limit_us : STANDSTILL_US_MIN;
    list_foreach_safe (cursor, after, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        if (!fewer_left(&reactor->chunks, ENOUGH_DIVISOR)) {
            break;
        }
        if (standstill_us(conn) >= limit_us) {
            metric_add(&reactor->metrics.output_limit_closed, 1);
            log_limited(&reactor->log_limit, LOG_WARN,
                        "connection %llu closed: buffer-memory runs short and its client has sent "
                        "or read nothing for %lld ms",
                        (unsigned long long)conn->id, (long long)(standstill_us(conn) / 1000));
            conn_kill(conn);
        }
    }
}
