#pragma once
/* numa – the machine's memory nodes: which there are, which is a core's own, and memory bound to one.
 * Raw system calls and /sys, no library. Main thread, at start. */

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMA_NODES_MAX 16U

struct numa {
    uint32_t node_count; /* with memory; at least 1 */
    uint32_t ids[NUMA_NODES_MAX];
    char root[64]; /* what /sys is below: "" in production, a test's own */
};

/* One node when /sys does not tell. More than NUMA_NODES_MAX: the others are only used by the kernel. */
void numa_read(struct numa *numa, const char *root);
/* The place in ids of the node that the core belongs to; 0 when that has no memory. */
uint32_t numa_find_core(const struct numa *numa, uint32_t core);
/* Memory that is touched there from now on comes from the node while it has any. False: the kernel
 * refuses, and it comes from wherever the toucher is. */
bool numa_bind(const struct numa *numa, uint32_t node, void *start, size_t length_bytes);
