#pragma once
/* cmd_client – handlers of CLIENT and its subcommands. See handlers.h. */

#include "server/handlers.h"

/* Room for one line of CLIENT LIST. */
#define CMD_CLIENT_LINE_BYTES_MAX 1536

/* The line of CLIENT LIST, with its line feed; returns its length. */
size_t cmd_client_describe(const struct conn *conn, char *line, size_t capacity);

/* Names the connection; false: the error reply is written. Shared with HELLO. */
bool cmd_client_set_name(struct conn *conn, struct slice name);

handler_plan_fn cmd_client_plan_list, cmd_client_plan_kill;
handler_reply_fn cmd_client_reply_id, cmd_client_reply_getname, cmd_client_reply_setname,
    cmd_client_reply_setinfo, cmd_client_reply_list, cmd_client_reply_info, cmd_client_reply_kill,
    cmd_client_reply_no_evict, cmd_client_reply_no_touch, cmd_client_reply_reply,
    cmd_client_reply_help;
