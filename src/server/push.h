#pragma once
/* push – messages that a connection did not ask for just now: of channels and of MONITOR. They go out
 * between two replies; while a request is being answered they wait, in memory of the reactor's budget
 * for long requests. A client that does not take them in time is cut, by client-output-buffer-limit of
 * its class. Used by the connection's thread. */

#include "base/slice.h"

#include <stddef.h>

struct conn;
struct push;

/* The parts of one message, each a bulk string: "message", channel, text. A push in RESP3, an array in
 * RESP2. */
void push_strings(struct conn *conn, const struct slice *parts, uint32_t part_count);
/* One line, whole, with its end. */
void push_line(struct conn *conn, struct slice line);
/* Closes the connection because it does not take its messages in time. */
void push_cut(struct conn *conn);
/* The batch is answered: what waited goes out. */
void push_flush(struct conn *conn);
void push_fini(struct conn *conn);
