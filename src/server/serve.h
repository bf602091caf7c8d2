#pragma once
/* serve – turns a connection's input into replies: parses requests into a batch, plans their ops,
 * sends them to their shards, and writes the replies in order. Used by the connection's thread. */

struct conn;

enum serve_result {
    SERVE_ON,     /* something was done: call again */
    SERVE_WAIT,   /* ops are under way, or there is no batch: we are called back */
    SERVE_INPUT,  /* more bytes are needed */
    SERVE_BROKEN, /* the input is not the protocol: conn->reader.error */
};

enum serve_result serve_requests(struct conn *conn);
/* The round's last op has come back: replies, and plans on as far as nothing must be waited for. */
void serve_batch_done(struct conn *conn);
/* The arguments that are kept of a request that came in part; nothing when there are none. */
void serve_forget_args(struct conn *conn);
