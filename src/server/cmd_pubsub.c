#include "server/cmd_pubsub.h"

#include "base/check.h"
#include "base/glob.h"
#include "server/gather.h"
#include "server/pubsub.h"
#include "server/reply.h"
#include "server/request_gather.h"

#include <stdlib.h>
#include <string.h>

static enum pubsub_kind kind_of(const struct request *request)
{
    switch ((int)request->command->id) {
    case COMMAND_PSUBSCRIBE:
    case COMMAND_PUNSUBSCRIBE:
    case COMMAND_PUBSUB_NUMPAT:
        return PUBSUB_PATTERN;
    case COMMAND_SSUBSCRIBE:
    case COMMAND_SUNSUBSCRIBE:
    case COMMAND_SPUBLISH:
    case COMMAND_PUBSUB_SHARDCHANNELS:
    case COMMAND_PUBSUB_SHARDNUMSUB:
        return PUBSUB_SHARD_CHANNEL;
    default:
        return PUBSUB_CHANNEL;
    }
}

/* What Redis counts in the answers: shard channels, or channels and patterns together. */
static int64_t counted(const struct conn *conn, enum pubsub_kind kind)
{
    const uint32_t *counts = conn->subscription_counts;
    return kind == PUBSUB_SHARD_CHANNEL ? counts[PUBSUB_SHARD_CHANNEL]
                                        : (int64_t)counts[PUBSUB_CHANNEL] + counts[PUBSUB_PATTERN];
}

static void note_mode(struct conn *conn)
{
    if (list_empty(&conn->subscriptions)) {
        conn_mode_clear(conn, CONN_MODE_SUBSCRIBED);
    } else {
        conn_mode_set(conn, CONN_MODE_SUBSCRIBED);
    }
}

/* One of the answers to SUBSCRIBE and UNSUBSCRIBE; name NULL: there was none. */
static void answer(struct conn *conn, const char *verb, const struct slice *name, int64_t count)
{
    bool muted = conn->muted;
    conn->muted = false; /* it is a push, which CLIENT REPLY OFF does not hold back */
    reply_push(conn, 3);
    reply_text(conn, verb);
    if (name != NULL) {
        reply_bulk(conn, *name);
    } else {
        reply_null(conn);
    }
    reply_integer(conn, count);
    conn->muted = muted;
}

void cmd_pubsub_reply_subscribe(struct conn *conn, struct request *request)
{
    static const char *const verbs[] = {"subscribe", "psubscribe", "ssubscribe"};
    enum pubsub_kind kind = kind_of(request);
    for (uint32_t i = 1; i < request->arg_count; i++) {
        if (!pubsub_join(&conn->reactor->pubsub, conn, kind, request->args[i])) {
            reply_error(conn, "OOM no memory for a subscription: client-query-buffer-limit");
            break;
        }
        answer(conn, verbs[kind], &request->args[i], counted(conn, kind));
    }
    note_mode(conn);
}

void cmd_pubsub_reply_unsubscribe(struct conn *conn, struct request *request)
{
    static const char *const verbs[] = {"unsubscribe", "punsubscribe", "sunsubscribe"};
    struct pubsub *pubsub = &conn->reactor->pubsub;
    enum pubsub_kind kind = kind_of(request);
    struct subscription *any = pubsub_any(conn, kind);
    for (uint32_t i = 1; i < request->arg_count; i++) {
        (void)pubsub_leave(pubsub, conn, kind, request->args[i]);
        answer(conn, verbs[kind], &request->args[i], counted(conn, kind));
    }
    if (request->arg_count == 1 && any == NULL) {
        answer(conn, verbs[kind], NULL, counted(conn, kind));
    }
    while (request->arg_count == 1 && any != NULL) {
        /* Said before it is done: with the subscription its name goes. */
        answer(conn, verbs[kind], &any->name, counted(conn, kind) - 1);
        (void)pubsub_leave(pubsub, conn, kind, any->name);
        any = pubsub_any(conn, kind);
    }
    note_mode(conn);
}

void cmd_pubsub_admit(const struct conn *conn, struct request *request)
{
    switch ((int)request->command->id) {
    case COMMAND_SUBSCRIBE:
    case COMMAND_UNSUBSCRIBE:
    case COMMAND_PSUBSCRIBE:
    case COMMAND_PUNSUBSCRIBE:
    case COMMAND_SSUBSCRIBE:
    case COMMAND_SUNSUBSCRIBE:
    case COMMAND_PING:
    case COMMAND_QUIT:
    case COMMAND_RESET:
        return;
    default:
        break;
    }
    if (conn->resp == RESP_2) {
        request->refusal = REFUSAL_SUBSCRIBED;
    }
}

void cmd_pubsub_end(struct conn *conn)
{
    pubsub_leave_all(&conn->reactor->pubsub, conn);
    note_mode(conn);
}

/* ---- PUBLISH ---- */

static void ask(struct conn *conn, struct request *request, gather_run_fn *run)
{
    if (request_gather_begin(conn, request, run) != NULL) {
        request->gather->pointer = request; /* it stays where it is until all have answered */
        request_gather_start(conn, request);
    }
}

static void publish_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    const struct request *request = gather->pointer;
    bool shard = kind_of(request) == PUBSUB_SHARD_CHANNEL;
    gather->answers[index].number =
        (int64_t)pubsub_deliver(&reactor->pubsub, shard, request->args[1], request->args[2]);
}

void cmd_pubsub_plan_publish(struct conn *conn, struct request *request)
{
    ask(conn, request, publish_run);
}

