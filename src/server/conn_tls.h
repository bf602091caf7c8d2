#pragma once
/* conn_tls – a connection of the TLS port until it is like any other: its handshake, with a deadline, a
 * share of each turn and of the memory, and a line in the log when it fails. Used by the connection's
 * thread. */

#include "base/compiler.h"

#include <stdbool.h>

struct conn;

/* False: there is no memory for one more. */
ATTR_MUST_USE bool conn_tls_begin(struct conn *conn);
/* Goes on with the handshake; the connection may have ended after. */
void conn_tls_shake_hands(struct conn *conn);
/* The deadline. */
void conn_tls_tick(struct conn *conn);
/* What was counted is so no more. For every connection, TLS or not. */
void conn_tls_end(struct conn *conn);
