#include "server/pubsub.h"

#include "base/check.h"
#include "base/glob.h"
#include "server/conn.h"
#include "server/push.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

bool pubsub_init(struct pubsub *pubsub, uint64_t hash_seed)
{
    list_init(&pubsub->patterns);
    pubsub->count = 0;
    pubsub->hash_seed = hash_seed;
    pubsub->buckets = calloc(2 * (size_t)PUBSUB_BUCKETS, sizeof(*pubsub->buckets));
    for (size_t i = 0; pubsub->buckets != NULL && i < 2 * (size_t)PUBSUB_BUCKETS; i++) {
        list_init(&pubsub->buckets[i]);
    }
    return pubsub->buckets != NULL;
}

void pubsub_fini(struct pubsub *pubsub)
{
    check(pubsub->count == 0);
    free(pubsub->buckets);
    pubsub->buckets = NULL;
}

uint64_t pubsub_hash(const struct pubsub *pubsub, struct slice name)
{
    return XXH3_64bits_withSeed(name.length_bytes > 0 ? (const void *)name.data : "",
                                name.length_bytes, pubsub->hash_seed);
}

static struct list *chain_of(struct pubsub *pubsub, enum pubsub_kind kind, struct slice name)
{
    uint64_t hash;
    if (kind == PUBSUB_PATTERN) {
        return &pubsub->patterns;
    }
    hash = pubsub_hash(pubsub, name);
    return &pubsub->buckets[hash % PUBSUB_BUCKETS +
                            (kind == PUBSUB_SHARD_CHANNEL ? PUBSUB_BUCKETS : 0)];
}

static struct subscription *find(struct pubsub *pubsub, const struct conn *conn,
                                 enum pubsub_kind kind, struct slice name)
{
    list_foreach (cursor, chain_of(pubsub, kind, name)) {
        struct subscription *found = list_entry(cursor, struct subscription, link);
        if (found->conn == conn && slice_equal(found->name, name)) {
            return found;
        }
    }
    return NULL;
}

bool pubsub_join(struct pubsub *pubsub, struct conn *conn, enum pubsub_kind kind, struct slice name)
{
    struct chunk_pool *pool = &conn->reactor->chunks;
    size_t bytes = sizeof(struct subscription) + name.length_bytes;
    struct subscription *added;
    if (find(pubsub, conn, kind, name) != NULL) {
        return true;
    }
    added = pool->large_bytes + bytes > pool->large_bytes_max ? NULL : malloc(bytes);
    if (added == NULL) {
        return false;
    }
    pool->large_bytes += bytes;
    added->conn = conn;
    added->kind = (uint8_t)kind;
    if (name.length_bytes > 0) {
        memcpy(added->bytes, name.data, name.length_bytes);
    }
    added->name = slice_of(added->bytes, name.length_bytes);
    list_init(&added->link);
    list_init(&added->conn_link);
    list_push_back(chain_of(pubsub, kind, name), &added->link);
    list_push_back(&conn->subscriptions, &added->conn_link);
    conn->subscription_counts[kind]++;
    pubsub->count++;
    return true;
}

static void end(struct pubsub *pubsub, struct subscription *subscription)
{
    struct conn *conn = subscription->conn;
    conn->reactor->chunks.large_bytes -= sizeof(*subscription) + subscription->name.length_bytes;
    conn->subscription_counts[subscription->kind]--;
    pubsub->count--;
    list_remove(&subscription->link);
    list_remove(&subscription->conn_link);
    free(subscription);
}

bool pubsub_leave(struct pubsub *pubsub, struct conn *conn, enum pubsub_kind kind,
                  struct slice name)
{
    struct subscription *found = find(pubsub, conn, kind, name);
    if (found != NULL) {
        end(pubsub, found);
    }
    return found != NULL;
}

struct subscription *pubsub_any(struct conn *conn, enum pubsub_kind kind)
{
    list_foreach (cursor, &conn->subscriptions) {
        struct subscription *found = list_entry(cursor, struct subscription, conn_link);
        if (found->kind == kind) {
            return found;
        }
    }
    return NULL;
}

void pubsub_leave_all(struct pubsub *pubsub, struct conn *conn)
{
    while (!list_empty(&conn->subscriptions)) {
        end(pubsub, list_entry(conn->subscriptions.next, struct subscription, conn_link));
    }
}

uint64_t pubsub_deliver(struct pubsub *pubsub, bool shard, struct slice channel, struct slice text)
{
    enum pubsub_kind kind = shard ? PUBSUB_SHARD_CHANNEL : PUBSUB_CHANNEL;
    uint64_t count = 0;
    if (pubsub->count == 0) {
        return 0;
    }
    /* Who is cut goes at the end of the turn: no list changes here. */
    list_foreach (cursor, chain_of(pubsub, kind, channel)) {
        struct subscription *to = list_entry(cursor, struct subscription, link);
        if (slice_equal(to->name, channel)) {
            const struct slice parts[] = {slice_of_text(shard ? "smessage" : "message"), channel,
                                          text};
            push_strings(to->conn, parts, ARRAY_COUNT(parts));
            count++;
        }
    }
    if (shard) {
        return count;
    }
    list_foreach (cursor, &pubsub->patterns) {
        struct subscription *to = list_entry(cursor, struct subscription, link);
        if (glob_match(to->name, channel, false)) {
            const struct slice parts[] = {slice_of_text("pmessage"), to->name, channel, text};
            push_strings(to->conn, parts, ARRAY_COUNT(parts));
            count++;
        }
    }
    return count;
}

/* Whether another subscription before this one in its chain has the same name. */
static bool said_before(const struct list *chain, const struct subscription *subscription)
{
    list_foreach (cursor, chain) {
        const struct subscription *other = list_entry(cursor, struct subscription, link);
        if (other == subscription) {
            return false;
        }
        if (slice_equal(other->name, subscription->name)) {
            return true;
        }
    }
    return false;
}

static void visit_chain(struct list *chain, pubsub_visit_fn *visit, void *argument)
{
    list_foreach (cursor, chain) {
        struct subscription *found = list_entry(cursor, struct subscription, link);
        if (!said_before(chain, found)) {
            visit(argument, found->name);
        }
    }
}

void pubsub_visit(struct pubsub *pubsub, enum pubsub_kind kind, pubsub_visit_fn *visit,
                  void *argument)
{
    size_t first = kind == PUBSUB_SHARD_CHANNEL ? PUBSUB_BUCKETS : 0;
    if (kind == PUBSUB_PATTERN) {
        visit_chain(&pubsub->patterns, visit, argument);
        return;
    }
    for (size_t i = 0; i < PUBSUB_BUCKETS; i++) {
        visit_chain(&pubsub->buckets[first + i], visit, argument);
    }
}

uint64_t pubsub_count(struct pubsub *pubsub, bool shard, struct slice channel)
{
    uint64_t count = 0;
    list_foreach (cursor,
                  chain_of(pubsub, shard ? PUBSUB_SHARD_CHANNEL : PUBSUB_CHANNEL, channel)) {
        count += slice_equal(list_entry(cursor, struct subscription, link)->name, channel);
    }
    return count;
}
