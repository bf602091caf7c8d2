#pragma once
/* checksum – XXH3-64 of payload as it lies in the store, of a long value in slices, a slice a turn. Used by
 * the connection's thread; a sum that is under way belongs to the connection's upload. */

#include "base/compiler.h"

#include <kvasir/types.h>

#include <stdint.h>

struct checksum;
struct pages;
struct value;

/* Goes on with the sum over a filled value, which the caller has pinned and nobody writes. *under_way_p is
 * NULL at first and in the end. KVASIR_OK: *sum_p is the sum; KVASIR_PENDING: call again in the next
 * turn; KVASIR_NO_MEMORY. */
ATTR_MUST_USE enum kvasir_status checksum_advance(struct checksum **under_way_p,
                                                  const struct pages *payload,
                                                  const struct value *value, uint64_t *sum_p);
/* The sum is not wanted any more. NULL in is fine. */
void checksum_destroy(struct checksum **under_way_p);
