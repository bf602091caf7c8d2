#include "server/key_notice.h"

#include "base/check.h"
#include "server/conn.h"
#include "server/feed.h"
#include "server/push.h"

#include <stdio.h>
#include <stdlib.h>

/* Before a key: "__keyspace@63__:". */
#define PREFIX_BYTES_MAX 32U

/* As Redis calls them. */
static const char *const NAMES[] = {
    [NOTICE_SET] = "set",
    [NOTICE_EXPIRE] = "expire",
    [NOTICE_PERSIST] = "persist",
    [NOTICE_DEL] = "del",
    [NOTICE_INCRBY] = "incrby",
    [NOTICE_INCRBYFLOAT] = "incrbyfloat",
    [NOTICE_APPEND] = "append",
    [NOTICE_SETRANGE] = "setrange",
    [NOTICE_SETBIT] = "setbit",
    [NOTICE_RENAME_FROM] = "rename_from",
    [NOTICE_RENAME_TO] = "rename_to",
    [NOTICE_MOVE_FROM] = "move_from",
    [NOTICE_MOVE_TO] = "move_to",
    [NOTICE_COPY_TO] = "copy_to",
    [NOTICE_RESTORE] = "restore",
    [NOTICE_EXPIRED] = "expired",
    [NOTICE_EVICTED] = "evicted",
    [NOTICE_NEW] = "new",
    [NOTICE_KEYMISS] = "keymiss",
};
_Static_assert(ARRAY_COUNT(NAMES) == NOTICE_KIND_COUNT, "each has a name");

/* What is in a feed before the key: the sender's setting counts. */
struct key_notice_head {
    uint8_t kind; /* enum notice_kind */
    uint8_t database;
    bool keyspace;
    bool keyevent;
};

/* ---- into the feed ---- */

static void add_one(void *argument, enum notice_kind kind, uint8_t database, struct slice key)
{
    struct reactor *reactor = argument;
    const struct key_notice_head head = {
        .kind = (uint8_t)kind,
        .database = database,
        .keyspace = notice_classes_keyspace(&reactor->notice_classes),
        .keyevent = notice_classes_keyevent(&reactor->notice_classes),
    };
    uint8_t *to = feed_reserve(reactor, FEED_KEY_NOTICE, sizeof(head) + key.length_bytes);
    if (to == NULL) {
        return;
    }
    memcpy(to, &head, sizeof(head));
    if (key.length_bytes > 0) {
        memcpy(to + sizeof(head), key.data, key.length_bytes);
    }
    feed_add(reactor, sizeof(head) + key.length_bytes);
}

void key_notice_collect(struct reactor *reactor)
{
    reactor_shard_enter(reactor);
    if (shard_notices_take(reactor->shard, add_one, reactor)) {
        reactor->feed.lost = true;
    }
    reactor_shard_leave(reactor);
}

void key_notice_configure(struct reactor *reactor)
{
    if (reactor->notices_kept) {
        key_notice_collect(reactor);
    }
    check(notice_classes_parse(&reactor->notice_classes,
                               slice_of_text(reactor->settings.notify_keyspace_events)));
    shard_notices_want(reactor->shard, notice_classes_wanted(&reactor->notice_classes));
    reactor->notices_kept = notice_classes_wanted(&reactor->notice_classes) != 0;
}

/* ---- out of it ---- */

static void publish_keyspace(struct reactor *reactor, const struct key_notice_head *head,
                             struct slice key)
{
    char small[256];
    size_t capacity = PREFIX_BYTES_MAX + key.length_bytes;
    char *channel = capacity <= sizeof(small) ? small : malloc(capacity);
    int prefix;
    if (channel == NULL) {
        key_notice_cut_all(reactor);
        return;
    }
    prefix = snprintf(channel, PREFIX_BYTES_MAX, "__keyspace@%u__:", (unsigned)head->database);
    check(prefix > 0 && (size_t)prefix < PREFIX_BYTES_MAX);
    if (key.length_bytes > 0) {
        memcpy(channel + prefix, key.data, key.length_bytes);
    }
    (void)pubsub_deliver(&reactor->pubsub, false,
                         slice_of(channel, (size_t)prefix + key.length_bytes),
                         slice_of_text(NAMES[head->kind]));
    if (channel != small) {
        free(channel);
    }
}

static void publish_keyevent(struct reactor *reactor, const struct key_notice_head *head,
                             struct slice key)
{
    char channel[64];
    (void)snprintf(channel, sizeof(channel), "__keyevent@%u__:%s", (unsigned)head->database,
                   NAMES[head->kind]);
    (void)pubsub_deliver(&reactor->pubsub, false, slice_of_text(channel), key);
}

void key_notice_deliver(struct reactor *reactor, struct slice record)
{
    struct key_notice_head head;
    struct slice key = slice_of(record.data + sizeof(head), record.length_bytes - sizeof(head));
    if (reactor->pubsub.count == 0) {
        return;
    }
    memcpy(&head, record.data, sizeof(head));
    if (head.keyspace) {
        publish_keyspace(reactor, &head, key);
    }
    if (head.keyevent) {
        publish_keyevent(reactor, &head, key);
    }
}

static bool listens_to_keys(struct conn *conn)
{
    static const char prefix[] = "__key";
    list_foreach (cursor, &conn->subscriptions) {
        const struct subscription *found = list_entry(cursor, struct subscription, conn_link);
        if (found->kind == PUBSUB_PATTERN ||
            (found->kind == PUBSUB_CHANNEL && found->name.length_bytes >= sizeof(prefix) - 1 &&
             memcmp(found->name.data, prefix, sizeof(prefix) - 1) == 0)) {
            return true;
        }
    }
    return false;
}

void key_notice_cut_all(struct reactor *reactor)
{
    list_foreach_safe (cursor, after, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        if ((conn->modes & CONN_MODE_SUBSCRIBED) != 0 && listens_to_keys(conn)) {
            push_cut(conn);
        }
    }
}
