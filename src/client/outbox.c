#include "client/outbox.h"

#include "base/check.h"
#include "base/number.h"
#include "proto/resp_encode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Pieces per sendmsg; more gains nothing once a call moves a megabyte. */
#define OUTBOX_VECTOR_MAX 128U
/* Calls per flush, so that reading is never kept waiting by writing. */
#define OUTBOX_SENDS_MAX 16

bool outbox_init(struct outbox *outbox)
{
    memset(outbox, 0, sizeof *outbox);
    outbox->bytes = malloc(OUTBOX_BYTES);
    outbox->entries = calloc(OUTBOX_ENTRIES, sizeof *outbox->entries);
    if (outbox->bytes == NULL || outbox->entries == NULL) {
        outbox_fini(outbox);
        return false;
    }
    return true;
}

void outbox_fini(struct outbox *outbox)
{
    free(outbox->bytes);
    free(outbox->entries);
    memset(outbox, 0, sizeof *outbox);
}

void outbox_reset(struct outbox *outbox)
{
    outbox->head = 0;
    outbox->tail = 0;
    outbox->entry_first = 0;
    outbox->entry_count = 0;
    outbox->pushed_bytes = 0;
    outbox->sent_bytes = 0;
}

bool outbox_has_room(struct outbox *outbox, size_t bytes, uint32_t entries)
{
    check(bytes <= OUTBOX_BYTES && entries <= OUTBOX_ENTRIES);
    if (OUTBOX_ENTRIES - outbox->entry_count < entries) {
        return false;
    }
    if (OUTBOX_BYTES - outbox->tail >= bytes) {
        return true;
    }
    if (OUTBOX_BYTES - (outbox->tail - outbox->head) < bytes) {
        return false;
    }
    memmove(outbox->bytes, outbox->bytes + outbox->head, outbox->tail - outbox->head);
    outbox->tail -= outbox->head;
    outbox->head = 0;
    return true;
}

static struct outbox_entry *entry_at(struct outbox *outbox, uint32_t index)
{
    return &outbox->entries[(outbox->entry_first + index) % OUTBOX_ENTRIES];
}

static struct outbox_entry *entry_push(struct outbox *outbox)
{
    check(outbox->entry_count < OUTBOX_ENTRIES);
    outbox->entry_count++;
    struct outbox_entry *entry = entry_at(outbox, outbox->entry_count - 1);
    memset(entry, 0, sizeof *entry);
    return entry;
}

/* Accounts bytes that were just written at the buffer's tail. */
static void gathered(struct outbox *outbox, size_t bytes)
{
    check(bytes <= OUTBOX_BYTES - outbox->tail);
    struct outbox_entry *last =
        outbox->entry_count > 0 ? entry_at(outbox, outbox->entry_count - 1) : NULL;
    if (last == NULL || !last->gathered) {
        last = entry_push(outbox);
        last->gathered = true;
    }
    last->length_bytes += bytes;
    outbox->tail += bytes;
    outbox->pushed_bytes += bytes;
}

void outbox_add_array(struct outbox *outbox, uint32_t count)
{
    gathered(outbox, resp_encode_array_header(outbox->bytes + outbox->tail, count));
}

void outbox_add_text(struct outbox *outbox, const char *text)
{
    gathered(outbox, resp_encode_bulk(outbox->bytes + outbox->tail, slice_of_text(text)));
}

void outbox_add_number(struct outbox *outbox, uint64_t number)
{
    char text[NUMBER_TEXT_BYTES_MAX];
    size_t length = number_from_u64(text, number);
    gathered(outbox, resp_encode_bulk(outbox->bytes + outbox->tail, slice_of(text, length)));
}

static void add_line_end(struct outbox *outbox)
{
    memcpy(outbox->bytes + outbox->tail, "\r\n", 2);
    gathered(outbox, 2);
}

void outbox_add_slice(struct outbox *outbox, struct slice text)
{
    if (text.length_bytes <= OUTBOX_COPY_BYTES_MAX) {
        gathered(outbox, resp_encode_bulk(outbox->bytes + outbox->tail, text));
        return;
    }
    gathered(outbox, resp_encode_bulk_header(outbox->bytes + outbox->tail, text.length_bytes));
    struct outbox_entry *entry = entry_push(outbox);
    entry->length_bytes = text.length_bytes;
    entry->single.iov_base = segment_base(text.data);
    entry->single.iov_len = text.length_bytes;
    segment_init(&entry->cursor, &entry->single, 1);
    outbox->pushed_bytes += text.length_bytes;
    add_line_end(outbox);
}

void outbox_add_payload(struct outbox *outbox, const struct iovec *segments, uint32_t segment_count,
                        size_t length_bytes)
{
    gathered(outbox, resp_encode_bulk_header(outbox->bytes + outbox->tail, length_bytes));
    if (length_bytes > 0) {
        struct outbox_entry *entry = entry_push(outbox);
        entry->length_bytes = length_bytes;
        if (segment_count == 1) {
            entry->single = segments[0];
            segments = &entry->single;
        }
        segment_init(&entry->cursor, segments, segment_count);
        outbox->pushed_bytes += length_bytes;
    }
    add_line_end(outbox);
}

bool outbox_is_empty(const struct outbox *outbox)
{
    return outbox->entry_count == 0;
}

static uint32_t build_vector(struct outbox *outbox, struct iovec *vector)
{
    uint32_t used = 0;
    size_t head = outbox->head;
    for (uint32_t i = 0; i < outbox->entry_count && used < OUTBOX_VECTOR_MAX; i++) {
        struct outbox_entry *entry = entry_at(outbox, i);
        if (entry->gathered) {
            vector[used].iov_base = outbox->bytes + head;
            vector[used].iov_len = entry->length_bytes;
            head += entry->length_bytes;
            used++;
            continue;
        }
        size_t bytes;
        used += segment_peek(&entry->cursor, entry->length_bytes, vector + used,
                             OUTBOX_VECTOR_MAX - used, &bytes);
        if (bytes < entry->length_bytes) {
            break;
        }
    }
    return used;
}

static void consume(struct outbox *outbox, size_t bytes)
{
    outbox->sent_bytes += bytes;
    while (bytes > 0) {
        check(outbox->entry_count > 0);
        struct outbox_entry *entry = entry_at(outbox, 0);
        size_t step = bytes < entry->length_bytes ? bytes : entry->length_bytes;
        if (entry->gathered) {
            outbox->head += step;
        } else {
            segment_skip(&entry->cursor, step);
        }
        entry->length_bytes -= step;
        bytes -= step;
        if (entry->length_bytes == 0) {
            outbox->entry_first = (outbox->entry_first + 1) % OUTBOX_ENTRIES;
            outbox->entry_count--;
        }
    }
    if (outbox->head == outbox->tail) {
        outbox->head = 0;
        outbox->tail = 0;
    }
}

enum kvasir_status outbox_flush(struct outbox *outbox, struct channel *channel)
{
    for (int i = 0; i < OUTBOX_SENDS_MAX; i++) {
        if (outbox->entry_count == 0) {
            return KVASIR_OK;
        }
        struct iovec vector[OUTBOX_VECTOR_MAX];
        uint32_t count = build_vector(outbox, vector);
        ssize_t sent = channel_send(channel, vector, count);
        if (sent < 0) {
            if (errno == EINTR) {
                continue;
            }
            return errno == EAGAIN ? KVASIR_AGAIN : KVASIR_CLOSED;
        }
        consume(outbox, (size_t)sent);
    }
    return outbox->entry_count == 0 ? KVASIR_OK : KVASIR_AGAIN;
}
