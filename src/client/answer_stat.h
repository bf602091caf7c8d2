#pragma once
/* answer_stat – the reply to KV.STAT, token by token. Called by answer; owns nothing. */

#include "client/link.h"

/* KVASIR_OK, or KVASIR_PROTOCOL: not the shape of such a reply. */
enum kvasir_status answer_stat_token(struct link *link, const struct link_command *command,
                                     const struct reply_token *token);
