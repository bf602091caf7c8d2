#pragma once
/* shard_event – what happens to keys goes into the shard's ring, while it has one. For the files of this
 * layer only; the shard's thread. What others call is in shard.h. */

#include "store/shard_impl.h"

void shard_event_add(struct shard *shard, enum event_kind kind, const struct value *value);
void shard_event_flush(struct shard *shard, uint8_t database);
/* Somebody listens, or does so no longer. */
void shard_event_listeners(struct shard *shard);

static inline void shard_event_note(struct shard *shard, enum event_kind kind,
                                    const struct value *value)
{
    if (UNLIKELY(shard->tells) && kind != EVENT_NONE) {
        shard_event_add(shard, kind, value);
    }
}
