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

struct checksum;
struct conn;
struct op;
struct reactor;
struct server;
struct value;

/* Longer uploads are admitted separately. */
#define UPLOAD_SHORT_BYTES_MAX (1U << 20)

enum upload_state {
    UPLOAD_NONE,
    UPLOAD_RESERVING, /* waits for the shard */
    UPLOAD_RECEIVING, /* waits for payload, to be read into the value */
    UPLOAD_DISCARDING, /* there is no room, or no need: payload is read and dropped, the request will say why */
    UPLOAD_READY,  /* all payload is there; waits for the rest of the request */
    UPLOAD_STAGED, /* KV.COMMIT copies staging memory into the value; no bytes from the socket */
};

struct upload {
    uint8_t state; /* enum upload_state */
    uint32_t shard;
    enum kvasir_status failure;  /* why it is discarded; KVASIR_OK: it is not */
    struct value *value;         /* owned pin; NULL while discarding */
    struct layout_cursor cursor; /* next byte to fill */
    uint64_t left_bytes;
    int64_t begun_us;
    uint64_t declared_bytes;   /* counted in the reactor's metrics until the upload ends */
    struct checksum *checksum; /* owned: of the value, while it is being summed */
    uint64_t payload_offset;   /* of the payload in the unfinished request */
};

/* True when the bulk that the reader announced can be uploaded (it is the value of a SET-like
 * command and nothing speaks against it so far). */
bool upload_wanted(const struct conn *conn);
/* Whether so much more may be claimed by what is under way; see upload.c. */
bool upload_claims_fit(const struct server *server, uint64_t wanted);
/* Begins; the connection waits for the shard or goes on at once. False: not just now; the
 * connection is called again. */
bool upload_begin(struct conn *conn);
/* The reservation came back. */
void upload_reserved(struct conn *conn, const struct op *op);
/* Copies bytes that are in memory into the value. */
void upload_copy(struct upload *upload, const uint8_t *from, size_t length_bytes);
/* Moves payload; true when something moved or the state changed. */
bool upload_advance(struct conn *conn);
/* Takes the filled value over, for the committing op; NULL when it was discarded. */
struct value *upload_take(struct conn *conn);
/* Whether the filled value, if there is one, has this checksum; a long one takes several turns.
 * KVASIR_OK, KVASIR_CORRUPT, KVASIR_PENDING (call again in the next turn), KVASIR_NO_MEMORY. */
ATTR_MUST_USE enum kvasir_status upload_verify(struct conn *conn, uint64_t checksum);
/* Others wait for memory that this one claims and does not fill. */
bool upload_is_too_slow(const struct conn *conn);
/* This one waits no longer; nothing when it does not. */
void upload_stop_waiting(struct conn *conn);
/* Uploads that had to wait for others may go on. */
void upload_wake_waiters(struct reactor *reactor);
/* The connection ends: gives the memory back. */
void upload_abandon(struct conn *conn);
