#pragma once
/* cmd_none – handlers of commands about what this server does not have (replicas, scripts, a cluster), as
 * far as clients send them anyway: each answers what is true, or refuses. See handlers.h. */

#include "server/handlers.h"

handler_reply_fn cmd_none_reply_cluster, cmd_none_reply_eval, cmd_none_reply_evalsha,
    cmd_none_reply_fcall, cmd_none_reply_script, cmd_none_reply_function, cmd_none_reply_replicaof,
    cmd_none_reply_wait, cmd_none_reply_lolwut;
