#pragma once
/* refuse – the error replies for requests that never ran: unknown, of wrong arity, not allowed. Used
 * by the connection's thread. */

struct conn;
struct request;

void refuse_request(struct conn *conn, const struct request *request);
