#pragma once
/* cmd_rdma – handlers of the commands of the RDMA path: set-up of the queue pair, and puts and gets that
 * the server drives by it (KV.PUT … FROM, KV.GET … INTO). See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_rdma_plan_connect, cmd_rdma_plan_put, cmd_rdma_plan_get;
handler_reply_fn cmd_rdma_reply_connect, cmd_rdma_reply_put, cmd_rdma_reply_get;

/* How many devices the connection's user may use, and what KV.HELLO then says of them. */
uint32_t cmd_rdma_device_count(const struct conn *conn);
void cmd_rdma_describe(struct conn *conn, uint32_t count);
