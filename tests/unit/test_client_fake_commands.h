#pragma once
/* test_client_fake_commands – what the fake server answers; see test_client_fake.h. Used by the
 * fake's thread. */

#include "test_client_fake_shm.h"

/* ---- commands ------------------------------------------------------------------------------ */

static inline void fake_kv_hello(struct fake *fake, struct fake_conn *conn)
{
    fake_text(conn, "%11\r\n");
    fake_pair_text(conn, "server", fake->wrong_greeting ? "other" : "kvasir");
    fake_pair_text(conn, "version", "0.0-fake");
    fake_pair_text(conn, "node", "fake-node");
    fake_pair(conn, "reactors", fake->reactor_count);
    fake_pair(conn, "reactor", conn->listener < fake->reactor_count ? conn->listener : 0);
    fake_bulk(conn, "reactor_ports", 13);
    fake_header(conn, '*', fake->reactor_count);
    for (uint32_t i = 0; i < fake->reactor_count; i++) {
        /* Port 1 of the loopback address refuses. */
        fake_header(conn, ':', fake->dead_ports ? 1 : fake->ports[i]);
    }
    fake_bulk(conn, "reactor_sockets", 15);
    fake_text(conn, "*0\r\n");
    fake_pair(conn, "key_bytes_max", 2048);
    fake_pair(conn, "value_bytes_max", 64U << 20);
    fake_pair(conn, "something_new", 7);
    fake_bulk(conn, "transports", 10);
    fake_text(conn, fake->shm ? "*2\r\n%1\r\n" : "*1\r\n%1\r\n");
    fake_pair_text(conn, "name", "tcp");
    if (fake->shm) {
        fake_text(conn, "%2\r\n");
        fake_pair_text(conn, "name", "shm");
        fake_pair_text(conn, "socket", fake->path);
    }
}

static inline void fake_set(struct fake *fake, struct fake_conn *conn, const struct slice *args,
                            uint32_t count)
{
    bool only_if_absent = false;
    struct slice parent = {0};
    for (uint32_t i = 2; i < count; i++) {
        only_if_absent = only_if_absent || slice_equal_nocase(args[i], "NX");
        if (slice_equal_nocase(args[i], "PARENT")) {
            parent = args[i + 1];
        }
    }
    fake->sets++;
    if (only_if_absent && fake_find(fake, args[0])->present) {
        fake_text(conn, "+EXISTS\r\n");
        return;
    }
    fake_store(fake, args[0], args[1].data, args[1].length_bytes);
    struct fake_entry *entry = fake_find(fake, args[0]);
    if (parent.length_bytes < sizeof entry->parent) {
        memcpy(entry->parent, parent.length_bytes > 0 ? (const char *)parent.data : "",
               parent.length_bytes);
        entry->parent[parent.length_bytes] = '\0';
    }
    fake_text(conn, "+OK\r\n");
}

static inline void fake_stat(struct fake *fake, struct fake_conn *conn, struct slice key)
{
    const struct fake_entry *entry = fake_find(fake, key);
    if (!entry->present) {
        fake_text(conn, "_\r\n");
        return;
    }
    fake_text(conn, "%9\r\n");
    fake_pair(conn, "length", entry->length);
    fake_pair(conn, "stored", entry->length / 2);
    fake_pair_text(conn, "codec", "bf16");
    fake_pair_text(conn, "checksum", "00000000deadbeef");
    fake_pair_text(conn, "class", "window");
    fake_pair(conn, "ttl_ms", 4321);
    fake_bulk(conn, "later", 5);
    fake_text(conn, "*2\r\n:1\r\n*1\r\n:2\r\n");
    fake_pair(conn, "hits", 3);
    fake_pair_text(conn, "tier", "dram");
}

static inline void fake_match(struct fake *fake, struct fake_conn *conn, const struct slice *args,
                              uint32_t count)
{
    uint32_t from = 0;
    bool each = false;
    while (from + 1 < count &&
           (slice_equal_nocase(args[from], "PIN") || slice_equal_nocase(args[from], "POLICY"))) {
        each = each || slice_equal_nocase(args[from + 1], "EACH");
        from += 2;
    }
    uint32_t leading = from;
    while (leading < count && fake_find(fake, args[leading])->present) {
        leading++;
    }
    fake->match_commands++;
    fake->match_keys_max =
        count - from > fake->match_keys_max ? count - from : fake->match_keys_max;
    if (!each) {
        fake_header(conn, ':', leading - from);
        return;
    }
    fake_header(conn, '*', count - from);
    for (uint32_t i = from; i < count; i++) {
        fake_header(conn, ':', fake_find(fake, args[i])->present ? 1 : 0);
    }
}

