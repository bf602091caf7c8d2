#pragma once
/* request_reader – reads client requests (RESP arrays of bulk strings, and inline lines) out of a
 * byte buffer that the caller fills piece by piece. Embedded in a connection; one thread. Owns
 * nothing: arguments are slices of the caller's buffer.
 *
 * The reader keeps its place between calls as offsets from the start of the unfinished request, so
 * the caller may move or grow the buffer between calls, as long as the unfinished request's bytes
 * stay at its start. Bytes are looked at once: a request that dribbles in costs linear time.
 *
 * A long bulk need not pass through the buffer: the reader stops at its header (READER_BULK) and the
 * caller either says request_reader_accept_bulk() (it will be waited for in the buffer) or takes the
 * payload itself, from the buffer's remainder and from the socket, straight to where it shall lie,
 * and then says request_reader_bulk_done().
 *
 * What is accepted and every error text are those of Redis 7.0, with three intended differences: a
 * NUL byte in an inline line is an ordinary byte (Redis waits for ever); a line that begins as TLS does
 * is refused at once, by that name; and a byte that cannot be
 * printed is quoted as \xHH in "expected '$', got …". As in Redis the byte after the CR of a header
 * and the two bytes after a payload are skipped unseen. */

#include "base/compiler.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* Bulks this long are announced before they are there. */
#define READER_BULK_BYTES_MIN (16U << 10)
/* The least room for arguments that a caller may offer. */
#define READER_ARGS_CAPACITY_MIN 16U

enum reader_result {
    READER_MORE,      /* consumed what it could; needs more bytes */
    READER_REQUEST,   /* a whole request; arg_count ≥ 1 */
    READER_BULK,      /* args[0..bulk_index) are there, argument bulk_index of bulk_bytes follows */
    READER_ARGS_FULL, /* args must grow to args_wanted elements, its contents kept; call again */
    READER_ERROR,     /* not the protocol; error says why. The connection must be closed. */
};

struct reader_limits {
    uint32_t args_max;         /* elements of an array (Redis: 1024 * 1024) */
    uint64_t bulk_bytes_max;   /* of one bulk (proto-max-bulk-len) */
    uint32_t inline_bytes_max; /* of a line: inline request or header (Redis: 64 KiB) */
    bool unauthenticated;      /* what is over the limits is called "unauthenticated …" */
};
/* What Redis allows before authentication: 10 arguments of 16,384 bytes. */
static const struct reader_limits READER_LIMITS_UNAUTHENTICATED = {
    .args_max = 10,
    .bulk_bytes_max = 16384,
    .inline_bytes_max = 64U << 10,
    .unauthenticated = true,
};

/* Callers read what is marked "out" and change nothing. Not to be copied after READER_ERROR, since
 * error may point into it. */
struct request_reader {
    uint32_t state;       /* enum reader_state */
    uint32_t args_left;   /* arguments still to come of the current array */
    uint32_t arg_count;   /* out: arguments complete so far; with READER_REQUEST all of them */
    uint32_t bulk_index;  /* out, with READER_BULK */
    uint32_t args_wanted; /* out, with READER_ARGS_FULL */
    uint64_t bulk_bytes;  /* out, with READER_BULK; else length of the bulk being waited for */
    uint64_t token;       /* offset of the line or payload being waited for */
    uint64_t offset;      /* of the first byte not looked at, from the start of the request */
    uintptr_t base;       /* where data lay when args were last made to point into it */
    const char *error;    /* out, with READER_ERROR: text after "-ERR " */
    char error_text[48];  /* room for an error that quotes a byte */
};

void request_reader_init(struct request_reader *reader);

/* True between requests: nothing of an unfinished one has been seen. */
bool request_reader_idle(const struct request_reader *reader);

/* Looks at data[0..length), whose first byte is the first of the unfinished request. args has
 * room for args_capacity (≥ 16) slices and keeps its contents between calls for the same request
 * (copied when the caller grows it); its finished elements point into data on READER_REQUEST and
 * READER_BULK, and data may move between calls. On READER_REQUEST, *consumed_p is the request's
 * length in the buffer (a bulk taken by the caller not counted) and reader->arg_count its number of
 * arguments. Empty lines and empty or negative arrays are skipped silently: *consumed_p counts
 * them, also with READER_MORE, and the caller drops them before the next call. With READER_BULK,
 * *consumed_p is the offset in data of the payload's first byte, and nothing is dropped; calling
 * again without deciding gives READER_BULK again. With READER_ARGS_FULL and READER_ERROR it is 0.
 * After READER_ERROR each call gives it again. Inline arguments are unquoted in place, inside data.
 * An array of many arguments asks for room in steps, as they arrive, so that its header alone
 * makes nobody reserve memory. */
enum reader_result request_reader_advance(struct request_reader *reader, uint8_t *data,
                                          size_t length_bytes, const struct reader_limits *limits,
                                          struct slice *args, uint32_t args_capacity,
                                          size_t *consumed_p);

/* After READER_BULK: wait for the payload in the buffer like for any other argument. */
void request_reader_accept_bulk(struct request_reader *reader);

/* After READER_BULK: the caller has taken the payload (bulk_bytes, without its CRLF) and cut what of
 * it lay in the buffer out: what stands at data + the offset given with READER_BULK is now the byte
 * after the payload. args[bulk_index] becomes {NULL, bulk_bytes}. */
void request_reader_bulk_done(struct request_reader *reader);

/* Bytes that the buffer must be able to hold, from the start of the unfinished request, for it to go
 * on: up to the end of the bulk being waited for, or a header's length past what has been seen. A
 * declared length is only a claim: grow the buffer as bytes arrive, not to this at once. */
uint64_t request_reader_bytes_wanted(const struct request_reader *reader);
