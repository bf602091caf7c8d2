#include "server/upload.h"
#include "server/pin_mail.h"

#include "base/check.h"
#include "base/copy.h"
#include "server/access.h"
#include "server/checksum.h"
#include "server/conn.h"
#include "server/conn_end.h"
#include "server/handlers.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* One read takes at most so much, so that a turn stays short. */
#define READ_BYTES_MAX  (1U << 20)
#define READ_PIECES_MAX 8
/* While others wait, an upload must get on at this rate, once it has had a while to begin. */
#define SLOW_BYTES_PER_S (1U << 20)
#define SLOW_AFTER_US    1000000
/* Payload nobody wants is read through a buffer of this size. */
#define DISCARD_BYTES (2U << 10)

bool upload_wanted(const struct conn *conn)
{
    const struct request_reader *reader = &conn->reader;
    const struct command *command;
    if (conn->args == NULL || !conn->authenticated || conn->upload.state != UPLOAD_NONE ||
        conn->modes != 0) {
        return false;
    }
    command = command_find(conn->args, reader->arg_count);
    return command != NULL && reader->bulk_index > 1 &&
           handlers_find(command->id)->payload_arg == reader->bulk_index;
}

/* A declared length is only a claim. Uploads under way may hold half of the payload memory together,
 * or one longer value nearly all of it, and short ones a quarter of their own, so that claims alone
 * cannot evict the store and long ones do not hold up short ones. Who must wait makes uploads that do
 * not get on give way: see upload_is_too_slow. */
bool upload_claims_fit(const struct server *server, uint64_t wanted)
{
    uint64_t payload = (uint64_t)pages_present_count(server->payload) * SERVER_PAYLOAD_PAGE_BYTES;
    uint64_t declared = 0;
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        const struct reactor_metrics *metrics = &server->reactors[i]->metrics;
        declared += metric_get(wanted <= UPLOAD_SHORT_BYTES_MAX ? &metrics->uploads_short_bytes
                                                                : &metrics->uploads_long_bytes);
    }
    if (wanted <= UPLOAD_SHORT_BYTES_MAX) {
        return declared + wanted <= payload / 4;
    }
    return declared + wanted <= payload / 2 || (wanted > payload / 2 && declared <= payload / 4);
}

static struct metric *claims_of(struct conn *conn)
{
    struct reactor_metrics *metrics = &conn->reactor->metrics;
    return conn->upload.declared_bytes <= UPLOAD_SHORT_BYTES_MAX ? &metrics->uploads_short_bytes
                                                                 : &metrics->uploads_long_bytes;
}

static void drop_claim(struct conn *conn)
{
    metric_sub(claims_of(conn), conn->upload.declared_bytes);
    conn->upload.declared_bytes = 0;
}

bool upload_is_too_slow(const struct conn *conn)
{
    const struct server *server = conn->reactor->server;
    const struct upload *upload = &conn->upload;
    int64_t age_us = conn->reactor->now.mono_us - upload->begun_us;
    uint64_t got = upload->declared_bytes - upload->left_bytes;
    uint64_t waiting = 0;
    if (upload->state != UPLOAD_RECEIVING || age_us < SLOW_AFTER_US ||
        got >= (uint64_t)age_us / 1000000 * SLOW_BYTES_PER_S) {
        return false;
    }
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        waiting += metric_get(&server->reactors[i]->metrics.uploads_waiting);
    }
    return waiting > 0;
}

/* Whether the request, of which no more is known than its form, cannot but leave an existing key alone:
 * KV.SET key value with one word behind it is NX or wrong. Other options stand behind the payload. */
static uint32_t known_flags(const struct conn *conn)
{
    const struct request_reader *reader = &conn->reader;
    const struct command *command = command_find(conn->args, reader->arg_count);
    bool absent = command->id == COMMAND_SETNX ||
                  (command->id == COMMAND_KV_SET && reader->arg_count + reader->args_left == 4);
    return absent ? OP_SET_IF_ABSENT : 0;
}

