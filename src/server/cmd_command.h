#pragma once
/* cmd_command – handlers of COMMAND and its subcommands: what the command table says, in Redis's
 * shapes. See handlers.h. */

#include "server/handlers.h"

handler_reply_fn cmd_command_reply_all, cmd_command_reply_count, cmd_command_reply_info,
    cmd_command_reply_list, cmd_command_reply_docs, cmd_command_reply_getkeys,
    cmd_command_reply_getkeysandflags, cmd_command_reply_help;
