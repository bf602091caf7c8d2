#pragma once
/* cmd_kv – handlers of the extension commands that work over any connection. See handlers.h; what goes
 * over the wire stands in src/proto/README.md. */

#include "server/handlers.h"

#define ERROR_NO_CHECKSUM "ERR out of memory for the checksum; try again"

handler_plan_fn cmd_kv_plan_match, cmd_kv_plan_set, cmd_kv_plan_lease, cmd_kv_plan_release,
    cmd_kv_plan_pin, cmd_kv_plan_unpin, cmd_kv_plan_stat;
handler_reply_fn cmd_kv_reply_hello, cmd_kv_reply_match, cmd_kv_reply_set, cmd_kv_reply_lease,
    cmd_kv_reply_release, cmd_kv_reply_pin, cmd_kv_reply_stat;

/* Milliseconds of a pin, lease or reservation: 1 … lease-max-ms; false: refused. */
bool cmd_kv_parse_ms(struct conn *conn, struct request *request, struct slice text, uint64_t *ms);
/* The value's checksum, or null. */
void cmd_kv_reply_checksum(struct conn *conn, const struct value *value);

/* Reads the options of a put from args[*index] on, to the end or, with from, to the word FROM, where *index
 * then is; false: refused. flags and put are filled in. timeout_ms (of KV.RESERVE) may be NULL: not
 * allowed. */
bool cmd_kv_parse_put(struct conn *conn, struct request *request, uint32_t *index, bool from,
                      uint32_t *flags, struct op_put *put, uint64_t *timeout_ms);
/* The same of KV.RESERVE key length …: fills in *put, its length too, and how long the reservation may stay,
 * lease-max-ms at most. */
bool cmd_kv_parse_reserve(struct conn *conn, struct request *request, uint32_t *flags,
                          struct op_put *put, uint64_t *timeout_ms);
