#pragma once
/* info_channels – how many channels and patterns are listened to, over all reactors: each names its own by
 * their hashes, and who asks counts each once. Used by INFO's gather. */

#include "server/gather.h"
#include "server/pubsub.h"

/* Adds this reactor's, once each, to its answer. */
void info_channels_add(struct gather_answer *answer, struct pubsub *pubsub);
/* Counts those behind offset_bytes of all answers, by kind. False: no memory. */
ATTR_MUST_USE bool info_channels_count(const struct gather *gather, size_t offset_bytes,
                                       uint64_t counts[PUBSUB_KIND_COUNT]);
