#pragma once
/* runs_impl – the inside of the allocator of runs, for runs and drain: classes, and their chunks that
 * have room. One thread. */

#include "mem/extents.h"
#include "mem/runs.h"

/* Up to here runs come in classes: beyond, rounding up to a granule wastes less than a class. */
#define RUNS_UNITS_MAX (8 * PAGES_GRANULE_UNITS)
/* Sixteen classes of 1 … 16 units, then eight to each doubling up to RUNS_UNITS_MAX. */
#define RUNS_REGULAR_COUNT (16U + 5 * 8)
/* Exact classes at a time: engines store a handful of block sizes; each costs one open chunk. */
#define RUNS_EXACT_MAX   32U
#define RUNS_CLASS_COUNT (RUNS_REGULAR_COUNT + RUNS_EXACT_MAX)
#define RUNS_CLASS_NONE  UINT16_MAX
/* A chunk has at most one bitmap word of runs and 16 granules. */
#define RUNS_CHUNK_GRANULES_MAX 16U
#define RUNS_CHUNK_RUNS_MAX     64U

struct run_class {
    uint32_t partial; /* first chunk with a free run, or PAGES_NONE */
    uint32_t chunk_count;
    uint16_t size_units; /* 0: an exact class not in use */
    uint8_t chunk_granules;
    uint8_t chunk_granules_small; /* used when there is no room for the former */
    uint32_t reciprocal;          /* instead of a division by size_units */
    uint64_t all_bits;            /* of a chunk all of whose runs are free, */
    uint64_t all_bits_small;      /* and of a small one */
};

struct runs {
    struct pages *pages; /* borrowed */
    struct runs *tables; /* borrowed; where the owners of chunks' runs are kept; NULL: no owners */
    struct extents extents;
    uint64_t taken_units;
    uint32_t taker;                          /* the owner of what is taken now */
    uint32_t heat_left;                      /* takes until the heats are halved */
    uint16_t class_of[RUNS_UNITS_MAX + 1];   /* by length in units; NONE: whole granules */
    uint16_t heat[RUNS_UNITS_MAX + 1];       /* recent takes of this length */
    uint16_t cost_units[RUNS_UNITS_MAX + 1]; /* what regular rounding makes of the length */
    struct run_class classes[RUNS_CLASS_COUNT];
};

/* Into and out of the list of chunks with a free run of their class. */
void runs_partial_insert(struct runs *runs, struct run_class *class, uint32_t chunk);
void runs_partial_remove(struct runs *runs, struct run_class *class, uint32_t chunk);

/* Which run of its chunk lies offset_units behind the chunk's start. Exact for starts of runs: with
 * reciprocal = ceil(2^16 / size), offset * reciprocal / 2^16 exceeds offset / size by less than
 * offset / 2^16, and a chunk is shorter than 2^16 units. */
static inline uint32_t runs_index_in_chunk(const struct run_class *class, uint32_t offset_units)
{
    return (offset_units * class->reciprocal) >> 16;
}

static inline uint32_t *runs_owner_table(const struct runs *runs, const struct granule *chunk)
{
    const struct pages *pages = runs->tables->pages;
    return (uint32_t *)(void *)(pages->base + ((size_t)chunk->owners << pages->unit_shift));
}
