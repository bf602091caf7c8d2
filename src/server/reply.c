#include "server/reply.h"
#include "server/pin_mail.h"

#include "base/check.h"
#include "base/copy.h"
#include "proto/resp_encode.h"
#include "proto/status_code.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Shorter values are copied behind their header: cheaper than a piece of their own for the kernel
 * and a pin that has to be handed back. */
#define COPY_BYTES_MAX  2048U
#define ERROR_BYTES_MAX 512

static const struct slice CRLF = {(const uint8_t *)"\r\n", 2};

/* Room for a header; NULL when the reply is not wanted or cannot be had. */
static uint8_t *header_room(struct conn *conn)
{
    return conn->muted ? NULL : output_reserve(&conn->output, RESP_HEADER_BYTES_MAX);
}

#define REPLY_HEADER(conn, expression)                    \
    do {                                                  \
        uint8_t *to = header_room(conn);                  \
        if (to != NULL) {                                 \
            output_commit(&(conn)->output, (expression)); \
        }                                                 \
    } while (0)

void reply_part(struct conn *conn, struct slice text)
{
    if (!conn->muted) {
        output_text(&conn->output, text.data, text.length_bytes);
    }
}

bool reply_fits(const struct conn *conn, uint64_t length_bytes)
{
    const struct chunk_pool *pool = &conn->reactor->chunks;
    uint64_t left = pool->count_max - pool->taken_count;
    /* Half of it: others are being answered as well. */
    return length_bytes / sizeof(((struct chunk *)0)->data) < left / 2;
}

void reply_simple(struct conn *conn, const char *text)
{
    struct slice slice = slice_of_text(text);
    check(slice.length_bytes + 3 <= OUTPUT_RESERVE_BYTES_MAX);
    if (!conn->muted) {
        uint8_t *to = output_reserve(&conn->output, slice.length_bytes + 3);
        if (to != NULL) {
            output_commit(&conn->output, resp_encode_simple(to, slice));
        }
    }
}

void reply_lines(struct conn *conn, const char *const *lines, size_t count)
{
    reply_array(conn, count);
    for (size_t i = 0; i < count; i++) {
        reply_simple(conn, lines[i]);
    }
}

void reply_ok(struct conn *conn)
{
    reply_simple(conn, "OK");
}

void reply_error(struct conn *conn, const char *text)
{
    struct slice slice = slice_of_text(text);
    if (slice.length_bytes > ERROR_BYTES_MAX) {
        slice.length_bytes = ERROR_BYTES_MAX;
    }
    conn->error_replies++;
    command_stats_error(conn->reactor->command_stats, text);
    if (!conn->muted) {
        uint8_t *to = output_reserve(&conn->output, slice.length_bytes + 3);
        if (to != NULL) {
            output_commit(&conn->output, resp_encode_error(to, slice));
        }
    }
}

