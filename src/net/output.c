#include "net/output.h"

#include "base/check.h"

#include <errno.h>
#include <string.h>

/* Pieces handed to the kernel in one call: more do not make it faster (a 2 MiB page is one piece). */
#define PIECES_MAX 64

enum record_kind {
    RECORD_TEXT = 1,
    RECORD_VALUE,
    RECORD_DESCRIPTORS
};

/* Stands before its body; every record starts at a multiple of 8. */
struct record {
    uint32_t kind;
    uint32_t start; /* of text: bytes of the body already sent */
    uint32_t end;   /* of text: bytes in the body */
    uint32_t shard; /* of a value's pin */
};

struct record_value {
    struct record head;
    struct layout_cursor cursor; /* at the first byte not sent */
    size_t left_bytes;
    void *pin; /* owned until released */
};

struct record_descriptors {
    struct record head;
    int descriptors[OUTPUT_DESCRIPTOR_COUNT];
};

static uint32_t round_up_8(size_t bytes)
{
    return (uint32_t)((bytes + 7) & ~(size_t)7);
}

static uint32_t record_bytes(const struct record *record)
{
    switch ((enum record_kind)record->kind) {
    case RECORD_TEXT:
        return round_up_8(sizeof(struct record) + record->end);
    case RECORD_VALUE:
        return round_up_8(sizeof(struct record_value));
    case RECORD_DESCRIPTORS:
        return round_up_8(sizeof(struct record_descriptors));
    }
    unreachable();
}

static struct record *record_at(struct chunk *chunk, uint32_t offset)
{
    return (struct record *)(void *)(chunk->data + offset);
}

void output_init(struct output *output, struct chunk_pool *pool)
{
    *output = (struct output){.pool = pool};
}

static void drop_first_chunk(struct output *output)
{
    struct chunk *chunk = output->first;
    output->first = chunk->next;
    if (output->first == NULL) {
        output->last = NULL;
        output->text = NULL;
    }
    chunk_give(output->pool, &chunk);
}

void output_fini(struct output *output, output_release_fn *release, void *argument)
{
    while (output->first != NULL) {
        struct chunk *chunk = output->first;
        uint32_t offset = chunk->start_bytes;
        while (offset < chunk->end_bytes) {
            struct record *record = record_at(chunk, offset);
            if (record->kind == RECORD_VALUE) {
                release(argument, record->shard, ((struct record_value *)(void *)record)->pin);
            }
            offset += record_bytes(record);
        }
        drop_first_chunk(output);
    }
    output->pending_bytes = 0;
    output->value_count = 0;
}

/* Closes the open text record, so that the next record starts behind it. */
static void close_text(struct output *output)
{
    if (output->text != NULL) {
        struct record *record = output->text;
        struct chunk *chunk = output->last;
        uint32_t offset = (uint32_t)((uint8_t *)record - chunk->data);
        chunk->end_bytes = offset + record_bytes(record);
        output->text = NULL;
    }
}

/* The last chunk, with room for a record of this many bytes; NULL when there is none to be had. */
static struct chunk *chunk_with_room(struct output *output, uint32_t bytes)
{
    struct chunk *chunk = output->last;
    if (output->failed) {
        return NULL;
    }
    if (chunk != NULL && sizeof(chunk->data) - chunk->end_bytes >= bytes) {
        return chunk;
    }
    chunk = UNLIKELY(output->beyond) ? chunk_take_beyond(output->pool) : chunk_take(output->pool);
    if (chunk == NULL) {
        output->failed = true;
        return NULL;
    }
    if (output->last == NULL) {
        output->first = chunk;
    } else {
        output->last->next = chunk;
    }
    output->last = chunk;
    return chunk;
}

static struct record *record_add(struct output *output, enum record_kind kind, uint32_t bytes)
{
    struct chunk *chunk;
    struct record *record;
    close_text(output);
    chunk = chunk_with_room(output, round_up_8(bytes));
    if (chunk == NULL) {
        return NULL;
    }
    record = record_at(chunk, chunk->end_bytes);
    *record = (struct record){.kind = (uint32_t)kind};
    chunk->end_bytes += round_up_8(bytes);
    return record;
}

