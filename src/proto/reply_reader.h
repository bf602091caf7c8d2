#pragma once
/* reply_reader – reads server replies (RESP2 and RESP3) token by token out of a buffer that the
 * caller fills piece by piece. Embedded in a client connection; one thread; owns nothing.
 *
 * A token is one header or one whole short string. An aggregate is announced by its token and its
 * elements follow as tokens; the reader keeps the nesting (bounded) and tells the depth, so the
 * caller can skip what it does not know. A bulk string of at least REPLY_BULK_BYTES_MIN is announced
 * by its header only, so that its bytes can go from the socket straight into the caller's buffer. */

#include "base/compiler.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define REPLY_BULK_BYTES_MIN 4096U
/* COMMAND DOCS nests ten deep (BITFIELD), in Redis as well. */
#define REPLY_DEPTH_MAX 16
/* Verbatim strings and blob errors are given whole, so they have a limit of their own. */
#define REPLY_TEXT_BYTES_MAX (16U << 20)

enum reply_token_kind {
    REPLY_SIMPLE,      /* text */
    REPLY_ERROR,       /* text: "OOM command not allowed …"; also RESP3 blob errors */
    REPLY_INTEGER,     /* number */
    REPLY_BULK,        /* text, whole; also verbatim strings (without "txt:") and big numbers */
    REPLY_BULK_HEADER, /* count bytes follow, then CRLF: see reply_reader_bulk_done */
    REPLY_NULL,        /* any of the nulls */
    REPLY_BOOL,        /* number 0 or 1 */
    REPLY_DOUBLE,      /* text as received */
    REPLY_ARRAY,       /* count elements follow */
    REPLY_MAP,         /* count pairs follow: 2 * count tokens on the next level */
    REPLY_SET,         /* count elements follow */
    REPLY_PUSH,        /* count elements follow; not a reply to a request */
};

struct reply_token {
    enum reply_token_kind kind;
    uint32_t depth;    /* 0: a reply of its own */
    struct slice text; /* borrowed from the buffer until it changes */
    int64_t number;
    uint64_t count;
    bool ends_reply; /* this token completes the outermost reply */
};

enum reply_result {
    REPLY_MORE,
    REPLY_TOKEN,
    REPLY_BROKEN
};

struct reply_reader {
    uint32_t depth;
    uint64_t left[REPLY_DEPTH_MAX]; /* elements still to come per level */
    uint64_t scanned_bytes; /* of the unfinished token, so that no byte is looked at twice */
    bool bulk_open;         /* a bulk header was handed out and not yet done */
    const char *error;      /* with REPLY_BROKEN (static) */
};

void reply_reader_init(struct reply_reader *reader);

/* Looks at data[0..length), whose first byte is the first of the next token. REPLY_TOKEN: *token_p
 * is set and *consumed_p bytes are to be dropped from the front before the next call. REPLY_MORE:
 * nothing is consumed, and the same bytes with more behind them are to be given again. REPLY_BROKEN,
 * then for ever: not the protocol, nested deeper than REPLY_DEPTH_MAX, a line over 64 KiB, an
 * aggregate of more than 2^32 - 1 elements, attributes or streamed types. */
enum reply_result reply_reader_advance(struct reply_reader *reader, const uint8_t *data,
                                       size_t length_bytes, struct reply_token *token_p,
                                       size_t *consumed_p);

/* After REPLY_BULK_HEADER, once the caller has taken the payload and its CRLF out of the stream.
 * True when that completed the outermost reply. */
bool reply_reader_bulk_done(struct reply_reader *reader);
