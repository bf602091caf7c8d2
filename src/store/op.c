#include "store/op.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t op_hash(uint64_t seed, uint8_t database, struct slice key)
{
    /* xxhash wants a pointer even for no bytes. */
    return XXH3_64bits_withSeed(key.length_bytes == 0 ? "" : (const void *)key.data,
                                key.length_bytes, seed + database);
}
