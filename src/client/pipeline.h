#pragma once
/* pipeline – turns the items queued for a link into commands in its outbox, as many as the window
 * allows. Called by the engine's thread; owns nothing.
 *
 * The window bounds what is in flight (commands, payload bytes, staging memory); the engine reads
 * whenever it writes, so neither side can be stuck on full socket buffers. */

#include "client/link.h"

#include <stdint.h>

/* Smaller values are moved by the socket even where shared memory is in use. Measured on one host
 * (2 cores, one client, best of 1000): a get of 8 KiB takes 12 us by a lease and 15 us inline; a put
 * takes two round trips, 24 us at any small size, which inline reaches at about 32 KiB. The caller's
 * capacity stands for the size of a value that is not known yet. */
#define PIPELINE_SHM_GET_BYTES_MIN (8U << 10)
#define PIPELINE_SHM_PUT_BYTES_MIN (32U << 10)

void pipeline_fill(struct link *link, int64_t now_us);
/* Encodes the releases that wait, without waiting for company. */
void pipeline_release(struct link *link);
/* True when anything is queued for the link. */
bool pipeline_has_work(const struct link *link);

/* Gives up a reservation. */
void pipeline_abort(struct link *link, uint64_t reservation_id);
