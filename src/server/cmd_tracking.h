#pragma once
/* cmd_tracking – handlers of CLIENT TRACKING and what belongs to it: it is always off, since nothing
 * announces changes. See handlers.h. */

#include "server/handlers.h"

handler_reply_fn cmd_tracking_reply_tracking, cmd_tracking_reply_caching,
    cmd_tracking_reply_getredir, cmd_tracking_reply_info;
