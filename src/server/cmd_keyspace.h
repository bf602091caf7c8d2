#pragma once
/* cmd_keyspace – handlers of the commands that look at keys of all shards. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_keyspace_plan_dbsize, cmd_keyspace_plan_flushall, cmd_keyspace_plan_flushdb,
    cmd_keyspace_plan_scan, cmd_keyspace_plan_keys, cmd_keyspace_plan_randomkey;
handler_reply_fn cmd_keyspace_reply_dbsize, cmd_keyspace_reply_flush, cmd_keyspace_reply_scan,
    cmd_keyspace_reply_keys, cmd_keyspace_reply_randomkey;
