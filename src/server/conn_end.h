#pragma once
/* conn_end – what the units of one connection tell each other: bytes that arrived, a turn that is due.
 * Used by the connection's thread. */

#include "base/compiler.h"

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct conn;

/* Like wire_receive, for asked_bytes in all: what was read ahead comes first. Counts, spends the turn's
 * budget, and knows whether more can be read now. */
ATTR_MUST_USE ssize_t conn_receive(struct conn *conn, struct iovec *pieces, size_t count,
                                   size_t asked_bytes);
/* A runnable connection's turn. */
void conn_run(struct conn *conn);
