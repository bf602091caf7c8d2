#pragma once
/* cmd_shm – handlers of the commands of the shared-memory path: set-up, and puts through the staging
 * area (RESERVE, then COMMIT or ABORT). See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_shm_plan_reserve, cmd_shm_plan_commit, cmd_shm_plan_abort;
handler_reply_fn cmd_shm_reply_connect, cmd_shm_reply_connect_ring, cmd_shm_reply_connect_help,
    cmd_shm_reply_reserve, cmd_shm_reply_commit, cmd_shm_reply_abort;
