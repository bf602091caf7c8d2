#pragma once
/* output – what one connection still has to send, in order: text, pieces of pinned values that are
 * sent from where they lie, and descriptors. Embedded in the connection; one thread. Owns its chunks
 * and, until they are sent or dropped, the pins handed to it.
 *
 * A chunk holds a row of records, each a header and its body; text is written where the last record
 * ends, so many small replies make one record and one piece of the system call. */

#include "base/compiler.h"
#include "mem/layout.h"
#include "net/chunk.h"
#include "net/wire.h"

#include <kvasir/types.h>

#include <stdbool.h>
#include <stdint.h>

/* The most that output_reserve can be asked for. */
#define OUTPUT_RESERVE_BYTES_MAX 4096U

struct output {
    struct chunk *first; /* owned */
    struct chunk *last;
    struct chunk_pool *pool; /* borrowed from the reactor */
    void *text;              /* the record text is being added to, or NULL */
    uint64_t pending_bytes;  /* text and values, not yet sent */
    uint32_t value_count;    /* value records not yet sent */
    bool beyond;             /* what is added may go beyond the pool: see chunk_take_beyond */
    bool failed;             /* a chunk was not to be had: the connection must close */
};

/* Hands a pin back: of shard, as given to output_value. */
typedef void output_release_fn(void *argument, uint32_t shard, void *pin);

void output_init(struct output *output, struct chunk_pool *pool);
/* Drops everything unsent, handing the pins back. */
void output_fini(struct output *output, output_release_fn *release, void *argument);

/* Room for length_bytes (≤ OUTPUT_RESERVE_BYTES_MAX) of text in one piece, to be followed by
 * output_commit of as much as was written; NULL and output->failed when the pool is exhausted. */
uint8_t *output_reserve(struct output *output, size_t length_bytes);
void output_commit(struct output *output, size_t length_bytes);
/* Adds text of any length. After a failure it does nothing. */
void output_text(struct output *output, const void *text, size_t length_bytes);

/* Adds the part of a value from the cursor on, length_bytes long. pin is kept until the last byte is
 * sent and then released; on failure it is released by the caller: false. */
ATTR_MUST_USE bool output_value(struct output *output, const struct layout_cursor *cursor,
                                size_t length_bytes, uint32_t shard, void *pin);

/* Adds two descriptors (borrowed until sent) that travel with the next byte of text. */
#define OUTPUT_DESCRIPTOR_COUNT 2
ATTR_MUST_USE bool output_descriptors(struct output *output,
                                      const int descriptors[OUTPUT_DESCRIPTOR_COUNT]);

/* Sends what the wire takes, at most budget_bytes or a little more. KVASIR_OK: everything is out or
 * the budget is used up (see pending_bytes); KVASIR_AGAIN: it is full; KVASIR_CLOSED. */
ATTR_MUST_USE enum kvasir_status output_flush(struct output *output, struct wire *wire,
                                              size_t budget_bytes, output_release_fn *release,
                                              void *argument, uint64_t *sent_bytes_p);
