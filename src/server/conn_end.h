#pragma once
/* conn_end – what the units of one connection tell each other: bytes that arrived, a turn that is due.
 * Used by the connection's thread. */

#include <stdint.h>

struct conn;

/* bytes came in from the socket: activity, counters, budget of the turn. */
void conn_received(struct conn *conn, uint64_t bytes);
/* A runnable connection's turn. */
void conn_run(struct conn *conn);
