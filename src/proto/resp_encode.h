#pragma once
/* resp_encode – the wire form of RESP2 and RESP3 replies and of requests, written into memory the
 * caller provides. Shared by server and client. Any thread; owns nothing. Each function returns the
 * number of bytes written, never more than its stated maximum; the caller makes sure there is room. */

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* The longest header: type byte, 20 digits, CRLF; or a double. */
#define RESP_HEADER_BYTES_MAX 40

enum resp_version {
    RESP_2 = 2,
    RESP_3 = 3
};

size_t resp_encode_integer(uint8_t *to, int64_t number);            /* :n */
size_t resp_encode_bulk_header(uint8_t *to, uint64_t length_bytes); /* $n */
size_t resp_encode_array_header(uint8_t *to, uint64_t count);       /* *n */
/* RESP3 %n; RESP2 an array of 2n. */
size_t resp_encode_map_header(uint8_t *to, enum resp_version version, uint64_t pair_count);
/* RESP3 ~n; RESP2 an array. */
size_t resp_encode_set_header(uint8_t *to, enum resp_version version, uint64_t count);
/* RESP3 >n; RESP2 an array. */
size_t resp_encode_push_header(uint8_t *to, enum resp_version version, uint64_t count);
/* RESP3 _; RESP2 $-1 (bulk) or *-1 (array). */
size_t resp_encode_null(uint8_t *to, enum resp_version version);
size_t resp_encode_null_array(uint8_t *to, enum resp_version version);
/* RESP3 #t/#f; RESP2 :1/:0. */
size_t resp_encode_bool(uint8_t *to, enum resp_version version, bool truth);
/* RESP3 ,d (inf, -inf, nan); RESP2 a bulk string with 17 significant digits. */
size_t resp_encode_double(uint8_t *to, enum resp_version version, double number);
/* RESP3 =n with "txt:"; RESP2 a bulk. Header only: text and CRLF follow. */
size_t resp_encode_verbatim_header(uint8_t *to, enum resp_version version, uint64_t length_bytes);
/* A whole bulk string: writes at most length + RESP_HEADER_BYTES_MAX bytes. */
size_t resp_encode_bulk(uint8_t *to, struct slice text);
/* "+text" CRLF; text has neither CR nor LF. Writes length + 3 bytes. */
size_t resp_encode_simple(uint8_t *to, struct slice text);
/* "-text" CRLF; CR and LF inside become blanks, as Redis does. Writes length + 3 bytes. */
size_t resp_encode_error(uint8_t *to, struct slice text);
