#pragma once
/* cmd_memory – handlers of MEMORY but for USAGE. See handlers.h. */

#include "server/handlers.h"

handler_reply_fn cmd_memory_reply_stats, cmd_memory_reply_doctor, cmd_memory_reply_malloc_stats,
    cmd_memory_reply_purge, cmd_memory_reply_help;
