#pragma once
/* layout – where a value's bytes are: whole pages in any order, then the tail in up to three runs.
 * So a value never needs contiguous space and any free page serves any value. Taken and given by the
 * owning shard; walked by any core that holds a pin on the value: each run says how long it is, so
 * that nothing else needs to be looked at.
 *
 * The tail (what is left after whole pages) is one run when it is short; else whole granules, and a
 * short run for the rest where rounding that up would waste more than 1/64 of the value. Granules of a
 * length that leaves more than 1/64 of each page unused go on from one free piece to the next, as a
 * text goes on from line to line; those of any length do when no page is free. A tail within 1/64 of
 * a page takes the whole page. */

#include "base/compiler.h"
#include "mem/runs.h"

#include <kvasir/types.h>

#include <stdbool.h>
#include <sys/uio.h>

#define LAYOUT_RUNS_MAX 3

struct layout {
    uint32_t first_page; /* PAGES_NONE: no whole page; further pages follow page.next */
    struct run runs[LAYOUT_RUNS_MAX]; /* those in use come first */
};

/* Room for length_bytes (0 takes nothing). All or nothing: KVASIR_OK, or KVASIR_NO_MEMORY and
 * *layout_p is empty. */
ATTR_MUST_USE enum kvasir_status layout_take(struct runs *runs, size_t length_bytes,
                                             struct layout *layout_p);
/* Gives everything back and leaves *layout_p empty. */
void layout_give(struct runs *runs, size_t length_bytes, struct layout *layout_p);

/* Whole pages that a value of this length takes. */
size_t layout_page_count(const struct pages *pages, size_t length_bytes);

/* Copies the bytes of one of the layout's runs, or of all where the holes are such, to other places
 * and gives the old ones back. Nobody may be reading them. False: there is no room, and nothing has
 * changed. */
ATTR_MUST_USE bool layout_move(struct runs *runs, size_t length_bytes, struct layout *layout,
                               struct run run, uint32_t owner);

/* A walk over a value's pieces from its start. */
struct layout_cursor {
    const struct pages *pages; /* borrowed */
    struct layout layout;
    size_t left_bytes;  /* from here to the end of the value */
    size_t skip_bytes;  /* already consumed of the current piece */
    uint32_t page;      /* the current piece while whole pages last, then PAGES_NONE */
    uint32_t run_index; /* the current piece after that */
};

void layout_cursor_init(struct layout_cursor *cursor, const struct pages *pages,
                        const struct layout *layout, size_t length_bytes);
/* The rest of the current piece without moving on; an empty piece at the end. */
struct iovec layout_cursor_peek(const struct layout_cursor *cursor);
/* Moves on by length_bytes, which may cross pieces but not the end. */
void layout_cursor_skip(struct layout_cursor *cursor, size_t length_bytes);

/* Bytes of memory the layout takes, rounding included. */
size_t layout_taken_bytes(const struct runs *runs, const struct layout *layout,
                          size_t length_bytes);
