#include "server/events.h"

#include "base/check.h"
#include "server/conn.h"
#include "server/reply.h"

#include <stdlib.h>
#include <string.h>

/* What a reactor keeps when the option leaves it to us: events of 10,000 keys or more. */
#define AUTO_BYTES (1U << 20)
/* … and for how long when nobody asks any more. */
#define AUTO_IDLE_US 600000000
/* What all shards together answer at once; one event more of each may pass it. */
#define ANSWER_BYTES (1U << 20)
/* A number so far ahead of the clock is of another life of the server. */
#define AHEAD_US_MAX 10000000
/* An event without its key, as a reply. */
#define RESP_EVENT_BYTES_MAX 128U
/* Events in one push. */
#define PUSH_COUNT 256U

struct event_listener {
    struct list link;  /* reactor->event_listeners */
    struct conn *conn; /* borrowed; NULL: it has gone, while the shards are asked */
    uint64_t since;
    bool asked; /* the shards are asked */
};

/* ---- asking ---- */

static bool add_event(void *argument, const struct event *event)
{
    static const uint8_t zeros[8] = {0};
    size_t bytes = sizeof(*event) + event->key_length_bytes;
    return gather_answer_add(argument, event, bytes) &&
           gather_answer_add(argument, zeros, event_bytes(event) - bytes);
}

/* Each shard answers with its state, and its events one behind the other. */
static void ask_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    struct gather_answer *answer = &gather->answers[index];
    struct shard_events_state state = {0};
    const struct shard_events_query query = {
        .since = gather->cursor,
        .until_us = reactor->server->events_zero_us + gather->now.mono_us,
        .count_max = (uint32_t)gather->number,
        .bytes_max = ANSWER_BYTES / gather->reactor_count,
    };
    if (!shard_events_keep(reactor->shard, gather->flags, query.until_us) ||
        !gather_answer_add(answer, &state, sizeof(state))) {
        answer->other = -1;
        return;
    }
    shard_events_read(reactor->shard, &query, &reactor->now, add_event, answer, &state);
    memcpy(answer->text, &state, sizeof(state));
}

static uint64_t kept_bytes(const struct settings *settings)
{
    return settings->events_backlog != 0 ? settings->events_backlog : AUTO_BYTES;
}

struct gather *events_ask(struct reactor *reactor, uint64_t since, uint32_t count_max,
                          gather_done_fn *done)
{
    struct gather *gather = gather_create(reactor, ask_run, done);
    if (gather != NULL) {
        gather->cursor = since;
        gather->number = count_max;
        gather->flags = kept_bytes(&reactor->settings);
    }
    return gather;
}

/* ---- what they answered ---- */

/* How far the answers are read. */
struct merge {
    size_t at[SERVER_REACTORS_MAX];
};

static void merge_init(struct merge *merge)
{
    for (size_t i = 0; i < SERVER_REACTORS_MAX; i++) {
        merge->at[i] = sizeof(struct shard_events_state);
    }
}

/* The earliest event that was not taken yet; NULL: that was all. */
static const struct event *merge_next(const struct gather *gather, struct merge *merge)
{
    const struct event *first = NULL;
    uint32_t from = 0;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        const struct gather_answer *answer = &gather->answers[i];
        const struct event *event;
        if (merge->at[i] >= answer->text_bytes) {
            continue;
        }
        event = (const struct event *)(const void *)(answer->text + merge->at[i]);
        if (first == NULL || event->number < first->number) {
            first = event;
            from = i;
        }
    }
    if (first != NULL) {
        merge->at[from] += event_bytes(first);
    }
    return first;
}

/* Nobody hears of keys that he may not read. A flush names none. */
static bool is_told(const struct conn *conn, const struct event *event)
{
    return !conn->restricted || event->kind == EVENT_FLUSHED ||
           acl_user_permits_key(conn->user, command_by_id(COMMAND_KV_EVENTS_SINCE),
                                slice_of(event->key, event->key_length_bytes), COMMAND_ACCESS_READ);
}

/* What all shards have told of completely, and what any has lost. */
static void find_bounds(const struct gather *gather, struct events_found *found)
{
    found->next = UINT64_MAX;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        const struct gather_answer *answer = &gather->answers[i];
        struct shard_events_state state;
        if (answer->other < 0 || answer->text_bytes < sizeof(state)) {
            found->failed = true;
            return;
        }
        memcpy(&state, answer->text, sizeof(state));
        found->next = state.reached < found->next ? state.reached : found->next;
        found->lost = state.lost > found->lost ? state.lost : found->lost;
    }
}

struct events_found events_find(struct conn *conn, const struct gather *gather, uint64_t since,
                                uint32_t count_max)
{
    struct events_found found = {0};
    struct merge merge;
    const struct event *event;
    uint64_t passed = since;
    uint64_t bytes = 0; /* as a reply */
    uint64_t now_us =
        (uint64_t)(conn->reactor->server->events_zero_us + conn->reactor->now.mono_us);
    find_bounds(gather, &found);
    if (found.failed) {
        return found;
    }
    if (since >> EVENT_SHARD_BITS > now_us + AHEAD_US_MAX) {
        found.lost = found.next; /* what was before it is of another life */
        return found;
    }
    found.lost = found.lost > since ? found.lost : 0;
    found.next = found.next > since ? found.next : since;
    merge_init(&merge);
    while ((event = merge_next(gather, &merge)) != NULL && event->number <= found.next) {
        bool told = is_told(conn, event);
        bytes += told ? RESP_EVENT_BYTES_MAX + event->key_length_bytes : 0;
        if (told && (found.count == count_max || !reply_fits(conn, bytes))) {
            found.next = passed;
            break;
        }
        found.count += told;
        passed = event->number;
    }
    return found;
}

