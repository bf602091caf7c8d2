#include "server/checksum.h"

#include "base/check.h"
#include "server/conn.h"

/* The state's size is not part of the library's promise to dynamic users; it is a local here. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

uint64_t checksum_of_value(const struct pages *payload, const struct value *value)
{
    XXH3_state_t state;
    struct layout_cursor cursor;
    struct iovec piece;
    XXH3_INITSTATE(&state);
    check(XXH3_64bits_reset(&state) == XXH_OK);
    layout_cursor_init(&cursor, payload, &value->layout, value->length_bytes);
    while ((piece = layout_cursor_peek(&cursor)).iov_len > 0) {
        check(XXH3_64bits_update(&state, piece.iov_base, piece.iov_len) == XXH_OK);
        layout_cursor_skip(&cursor, piece.iov_len);
    }
    return XXH3_64bits_digest(&state);
}

bool checksum_matches(const struct conn *conn, const struct request *request, uint64_t expected)
{
    const struct value *value = conn->upload.value;
    if (conn->upload.state != UPLOAD_READY) {
        return XXH3_64bits(request->args[2].data, request->args[2].length_bytes) == expected;
    }
    return value == NULL || checksum_of_value(conn->reactor->server->payload, value) == expected;
}
