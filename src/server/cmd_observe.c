#include "server/cmd_observe.h"

#include "server/gather.h"
#include "server/reply.h"
#include "server/request_gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOWLOG_GET_DEFAULT 10

/* ---- SLOWLOG --------------------------------------------------------------------------------- */

/* Each reactor answers with its latest entries, one behind the other, each at a multiple of 8. */
static void slowlog_get_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    static const uint8_t zeros[8] = {0};
    struct gather_answer *answer = &gather->answers[index];
    for (uint32_t back = 0; back < (uint64_t)gather->number; back++) {
        const struct slowlog_entry *entry = slowlog_at(&reactor->slowlog, back);
        size_t bytes;
        if (entry == NULL) {
            return;
        }
        bytes = slowlog_entry_bytes(entry);
        if (!gather_answer_add(answer, entry, bytes) ||
            !gather_answer_add(answer, zeros, (8 - bytes % 8) % 8)) {
            return;
        }
    }
}

void cmd_observe_plan_slowlog_get(struct conn *conn, struct request *request)
{
    struct gather *gather;
    int64_t count = SLOWLOG_GET_DEFAULT;
    if (request->arg_count == 3 && (!slice_to_i64(request->args[2], &count) || count < -1)) {
        request_refuse(request, "ERR count should be greater than or equal to -1");
        return;
    }
    gather = request_gather_begin(conn, request, slowlog_get_run);
    if (gather != NULL) {
        gather->number = count < 0 || count > UINT32_MAX ? UINT32_MAX : count;
        request_gather_start(conn, request);
    }
}

/* How far the answers are read, each newest first. */
struct merge {
    size_t at[SERVER_REACTORS_MAX];
};

/* The newest entry that no reactor has given yet; NULL: that was all. */
static const struct slowlog_entry *next_entry(const struct gather *gather, struct merge *merge)
{
    const struct slowlog_entry *newest = NULL;
    uint32_t from = 0;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        const struct gather_answer *answer = &gather->answers[i];
        const struct slowlog_entry *entry;
        if (merge->at[i] >= answer->text_bytes) {
            continue;
        }
        entry = (const struct slowlog_entry *)(const void *)(answer->text + merge->at[i]);
        if (newest == NULL || entry->time_us > newest->time_us) {
            newest = entry;
            from = i;
        }
    }
    if (newest != NULL) {
        merge->at[from] += (slowlog_entry_bytes(newest) + 7) & ~(size_t)7;
    }
    return newest;
}

static void reply_entry(struct conn *conn, const struct slowlog_entry *entry)
{
    const uint8_t *at = entry->text;
    reply_array(conn, 6);
    reply_integer(conn, (int64_t)entry->id);
    reply_integer(conn, entry->time_us / 1000000);
    reply_integer(conn, entry->duration_us);
    reply_array(conn, entry->arg_count);
    for (uint32_t i = 0; i < entry->arg_count; i++) {
        uint32_t length;
        memcpy(&length, at, sizeof(length));
        reply_bulk(conn, slice_of(at + sizeof(length), length));
        at += sizeof(length) + length;
    }
    reply_text(conn, entry->peer);
    reply_text(conn, entry->name);
}

void cmd_observe_reply_slowlog_get(struct conn *conn, struct request *request)
{
    struct gather *gather = request->gather;
    struct merge counted = {{0}};
    struct merge merge = {{0}};
    uint64_t limit = conn->reactor->settings.slowlog_max_len;
    uint64_t count = 0;
    limit = limit < (uint64_t)gather->number ? limit : (uint64_t)gather->number;
    while (count < limit && next_entry(gather, &counted) != NULL) {
        count++;
    }
    reply_array(conn, count);
    for (uint64_t i = 0; i < count; i++) {
        reply_entry(conn, next_entry(gather, &merge));
    }
    gather_destroy(&request->gather);
}

static void slowlog_len_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    gather->answers[index].number = reactor->slowlog.count;
}

void cmd_observe_plan_slowlog_len(struct conn *conn, struct request *request)
{
    request_gather_run(conn, request, slowlog_len_run);
}