static void reply_event(struct conn *conn, const struct event *event)
{
    static const char *const kinds[] = {
        [EVENT_NONE] = "none",       [EVENT_SEALED] = "sealed",   [EVENT_EVICTED] = "evicted",
        [EVENT_DELETED] = "deleted", [EVENT_EXPIRED] = "expired", [EVENT_FLUSHED] = "flushed",
    };
    static const char *const tiers[] = {[EVENT_TIER_DRAM] = "dram"};
    reply_array(conn, 6);
    reply_integer(conn, (int64_t)event->number);
    reply_text(conn, kinds[event->kind]);
    reply_integer(conn, event->database);
    reply_bulk(conn, slice_of(event->key, event->key_length_bytes));
    reply_integer(conn, (int64_t)event->length_bytes);
    reply_text(conn, tiers[event->tier]);
}

void events_reply(struct conn *conn, const struct gather *gather, const struct events_found *found)
{
    struct merge merge;
    const struct event *event;
    merge_init(&merge);
    reply_array(conn, found->count);
    while ((event = merge_next(gather, &merge)) != NULL && event->number <= found->next) {
        if (is_told(conn, event)) {
            reply_event(conn, event);
        }
    }
}

/* ---- who listens ---- */

enum kvasir_status events_listen(struct conn *conn, uint64_t since)
{
    struct reactor *reactor = conn->reactor;
    struct event_listener *listener = conn->event_listener;
    if (listener == NULL) {
        if (reactor->event_listener_count >= EVENTS_LISTENERS_MAX) {
            return KVASIR_BUSY;
        }
        listener = calloc(1, sizeof(*listener));
        if (listener == NULL) {
            return KVASIR_NO_MEMORY;
        }
        list_init(&listener->link);
        list_push_back(&reactor->event_listeners, &listener->link);
        reactor->event_listener_count++;
        listener->conn = conn;
        conn->event_listener = listener;
    }
    listener->since = since;
    return KVASIR_OK;
}

static void listener_end(struct reactor *reactor, struct event_listener *listener)
{
    list_remove(&listener->link);
    reactor->event_listener_count--;
    free(listener);
}

uint64_t events_unlisten(struct conn *conn)
{
    struct event_listener *listener = conn->event_listener;
    uint64_t since;
    if (listener == NULL) {
        return 0;
    }
    since = listener->since;
    conn->event_listener = NULL;
    listener->conn = NULL;
    if (!listener->asked) {
        listener_end(conn->reactor, listener);
    }
    return since;
}

/* Nothing is being answered, and all that was said is on its way. */
static bool has_room(const struct conn *conn)
{
    return conn->batch == NULL && conn->pushes == NULL && conn->output.pending_bytes == 0 &&
           !conn->closing && !conn->dead && conn->resp == RESP_3;
}

static void push_found(struct event_listener *listener, const struct gather *gather)
{
    struct conn *conn = listener->conn;
    struct events_found found = events_find(conn, gather, listener->since, PUSH_COUNT);
    if (found.failed) {
        return; /* the next tick asks again */
    }
    if (found.lost > 0) {
        reply_push(conn, 3);
        reply_text(conn, "kv.events");
        reply_pair_integer(conn, "overrun", (int64_t)found.lost);
        found.next = found.lost;
    } else if (found.count > 0) {
        reply_push(conn, 4);
        reply_text(conn, "kv.events");
        reply_pair_integer(conn, "events", (int64_t)found.next);
        events_reply(conn, gather, &found);
    }
    listener->since = found.next;
    if (found.lost > 0 || found.count > 0) {
        conn_run_later(conn);
    }
}

static void listen_done(struct reactor *reactor, struct gather *gather)
{
    struct event_listener *listener = gather->pointer;
    listener->asked = false;
    if (listener->conn == NULL) {
        listener_end(reactor, listener);
    } else if (gather->cursor == listener->since && has_room(listener->conn)) {
        push_found(listener, gather);
    }
    gather_destroy(&gather);
}

bool events_configure(struct reactor *reactor)
{
    uint64_t bytes = reactor->settings.events_backlog;
    return bytes == 0 || shard_events_keep(reactor->shard, bytes,
                                           reactor->server->events_zero_us + reactor->now.mono_us);
}

/* Inside the shard: what nobody asks for any more is no longer kept. */
static void tick_shard(struct reactor *reactor)
{
    reactor_shard_enter(reactor);
    if (reactor->settings.events_backlog == 0 &&
        shard_events_idle_us(reactor->shard, &reactor->now) > AUTO_IDLE_US) {
        check(shard_events_keep(reactor->shard, 0, 0));
    }
    metric_set(&reactor->metrics.events_bytes, shard_events_bytes(reactor->shard));
    reactor_shard_leave(reactor);
}

void events_tick(struct reactor *reactor)
{
    tick_shard(reactor);
    if (reactor->draining) {
        return;
    }
    list_foreach_safe (cursor, after, &reactor->event_listeners) {
        struct event_listener *listener = list_entry(cursor, struct event_listener, link);
        struct gather *gather;
        if (listener->asked || !has_room(listener->conn)) {
            continue;
        }
        gather = events_ask(reactor, listener->since, PUSH_COUNT, listen_done);
        if (gather == NULL) {
            return; /* the next tick asks again */
        }
        gather->pointer = listener;
        listener->asked = true;
        (void)gather_start(reactor, gather, NULL);
    }
}
