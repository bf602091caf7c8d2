#pragma once
/* cmd_string – handlers of the string commands. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_string_plan_get, cmd_string_plan_set, cmd_string_plan_setnx,
    cmd_string_plan_setex, cmd_string_plan_psetex, cmd_string_plan_getset, cmd_string_plan_getdel,
    cmd_string_plan_getex, cmd_string_plan_mget, cmd_string_plan_mset, cmd_string_plan_strlen,
    cmd_string_plan_getrange, cmd_string_plan_setrange, cmd_string_plan_append,
    cmd_string_plan_incr, cmd_string_plan_decr, cmd_string_plan_incrby, cmd_string_plan_decrby,
    cmd_string_plan_incrbyfloat;
handler_reply_fn cmd_string_reply_get, cmd_string_reply_set, cmd_string_reply_setnx,
    cmd_string_reply_mget, cmd_string_reply_mset, cmd_string_reply_getrange, cmd_string_reply_edit,
    cmd_string_reply_strlen, cmd_string_reply_incrbyfloat;

#define ERROR_TOO_LONG "ERR string exceeds maximum allowed size (proto-max-bulk-len)"

/* Plans the put of args[value_index], from the buffer or as it was uploaded; NULL: it could not be
 * uploaded, and the request is refused with the reason. Shared with KV.SET. */
struct op *cmd_string_add_put(struct conn *conn, struct request *request, uint32_t value_index);
/* True when the key was there, the put is one that leaves it alone, and so no memory was taken for its
 * payload; there is nothing left to do. Shared with KV.SET. */
bool cmd_string_drop_existing(struct conn *conn);
