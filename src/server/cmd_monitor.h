#pragma once
/* cmd_monitor – handler of MONITOR. See handlers.h. */

#include "server/handlers.h"

/* For connections that listen: they read and write no keys, as in Redis. */
void cmd_monitor_admit(struct request *request);

handler_plan_fn cmd_monitor_plan;
handler_reply_fn cmd_monitor_reply;
