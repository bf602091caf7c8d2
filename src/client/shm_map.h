#pragma once
/* shm_map – the shared memory of one connection: the server's payload region, mapped for reading, and
 * this connection's staging region, mapped for writing. One thread. Owns the mappings; a region that
 * several connections share is mapped once. */

#include "base/compiler.h"

#include <kvasir/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A mapped payload region. */
struct shm_map_region {
    uint8_t *bytes; /* owned mapping, readable only */
    size_t length_bytes;
    dev_t device; /* with inode: which memory it is */
    ino_t inode;
    uint32_t user_count;
};

/* One per connection at most. */
#define SHM_MAP_REGIONS_MAX 128

struct shm_map_table {
    struct shm_map_region regions[SHM_MAP_REGIONS_MAX];
};

struct shm_map {
    struct shm_map_region *region; /* counted in the client's table; NULL: none */
    uint8_t *staging;              /* owned mapping */
    size_t staging_bytes;
    size_t mapped_bytes; /* of the staging descriptor: staging and what lies behind it */
};

/* Maps both descriptors, which stay the caller's; of the second staging_bytes and behind_bytes more.
 * KVASIR_OK; KVASIR_INVALID: smaller than announced; KVASIR_IO; KVASIR_BUSY: too many regions. */
ATTR_MUST_USE enum kvasir_status shm_map_open(struct shm_map *map, struct shm_map_table *table,
                                              const int fds[2], size_t region_bytes,
                                              size_t staging_bytes, size_t behind_bytes);
/* Unmaps; fine when never opened. */
void shm_map_close(struct shm_map *map);
static inline bool shm_map_is_open(const struct shm_map *map)
{
    return map->region != NULL;
}
/* NULL when [offset, offset + length) is not inside. */
const uint8_t *shm_map_payload(const struct shm_map *map, uint64_t offset_bytes,
                               uint64_t length_bytes);
uint8_t *shm_map_staging(const struct shm_map *map, uint64_t offset_bytes, uint64_t length_bytes);
/* Counts one more user of the payload mapping (a view), which then outlives the connection. */
void shm_map_region_get(struct shm_map_region *region);
void shm_map_region_put(struct shm_map_region **region_p);
