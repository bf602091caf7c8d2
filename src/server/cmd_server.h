#pragma once
/* cmd_server – handlers of the commands about the server as a whole. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_server_plan_facts, cmd_server_plan_config_set, cmd_server_plan_resetstat,
    cmd_server_plan_shutdown;
handler_reply_fn cmd_server_reply_info, cmd_server_reply_config_get, cmd_server_reply_config_set,
    cmd_server_reply_resetstat, cmd_server_reply_config_rewrite, cmd_server_reply_config_help,
    cmd_server_reply_time, cmd_server_reply_role, cmd_server_reply_module_list,
    cmd_server_reply_shutdown;
