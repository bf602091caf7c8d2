#pragma once
/* handlers – which functions serve a command: one row a command, in handlers.c. plan looks at the
 * arguments and adds the ops of one round (or a refusal); reply writes the answer once they are done.
 * A command without keys has no plan. Both run on the connection's thread and never wait. */

#include "base/check.h"
#include "server/conn.h"

typedef void handler_plan_fn(struct conn *conn, struct request *request);
typedef void handler_reply_fn(struct conn *conn, struct request *request);

struct handler {
    handler_plan_fn *plan;   /* NULL: nothing to plan */
    handler_reply_fn *reply; /* NULL: not served (the row is a container) */
    uint8_t payload_arg;     /* index of the argument that may be uploaded; 0: none */
};

/* By enum command_id. */
extern const struct handler handlers_table[COMMAND_COUNT];

static inline const struct handler *handlers_find(enum command_id id)
{
    check(id < COMMAND_COUNT);
    return &handlers_table[id];
}

/* The refusal of a plan: text is static, a whole error reply. */
static inline void request_refuse(struct request *request, const char *text)
{
    request->refusal = REFUSAL_TEXT;
    request->error = text;
}

#define ERROR_SYNTAX      "ERR syntax error"
#define ERROR_NOT_INTEGER "ERR value is not an integer or out of range"
