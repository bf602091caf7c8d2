#include "server/checksum.h"

#include "base/check.h"
#include "base/fault.h"
#include "mem/layout.h"
#include "store/value.h"

#include <stdlib.h>

/* The state's size is not part of the library's promise to dynamic users; it is a part of ours here. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

/* A slice takes less than half a millisecond. */
#define SLICE_BYTES (4U << 20)

struct checksum {
    XXH3_state_t state;
    struct layout_cursor cursor; /* at the first byte that is not summed */
};

static void begin(struct checksum *checksum, const struct pages *payload, const struct value *value)
{
    XXH3_INITSTATE(&checksum->state);
    check(XXH3_64bits_reset(&checksum->state) == XXH_OK);
    layout_cursor_init(&checksum->cursor, payload, &value->layout, value->length_bytes);
}

/* True: that was the last byte. */
static bool add_slice(struct checksum *checksum)
{
    size_t left_bytes = SLICE_BYTES;
    struct iovec piece;
    while ((piece = layout_cursor_peek(&checksum->cursor)).iov_len > 0) {
        size_t part = piece.iov_len < left_bytes ? piece.iov_len : left_bytes;
        if (left_bytes == 0) {
            return false;
        }
        check(XXH3_64bits_update(&checksum->state, piece.iov_base, part) == XXH_OK);
        layout_cursor_skip(&checksum->cursor, part);
        left_bytes -= part;
    }
    return true;
}

enum kvasir_status checksum_advance(struct checksum **under_way_p, const struct pages *payload,
                                    const struct value *value, uint64_t *sum_p)
{
    struct checksum *checksum = *under_way_p;
    if (checksum == NULL) {
        /* Also for a short value: on the stack some compilers place it at less than its alignment. */
        size_t size = (sizeof(*checksum) + CACHE_LINE_BYTES - 1) & ~(CACHE_LINE_BYTES - 1UL);
        checksum = fault_hit("server.checksum") ? NULL : aligned_alloc(CACHE_LINE_BYTES, size);
        if (checksum == NULL) {
            return KVASIR_NO_MEMORY;
        }
        begin(checksum, payload, value);
        *under_way_p = checksum;
    }
    if (!add_slice(checksum)) {
        return KVASIR_PENDING;
    }
    *sum_p = XXH3_64bits_digest(&checksum->state);
    checksum_destroy(under_way_p);
    return KVASIR_OK;
}

void checksum_destroy(struct checksum **under_way_p)
{
    free(*under_way_p);
    *under_way_p = NULL;
}
