#pragma once
/* upload – a long SET payload on its way from a socket (or from staging memory) to where it will lie:
 * memory is reserved at the owning shard, the bytes are read straight into it, and the request that
 * carries it commits. Embedded in a connection; used by its thread. Holds one pin on the reserved
 * value.
 *
 * NONE → RESERVING (op under way) → RECEIVING or DISCARDING → READY (waits for the rest of the
 * request) → NONE; or NONE → STAGED (a commit copies) → NONE. */

#include "mem/layout.h"

#include <kvasir/types.h>

#include <stdint.h>

struct conn;
struct op;
struct value;

enum upload_state {
    UPLOAD_NONE,
    UPLOAD_RESERVING,  /* waits for the shard */
    UPLOAD_RECEIVING,  /* waits for payload, to be read into the value */
    UPLOAD_DISCARDING, /* there is no room: payload is read and dropped, the request will say why */
    UPLOAD_READY,      /* all payload is there; waits for the rest of the request */
    UPLOAD_STAGED, /* KV.COMMIT copies staging memory into the value; no bytes from the socket */
};

struct upload {
    uint8_t state; /* enum upload_state */
    uint32_t shard;
    enum kvasir_status failure;  /* why it is discarded; KVASIR_OK: it is not */
    struct value *value;         /* owned pin; NULL while discarding */
    struct layout_cursor cursor; /* next byte to fill */
    uint64_t left_bytes;
    uint64_t payload_offset; /* of the payload in the unfinished request */
};

/* True when the bulk that the reader announced can be uploaded (it is the value of a SET-like
 * command and nothing speaks against it so far). */
bool upload_wanted(const struct conn *conn);
/* Begins; the connection waits for the shard or goes on at once. False: there is no batch just now. */
bool upload_begin(struct conn *conn);
/* The reservation came back. */
void upload_reserved(struct conn *conn, const struct op *op);
/* Copies bytes that are in memory into the value. */
void upload_copy(struct upload *upload, const uint8_t *from, size_t length_bytes);
/* Moves payload; true when something moved or the state changed. */
bool upload_advance(struct conn *conn);
/* Takes the filled value over, for the committing op; NULL when it was discarded. */
struct value *upload_take(struct conn *conn);
/* The connection ends: gives the memory back. */
void upload_abandon(struct conn *conn);
