#include "server/monitor.h"

#include "base/clock.h"
#include "server/conn.h"
#include "server/feed.h"
#include "server/gather.h"
#include "server/push.h"
#include "server/secret.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* Time, database and address. */
#define HEAD_BYTES_MAX (80U + LISTENER_ADDRESS_BYTES)
/* Behind what is shown: "... (N more bytes)", quotes and a blank. */
#define REMARK_BYTES_MAX 48U
/* A byte may be written as \xff. */
#define ESCAPED_BYTES_MAX 4U

static const char REDACTED[] = "(redacted)";

/* ---- who listens ---- */

static void count_one(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)index;
    reactor->monitor_count += (uint32_t)gather->number;
}

static void ended(struct reactor *reactor, struct gather *gather)
{
    (void)reactor;
    gather_destroy(&gather);
}

bool monitor_start(struct conn *conn, struct request *request)
{
    struct monitor *monitor = calloc(1, sizeof(*monitor));
    struct gather *gather = gather_create(conn->reactor, count_one, NULL);
    struct gather *ending = gather_create(conn->reactor, count_one, ended);
    if (monitor == NULL || gather == NULL || ending == NULL) {
        free(monitor);
        gather_destroy(&gather);
        gather_destroy(&ending);
        return false;
    }
    list_init(&monitor->link);
    monitor->conn = conn;
    monitor->ending = ending;
    ending->number = -1;
    conn->monitor = monitor;
    gather->number = 1;
    request->gather = gather;
    (void)gather_start(conn->reactor, gather, conn->batch);
    return true;
}

void monitor_listen(struct conn *conn)
{
    list_push_back(&conn->reactor->monitors, &conn->monitor->link);
    conn_mode_set(conn, CONN_MODE_MONITOR);
}

void monitor_end(struct conn *conn)
{
    struct monitor *monitor = conn->monitor;
    if (monitor == NULL) {
        return;
    }
    conn->monitor = NULL;
    conn_mode_clear(conn, CONN_MODE_MONITOR);
    list_remove(&monitor->link);
    (void)gather_start(conn->reactor, monitor->ending, NULL);
    free(monitor);
}

void monitor_deliver(struct reactor *reactor, struct slice line)
{
    /* Who is cut goes at the end of the turn: the list does not change here. */
    list_foreach (cursor, &reactor->monitors) {
        push_line(list_entry(cursor, struct monitor, link)->conn, line);
    }
}

void monitor_cut_all(struct reactor *reactor)
{
    list_foreach (cursor, &reactor->monitors) {
        push_cut(list_entry(cursor, struct monitor, link)->conn);
    }
}

/* ---- the line ---- */

static size_t escape(char *to, struct slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    static const char plain[] = "\\\"\n\r\t\a\b";
    static const char letters[] = "\\\"nrtab";
    char *at = to;
    for (size_t i = 0; i < bytes.length_bytes; i++) {
        uint8_t byte = bytes.data[i];
        const char *found = byte != '\0' ? strchr(plain, byte) : NULL;
        if (found != NULL) {
            *at++ = '\\';
            *at++ = letters[found - plain];
        } else if (byte >= ' ' && byte <= '~') {
            *at++ = (char)byte;
        } else {
            *at++ = '\\';
            *at++ = 'x';
            *at++ = digits[byte >> 4];
            *at++ = digits[byte & 15];
        }
    }
    return (size_t)(at - to);
}

static size_t shown_bytes(struct slice arg)
{
    if (arg.data == NULL) {
        return 0; /* nothing, or a payload that went straight into its value */
    }
    return arg.length_bytes < MONITOR_ARG_BYTES ? arg.length_bytes : MONITOR_ARG_BYTES;
}

static size_t write_arg(char *to, struct slice arg)
{
    size_t shown = shown_bytes(arg);
    char *at = to;
    *at++ = ' ';
    *at++ = '"';
    at += escape(at, slice_of(arg.data, shown));
    if (shown < arg.length_bytes) {
        at += snprintf(at, REMARK_BYTES_MAX - 3, "... (%zu more bytes)", arg.length_bytes - shown);
    }
    *at++ = '"';
    return (size_t)(at - to);
}

static uint32_t shown_args(const struct request *request)
{
    return request->arg_count < MONITOR_ARGS_MAX ? request->arg_count : MONITOR_ARGS_MAX;
}

static size_t line_bytes_max(const struct request *request)
{
    size_t bytes = HEAD_BYTES_MAX + REMARK_BYTES_MAX;
    for (uint32_t i = 0; i < shown_args(request); i++) {
        bytes += ESCAPED_BYTES_MAX * shown_bytes(request->args[i]) + REMARK_BYTES_MAX;
    }
    return bytes;
}

static size_t write_line(char *to, const struct conn *conn, const struct request *request)
{
    int64_t now_us = clock_wall_us();
    uint32_t hidden = secret_from(request->command, request->args, request->arg_count);
    uint32_t count = shown_args(request);
    char *at = to;
    int peer_bytes = (int)strlen(conn->peer);
    if (conn->is_unix && peer_bytes > 2) {
        peer_bytes -= 2; /* the path alone, without ":0" */
    }
    at += snprintf(at, HEAD_BYTES_MAX, "+%lld.%06lld [%u %s%.*s]", (long long)(now_us / 1000000),
                   (long long)(now_us % 1000000), (unsigned)conn->database,
                   conn->is_unix ? "unix:" : "", peer_bytes, conn->peer);
    for (uint32_t i = 0; i < count; i++) {
        at += write_arg(at, i < hidden ? request->args[i] : slice_of_text(REDACTED));
    }
    if (count < request->arg_count) {
        at += snprintf(at, REMARK_BYTES_MAX, " \"... (%u more arguments)\"",
                       request->arg_count - count);
    }
    *at++ = '\r';
    *at++ = '\n';
    return (size_t)(at - to);
}

void monitor_note(struct conn *conn, const struct request *request)
{
    const struct command *command = request->command;
    bool ran = request->refusal <= REFUSAL_TEXT || request->refusal == REFUSAL_UNSUPPORTED_OPTION;
    uint8_t *line;
    if (!ran || (command->flags & COMMAND_FLAG_ADMIN) != 0 || command->id == COMMAND_QUIT) {
        return;
    }
    line = feed_reserve(conn->reactor, FEED_MONITOR, line_bytes_max(request));
    if (line != NULL) {
        feed_add(conn->reactor, write_line((char *)line, conn, request));
    }
}
