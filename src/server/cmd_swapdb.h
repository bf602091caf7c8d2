#pragma once
/* cmd_swapdb – SWAPDB: one step for all shards, which are held; a transaction holds them anyway. Requests of
 * others that are under way end in the database in which they began. See handlers.h, database_map.h. */

#include "server/handlers.h"

handler_plan_fn cmd_swapdb_plan;
handler_reply_fn cmd_swapdb_reply;
