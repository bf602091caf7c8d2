#pragma once
/* cmd_rdma – handlers of the commands of the RDMA path. See handlers.h. */

#include "server/handlers.h"

handler_reply_fn cmd_rdma_reply_connect;
