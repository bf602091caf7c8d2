#pragma once
/* view – a value read where it lies, under a lease. Made by borrow, given to the caller, ended by him.
 * Owns its list of pieces; borrows its client and its link, and counts as a user of the mapping. */

#include "base/list.h"
#include "client/link.h"

#include <kvasir/client.h>

struct kvasir_view {
    uint32_t magic;
    struct kvasir_client *client; /* NULL: the client was closed */
    struct list member;           /* of the client's views */
    uint32_t link_index;
    uint64_t generation; /* of the link when the lease was granted */
    uint64_t lease_id;
    int64_t deadline_us;
    size_t length_bytes;
    struct shm_map_region *region;
    uint32_t segment_count;
    uint32_t segment_max;
    struct iovec segments[];
};

/* NULL: out of memory. */
struct kvasir_view *view_create(struct link *link, uint64_t length_bytes, int64_t deadline_us);
/* False: more pieces than a value of this length can have. */
ATTR_MUST_USE bool view_add(struct kvasir_view *view, const uint8_t *bytes, size_t length_bytes);
/* Without telling the server. */
void view_destroy(struct kvasir_view **view_p);
/* The client goes away: its views show nothing any more. */
void view_detach_all(struct kvasir_client *client);
