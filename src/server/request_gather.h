#pragma once
/* request_gather – a gather that a request waits for: made or refused, then started. For plans, on the
 * connection's thread; the gather is the request's, which destroys it with its reply. */

#include "server/gather.h"

struct conn;
struct request;

/* The request's gather, not yet under way, for what it asks of the reactors. NULL: there is no memory, and
 * the request is refused. */
struct gather *request_gather_begin(struct conn *conn, struct request *request, gather_run_fn *run);
/* The reply is written when all have answered. */
void request_gather_start(struct conn *conn, struct request *request);
/* Both, where nothing is asked but to run. */
void request_gather_run(struct conn *conn, struct request *request, gather_run_fn *run);
