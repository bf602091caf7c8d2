#include "server/cmd_monitor.h"

#include "server/cmd_transaction.h"
#include "server/gather.h"
#include "server/monitor.h"
#include "server/reply.h"

void cmd_monitor_admit(struct request *request)
{
    uint32_t flags = request->command->flags;
    if ((flags & (COMMAND_FLAG_READONLY | COMMAND_FLAG_WRITE)) != 0 ||
        request->command->id == COMMAND_PUBLISH || request->command->id == COMMAND_SPUBLISH) {
        request->refusal = REFUSAL_MONITOR;
    }
}

void cmd_monitor_plan(struct conn *conn, struct request *request)
{
    if (cmd_transaction_queued(conn) >= 0) {
        request_refuse(request, "ERR MONITOR isn't allowed for DENY BLOCKING client");
    } else if (conn->monitor == NULL && !monitor_start(conn, request)) {
        request_refuse(request, "OOM no memory for MONITOR");
    }
}

void cmd_monitor_reply(struct conn *conn, struct request *request)
{
    if (request->gather == NULL) {
        return; /* it listens already, and Redis says nothing, either */
    }
    gather_destroy(&request->gather);
    reply_ok(conn);
    monitor_listen(conn);
}
