#pragma once
/* monitor – MONITOR: who on this reactor gets a line for each request that any reactor has answered, and
 * what is in it. While nobody does, reactor->monitor_count is 0 and a request pays for looking at that.
 * Used by the reactor's thread.
 *
 * As in Redis the commands of administrators are not shown, nor are passwords. */

#include "base/list.h"
#include "base/slice.h"

#include <stdbool.h>

struct conn;
struct gather;
struct reactor;
struct request;

/* More of an argument, and more arguments, are counted and not shown. */
#define MONITOR_ARG_BYTES 1024U
#define MONITOR_ARGS_MAX  128U

/* One connection that listens, or is about to; owned by it. */
struct monitor {
    struct list link; /* reactor->monitors, once it listens */
    struct conn *conn;
    struct gather *ending; /* owned: made at the beginning, so that the end cannot fail */
};

/* Tells all reactors, for which the connection's batch waits; conn->monitor is set. False: no memory. */
bool monitor_start(struct conn *conn, struct request *request);
/* All know: the lines that come from now on are sent. */
void monitor_listen(struct conn *conn);
/* Also for a connection that never was one. */
void monitor_end(struct conn *conn);

/* A request is answered. */
void monitor_note(struct conn *conn, const struct request *request);

/* A line goes to all who listen here; some lines did not fit, so that all of these are closed. */
void monitor_deliver(struct reactor *reactor, struct slice line);
void monitor_cut_all(struct reactor *reactor);
