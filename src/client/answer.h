#pragma once
/* answer – takes the replies of one link apart and hands the results to the items. Called by link as
 * tokens arrive; owns nothing. */

#include "client/link.h"

/* A token of the reply to the oldest command in flight. KVASIR_OK; any other status: the link is to
 * be dropped for that reason. A long payload opens link->sink. */
ATTR_MUST_USE enum kvasir_status answer_token(struct link *link, const struct reply_token *token,
                                              int64_t now_us);
/* The payload of link->sink is complete. */
void answer_payload_done(struct link *link);
/* The reply to the oldest command is complete: it leaves the link. */
void answer_end(struct link *link, int64_t now_us);
/* The link is lost: every command in flight fails. */
void answer_abandon(struct link *link, enum kvasir_status status);
/* A device has connected a queue pair of the link, or cannot: the greeting, if it is still that, is over with
 * the first that is up, or when none is awaited. */
void answer_connected(struct link *link);
