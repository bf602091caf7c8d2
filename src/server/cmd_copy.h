#pragma once
/* cmd_copy – handlers of the commands that store a value under another name. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_copy_plan_rename, cmd_copy_plan_renamenx, cmd_copy_plan_copy,
    cmd_copy_plan_move;
handler_reply_fn cmd_copy_reply;