void cmd_observe_reply_slowlog_len(struct conn *conn, struct request *request)
{
    int64_t limit = (int64_t)conn->reactor->settings.slowlog_max_len;
    int64_t count = gather_sum(request->gather);
    reply_integer(conn, count < limit ? count : limit);
    gather_destroy(&request->gather);
}

static void slowlog_reset_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)gather;
    (void)index;
    slowlog_clear(&reactor->slowlog);
}

void cmd_observe_plan_slowlog_reset(struct conn *conn, struct request *request)
{
    request_gather_run(conn, request, slowlog_reset_run);
}

void cmd_observe_reply_slowlog_reset(struct conn *conn, struct request *request)
{
    gather_destroy(&request->gather);
    reply_ok(conn);
}

void cmd_observe_reply_slowlog_help(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET [<count>]",
        "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
        "    Entries are made of:",
        "    id, timestamp, time in microseconds, arguments array, client IP and port,",
        "    client name",
        "LEN",
        "    Return the length of the slowlog.",
        "RESET",
        "    Reset the slowlog.",
        "HELP",
        "    Print this help.",
    };
    (void)request;
    reply_lines(conn, lines, ARRAY_COUNT(lines));
}

/* ---- LATENCY --------------------------------------------------------------------------------- */

static void latency_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)gather_answer_add(&gather->answers[index], &reactor->latency, sizeof(reactor->latency));
}

void cmd_observe_plan_latency(struct conn *conn, struct request *request)
{
    request_gather_run(conn, request, latency_run);
}

static bool find_event(struct slice name, enum latency_event *event_p)
{
    for (int event = 0; event < LATENCY_EVENT_COUNT; event++) {
        if (slice_equal_nocase(name, latency_event_name((enum latency_event)event))) {
            *event_p = (enum latency_event)event;
            return true;
        }
    }
    return false;
}

/* What all reactors have of one event. */
static void merged(const struct gather *gather, enum latency_event event,
                   struct latency_history *history)
{
    memset(history, 0, sizeof(*history));
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        const struct gather_answer *answer = &gather->answers[i];
        if (answer->text_bytes == sizeof(struct latency)) {
            latency_merge(history,
                          &((const struct latency *)(const void *)answer->text)->events[event]);
        }
    }
}

static uint32_t sample_count(const struct latency_history *history)
{
    uint32_t count = 0;
    while (latency_at(history, count).time_s != 0) {
        count++;
    }
    return count;
}

void cmd_observe_reply_latest(struct conn *conn, struct request *request)
{
    struct latency_history history;
    uint64_t count = 0;
    for (int event = 0; event < LATENCY_EVENT_COUNT; event++) {
        merged(request->gather, (enum latency_event)event, &history);
        count += sample_count(&history) > 0;
    }
    reply_array(conn, count);
    for (int event = 0; event < LATENCY_EVENT_COUNT; event++) {
        struct latency_sample last;
        merged(request->gather, (enum latency_event)event, &history);
        if (sample_count(&history) == 0) {
            continue;
        }
        last = latency_at(&history, sample_count(&history) - 1);
        reply_array(conn, 4);
        reply_text(conn, latency_event_name((enum latency_event)event));
        reply_integer(conn, last.time_s);
        reply_integer(conn, last.duration_ms);
        reply_integer(conn, history.max_ms);
    }
    gather_destroy(&request->gather);
}

void cmd_observe_reply_history(struct conn *conn, struct request *request)
{
    struct latency_history history = {0};
    enum latency_event event = LATENCY_COMMAND;
    uint32_t count;
    if (find_event(request->args[2], &event)) {
        merged(request->gather, event, &history);
    }
    count = sample_count(&history);
    reply_array(conn, count);
    for (uint32_t i = 0; i < count; i++) {
        struct latency_sample sample = latency_at(&history, i);
        reply_array(conn, 2);
        reply_integer(conn, sample.time_s);
        reply_integer(conn, sample.duration_ms);
    }
    gather_destroy(&request->gather);
}

/* One line a sample, oldest first. */
#define GRAPH_WIDTH 50
#define GRAPH_LINES 40

