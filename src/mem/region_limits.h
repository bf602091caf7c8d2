#pragma once
/* region_limits – does so much more memory fit into what the machine, the control groups and the
 * process limits allow? Asked by region before anything is touched; reads /proc and /sys only. For
 * the files of this layer only; any thread. */

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct region_limits_ask {
    const char *root; /* "" in production; a test puts its own /proc and /sys below it */
    const char *name; /* of the region, for the sentence */
    uint64_t size_bytes;
    bool is_file; /* a memfd: RLIMIT_FSIZE counts, too */
};

/* False: error holds one sentence with the tightest limit that is broken, its value and the fix. A
 * limit that cannot be read does not count. */
ATTR_MUST_USE bool region_limits_allow(const struct region_limits_ask *ask, char *error,
                                       size_t error_capacity);
