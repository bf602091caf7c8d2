#pragma once
/* region – one memfd mapping that holds payload (or a private mapping that holds metadata). Made at
 * start by main, before any reactor runs; the descriptor may be handed to readers. Owns the mapping
 * and the descriptor. */

#include <kvasir/types.h>

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct numa;
struct region;

/* How the pages came out; shown in the log and in INFO. */
enum region_pages {
    REGION_PAGES_SMALL,       /* 4 KiB only */
    REGION_PAGES_TRANSPARENT, /* advised; the kernel took the advice */
    REGION_PAGES_HUGE,        /* hugetlbfs 2 MiB pages */
};

typedef void region_progress_fn(void *argument, size_t done_bytes, size_t total_bytes);
/* Whether to give up; asked by several threads at a time. */
typedef bool region_cancelled_fn(void);

struct region_config {
    const char *name;     /* of the memfd; borrowed for the call */
    size_t size_bytes;    /* multiple of 2 MiB */
    size_t reserve_bytes; /* address space to grow into, with size_bytes; multiple of 2 MiB or 0 */
    const struct numa
        *numa;       /* nodes that it is spread over; borrowed for the call; NULL: no matter */
    bool shared;     /* memfd that others may map; else private anonymous memory */
    bool registered; /* a device will know where the pages are: none goes back to the kernel */
    bool huge_try;   /* try hugetlbfs first, then advise transparent huge pages */
    bool populate;   /* touch every page now, so that no write ever waits for one */
    unsigned populate_threads; /* 0: one per available core */
    region_progress_fn
        *progress; /* may be NULL; called from the calling thread about every second */
    void *progress_argument;
    region_cancelled_fn *cancelled; /* may be NULL; asked before each part is touched */
};

/* KVASIR_OK; KVASIR_INVALID, KVASIR_NO_MEMORY, KVASIR_IO, KVASIR_CANCELLED. On failure error holds a sentence that
 * names the limit that was met (RLIMIT_AS, cgroup memory.max, RLIMIT_MEMLOCK, free memory, tmpfs
 * size) with its value, and what to change. A region larger than what the machine or the cgroup can
 * give is refused before anything is touched: being killed half-way is no answer.
 * A shared region is sealed against growing, shrinking and new writable mappings
 * (F_SEAL_FUTURE_WRITE), so that whoever is handed the descriptor can only read. */
ATTR_MUST_USE enum kvasir_status region_create(const struct region_config *config, char *error,
                                               size_t error_capacity, struct region **region_p);
void region_destroy(struct region **region_p);

/* So much in a row comes from one node, the next from the next, and so on, when the first size_bytes are
 * spread evenly. A multiple of 2 MiB. */
size_t region_node_bytes(size_t size_bytes, uint32_t node_count);

uint8_t *region_base(const struct region *region);
/* All that is mapped: with the reserve where there is one. There is none with hugetlbfs pages, which the
 * kernel sets aside at once, nor under a limit on address space or file size. */
size_t region_size_bytes(const struct region *region);

/* Memory for a part of the region, so that no write waits for it. Any thread. False: there is none. */
ATTR_MUST_USE bool region_fill(const struct region *region, size_t offset_bytes,
                               size_t length_bytes);
/* The part's memory goes back to the kernel; it reads as zeroes then. Nobody uses it: no client reads
 * it and no device knows where it was. False: the kernel
 * keeps it, as it does with that of a region that is sealed for sharing. Any thread. */
bool region_release(const struct region *region, size_t offset_bytes, size_t length_bytes);
/* False: error holds a sentence with the limit that says no to so much more. */
ATTR_MUST_USE bool region_may_grow(const struct region *region, size_t more_bytes, char *error,
                                   size_t error_capacity);
enum region_pages region_page_kind(const struct region *region);
/* Whether region_release may succeed at all. */
bool region_can_release(const struct region *region);
/* Borrowed; -1 for a private region. */
int region_descriptor(const struct region *region);
