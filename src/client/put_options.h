#pragma once
/* put_options – the words that say of a put what it is besides key and payload, and the payload's digest.
 * Used by pipeline on the engine's thread; owns nothing. */

#include "client/job.h"
#include "client/outbox.h"

#include <stdbool.h>
#include <stdint.h>

/* How many words put_options_add adds. */
uint32_t put_options_count(const struct kvasir_request *request, uint32_t index, bool checksum);
/* NX, TTL, PARENT, CLASS and COST as the request has them; with a checksum also CHECKSUM and the digest. */
void put_options_add(struct outbox *outbox, const struct kvasir_request *request, uint32_t index,
                     bool checksum);
/* One word: the digest of the item's payload, which must be in host memory. */
void put_options_add_digest(struct outbox *outbox, const struct kvasir_request *request,
                            uint32_t index);
