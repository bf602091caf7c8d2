#include "server/cmd_events.h"

#include "base/number.h"
#include "server/events.h"
#include "server/gather.h"
#include "server/reply.h"
#include "server/request_gather.h"

#define COUNT_DEFAULT 1000

/* A number that all shards have passed is where "from now on" begins; 0: all that is still there. */
enum events_start {
    EVENTS_FROM_NUMBER,
    EVENTS_FROM_NOW,
    EVENTS_FROM_OLDEST
};

/* request->count is enum events_start, request->number the most events to tell, the number itself is gather->cursor. False: refused. */
static bool parse_since(struct request *request, struct slice text, uint64_t *since_p)
{
    if (slice_equal_nocase(text, "$")) {
        request->count = EVENTS_FROM_NOW;
        *since_p = INT64_MAX;
        return true;
    }
    if (!slice_to_u64(text, since_p) || *since_p > INT64_MAX) {
        request_refuse(request, "ERR SINCE takes the number of an event, 0 for the oldest that is "
                                "there, or $ for those from now on");
        return false;
    }
    request->count = *since_p == 0 ? EVENTS_FROM_OLDEST : EVENTS_FROM_NUMBER;
    return true;
}

static void ask(struct conn *conn, struct request *request, uint64_t since)
{
    request->gather = events_ask(conn->reactor, since, (uint32_t)request->number, NULL);
    if (request->gather == NULL) {
        request_refuse(request, ERROR_ANSWER_MEMORY);
        return;
    }
    request_gather_start(conn, request);
}

/* What was found, with the start that the request asks for; false: the error is replied. */
static bool find(struct conn *conn, struct request *request, uint32_t count_max,
                 struct events_found *found_p)
{
    struct gather *gather = request->gather;
    uint64_t since = request->count == EVENTS_FROM_NUMBER ? gather->cursor : 0;
    *found_p = events_find(conn, gather, since, count_max);
    if (found_p->failed) {
        reply_error(conn, "OOM no memory for events: events-backlog, client-query-buffer-limit");
        return false;
    }
    if (request->count == EVENTS_FROM_NUMBER && found_p->lost > 0) {
        reply_errorf(conn,
                     "OVERRUN %llu events behind %llu are lost, the oldest still there come behind "
                     "%llu: take stock anew and go on from there",
                     (unsigned long long)found_p->lost, (unsigned long long)since,
                     (unsigned long long)found_p->lost);
        return false;
    }
    return true;
}

/* ---- KV.EVENTS SINCE number|$ [COUNT count] ---- */

void cmd_events_plan_since(struct conn *conn, struct request *request)
{
    uint64_t since;
    int64_t count = COUNT_DEFAULT;
    if (!parse_since(request, request->args[2], &since)) {
        return;
    }
    if (request->arg_count != 3 &&
        (request->arg_count != 5 || !slice_equal_nocase(request->args[3], "count"))) {
        request_refuse(request, ERROR_SYNTAX);
        return;
    }
    if (request->arg_count == 5 &&
        (!slice_to_i64(request->args[4], &count) || count < 1 || count > EVENTS_COUNT_MAX)) {
        request_refuse(request, "ERR COUNT takes a number from 1 to 10000");
        return;
    }
    request->number = count;
    ask(conn, request, since);
}

void cmd_events_reply_since(struct conn *conn, struct request *request)
{
    struct events_found found;
    if (find(conn, request, (uint32_t)request->number, &found)) {
        reply_array(conn, 2);
        reply_integer(conn, (int64_t)found.next);
        events_reply(conn, request->gather, &found);
    }
    gather_destroy(&request->gather);
}

/* ---- KV.EVENTS SUBSCRIBE [SINCE number|$] ---- */

void cmd_events_plan_subscribe(struct conn *conn, struct request *request)
{
    uint64_t since = INT64_MAX;
    request->count = EVENTS_FROM_NOW;
    if (conn->resp != RESP_3) {
        request_refuse(request, "ERR KV.EVENTS SUBSCRIBE needs RESP3 (HELLO 3); KV.EVENTS SINCE "
                                "works with both");
        return;
    }
    if (request->arg_count != 2 &&
        (request->arg_count != 4 || !slice_equal_nocase(request->args[2], "since"))) {
        request_refuse(request, ERROR_SYNTAX);
        return;
    }
    if (request->arg_count == 4 && !parse_since(request, request->args[3], &since)) {
        return;
    }
    request->number = 1;
    ask(conn, request, since);
}

void cmd_events_reply_subscribe(struct conn *conn, struct request *request)
{
    struct events_found found;
    if (find(conn, request, EVENTS_COUNT_MAX, &found)) {
        uint64_t since = request->gather->cursor;
        if (request->count == EVENTS_FROM_NOW) {
            since = found.next;
        } else if (request->count == EVENTS_FROM_OLDEST) {
            since = found.lost;
        }
        switch ((int)events_listen(conn, since)) {
        case KVASIR_OK:
            reply_integer(conn, (int64_t)since);
            break;
        case KVASIR_BUSY:
            reply_errorf(conn, "BUSY %u connections of this reactor listen to events already",
                         EVENTS_LISTENERS_MAX);
            break;
        default:
            reply_error(conn, ERROR_ANSWER_MEMORY);
            break;
        }
    }
    gather_destroy(&request->gather);
}

void cmd_events_reply_unsubscribe(struct conn *conn, struct request *request)
{
    (void)request;
    reply_integer(conn, (int64_t)events_unlisten(conn));
}
