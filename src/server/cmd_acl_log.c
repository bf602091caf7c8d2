#include "server/cmd_acl.h"

#include "acl/acl_log.h"
#include "server/reply.h"
#include "server/request_gather.h"

#include <stdlib.h>

#define SHOWN_DEFAULT 10

/* An entry on its way to the reactor that shows it: this, then object, user and client. */
struct log_record {
    struct acl_event event; /* the texts' addresses count for nothing here */
};

static void reset_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)gather;
    (void)index;
    acl_log_cut(&reactor->acl_log, 0);
}

static void log_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    struct gather_answer *answer = &gather->answers[index];
    list_foreach (cursor, &reactor->acl_log.entries) {
        const struct acl_event *event = &list_entry(cursor, struct acl_log_entry, link)->event;
        struct log_record head = {.event = *event};
        if (!gather_answer_add(answer, &head, sizeof(head)) ||
            !gather_answer_add(answer, event->object.data, event->object.length_bytes) ||
            !gather_answer_add(answer, event->user.data, event->user.length_bytes) ||
            !gather_answer_add(answer, event->client.data, event->client.length_bytes)) {
            return;
        }
        answer->number++;
    }
}

void cmd_acl_plan_log(struct conn *conn, struct request *request)
{
    bool reset = request->arg_count == 3 && slice_equal_nocase(request->args[2], "reset");
    request->number = SHOWN_DEFAULT;
    if (request->arg_count > 3) {
        request_refuse(request, "ERR unknown subcommand or wrong number of arguments for 'LOG'. "
                                "Try ACL HELP.");
        return;
    }
    if (request->arg_count == 3 && !reset && !slice_to_i64(request->args[2], &request->number)) {
        request_refuse(request, ERROR_NOT_INTEGER);
        return;
    }
    request->flags = reset;
    request_gather_run(conn, request, reset ? reset_run : log_run);
}

static struct slice take(const uint8_t **at, size_t length)
{
    struct slice text = slice_of(*at, length);
    *at += length;
    return text;
}

/* The events in one reactor's answer; to has room for answer->number. */
static void unpack(const struct gather_answer *answer, struct acl_event *to)
{
    const uint8_t *at = answer->text;
    for (int64_t i = 0; i < answer->number; i++) {
        struct log_record head;
        memcpy(&head, at, sizeof(head));
        at += sizeof(head);
        to[i] = head.event;
        to[i].object = take(&at, head.event.object.length_bytes);
        to[i].user = take(&at, head.event.user.length_bytes);
        to[i].client = take(&at, head.event.client.length_bytes);
    }
}

static int newest_first(const void *a, const void *b)
{
    const struct acl_event *left = a;
    const struct acl_event *right = b;
    return (left->wall_ms < right->wall_ms) - (left->wall_ms > right->wall_ms);
}

/* Counts together what several reactors saw of one kind; events are newest first. Returns how many are
 * left, at most most. */
static size_t merge(struct acl_event *events, size_t count, size_t most)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < kept && !acl_log_alike(&events[at], &events[i])) {
            at++;
        }
        if (at < kept) {
            events[at].count += events[i].count;
        } else if (kept < most) {
            events[kept++] = events[i];
        }
    }
    return kept;
}

static void reply_event(struct conn *conn, const struct acl_event *event)
{
    int64_t now_ms = conn->reactor->now.wall_ms;
    reply_map(conn, 7);
    reply_pair_integer(conn, "count", (int64_t)event->count);
    reply_text(conn, "reason");
    reply_text(conn, acl_verdict_name(event->reason));
    reply_text(conn, "context");
    reply_text(conn, event->context == ACL_LOG_MULTI ? "multi" : "toplevel");
    reply_text(conn, "object");
    reply_bulk(conn, event->object);
    reply_text(conn, "username");
    reply_bulk(conn, event->user);
    reply_text(conn, "age-seconds");
    reply_double(conn, now_ms > event->wall_ms ? (double)(now_ms - event->wall_ms) / 1000 : 0);
    reply_text(conn, "client-info");
    reply_bulk(conn, event->client);
}

static void reply_events(struct conn *conn, const struct gather *gather, int64_t wanted)
{
    uint64_t length_max = conn->reactor->settings.acllog_max_len;
    struct acl_event *events;
    size_t count = 0;
    size_t shown;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        count += (size_t)gather->answers[i].number;
    }
    events = malloc((count > 0 ? count : 1) * sizeof(*events));
    if (events == NULL || gather->failed) {
        free(events);
        reply_error(conn, ERROR_ANSWER_MEMORY);
        return;
    }
    count = 0;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        unpack(&gather->answers[i], events + count);
        count += (size_t)gather->answers[i].number;
    }
    qsort(events, count, sizeof(*events), newest_first);
    count = merge(events, count, (size_t)length_max);
    shown = wanted < 0 ? 0 : (size_t)wanted;
    shown = shown < count ? shown : count;
    reply_array(conn, shown);
    for (size_t i = 0; i < shown; i++) {
        reply_event(conn, &events[i]);
    }
    free(events);
}

void cmd_acl_reply_log(struct conn *conn, struct request *request)
{
    if (request->flags != 0) {
        reply_ok(conn);
    } else {
        reply_events(conn, request->gather, request->number);
    }
    gather_destroy(&request->gather);
}
