#pragma once
/* lend – the rounds of requests about loans: between the ops and the answer of KV.LEASE and KV.RESERVE
 * windows are bound, before KV.COMMIT, KV.ABORT and KV.RELEASE go on they are revoked. Such a request is
 * the only one of its round that has to do with the queue pair. Used by the connection's thread. */

#include "server/loan.h"

struct request;

/* Whether the connection's KV.LEASE, KV.RESERVE and so on are about loans. */
bool lend_is_on(const struct conn *conn);
/* A plan's ops are there (for loans to come), or loan_take_back was called for those to end. */
void lend_note(struct conn *conn, struct request *request);
/* As transfer_settle, for a round with such a request. */
bool lend_settle(struct conn *conn);
