#include "server/cmd_rdma.h"

#include "server/reply.h"

void cmd_rdma_reply_connect(struct conn *conn, struct request *request)
{
    (void)request;
    reply_error(conn, "UNSUPPORTED no transport module is loaded (option loadmodule)");
}
