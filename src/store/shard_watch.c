/* Watched keys: who changes a key looks, while any is watched, for those who want to know. */

#include "store/shard_watch.h"
#include "base/check.h"
#include "store/shard_impl.h"

static struct list *shard_watch_bucket(struct shard *shard, uint64_t hash)
{
    return &shard->watches[hash % SHARD_WATCH_BUCKETS];
}

void shard_watch_init(struct shard *shard)
{
    for (unsigned i = 0; i < SHARD_WATCH_BUCKETS; i++) {
        list_init(&shard->watches[i]);
    }
}

void shard_watch_touch(struct shard *shard, uint64_t hash)
{
    list_foreach (cursor, shard_watch_bucket(shard, hash)) {
        struct watch *watch = list_entry(cursor, struct watch, link);
        watch->touched = watch->touched || watch->hash == hash;
    }
}

static struct value *shard_watch_find(struct shard *shard, const struct watch *watch)
{
    struct op find = {.database = watch->database, .key = watch->key, .hash = watch->hash};
    return shard_value_find(shard, &find);
}

void shard_watch_flush(struct shard *shard, uint8_t database)
{
    for (unsigned i = 0; i < SHARD_WATCH_BUCKETS && shard->watch_count > 0; i++) {
        list_foreach (cursor, &shard->watches[i]) {
            struct watch *watch = list_entry(cursor, struct watch, link);
            if (watch->database == database && shard_watch_find(shard, watch) != NULL) {
                watch->touched = true;
            }
        }
    }
}

/* Takes those of both databases out of the table. */
static void shard_watch_collect(struct shard *shard, uint8_t first, uint8_t second,
                                struct list *moving)
{
    for (unsigned i = 0; i < SHARD_WATCH_BUCKETS; i++) {
        list_foreach_safe (cursor, after, &shard->watches[i]) {
            struct watch *watch = list_entry(cursor, struct watch, link);
            if (watch->database == first || watch->database == second) {
                list_remove(&watch->link);
                list_push_back(moving, &watch->link);
            }
        }
    }
}

void shard_watch_swap(struct shard *shard, uint8_t first, uint8_t second)
{
    struct list moving;
    if (shard->watch_count == 0) {
        return;
    }
    list_init(&moving);
    shard_watch_collect(shard, first, second, &moving);
    list_foreach_safe (cursor, after, &moving) {
        struct watch *watch = list_entry(cursor, struct watch, link);
        bool there = shard_watch_find(shard, watch) != NULL;
        list_remove(&watch->link);
        watch->database = watch->database == first ? second : first;
        watch->hash = op_hash(shard->config.hash_seed, watch->database, watch->key);
        list_push_back(shard_watch_bucket(shard, watch->hash), &watch->link);
        /* A key that is in neither stays what it was: absent, or expired meanwhile. */
        watch->touched = watch->touched || there || shard_watch_find(shard, watch) != NULL;
    }
}

static bool shard_watch_is_known(struct shard *shard, const struct watch *watch)
{
    list_foreach (cursor, shard_watch_bucket(shard, watch->hash)) {
        const struct watch *other = list_entry(cursor, struct watch, link);
        if (other->hash == watch->hash && other->owner == watch->owner &&
            other->database == watch->database && slice_equal(other->key, watch->key)) {
            return true;
        }
    }
    return false;
}

enum kvasir_status shard_watch(struct shard *shard, struct watch *watch, const struct moment *now)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    if (shard_watch_is_known(shard, watch)) {
        return KVASIR_EXISTS;
    }
    if (shard->watch_count >= SHARD_WATCHES_MAX) {
        return KVASIR_BUSY;
    }
    shard_set_now(shard, now);
    watch->touched = false;
    list_init(&watch->link);
    /* One that has expired goes now, unless it is held: that is no change. */
    watch->present = shard_watch_find(shard, watch) != NULL;
    list_push_back(shard_watch_bucket(shard, watch->hash), &watch->link);
    shard->watch_count++;
    return KVASIR_OK;
}

void shard_unwatch(struct shard *shard, struct watch *watch)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    check(list_linked(&watch->link) && shard->watch_count > 0);
    list_remove(&watch->link);
    shard->watch_count--;
}

bool shard_watch_touched(struct shard *shard, struct watch *watch, const struct moment *now)
{
    CHECK_MAGIC(shard, SHARD_MAGIC);
    shard_set_now(shard, now);
    if (watch->present && shard_watch_find(shard, watch) == NULL) {
        watch->touched = true; /* it has expired meanwhile, and may be held */
    }
    return watch->touched;
}
