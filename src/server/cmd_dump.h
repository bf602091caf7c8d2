#pragma once
/* cmd_dump – handlers of DUMP and RESTORE. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_dump_plan_dump, cmd_dump_plan_restore;
handler_reply_fn cmd_dump_reply_dump, cmd_dump_reply_restore;