void reply_errorf(struct conn *conn, const char *format, ...)
{
    char text[ERROR_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    reply_error(conn, text);
}

int reply_quoted_length(struct slice text)
{
    return (int)(text.length_bytes < REPLY_QUOTED_BYTES_MAX ? text.length_bytes
                                                            : REPLY_QUOTED_BYTES_MAX);
}

void reply_status(struct conn *conn, enum kvasir_status status)
{
    switch (status) {
    case KVASIR_NO_MEMORY:
    case KVASIR_AGAIN:
        reply_error(conn, ERROR_OOM);
        return;
    case KVASIR_BUSY:
        reply_errorf(
            conn,
            "BUSY leases and hard pins of a shard may hold %llu bytes (half of its share of "
            "the payload memory), and with reservations be %llu (grants-max); release some",
            (unsigned long long)pages_present_count(conn->reactor->server->payload) *
                SERVER_PAYLOAD_PAGE_BYTES / 2 / conn->reactor->server->reactor_count,
            (unsigned long long)conn->reactor->settings.grants_max);
        return;
    case KVASIR_INVALID:
        reply_error(conn, "ERR the key is longer than 65000 bytes");
        return;
    case KVASIR_QUOTA:
        reply_error(conn, ERROR_QUOTA);
        return;
    case KVASIR_OK:
    case KVASIR_PENDING:
    case KVASIR_NOT_FOUND:
    case KVASIR_EXISTS:
    case KVASIR_TOO_LARGE:
    case KVASIR_TOO_SMALL:
    case KVASIR_TIMEOUT:
    case KVASIR_CLOSED:
    case KVASIR_DENIED:
    case KVASIR_UNSUPPORTED:
    case KVASIR_PROTOCOL:
    case KVASIR_CORRUPT:
    case KVASIR_EXPIRED:
    case KVASIR_IO:
    case KVASIR_CANCELLED:
    case KVASIR_OVERRUN:
        reply_errorf(conn, "%s %s", status_code_word(status), kvasir_status_name(status));
        return;
    }
    unreachable();
}

void reply_too_large(struct conn *conn, const struct command *command, uint64_t length_bytes)
{
    const struct reactor *reactor = conn->reactor;
    bool own = strcmp(command->group, "kvcache") == 0;
    uint64_t store_bytes =
        (uint64_t)pages_present_count(reactor->server->payload) * SERVER_PAYLOAD_PAGE_BYTES;
    uint64_t allowed_bytes = reactor->settings.proto_max_bulk_len;
    bool by_store = store_bytes < allowed_bytes;
    reply_errorf(conn, "%s the value of %llu bytes is longer than %s of %llu bytes",
                 own ? "TOOLARGE" : "OOM command not allowed:", (unsigned long long)length_bytes,
                 by_store ? "the whole store" : "proto-max-bulk-len",
                 (unsigned long long)(by_store ? store_bytes : allowed_bytes));
}

void reply_failure(struct conn *conn, const struct command *command, const struct op *op)
{
    if (op->status == KVASIR_TOO_LARGE) {
        reply_too_large(conn, command, op->put.length_bytes);
    } else {
        reply_status(conn, op->status);
    }
}

void reply_integer(struct conn *conn, int64_t number)
{
    REPLY_HEADER(conn, resp_encode_integer(to, number));
}

void reply_bulk(struct conn *conn, struct slice text)
{
    if (text.length_bytes + RESP_HEADER_BYTES_MAX <= OUTPUT_RESERVE_BYTES_MAX && !conn->muted) {
        uint8_t *to = output_reserve(&conn->output, text.length_bytes + RESP_HEADER_BYTES_MAX);
        if (to != NULL) {
            output_commit(&conn->output, resp_encode_bulk(to, text));
        }
        return;
    }
    REPLY_HEADER(conn, resp_encode_bulk_header(to, text.length_bytes));
    reply_part(conn, text);
    reply_part(conn, CRLF);
}

void reply_text(struct conn *conn, const char *text)
{
    reply_bulk(conn, slice_of_text(text));
}

void reply_verbatim_begin(struct conn *conn, uint64_t length_bytes)
{
    REPLY_HEADER(conn, resp_encode_verbatim_header(to, conn->resp, length_bytes));
}

void reply_verbatim_end(struct conn *conn)
{
    reply_part(conn, CRLF);
}

void reply_verbatim(struct conn *conn, struct slice text)
{
    reply_verbatim_begin(conn, text.length_bytes);
    reply_part(conn, text);
    reply_verbatim_end(conn);
}

void reply_null(struct conn *conn)
{
    REPLY_HEADER(conn, resp_encode_null(to, conn->resp));
}

void reply_null_array(struct conn *conn)
{
    REPLY_HEADER(conn, resp_encode_null_array(to, conn->resp));
}

void reply_array(struct conn *conn, uint64_t count)
{
    REPLY_HEADER(conn, resp_encode_array_header(to, count));
}

void reply_map(struct conn *conn, uint64_t pair_count)
{
    REPLY_HEADER(conn, resp_encode_map_header(to, conn->resp, pair_count));
}

void reply_push(struct conn *conn, uint64_t count)
{
    REPLY_HEADER(conn, resp_encode_push_header(to, conn->resp, count));
}

void reply_set(struct conn *conn, uint64_t count)
{
    REPLY_HEADER(conn, resp_encode_set_header(to, conn->resp, count));
}

void reply_bool(struct conn *conn, bool truth)
{
    REPLY_HEADER(conn, resp_encode_bool(to, conn->resp, truth));
}

void reply_double(struct conn *conn, double number)
{
    REPLY_HEADER(conn, resp_encode_double(to, conn->resp, number));
}

/* Header, bytes and CRLF in one piece of text. */
static void reply_value_copied(struct conn *conn, struct layout_cursor *cursor, size_t length)
{
    uint8_t *to = output_reserve(&conn->output, length + RESP_HEADER_BYTES_MAX + 2);
    size_t written;
    if (to == NULL) {
        return;
    }
    written = resp_encode_bulk_header(to, length);
    while (length > 0) {
        struct iovec piece = layout_cursor_peek(cursor);
        size_t part = piece.iov_len < length ? piece.iov_len : length;
        copy_payload(to + written, piece.iov_base, part);
        layout_cursor_skip(cursor, part);
        written += part;
        length -= part;
    }
    memcpy(to + written, "\r\n", 2);
    output_commit(&conn->output, written + 2);
}

void reply_pair_integer(struct conn *conn, const char *name, int64_t number)
{
    reply_text(conn, name);
    reply_integer(conn, number);
}

void reply_pair_text(struct conn *conn, const char *name, const char *text)
{
    reply_text(conn, name);
    reply_text(conn, text);
}

void reply_pair_double(struct conn *conn, const char *name, double number)
{
    reply_text(conn, name);
    reply_double(conn, number);
}

void reply_value_framed(struct conn *conn, uint32_t shard, struct value *value, struct slice head,
                        struct slice tail)
{
    struct layout_cursor cursor;
    uint64_t length_bytes = value->length_bytes;
    if (conn->muted) {
        pin_mail_release(conn->reactor, shard, value);
        return;
    }
    REPLY_HEADER(conn,
                 resp_encode_bulk_header(to, head.length_bytes + length_bytes + tail.length_bytes));
    reply_part(conn, head);
    layout_cursor_init(&cursor, conn->reactor->server->payload, &value->layout, length_bytes);
    if (length_bytes == 0 || !output_value(&conn->output, &cursor, length_bytes, shard, value)) {
        pin_mail_release(conn->reactor, shard, value);
    }
    reply_part(conn, tail);
    reply_part(conn, CRLF);
}

void reply_value(struct conn *conn, uint32_t shard, struct value *value, uint64_t offset_bytes,
                 uint64_t length_bytes)
{
    struct layout_cursor cursor;
    if (conn->muted) {
        pin_mail_release(conn->reactor, shard, value);
        return;
    }
    layout_cursor_init(&cursor, conn->reactor->server->payload, &value->layout,
                       value->length_bytes);
    layout_cursor_skip(&cursor, offset_bytes);
    if (length_bytes <= COPY_BYTES_MAX) {
        reply_value_copied(conn, &cursor, length_bytes);
        pin_mail_release(conn->reactor, shard, value);
        return;
    }
    REPLY_HEADER(conn, resp_encode_bulk_header(to, length_bytes));
    if (!output_value(&conn->output, &cursor, length_bytes, shard, value)) {
        pin_mail_release(conn->reactor, shard, value);
    }
    reply_part(conn, CRLF);
}
