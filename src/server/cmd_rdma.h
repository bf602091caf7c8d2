#pragma once
/* cmd_rdma – handlers of the commands of the RDMA path: set-up of the queue pair, and puts and gets that
 * the server drives by it (KV.PUT … FROM, KV.GET … INTO). See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_rdma_plan_connect, cmd_rdma_plan_put, cmd_rdma_plan_get;
handler_reply_fn cmd_rdma_reply_connect, cmd_rdma_reply_put, cmd_rdma_reply_get;

/* Whether the connection's user may use RDMA, and there is a device; what KV.HELLO then says of it. */
bool cmd_rdma_is_offered(const struct conn *conn);
void cmd_rdma_describe(struct conn *conn);
