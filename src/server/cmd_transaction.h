#pragma once
/* cmd_transaction – MULTI, EXEC, DISCARD, WATCH, UNWATCH: plans and replies, see handlers.h; and what
 * happens to other commands between MULTI and EXEC. */

#include "server/handlers.h"

void cmd_transaction_reply_multi(struct conn *conn, struct request *request);
void cmd_transaction_reply_exec(struct conn *conn, struct request *request);
void cmd_transaction_reply_discard(struct conn *conn, struct request *request);
void cmd_transaction_reply_watch(struct conn *conn, struct request *request);
void cmd_transaction_reply_unwatch(struct conn *conn, struct request *request);

/* A command behind MULTI is to be queued, or may not be: sets its refusal. */
void cmd_transaction_admit(const struct conn *conn, struct request *request);
/* Queues it and says so. */
void cmd_transaction_queue(struct conn *conn, const struct request *request);
/* A command behind MULTI was refused: EXEC will be, too. */
void cmd_transaction_refused(struct conn *conn, const struct request *request);
/* RESET, and the end of the connection: no queue, no watches. */
void cmd_transaction_end(struct conn *conn);
/* How many commands are queued; -1: there is no transaction. */
int cmd_transaction_queued(const struct conn *conn);
