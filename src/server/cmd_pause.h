#pragma once
/* cmd_pause – handlers of CLIENT PAUSE, UNPAUSE and UNBLOCK. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_pause_plan_pause, cmd_pause_plan_unpause;
handler_reply_fn cmd_pause_reply_done, cmd_pause_reply_unblock;
