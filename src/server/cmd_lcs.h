#pragma once
/* cmd_lcs – handlers of LCS, the longest common subsequence of two strings. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_lcs_plan;
handler_reply_fn cmd_lcs_reply;