/* Bytes of text that still fit behind the open text record. */
static size_t text_room(const struct output *output)
{
    const struct record *record = output->text;
    const uint8_t *body = (const uint8_t *)(record + 1);
    return (size_t)(output->last->data + sizeof(output->last->data) - body) - record->end;
}

uint8_t *output_reserve(struct output *output, size_t length_bytes)
{
    struct record *record = output->text;
    check(length_bytes <= OUTPUT_RESERVE_BYTES_MAX);
    if (record == NULL || text_room(output) < length_bytes) {
        record = record_add(output, RECORD_TEXT, (uint32_t)(sizeof(*record) + length_bytes));
        if (record == NULL) {
            return NULL;
        }
        output->text = record;
    }
    return (uint8_t *)(record + 1) + record->end;
}

void output_commit(struct output *output, size_t length_bytes)
{
    struct record *record = output->text;
    struct chunk *chunk = output->last;
    check(record != NULL && text_room(output) >= length_bytes);
    record->end += (uint32_t)length_bytes;
    output->pending_bytes += length_bytes;
    chunk->end_bytes = (uint32_t)((uint8_t *)record - chunk->data) + record_bytes(record);
}

void output_text(struct output *output, const void *text, size_t length_bytes)
{
    const uint8_t *from = text;
    while (length_bytes > 0) {
        size_t part = length_bytes;
        uint8_t *to;
        if (output->text != NULL && text_room(output) > 0) {
            part = part < text_room(output) ? part : text_room(output);
        }
        part = part < OUTPUT_RESERVE_BYTES_MAX ? part : OUTPUT_RESERVE_BYTES_MAX;
        to = output_reserve(output, part);
        if (to == NULL) {
            return;
        }
        memcpy(to, from, part);
        output_commit(output, part);
        from += part;
        length_bytes -= part;
    }
}

bool output_value(struct output *output, const struct layout_cursor *cursor, size_t length_bytes,
                  uint32_t shard, void *pin)
{
    struct record_value *record =
        (struct record_value *)(void *)record_add(output, RECORD_VALUE, sizeof(*record));
    if (record == NULL) {
        return false;
    }
    record->head.shard = shard;
    record->cursor = *cursor;
    record->left_bytes = length_bytes;
    record->pin = pin;
    output->pending_bytes += length_bytes;
    output->value_count++;
    return true;
}

bool output_descriptors(struct output *output, const int descriptors[OUTPUT_DESCRIPTOR_COUNT])
{
    struct record_descriptors *record = (struct record_descriptors *)(void *)record_add(
        output, RECORD_DESCRIPTORS, sizeof(*record));
    if (record == NULL) {
        return false;
    }
    memcpy(record->descriptors, descriptors, sizeof(record->descriptors));
    return true;
}

/* ---- sending ---- */

struct gather {
    struct iovec pieces[PIECES_MAX];
    uint32_t count;
    size_t total_bytes;
    const struct record_descriptors *descriptors; /* to go with the first byte */
};

static void gather_piece(struct gather *gather, void *base, size_t length_bytes)
{
    gather->pieces[gather->count++] = (struct iovec){.iov_base = base, .iov_len = length_bytes};
    gather->total_bytes += length_bytes;
}

static void gather_value(struct gather *gather, const struct record_value *record,
                         size_t budget_bytes)
{
    struct layout_cursor cursor = record->cursor;
    size_t left = record->left_bytes;
    while (left > 0 && gather->count < PIECES_MAX && gather->total_bytes < budget_bytes) {
        struct iovec piece = layout_cursor_peek(&cursor);
        size_t length = piece.iov_len < left ? piece.iov_len : left;
        check(length > 0);
        gather_piece(gather, piece.iov_base, length);
        layout_cursor_skip(&cursor, length);
        left -= length;
    }
}

