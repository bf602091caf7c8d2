#pragma once
/* engine – moves every link of a client forward: connects, sends, waits in poll(2), receives, and ends
 * what has run out of time. All calls, synchronous or not, are driven by it. One thread. */

#include <kvasir/client.h>

/* One round: sends and reads what can be, then, when nothing was finished by that, waits for the
 * sockets until deadline_us (at most until the earliest deadline of a request). */
void engine_turn(struct kvasir_client *client, int64_t deadline_us);
/* Until the request is finished; its own deadline bounds the wait. */
void engine_run(struct kvasir_client *client, const struct kvasir_request *request);
/* Until no link is connecting any more. */
void engine_settle(struct kvasir_client *client, int64_t deadline_us);
/* Ends a request that is not finished. A link in the middle of a reply to it, or still referring to
 * its memory, is dropped. */
void engine_withdraw(struct kvasir_client *client, struct kvasir_request *request,
                     enum kvasir_status status);
