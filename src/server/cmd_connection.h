#pragma once
/* cmd_connection – handlers of the commands on the connection itself. See handlers.h. */

#include "server/handlers.h"

handler_reply_fn cmd_connection_reply_ping, cmd_connection_reply_echo, cmd_connection_reply_hello,
    cmd_connection_reply_auth, cmd_connection_reply_select, cmd_connection_reply_quit,
    cmd_connection_reply_reset;
