#pragma once
/* outbox – what a connection has yet to send: small bytes gathered in one bounded buffer, and
 * references to the caller's payload, in order, written with one gathering call. One thread. Owns
 * the buffer; borrows what is referred to until it is sent or the outbox is reset. */

#include "base/compiler.h"
#include "base/slice.h"
#include "client/channel.h"
#include "client/segment.h"

#include <kvasir/types.h>

#include <stdbool.h>

/* Holds several hundred small commands; the largest single command is bounded by its encoder. */
#define OUTBOX_BYTES (128U << 10)
/* Two per command with payload, and room for long keys. */
#define OUTBOX_ENTRIES 1024U
/* Longer keys are referred to instead of copied. */
#define OUTBOX_COPY_BYTES_MAX 512U

struct outbox_entry {
    size_t length_bytes; /* still to be sent */
    bool gathered;       /* the bytes are the next ones of the buffer */
    struct segment_cursor cursor;
    struct iovec single; /* the list of one that cursor may point to */
};

struct outbox {
    uint8_t *bytes; /* owned */
    size_t head;
    size_t tail;
    struct outbox_entry *entries; /* owned ring */
    uint32_t entry_first;
    uint32_t entry_count;
    uint64_t pushed_bytes; /* since the last reset */
    uint64_t sent_bytes;
};

/* False: out of memory. */
ATTR_MUST_USE bool outbox_init(struct outbox *outbox);
void outbox_fini(struct outbox *outbox);
/* Forgets everything, as after a lost connection. */
void outbox_reset(struct outbox *outbox);

/* True when that many small bytes and entries can be added; may move bytes to make room. */
bool outbox_has_room(struct outbox *outbox, size_t bytes, uint32_t entries);

/* Request encoding; the caller made sure of the room. */
void outbox_add_array(struct outbox *outbox, uint32_t count);
void outbox_add_text(struct outbox *outbox, const char *text);
void outbox_add_number(struct outbox *outbox, uint64_t number);
void outbox_add_slice(struct outbox *outbox, struct slice text);
/* A bulk string whose bytes stay where they are. */
void outbox_add_payload(struct outbox *outbox, const struct iovec *segments, uint32_t segment_count,
                        size_t length_bytes);

bool outbox_is_empty(const struct outbox *outbox);
/* Sends what the channel takes. KVASIR_OK: all sent; KVASIR_AGAIN: it is full;
 * KVASIR_CLOSED (errno says why). */
ATTR_MUST_USE enum kvasir_status outbox_flush(struct outbox *outbox, struct channel *channel);
