#pragma once
/* reply – what a handler writes into its connection's output, in the protocol version the connection
 * speaks. Used by the connection's thread. */

#include "base/slice.h"
#include "server/conn.h"

#include <kvasir/types.h>

#define ERROR_QUOTA                                                                        \
    "QUOTA the tenant's burst has no room for this value: what it holds cannot go (pins, " \
    "leases, reservations), or the value alone is longer; see tenants in CONFIG and INFO"

/* Redis's words, which clients look for. */
#define ERROR_OOM "OOM command not allowed when used memory > 'maxmemory'."

#define ERROR_ANSWER_MEMORY "ERR out of memory for this answer"

/* As in Redis: no more of a name or an argument is sent back. */
#define REPLY_QUOTED_BYTES_MAX 128

/* Whether the reactor has buffers for a reply of so many bytes just now: those that can be very long
 * are refused rather than cut off with the connection. */
bool reply_fits(const struct conn *conn, uint64_t length_bytes);

void reply_ok(struct conn *conn);
void reply_simple(struct conn *conn, const char *text);
/* An array of so many of these, as HELP answers. */
void reply_lines(struct conn *conn, const char *const *lines, size_t count);
/* The whole error text: "ERR syntax error". */
void reply_error(struct conn *conn, const char *text);
void reply_errorf(struct conn *conn, const char *format, ...) ATTR_PRINTF(2, 3);
/* How much of a name or an argument is sent back within an error, bytes. */
int reply_quoted_length(struct slice text);
/* The error reply for a failure of an op, in Redis's words where Redis has them. */
void reply_status(struct conn *conn, enum kvasir_status status);
/* The same for an op of the command, which can say how long the value is that does not fit. */
void reply_failure(struct conn *conn, const struct command *command, const struct op *op);
/* The command's value of so many bytes is longer than the store may ever take. */
void reply_too_large(struct conn *conn, const struct command *command, uint64_t length_bytes);
void reply_integer(struct conn *conn, int64_t number);
void reply_bulk(struct conn *conn, struct slice text);
void reply_text(struct conn *conn, const char *text);
void reply_verbatim(struct conn *conn, struct slice text);
/* The same in parts: so many bytes in all. */
void reply_verbatim_begin(struct conn *conn, uint64_t length_bytes);
void reply_part(struct conn *conn, struct slice text);
void reply_verbatim_end(struct conn *conn);
void reply_null(struct conn *conn);
void reply_null_array(struct conn *conn);
void reply_array(struct conn *conn, uint64_t count);
void reply_map(struct conn *conn, uint64_t pair_count);
void reply_set(struct conn *conn, uint64_t count);
/* An array in RESP2. */
void reply_push(struct conn *conn, uint64_t count);
void reply_bool(struct conn *conn, bool truth);
void reply_double(struct conn *conn, double number);

/* A name in a map and what it stands for. */
void reply_pair_integer(struct conn *conn, const char *name, int64_t number);
void reply_pair_text(struct conn *conn, const char *name, const char *text);
void reply_pair_double(struct conn *conn, const char *name, double number);

/* A pinned value between head and tail, all one bulk string; takes the pin over. */
void reply_value_framed(struct conn *conn, uint32_t shard, struct value *value, struct slice head,
                        struct slice tail);

/* The part of a pinned value as a bulk string, sent from where it lies when it is long; takes the pin
 * over. */
void reply_value(struct conn *conn, uint32_t shard, struct value *value, uint64_t offset_bytes,
                 uint64_t length_bytes);
