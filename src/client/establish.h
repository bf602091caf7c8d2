#pragma once
/* establish – from an address to links: greets, prefers shared memory, and has one link for each reactor;
 * and looks for shared memory again when it was lost or not to be had. Called by the client's one thread;
 * the links belong to the client. */

#include "base/compiler.h"
#include "client/client_impl.h"

/* The client's links to client->origin. KVASIR_OK or why there is none: the client is then of no use. */
ATTR_MUST_USE enum kvasir_status establish_first(struct kvasir_client *client);

/* Whether it is time for establish_look: after a while without shared memory, and whenever a link had to
 * be made anew. */
static inline bool establish_is_due(const struct kvasir_client *client, int64_t now_us)
{
    return client->options.shm && (now_us >= client->local_retry_at_us ||
                                   client->counters.reconnects != client->local_reconnects);
}

/* Goes back to shared memory when that can be had, and to the address that the caller gave when the Unix
 * socket leads nowhere. Does nothing while requests are in flight or views are held. Waits until the
 * deadline at most. */
void establish_look(struct kvasir_client *client, int64_t now_us, int64_t deadline_us);