/* Collects pieces from the front. Descriptors start a call of their own, because they must go with
 * exactly the byte that follows them. */
static void gather_pieces(struct output *output, struct gather *gather, size_t budget_bytes)
{
    gather->count = 0;
    gather->total_bytes = 0;
    gather->descriptors = NULL;
    for (struct chunk *chunk = output->first; chunk != NULL; chunk = chunk->next) {
        uint32_t offset = chunk->start_bytes;
        while (offset < chunk->end_bytes) {
            struct record *record = record_at(chunk, offset);
            if (gather->count == PIECES_MAX || gather->total_bytes >= budget_bytes) {
                return;
            }
            if (record->kind == RECORD_DESCRIPTORS) {
                if (gather->count > 0 || gather->descriptors != NULL) {
                    return;
                }
                gather->descriptors = (const struct record_descriptors *)(void *)record;
            } else if (record->kind == RECORD_VALUE) {
                gather_value(gather, (struct record_value *)(void *)record, budget_bytes);
            } else if (record->end > record->start) {
                gather_piece(gather, (uint8_t *)(record + 1) + record->start,
                             record->end - record->start);
            }
            offset += record_bytes(record);
        }
    }
}

/* Takes up to bytes from the record; true when the record is finished. */
static bool record_sent(struct output *output, struct record *record, size_t *bytes,
                        output_release_fn *release, void *argument)
{
    if (record->kind == RECORD_TEXT) {
        size_t part = record->end - record->start;
        part = part < *bytes ? part : *bytes;
        record->start += (uint32_t)part;
        *bytes -= part;
        return record->start == record->end;
    }
    if (record->kind == RECORD_VALUE) {
        struct record_value *value = (struct record_value *)(void *)record;
        size_t part = value->left_bytes < *bytes ? value->left_bytes : *bytes;
        layout_cursor_skip(&value->cursor, part);
        value->left_bytes -= part;
        *bytes -= part;
        if (value->left_bytes > 0) {
            return false;
        }
        release(argument, record->shard, value->pin);
        output->value_count--;
        return true;
    }
    return *bytes > 0; /* descriptors have left with the byte that follows them */
}

static void drop_sent(struct output *output, size_t bytes, output_release_fn *release,
                      void *argument)
{
    output->pending_bytes -= bytes;
    while (output->first != NULL) {
        struct chunk *chunk = output->first;
        while (chunk->start_bytes < chunk->end_bytes) {
            struct record *record = record_at(chunk, chunk->start_bytes);
            uint32_t length = record_bytes(record);
            if (!record_sent(output, record, &bytes, release, argument)) {
                return;
            }
            if (output->text == record) {
                output->text = NULL;
            }
            chunk->start_bytes += length;
        }
        drop_first_chunk(output);
    }
}

enum kvasir_status output_flush(struct output *output, struct wire *wire, size_t budget_bytes,
                                output_release_fn *release, void *argument, uint64_t *sent_bytes_p)
{
    size_t spent = 0;
    while (output->pending_bytes > 0 && spent < budget_bytes) {
        struct gather gather;
        ssize_t sent;
        gather_pieces(output, &gather, budget_bytes - spent);
        sent = wire_send(wire, gather.pieces, gather.count,
                         gather.descriptors != NULL ? gather.descriptors->descriptors : NULL,
                         OUTPUT_DESCRIPTOR_COUNT);
        if (sent < 0) {
            return errno == EAGAIN ? KVASIR_AGAIN : KVASIR_CLOSED;
        }
        spent += (size_t)sent;
        *sent_bytes_p += (uint64_t)sent;
        drop_sent(output, (size_t)sent, release, argument);
        if ((size_t)sent < gather.total_bytes) {
            return KVASIR_AGAIN;
        }
    }
    if (output->pending_bytes == 0) {
        /* Values of length zero and empty text are records that send nothing. */
        drop_sent(output, 0, release, argument);
    }
    return KVASIR_OK;
}
