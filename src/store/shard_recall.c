/* Loans end with their keys: what is lent (OP_READ_LENT) and pinned when its key is deleted, flushed,
 * evicted or expires is noted for those who lend. An overwritten value is not: it is what its readers
 * asked for, and they keep it until they are done. */

#include "store/shard_recall.h"
#include "base/check.h"

void shard_recall_add(struct shard *shard, const struct value *value)
{
    recall_list_add(&shard->recalls, (struct recall){.value = value, .shard = shard->config.index});
}

void shard_recall_flush(struct shard *shard, uint8_t database)
{
    if (shard->lends) {
        recall_list_add(&shard->recalls, (struct recall){.shard = shard->config.index,
                                                         .epoch = shard->spaces[database].epoch,
                                                         .database = database});
    }
}

bool shard_recalls_pending(const struct shard *shard)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    return shard->recalls.count > 0;
}

void shard_recalls_take(struct shard *shard, struct recall_list *list_p)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    *list_p = shard->recalls;
    shard->recalls.count = 0;
    shard->recalls.all = false;
}
