#pragma once
/* cmd_msetnx – handlers of MSETNX, which stores all of its values or none. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_msetnx_plan;
handler_reply_fn cmd_msetnx_reply;
