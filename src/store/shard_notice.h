#pragma once
/* shard_notice – what is asked of keys becomes notices, while any are wanted. For the files of this layer
 * only; the shard's thread. What others call is in shard.h. */

#include "store/shard_impl.h"

/* An op was done. Of those that put a value, shard_notice_put tells. */
void shard_notice_op(struct shard *shard, const struct op *op);
/* A value took its key's place, for an op. */
void shard_notice_put(struct shard *shard, const struct op *op, const struct value *value);

static inline bool shard_notice_wanted(const struct shard *shard)
{
    return UNLIKELY(shard->notices.classes != 0);
}

static inline void shard_notice(struct shard *shard, enum notice_kind kind, const struct op *op)
{
    if (shard_notice_wanted(shard)) {
        notice_add(&shard->notices, kind, shard->shown[op->database], op->key);
    }
}
