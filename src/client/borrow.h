#pragma once
/* borrow – reads what LEASE and RESERVE grant and moves the payload between the caller's memory and the
 * shared memory as the extents arrive, or has the device move it once all are there. Called by answer;
 * owns nothing. */

#include "client/link.h"

/* A token of the reply to a LEASE or a RESERVE that is not an error. KVASIR_OK or KVASIR_PROTOCOL. */
ATTR_MUST_USE enum kvasir_status borrow_lease_token(struct link *link, struct link_command *command,
                                                    const struct reply_token *token,
                                                    int64_t now_us);
ATTR_MUST_USE enum kvasir_status borrow_reserve_token(struct link *link,
                                                      struct link_command *command,
                                                      const struct reply_token *token,
                                                      int64_t now_us);
/* The staging memory of an item is free again. */
void borrow_staging_done(struct link *link, struct kvasir_request *request, uint32_t index);