bool upload_begin(struct conn *conn)
{
    struct upload *upload = &conn->upload;
    struct op *op;
    uint64_t offset = upload->payload_offset;
    if (!access_permits_upload(conn)) {
        /* Whoever may not write shall not have anything evicted; the request is refused in its turn. */
        *upload = (struct upload){.state = UPLOAD_DISCARDING,
                                  .payload_offset = offset,
                                  .left_bytes = conn->reader.bulk_bytes,
                                  .failure = KVASIR_DENIED};
        return true;
    }
    if (!upload_claims_fit(conn->reactor->server, conn->reader.bulk_bytes)) {
        if (!list_linked(&conn->batch_link)) {
            list_push_back(&conn->reactor->upload_waiters, &conn->batch_link);
            metric_add(&conn->reactor->metrics.uploads_waiting, 1);
            conn->upload_waits = true;
        }
        return false;
    }
    upload_stop_waiting(conn); /* an event may have come before its turn to be woken */
    conn->batch = batch_take(conn->reactor, conn);
    if (conn->batch == NULL) {
        return false;
    }
    *upload = (struct upload){.state = UPLOAD_RESERVING,
                              .payload_offset = offset,
                              .left_bytes = conn->reader.bulk_bytes,
                              .declared_bytes = conn->reader.bulk_bytes,
                              .begun_us = conn->reactor->now.mono_us};
    metric_add(claims_of(conn), upload->declared_bytes);
    conn->batch->for_upload = true;
    op = batch_add_op(conn->batch, NULL, OP_RESERVE, conn->args[1]);
    op->put.length_bytes = upload->left_bytes;
    op->flags = known_flags(conn);
    upload->shard = conn->batch->ops[0].shard;
    if (batch_dispatch(conn->reactor, conn->batch)) {
        struct op done = *op;
        batch_give(conn->reactor, &conn->batch);
        upload_reserved(conn, &done);
    }
    return true;
}

void upload_stop_waiting(struct conn *conn)
{
    if (conn->upload_waits) {
        conn->upload_waits = false;
        list_remove(&conn->batch_link);
        metric_sub(&conn->reactor->metrics.uploads_waiting, 1);
    }
}

void upload_wake_waiters(struct reactor *reactor)
{
    while (!list_empty(&reactor->upload_waiters)) {
        struct conn *conn = list_entry(reactor->upload_waiters.next, struct conn, batch_link);
        upload_stop_waiting(conn);
        conn_run_later(conn);
    }
}

/* Its memory is the store's now, or free again. */
static void end_upload(struct conn *conn)
{
    drop_claim(conn);
    conn->upload.state = UPLOAD_NONE;
    upload_wake_waiters(conn->reactor);
}

void upload_reserved(struct conn *conn, const struct op *op)
{
    struct upload *upload = &conn->upload;
    check(upload->state == UPLOAD_RESERVING);
    upload->failure = op->status;
    if (op->status != KVASIR_OK) {
        drop_claim(conn); /* it holds nothing */
        upload->state = UPLOAD_DISCARDING;
        return;
    }
    upload->value = op->value;
    layout_cursor_init(&upload->cursor, conn->reactor->server->payload, &op->value->layout,
                       op->value->length_bytes);
    upload->state = UPLOAD_RECEIVING;
}

void upload_copy(struct upload *upload, const uint8_t *from, size_t length_bytes)
{
    check(length_bytes <= upload->left_bytes);
    upload->left_bytes -= length_bytes;
    while (length_bytes > 0) {
        struct iovec piece = layout_cursor_peek(&upload->cursor);
        size_t part = piece.iov_len < length_bytes ? piece.iov_len : length_bytes;
        copy_payload(piece.iov_base, from, part);
        layout_cursor_skip(&upload->cursor, part);
        from += part;
        length_bytes -= part;
    }
}

/* What came into the buffer together with the header. */
static bool take_buffered(struct conn *conn)
{
    struct upload *upload = &conn->upload;
    size_t have = input_length(&conn->input) - upload->payload_offset;
    size_t part = have < upload->left_bytes ? have : (size_t)upload->left_bytes;
    if (part == 0) {
        return false;
    }
    if (upload->state == UPLOAD_RECEIVING) {
        upload_copy(upload, input_begin(&conn->input) + upload->payload_offset, part);
    } else {
        upload->left_bytes -= part;
    }
    input_cut(&conn->input, upload->payload_offset, part);
    return true;
}

