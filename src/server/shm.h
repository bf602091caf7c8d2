#pragma once
/* shm – the same-host path of one connection: its staging area, a memfd that client and server both
 * map, into which the client writes what a commit copies into the store. Clients read the store's own
 * region through a read-only mapping, under leases; no client can write it. Used by the
 * connection's thread.
 *
 * The area is cut into blocks; a reservation holds as many as its length takes, the lowest free ones
 * first, so that the same few stay warm in the cache. It is sealed against shrinking, so that no client
 * can take memory away from under the server. */

#include "base/byte_ring.h"
#include "server/conn.h"
#include "store/op.h"

#define SHM_BLOCK_BYTES (64U << 10)
/* Reservations one connection can have open. */
#define SHM_HOLDS_MAX 256
#define SHM_HOLD_NONE 0
/* Behind the area lie two rings, for requests and for replies, which KV.CONNECT RING puts in the
 * place of the socket. */
#define SHM_RING_BYTES  (64U << 10)
#define SHM_RINGS_BYTES (2 * BYTE_RING_BYTES(SHM_RING_BYTES))

struct staging_hold {
    uint64_t grant_id; /* 0: free, or not yet granted */
    uint64_t length_bytes;
    bool taken;
};

/* What a commit under way needs between its steps. */
struct staging_commit {
    uint16_t hold;
    uint32_t flags; /* of the put */
    struct op_put put;
    uint64_t copied_bytes;
    uint64_t checksum; /* that the payload must have, if flags say so */
};

struct staging {
    int descriptor;    /* owned */
    uint8_t *base;     /* owned mapping: the area, then the rings */
    size_t size_bytes; /* of the area */
    uint32_t block_count;
    uint16_t *owners; /* owned; per block: hold number (from 1), or SHM_HOLD_NONE */
    struct staging_hold holds[SHM_HOLDS_MAX + 1];
    struct staging_commit commit;
};

/* Whether this connection may have shared memory; the reply is an error if not. */
bool shm_allowed(struct conn *conn);
/* Makes the staging area and the rings; false: error reply written. */
bool shm_staging_open(struct conn *conn, uint64_t size_bytes);
void shm_staging_close(struct conn *conn);

/* Blocks for length_bytes; SHM_HOLD_NONE: there is no room just now. */
uint16_t shm_hold_take(struct staging *staging, uint64_t length_bytes);
void shm_hold_give(struct staging *staging, uint16_t hold);
uint16_t shm_hold_find(const struct staging *staging, uint64_t grant_id);

/* The hold's piece that begins offset_bytes into the value: its place in the area and its length. */
struct shm_piece {
    uint64_t offset_bytes;
    uint64_t length_bytes; /* 0: past the end */
};
struct shm_piece shm_hold_piece(const struct staging *staging, uint16_t hold,
                                uint64_t offset_bytes);
