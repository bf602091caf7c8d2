#pragma once
/* request_reader – reads client requests (RESP arrays of bulk strings, and inline lines) out of a
 * byte buffer that the caller fills piece by piece. Embedded in a connection; one thread. Owns
 * nothing: arguments are slices of the caller's buffer.
 *
 * The reader keeps its place between calls as an offset from the start of the unfinished request, so
 * the caller may move or grow the buffer between calls, as long as the unfinished request's bytes
 * stay at its start. Bytes are looked at once: a request that dribbles in costs linear time.
 *
 * A long bulk need not pass through the buffer: the reader stops at its header (READER_BULK) and the
 * caller either says request_reader_accept_bulk() (it will be waited for in the buffer) or takes the
 * payload itself, from the buffer's remainder and from the socket, straight to where it shall lie,
 * and then says request_reader_bulk_done(). */

#include "base/compiler.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* Bulks this long are announced before they are there. */
#define READER_BULK_BYTES_MIN (16U << 10)

enum reader_result {
    READER_MORE,      /* consumed what it could; needs more bytes */
    READER_REQUEST,   /* a whole request; argc ≥ 1 */
    READER_BULK,      /* args[0..bulk_index) are there, argument bulk_index of bulk_bytes follows */
    READER_ARGS_FULL, /* the request has args_wanted arguments: call again with an array as long */
    READER_ERROR,     /* not the protocol; error says why. The connection must be closed. */
};

struct reader_limits {
    uint32_t args_max;         /* elements of an array (Redis: 1024 * 1024) */
    uint64_t bulk_bytes_max;   /* of one bulk (proto-max-bulk-len) */
    uint32_t inline_bytes_max; /* of a line: inline request or header (Redis: 64 KiB) */
};
/* What Redis allows before authentication: 10 arguments of 16,384 bytes. */
extern const struct reader_limits READER_LIMITS_UNAUTHENTICATED;

struct request_reader {
    uint32_t state;
    uint32_t args_left;     /* arguments still to come of the current array */
    uint32_t arg_count;     /* arguments complete so far */
    uint32_t bulk_index;    /* out, with READER_BULK */
    uint32_t args_wanted;   /* out, with READER_ARGS_FULL; also the array's declared length */
    uint64_t bulk_bytes;    /* out, with READER_BULK; else length of the bulk being waited for */
    uint64_t offset;        /* of the first byte not looked at, from the start of the request */
    const char *error;      /* out, with READER_ERROR: text after "-ERR " (static) */
    char error_text[48];    /* room for an error that quotes a byte */
};

void request_reader_init(struct request_reader *reader);

/* True between requests: nothing of an unfinished one has been seen. */
bool request_reader_idle(const struct request_reader *reader);

/* Looks at data[0..length), whose first byte is the first of the unfinished request. args has
 * room for args_capacity (≥ 16) slices and keeps its contents between calls for the same request;
 * its finished elements are rewritten to point into data on READER_REQUEST and READER_BULK, so data
 * may move between calls. On READER_REQUEST, *consumed_p is the request's length in the buffer (a
 * bulk taken by the caller not counted) and *arg_count_p its number of arguments. Empty lines and
 * empty or negative arrays are skipped silently: *consumed_p counts them, also with READER_MORE.
 * With READER_BULK, *consumed_p is the offset in data of the payload's first byte.
 * Inline arguments are unquoted in place, inside data. */
enum reader_result request_reader_advance(struct request_reader *reader, uint8_t *data,
                                          size_t length_bytes, const struct reader_limits *limits,
                                          struct slice *args, uint32_t args_capacity,
                                          size_t *consumed_p, uint32_t *arg_count_p);

/* After READER_BULK: wait for the payload in the buffer like for any other argument. */
void request_reader_accept_bulk(struct request_reader *reader);

/* After READER_BULK: the caller has taken the payload (bulk_bytes, without its CRLF), of which
 * payload_in_buffer bytes were cut out of the buffer: what stands at data + the offset given with
 * READER_BULK is now the byte after the payload. args[bulk_index] becomes {NULL, bulk_bytes}. */
void request_reader_bulk_done(struct request_reader *reader);

/* Bytes that the buffer must be able to hold for the unfinished request to go on: offset plus the
 * rest of the bulk being waited for, or offset plus one line. */
uint64_t request_reader_bytes_wanted(const struct request_reader *reader);
