#include "client/spread.h"

#include "client/client_impl.h"
#include "client/link.h"
#include "client/proximity.h"
#include "client/remote_memory.h"
#include "client/segment.h"

/* Less than this is not worth a second queue pair. */
#define STRIPE_BYTES_MIN (1U << 20)
/* Stripes end at pages. */
#define STRIPE_GRAIN 4096U
/* Registrations that one piece may touch. */
#define PARTS_MAX 32U

/* Those that are up, beginning with another one each time. */
static uint32_t find_pairs(struct link *link, const struct queue_pair **pairs)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < RAILS_MAX; i++) {
        const struct queue_pair *pair = &link->pairs[(link->pair_next + i) % RAILS_MAX];
        if (pair->state == QUEUE_PAIR_UP) {
            pairs[count++] = pair;
        }
    }
    link->pair_next = count > 0 ? pairs[0]->index + 1U : 0;
    return count;
}

static const void *first_byte(const struct iovec *segments, uint32_t segment_count)
{
    for (uint32_t i = 0; i < segment_count; i++) {
        if (segments[i].iov_len > 0) {
            return segments[i].iov_base;
        }
    }
    return NULL;
}

/* Brings those whose devices are nearest to the memory to the front, in the order they had. Returns how many
 * there are: the others are for when none of them reaches it. */
static uint32_t sort_pairs(struct link *link, const void *address, const struct queue_pair **pairs,
                           uint32_t count)
{
    const uint8_t *distances =
        count > 1 ? remote_memory_distances(link->client->memory, address) : NULL;
    const struct queue_pair *far[RAILS_MAX];
    unsigned least = PROXIMITY_FAR;
    uint32_t near_count = 0;
    uint32_t far_count = 0;
    if (distances == NULL) {
        return count;
    }
    for (uint32_t i = 0; i < count; i++) {
        unsigned distance = distances[pairs[i]->device];
        least = distance < least ? distance : least;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (distances[pairs[i]->device] == least) {
            pairs[near_count++] = pairs[i];
        } else {
            far[far_count++] = pairs[i];
        }
    }
    for (uint32_t i = 0; i < far_count; i++) {
        pairs[near_count + i] = far[i];
    }
    return near_count;
}

/* False: it is not registered there, or there is no room. */
static bool expose_part(struct link *link, const struct queue_pair *pair, struct iovec piece,
                        struct stripe *stripes, unsigned capacity, unsigned *count_p)
{
    struct kvasir_remote parts[PARTS_MAX];
    unsigned count =
        remote_memory_expose(link->client->memory, pair->device, &piece, 1, parts, PARTS_MAX);
    if (count == 0 || count > capacity - *count_p) {
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        stripes[(*count_p)++] =
            (struct stripe){.address = parts[i].address,
                            .bytes = parts[i].bytes,
                            .key = (uint64_t)pair->index << QUEUE_PAIR_KEY_BITS | parts[i].key};
    }
    return true;
}

/* In stripes of so many bytes, each by the next of the pairs. 0: one of them does not reach its part. */
static unsigned cut(struct link *link, const struct iovec *segments, uint32_t segment_count,
                    const struct queue_pair *const *pairs, uint64_t stripe_bytes,
                    struct stripe *stripes, unsigned capacity)
{
    unsigned count = 0;
    uint64_t done = 0;
    for (uint32_t i = 0; i < segment_count; i++) {
        struct iovec left = segments[i];
        while (left.iov_len > 0) {
            uint64_t index = done / stripe_bytes;
            uint64_t room = stripe_bytes * (index + 1) - done;
            struct iovec piece = {.iov_base = left.iov_base,
                                  .iov_len = left.iov_len < room ? left.iov_len : (size_t)room};
            if (!expose_part(link, pairs[index], piece, stripes, capacity, &count)) {
                return 0;
            }
            left.iov_base = (uint8_t *)left.iov_base + piece.iov_len;
            left.iov_len -= piece.iov_len;
            done += piece.iov_len;
        }
    }
    return count;
}

unsigned spread_expose(struct link *link, const struct iovec *segments, uint32_t segment_count,
                       struct stripe *stripes, unsigned capacity)
{
    const struct queue_pair *pairs[RAILS_MAX];
    uint32_t pair_count = find_pairs(link, pairs);
    uint32_t near_count = sort_pairs(link, first_byte(segments, segment_count), pairs, pair_count);
    uint64_t bytes = segment_total_bytes(segments, segment_count);
    uint64_t count = bytes / STRIPE_BYTES_MIN < near_count ? bytes / STRIPE_BYTES_MIN : near_count;
    unsigned found = 0;
    if (count > 1) {
        uint64_t each = (bytes + count - 1) / count;
        each = (each + STRIPE_GRAIN - 1) / STRIPE_GRAIN * STRIPE_GRAIN;
        found = cut(link, segments, segment_count, pairs, each, stripes, capacity);
    }
    for (uint32_t i = 0; found == 0 && i < pair_count; i++) {
        found = cut(link, segments, segment_count, &pairs[i], UINT64_MAX / 2, stripes, capacity);
    }
    return found;
}