static ssize_t receive(struct conn *conn, struct iovec *pieces, int count, size_t asked)
{
    ssize_t got = conn_receive(conn, pieces, (size_t)count, asked);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        conn_kill(conn);
        return -1;
    }
    return got;
}

/* Reads into the value, and into the buffer what follows: the end of this request and the header of
 * the next, if they are as long as those before. */
static bool receive_payload(struct conn *conn)
{
    struct upload *upload = &conn->upload;
    struct iovec pieces[READ_PIECES_MAX + 1];
    struct layout_cursor cursor = upload->cursor;
    size_t asked = 0;
    size_t payload;
    int count = 0;
    ssize_t got;
    while (asked < upload->left_bytes && asked < READ_BYTES_MAX && count < READ_PIECES_MAX) {
        struct iovec piece = layout_cursor_peek(&cursor);
        layout_cursor_skip(&cursor, piece.iov_len);
        pieces[count++] = piece;
        asked += piece.iov_len;
    }
    payload = asked;
    if (asked == upload->left_bytes) {
        size_t room = input_room(&conn->input);
        size_t behind = 2 + (size_t)upload->payload_offset;
        pieces[count].iov_base = conn->input.data + conn->input.end_bytes;
        pieces[count].iov_len = behind < room ? behind : room;
        asked += pieces[count].iov_len;
        count++;
    }
    got = receive(conn, pieces, count, asked);
    if (got < 0) {
        return false;
    }
    if ((size_t)got > payload) {
        conn->input.end_bytes += (size_t)got - payload;
        got = (ssize_t)payload;
    }
    layout_cursor_skip(&upload->cursor, (size_t)got);
    upload->left_bytes -= (uint64_t)got;
    metric_add(&conn->reactor->metrics.upload_bytes, (uint64_t)got);
    return true;
}

static bool discard_payload(struct conn *conn)
{
    struct upload *upload = &conn->upload;
    uint8_t dropped[DISCARD_BYTES];
    struct iovec piece = {.iov_base = dropped, .iov_len = sizeof(dropped)};
    ssize_t got;
    if (piece.iov_len > upload->left_bytes) {
        piece.iov_len = (size_t)upload->left_bytes;
    }
    got = receive(conn, &piece, 1, 0);
    if (got < 0) {
        return false;
    }
    upload->left_bytes -= (uint64_t)got;
    return true;
}

bool upload_advance(struct conn *conn)
{
    struct upload *upload = &conn->upload;
    if (take_buffered(conn)) {
        return true;
    }
    if (upload->left_bytes > 0) {
        if (!conn_has_bytes(conn)) {
            return false;
        }
        return upload->state == UPLOAD_RECEIVING ? receive_payload(conn) : discard_payload(conn);
    }
    upload->state = UPLOAD_READY;
    conn->header_bytes = (uint32_t)upload->payload_offset;
    request_reader_bulk_done(&conn->reader);
    return true;
}

struct value *upload_take(struct conn *conn)
{
    struct value *value = conn->upload.value;
    check(conn->upload.state == UPLOAD_READY);
    conn->upload.value = NULL;
    end_upload(conn);
    return value;
}

enum kvasir_status upload_verify(struct conn *conn, uint64_t checksum)
{
    struct upload *upload = &conn->upload;
    uint64_t sum = checksum;
    enum kvasir_status status = KVASIR_OK;
    if (upload->value != NULL) {
        status = checksum_advance(&upload->checksum, conn->reactor->server->payload, upload->value,
                                  &sum);
    }
    return status == KVASIR_OK && sum != checksum ? KVASIR_CORRUPT : status;
}

void upload_abandon(struct conn *conn)
{
    checksum_destroy(&conn->upload.checksum);
    if (conn->upload.value != NULL) {
        pin_mail_release(conn->reactor, conn->upload.shard, conn->upload.value);
        conn->upload.value = NULL;
    }
    end_upload(conn);
}