void cmd_pubsub_reply_publish(struct conn *conn, struct request *request)
{
    reply_integer(conn, gather_sum(request->gather));
    gather_destroy(&request->gather);
}

/* ---- PUBSUB ---- */

struct name_filter {
    struct gather_answer *answer;
    const struct slice *pattern; /* NULL: all */
};

static void add_name(void *argument, struct slice name)
{
    struct name_filter *filter = argument;
    uint32_t length = (uint32_t)name.length_bytes;
    if (filter->pattern != NULL && !glob_match(*filter->pattern, name, false)) {
        return;
    }
    if (gather_answer_add(filter->answer, &length, sizeof(length)) &&
        gather_answer_add(filter->answer, name.data, name.length_bytes)) {
        filter->answer->number++;
    }
}

/* Each reactor answers with its names, as length and bytes. */
static void names_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    const struct request *request = gather->pointer;
    struct name_filter filter = {.answer = &gather->answers[index],
                                 .pattern = request->arg_count > 2 ? &request->args[2] : NULL};
    pubsub_visit(&reactor->pubsub, kind_of(request), add_name, &filter);
}

void cmd_pubsub_plan_channels(struct conn *conn, struct request *request)
{
    ask(conn, request, names_run);
}

static int compare(const void *a, const void *b)
{
    const struct slice *x = a;
    const struct slice *y = b;
    size_t shorter = x->length_bytes < y->length_bytes ? x->length_bytes : y->length_bytes;
    int order = shorter > 0 ? memcmp(x->data, y->data, shorter) : 0;
    if (order != 0) {
        return order;
    }
    return (x->length_bytes > y->length_bytes) - (x->length_bytes < y->length_bytes);
}

/* The names of all reactors, each once, in order. The caller frees them; they point into the gather. NULL:
 * no memory. */
static struct slice *all_names(const struct gather *gather, uint64_t *count_p)
{
    uint64_t total = 0;
    uint64_t count = 0;
    struct slice *names;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        total += (uint64_t)gather->answers[i].number;
    }
    names = malloc((total + 1) * sizeof(*names));
    if (names == NULL || gather->failed) {
        free(names);
        return NULL;
    }
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        const uint8_t *at = gather->answers[i].text;
        for (int64_t n = 0; n < gather->answers[i].number; n++) {
            uint32_t length;
            memcpy(&length, at, sizeof(length));
            names[count++] = slice_of(at + sizeof(length), length);
            at += sizeof(length) + length;
        }
    }
    qsort(names, count, sizeof(*names), compare);
    *count_p = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (i == 0 || compare(&names[i], &names[i - 1]) != 0) {
            names[(*count_p)++] = names[i];
        }
    }
    return names;
}

void cmd_pubsub_reply_channels(struct conn *conn, struct request *request)
{
    uint64_t count = 0;
    struct slice *names = all_names(request->gather, &count);
    if (names == NULL) {
        reply_error(conn, ERROR_ANSWER_MEMORY);
    } else {
        reply_array(conn, count);
        for (uint64_t i = 0; i < count; i++) {
            reply_bulk(conn, names[i]);
        }
    }
    free(names);
    gather_destroy(&request->gather);
}

void cmd_pubsub_reply_numpat(struct conn *conn, struct request *request)
{
    uint64_t count = 0;
    struct slice *names = all_names(request->gather, &count);
    if (names == NULL) {
        reply_error(conn, ERROR_ANSWER_MEMORY);
    } else {
        reply_integer(conn, (int64_t)count);
    }
    free(names);
    gather_destroy(&request->gather);
}

static void numsub_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    const struct request *request = gather->pointer;
    bool shard = kind_of(request) == PUBSUB_SHARD_CHANNEL;
    for (uint32_t i = 2; i < request->arg_count; i++) {
        uint64_t count = pubsub_count(&reactor->pubsub, shard, request->args[i]);
        if (!gather_answer_add(&gather->answers[index], &count, sizeof(count))) {
            return;
        }
    }
}

void cmd_pubsub_plan_numsub(struct conn *conn, struct request *request)
{
    ask(conn, request, numsub_run);
}

void cmd_pubsub_reply_numsub(struct conn *conn, struct request *request)
{
    const struct gather *gather = request->gather;
    if (gather->failed) {
        reply_error(conn, ERROR_ANSWER_MEMORY);
        gather_destroy(&request->gather);
        return;
    }
    reply_array(conn, 2 * ((uint64_t)request->arg_count - 2));
    for (uint32_t i = 2; i < request->arg_count; i++) {
        uint64_t sum = 0;
        for (uint32_t r = 0; r < gather->reactor_count; r++) {
            uint64_t count;
            memcpy(&count, gather->answers[r].text + (i - 2) * sizeof(count), sizeof(count));
            sum += count;
        }
        reply_bulk(conn, request->args[i]);
        reply_integer(conn, (int64_t)sum);
    }
    gather_destroy(&request->gather);
}

void cmd_pubsub_reply_help(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CHANNELS [<pattern>]",
        "    Channels that somebody listens to, matching a <pattern>.",
        "NUMPAT",
        "    Number of patterns that somebody listens by.",
        "NUMSUB [<channel> ...]",
        "    How many listen to each channel.",
        "SHARDCHANNELS [<pattern>]",
        "    The same as CHANNELS, of shard channels.",
        "SHARDNUMSUB [<shardchannel> ...]",
        "    The same as NUMSUB, of shard channels.",
        "HELP",
        "    Print this help.",
    };
    (void)request;
    reply_lines(conn, lines, ARRAY_COUNT(lines));
}
