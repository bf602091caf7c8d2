#pragma once
/* cmd_key – handlers of the commands on keys of any kind. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_key_plan_exists, cmd_key_plan_del, cmd_key_plan_touch, cmd_key_plan_look,
    cmd_key_plan_expire, cmd_key_plan_pexpire, cmd_key_plan_expireat, cmd_key_plan_pexpireat,
    cmd_key_plan_persist, cmd_key_plan_object, cmd_key_plan_memory_usage;
handler_reply_fn cmd_key_reply_count, cmd_key_reply_type, cmd_key_reply_ttl, cmd_key_reply_pttl,
    cmd_key_reply_expiretime, cmd_key_reply_pexpiretime, cmd_key_reply_done, cmd_key_reply_encoding,
    cmd_key_reply_freq, cmd_key_reply_idletime, cmd_key_reply_refcount, cmd_key_reply_object_help,
    cmd_key_reply_memory_usage;

/* The name that Redis has for the form of such a value. */
const char *cmd_key_encoding(const struct op_stat *stat);
