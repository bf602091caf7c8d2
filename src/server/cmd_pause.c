#include "server/cmd_pause.h"

#include "server/pause.h"
#include "server/reply.h"
#include "server/request_gather.h"

/* As long as nobody can tell it from for ever, and far from the end of what is counted. */
#define PAUSE_MS_MAX (INT64_C(1) << 50)

static void pause_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)index;
    pause_begin(reactor, gather->number, gather->flags != 0);
}

static void unpause_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)gather;
    (void)index;
    pause_end(reactor);
}

void cmd_pause_plan_pause(struct conn *conn, struct request *request)
{
    struct gather *gather;
    bool all = request->arg_count < 4 || slice_equal_nocase(request->args[3], "all");
    int64_t timeout_ms;
    if (request->arg_count > 4) {
        request_refuse(request, ERROR_SYNTAX);
    } else if (!all && !slice_equal_nocase(request->args[3], "write")) {
        request_refuse(request, "ERR CLIENT PAUSE mode must be WRITE or ALL");
    } else if (!slice_to_i64(request->args[2], &timeout_ms) || timeout_ms > PAUSE_MS_MAX) {
        request_refuse(request, "ERR timeout is not an integer or out of range");
    } else if (timeout_ms < 0) {
        request_refuse(request, "ERR timeout is negative");
    } else {
        gather = request_gather_begin(conn, request, pause_run);
        if (gather != NULL) {
            gather->number = conn->reactor->now.mono_us + timeout_ms * 1000;
            gather->flags = all;
            request_gather_start(conn, request);
        }
    }
}

void cmd_pause_plan_unpause(struct conn *conn, struct request *request)
{
    request_gather_run(conn, request, unpause_run);
}

void cmd_pause_reply_done(struct conn *conn, struct request *request)
{
    gather_destroy(&request->gather);
    reply_ok(conn);
}

void cmd_pause_reply_unblock(struct conn *conn, struct request *request)
{
    int64_t id;
    if (request->arg_count > 4) {
        reply_error(conn, ERROR_SYNTAX);
    } else if (request->arg_count == 4 && !slice_equal_nocase(request->args[3], "timeout") &&
               !slice_equal_nocase(request->args[3], "error")) {
        reply_error(conn, "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    } else if (!slice_to_i64(request->args[2], &id)) {
        reply_error(conn, ERROR_NOT_INTEGER);
    } else {
        reply_integer(conn, 0); /* no command blocks, and a pause is not ended for one */
    }
}
