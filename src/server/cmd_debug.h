#pragma once
/* cmd_debug – handlers of DEBUG, which as in Redis is one command with a first argument (ACL rules say
 * +debug|object). Who may use it at all is said by enable-debug-command. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_debug_plan;
handler_reply_fn cmd_debug_reply;