/* What keys that begin with '!' do. True: the command is dealt with. */
static inline bool fake_special(struct fake_conn *conn, struct slice key)
{
    static const char *const replies[][2] = {{"!oom", "-OOM store is full\r\n"},
                                             {"!denied", "-NOPERM not yours\r\n"},
                                             {"!corrupt", "-CORRUPT checksum\r\n"},
                                             {"!garbage", "what is this\r\n"},
                                             {"!array", "*2\r\n:1\r\n:2\r\n"},
                                             {"!half", "$100000\r\n0123456789"},
                                             {"!halfclose", "$100000\r\n0123456789"},
                                             {"!nocrlf", "$5000\r\n"},
                                             {"!push", ">2\r\n$4\r\nnews\r\n$5\r\nhello\r\n_\r\n"}};
    if (slice_equal(key, slice_of_text("!silent")) || slice_equal(key, slice_of_text("!close"))) {
        conn->muted = true;
        conn->finishing = key.data[1] == 'c';
        return true;
    }
    for (size_t i = 0; i < ARRAY_COUNT(replies); i++) {
        if (!slice_equal(key, slice_of_text(replies[i][0]))) {
            continue;
        }
        fake_text(conn, replies[i][1]);
        if (strcmp(replies[i][0], "!nocrlf") == 0) {
            for (int k = 0; k < 5002; k++) {
                fake_text(conn, "x");
            }
        }
        conn->muted = strncmp(replies[i][0], "!half", 5) == 0;
        conn->finishing = strcmp(replies[i][0], "!halfclose") == 0;
        return true;
    }
    return false;
}

static inline void fake_get(struct fake *fake, struct fake_conn *conn, struct slice key)
{
    const struct fake_entry *entry = fake_find(fake, key);
    fake->gets++;
    if (entry->present) {
        fake_bulk(conn, fake->region + entry->offset, entry->length);
    } else {
        fake_text(conn, "_\r\n");
    }
}

static inline void fake_greet(struct fake *fake, struct fake_conn *conn, const struct slice *args,
                              uint32_t count)
{
    if (fake->silent_greeting) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        fake->hello_auth += slice_equal_nocase(args[i], "AUTH") ? 1 : 0;
    }
    if (fake->refuse_greeting) {
        fake_text(conn, "-WRONGPASS invalid username-password pair\r\n");
    } else {
        fake_text(conn, "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n");
    }
}

static inline void fake_check_route(struct fake *fake, const struct fake_conn *conn,
                                    struct slice name, struct slice key)
{
    bool on_one_key = slice_equal_nocase(name, "KV.SET") || slice_equal_nocase(name, "KV.GET") ||
                      slice_equal_nocase(name, "DEL");
    uint32_t owner = slot_reactor(slot_of_key(key), fake->reactor_count);
    fake->misrouted += on_one_key && conn->listener != owner ? 1 : 0;
}

static inline void fake_events(struct fake *fake, struct fake_conn *conn, const struct slice *args)
{
    uint32_t asked = fake->events_asked++;
    check(asked < ARRAY_COUNT(fake->events_since) && fake->event_replies[asked] != NULL);
    (void)snprintf(fake->events_since[asked], sizeof fake->events_since[0], "%.*s",
                   (int)args[1].length_bytes, (const char *)args[1].data);
    fake_text(conn, fake->event_replies[asked]);
}

static inline void fake_run(struct fake *fake, struct fake_conn *conn, const struct slice *args,
                            uint32_t count)
{
    struct slice name = args[0];
    struct slice key = count > 1 ? args[1] : (struct slice){0};
    fake_check_route(fake, conn, name, key);
    args++;
    count--;
    if (slice_equal_nocase(name, "HELLO")) {
        fake_greet(fake, conn, args, count);
    } else if (slice_equal_nocase(name, "KV.HELLO")) {
        if (!fake->silent_greeting) {
            fake_kv_hello(fake, conn);
        }
    } else if (slice_equal_nocase(name, "KV.CONNECT")) {
        uint64_t staging = 1U << 20;
        (void)slice_to_u64(args[count - 1], &staging);
        fake_connect_shm(fake, conn, staging);
    } else if (slice_equal_nocase(name, "KV.RELEASE")) {
        fake->releases += count;
        fake_header(conn, ':', count);
    } else if (slice_equal_nocase(name, "KV.LEASE")) {
        fake_lease(fake, conn, args + 1, count - 1);
    } else if (slice_equal_nocase(name, "KV.COMMIT") || slice_equal_nocase(name, "KV.ABORT")) {
        fake_commit(fake, conn, key, slice_equal_nocase(name, "KV.COMMIT"));
    } else if (slice_equal_nocase(name, "KV.MATCH")) {
        fake_match(fake, conn, args, count);
    } else if (fake_special(conn, key)) {
        return;
    } else if (slice_equal_nocase(name, "KV.RESERVE")) {
        fake_reserve(fake, conn, args, count);
    } else if (slice_equal_nocase(name, "KV.SET")) {
        fake_set(fake, conn, args, count);
    } else if (slice_equal_nocase(name, "KV.GET")) {
        fake_get(fake, conn, key);
    } else if (slice_equal_nocase(name, "DEL")) {
        struct fake_entry *entry = fake_find(fake, key);
        fake_text(conn, entry->present ? ":1\r\n" : ":0\r\n");
        entry->present = false;
    } else if (slice_equal_nocase(name, "KV.EVENTS")) {
        fake_events(fake, conn, args);
    } else if (slice_equal_nocase(name, "KV.STAT")) {
        fake_stat(fake, conn, key);
    } else {
        fake_text(conn, "-ERR unknown command\r\n");
    }
}
