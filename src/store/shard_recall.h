#pragma once
/* shard_recall – what is lent outside is called back when its key dies. For the files of this layer only;
 * the shard's thread. What others call is in shard.h. */

#include "store/shard_impl.h"

void shard_recall_add(struct shard *shard, const struct value *value);
/* The database was flushed; its epoch is the new one already. */
void shard_recall_flush(struct shard *shard, uint8_t database);

/* The key is deleted, evicted or expired. */
static inline void shard_recall_note(struct shard *shard, const struct value *value)
{
    if (UNLIKELY(value->lent && value->pins > 0)) {
        shard_recall_add(shard, value);
    }
}
