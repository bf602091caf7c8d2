#include "client/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t digest_of_segments(const struct iovec *segments, uint32_t segment_count)
{
    if (segment_count == 1) {
        return XXH3_64bits(segments[0].iov_base, segments[0].iov_len);
    }
    XXH3_state_t state;
    (void)XXH3_64bits_reset(&state);
    for (uint32_t i = 0; i < segment_count; i++) {
        (void)XXH3_64bits_update(&state, segments[i].iov_base, segments[i].iov_len);
    }
    return XXH3_64bits_digest(&state);
}

void digest_to_text(uint64_t digest, char text[DIGEST_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = DIGEST_TEXT_BYTES - 1; i >= 0; i--) {
        text[i] = digits[digest & 15U];
        digest >>= 4;
    }
}
