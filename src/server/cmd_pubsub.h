#pragma once
/* cmd_pubsub – handlers of publish and subscribe. See handlers.h. */

#include "server/handlers.h"

handler_plan_fn cmd_pubsub_plan_publish, cmd_pubsub_plan_channels, cmd_pubsub_plan_numsub;
handler_reply_fn cmd_pubsub_reply_subscribe, cmd_pubsub_reply_unsubscribe, cmd_pubsub_reply_publish,
    cmd_pubsub_reply_channels, cmd_pubsub_reply_numsub, cmd_pubsub_reply_numpat,
    cmd_pubsub_reply_help;

/* A client that subscribed in RESP2 may do little else: sets the refusal. */
void cmd_pubsub_admit(const struct conn *conn, struct request *request);
/* RESET, and the end of the connection: no subscriptions. */
void cmd_pubsub_end(struct conn *conn);