void cmd_observe_reply_graph(struct conn *conn, struct request *request)
{
    struct latency_history history = {0};
    struct gather_answer text = {0};
    enum latency_event event = LATENCY_COMMAND;
    uint32_t count;
    char line[160];
    if (find_event(request->args[2], &event)) {
        merged(request->gather, event, &history);
    }
    count = sample_count(&history);
    gather_destroy(&request->gather);
    if (count == 0) {
        reply_errorf(conn, "ERR No samples available for event '%.*s'",
                     (int)(request->args[2].length_bytes & 127),
                     (const char *)request->args[2].data);
        return;
    }
    (void)snprintf(line, sizeof(line), "%s - all time high %u ms\n", latency_event_name(event),
                   history.max_ms);
    (void)gather_answer_add(&text, line, strlen(line));
    for (uint32_t i = count > GRAPH_LINES ? count - GRAPH_LINES : 0; i < count; i++) {
        struct latency_sample sample = latency_at(&history, i);
        int bar = (int)((uint64_t)sample.duration_ms * GRAPH_WIDTH / (history.max_ms | 1U));
        (void)snprintf(line, sizeof(line), "%6llds ago %8u ms %.*s\n",
                       (long long)(conn->reactor->now.wall_ms / 1000 - sample.time_s),
                       sample.duration_ms, bar,
                       "##################################################");
        (void)gather_answer_add(&text, line, strlen(line));
    }
    reply_verbatim(conn, slice_of(text.text, text.text_bytes));
    gather_answer_free(&text);
}

static void latency_reset_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    const struct request *request = gather->pointer;
    for (int event = 0; event < LATENCY_EVENT_COUNT; event++) {
        bool wanted = request->arg_count == 2;
        enum latency_event named;
        for (uint32_t i = 2; i < request->arg_count && !wanted; i++) {
            wanted = find_event(request->args[i], &named) && (int)named == event;
        }
        if (wanted && latency_reset(&reactor->latency, (enum latency_event)event)) {
            gather->answers[index].number |= 1 << event;
        }
    }
}

/* The request and its arguments stay where they are until all have answered. */
void cmd_observe_plan_latency_reset(struct conn *conn, struct request *request)
{
    struct gather *gather = request_gather_begin(conn, request, latency_reset_run);
    if (gather != NULL) {
        gather->pointer = request;
        request_gather_start(conn, request);
    }
}

void cmd_observe_reply_latency_reset(struct conn *conn, struct request *request)
{
    int64_t events = 0;
    for (uint32_t i = 0; i < request->gather->reactor_count; i++) {
        events |= request->gather->answers[i].number;
    }
    reply_integer(conn, __builtin_popcountll((unsigned long long)events));
    gather_destroy(&request->gather);
}

void cmd_observe_reply_latency_doctor(struct conn *conn, struct request *request)
{
    char text[1024];
    size_t used = 0;
    uint64_t threshold = conn->reactor->settings.latency_monitor_threshold;
    for (int event = 0; event < LATENCY_EVENT_COUNT; event++) {
        struct latency_history history;
        merged(request->gather, (enum latency_event)event, &history);
        if (sample_count(&history) > 0) {
            used +=
                (size_t)snprintf(text + used, sizeof(text) - used, "%s: %u spikes, worst %u ms.\n",
                                 latency_event_name((enum latency_event)event),
                                 sample_count(&history), history.max_ms);
        }
    }
    gather_destroy(&request->gather);
    if (threshold == 0) {
        (void)snprintf(text, sizeof(text),
                       "Latency is not monitored: CONFIG SET latency-monitor-threshold "
                       "<milliseconds> starts that.\n");
    } else if (used == 0) {
        (void)snprintf(text, sizeof(text),
                       "Nothing took longer than %llu ms (latency-monitor-threshold).\n",
                       (unsigned long long)threshold);
    } else {
        (void)snprintf(text + used, sizeof(text) - used,
                       "SLOWLOG GET shows the slow requests; a slow expire-cycle comes from "
                       "many keys that expire, or a flush. If all is slow: is another process "
                       "on these cores, or the machine short of memory?\n");
    }
    reply_verbatim(conn, slice_of_text(text));
}

