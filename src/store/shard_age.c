/* How long values lie unused: by this shards are compared, and memory goes to whom it serves most. */

#include "base/check.h"
#include "store/shard_impl.h"

/* Buckets looked at in a tick, wherever the walk stands: they are hashed, so any are as good. */
#define SHARD_AGE_BUCKETS 8U
/* Of the sampled values a new one counts so much: a change shows within seconds. */
#define SHARD_AGE_SHIFT       6
#define SHARD_AGE_SECONDS_MAX (1U << 20)

static void shard_age_smooth(uint32_t *age_256ths_p, uint32_t age_s)
{
    int64_t wanted = (int64_t)(age_s < SHARD_AGE_SECONDS_MAX ? age_s : SHARD_AGE_SECONDS_MAX) << 8;
    int64_t age = *age_256ths_p;
    *age_256ths_p = (uint32_t)(age + (wanted - age) / (1 << SHARD_AGE_SHIFT));
}

void shard_age_note_victim(struct shard *shard, const struct value *value)
{
    shard_age_smooth(&shard->victim_age_256ths, shard_clock_s(shard) - value->touched_s);
}

void shard_age_sample(struct shard *shard)
{
    for (uint32_t i = 0; i < SHARD_AGE_BUCKETS; i++) {
        shard->sampled_bucket++;
        if (shard->sampled_bucket >= shard->index.bucket_count) {
            shard->sampled_bucket = 0;
        }
        const struct value *value = index_first(&shard->index, shard->sampled_bucket);
        if (value != NULL) {
            shard_age_smooth(&shard->mean_age_256ths, shard_clock_s(shard) - value->touched_s);
        }
    }
}

void shard_ages(const struct shard *shard, struct shard_ages *ages_p)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    *ages_p = (struct shard_ages){
        .victim_age_s = shard->victim_age_256ths >> 8,
        .mean_age_s = shard->index.count > 0 ? shard->mean_age_256ths >> 8 : 0,
        .evicted_bytes = shard->evicted_bytes,
    };
}
