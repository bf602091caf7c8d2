#pragma once
/* shard_watch – who wants to know of changes of a key, within the shard. For the files of this layer only;
 * the shard's thread. What others call is in shard.h. */

#include "store/shard_impl.h"

void shard_watch_init(struct shard *shard);
/* A key with this hash changes. */
void shard_watch_touch(struct shard *shard, uint64_t hash);
/* The database is about to be flushed. */
void shard_watch_flush(struct shard *shard, uint8_t database);
/* Who watches a key of one database watches it in the other from now on. */
void shard_watch_swap(struct shard *shard, uint8_t first, uint8_t second);

static inline void shard_value_changes(struct shard *shard, const struct value *value)
{
    if (UNLIKELY(shard->watch_count > 0)) {
        shard_watch_touch(shard, value->hash);
    }
}