void cmd_observe_reply_latency_help(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    What was slow, and what to look at.",
        "GRAPH <event>",
        "    The samples of an event, drawn.",
        "HISTORY <event>",
        "    Time and milliseconds of each sample of an event.",
        "LATEST",
        "    The last sample of each event.",
        "RESET [<event> ...]",
        "    Forget the samples of these events, or of all.",
        "HISTOGRAM [COMMAND ...]",
        "    How long commands took: calls of at most so many microseconds.",
        "HELP",
        "    Print this help.",
    };
    (void)request;
    reply_lines(conn, lines, ARRAY_COUNT(lines));
}

/* ---- LATENCY HISTOGRAM ----------------------------------------------------------------------- */

static void histogram_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)gather_answer_add(&gather->answers[index], reactor->command_stats,
                            sizeof(*reactor->command_stats));
}

void cmd_observe_plan_histogram(struct conn *conn, struct request *request)
{
    request_gather_run(conn, request, histogram_run);
}

/* Whether LATENCY HISTOGRAM names the command, or the container it belongs to, or nothing. */
static bool is_named(const struct request *request, const struct command *command)
{
    const struct command *parent = command_parent(command);
    for (uint32_t i = 2; i < request->arg_count; i++) {
        if (slice_equal_nocase(request->args[i], command->name) ||
            (parent != NULL && slice_equal_nocase(request->args[i], parent->name))) {
            return true;
        }
    }
    return request->arg_count == 2;
}

/* As in Redis: calls of at most 1, 2, 4, … microseconds, where there are more than before. */
static void reply_buckets(struct conn *conn, const struct command_stat *stat, bool counting,
                          uint64_t *pairs)
{
    uint64_t seen = 0;
    uint64_t said = 0;
    uint32_t bucket = 0;
    for (uint64_t limit_us = 1; bucket < COMMAND_STATS_BUCKETS; limit_us *= 2) {
        while (bucket < COMMAND_STATS_BUCKETS &&
               command_stats_bucket_limit_us(bucket) <= (double)limit_us) {
            seen += stat->buckets[bucket++];
        }
        if (seen == said) {
            continue;
        }
        said = seen;
        if (counting) {
            (*pairs)++;
        } else {
            reply_integer(conn, (int64_t)limit_us);
            reply_integer(conn, (int64_t)seen);
        }
    }
}

static void reply_histogram(struct conn *conn, const struct command *command,
                            const struct command_stat *stat)
{
    uint64_t pairs = 0;
    reply_text(conn, command->name);
    reply_map(conn, 2);
    reply_pair_integer(conn, "calls", (int64_t)command_stats_timed(stat));
    reply_text(conn, "histogram_usec");
    reply_buckets(conn, stat, true, &pairs);
    reply_map(conn, pairs);
    reply_buckets(conn, stat, false, &pairs);
}

void cmd_observe_reply_histogram(struct conn *conn, struct request *request)
{
    struct command_stats *sum = calloc(1, sizeof(*sum));
    uint64_t count = 0;
    for (uint32_t i = 0; sum != NULL && i < request->gather->reactor_count; i++) {
        const struct gather_answer *answer = &request->gather->answers[i];
        if (answer->text_bytes == sizeof(*sum)) {
            command_stats_add(sum, (const struct command_stats *)(const void *)answer->text);
        }
    }
    gather_destroy(&request->gather);
    if (sum == NULL) {
        reply_error(conn, ERROR_ANSWER_MEMORY);
        return;
    }
    for (int id = 0; id < COMMAND_COUNT; id++) {
        count += command_stats_timed(&sum->commands[id]) > 0 &&
                 is_named(request, command_by_id((enum command_id)id));
    }
    reply_map(conn, count);
    for (int id = 0; id < COMMAND_COUNT; id++) {
        const struct command *command = command_by_id((enum command_id)id);
        if (command_stats_timed(&sum->commands[id]) > 0 && is_named(request, command)) {
            reply_histogram(conn, command, &sum->commands[id]);
        }
    }
    free(sum);
}
