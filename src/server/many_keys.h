#pragma once
/* many_keys – one op for each key of a request (MGET, DEL, UNLINK, EXISTS, TOUCH), all of them in one
 * step for everybody, wherever the keys lie: a round that has such a request over several shards is
 * executed inside all their gates. Used by plans, on the connection's thread. */

#include "server/conn.h"

/* Most keys of one step: what a round has room for. Of more keys each round is a step. */
#define MANY_KEYS_MAX BATCH_OPS_MAX

/* Adds the ops for the keys from args[1] on, or has the request begin with the next round, in which case
 * it has no ops and request->next_arg is still 0. */
void many_keys_plan(struct conn *conn, struct request *request, enum op_kind kind, uint32_t flags);

/* The round is to be executed in one step: may the request still be part of it? What it does inside the
 * gates must be as short. */
bool many_keys_may_join(const struct request *request);
