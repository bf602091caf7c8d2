#pragma once
/* cmd_events – handlers of KV.EVENTS. See handlers.h; what goes over the wire stands in
 * src/proto/README.md. */

#include "server/handlers.h"

handler_plan_fn cmd_events_plan_since, cmd_events_plan_subscribe;
handler_reply_fn cmd_events_reply_since, cmd_events_reply_subscribe, cmd_events_reply_unsubscribe;
