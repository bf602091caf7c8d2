#pragma once
/* cmd_observe – handlers of SLOWLOG and LATENCY. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_observe_plan_slowlog_get, cmd_observe_plan_slowlog_len,
    cmd_observe_plan_slowlog_reset, cmd_observe_plan_latency, cmd_observe_plan_latency_reset,
    cmd_observe_plan_histogram;
handler_reply_fn cmd_observe_reply_slowlog_get, cmd_observe_reply_slowlog_len,
    cmd_observe_reply_slowlog_reset, cmd_observe_reply_slowlog_help, cmd_observe_reply_latest,
    cmd_observe_reply_history, cmd_observe_reply_graph, cmd_observe_reply_latency_reset,
    cmd_observe_reply_latency_doctor, cmd_observe_reply_latency_help, cmd_observe_reply_histogram;
