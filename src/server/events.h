#pragma once
/* events – what happened to keys, out of the rings of all shards in one order, for KV.EVENTS: an answer
 * to who asks, a push to who subscribed. Nothing is queued for a subscriber: the reactor asks the shards
 * for him when his connection has room, from the number that he has reached. One thread; a reactor owns
 * its subscriptions. */

#include "base/compiler.h"
#include "server/gather.h"

#include <kvasir/types.h>

struct conn;
struct event_listener;

/* Subscribers of one reactor. */
#define EVENTS_LISTENERS_MAX 64U
#define EVENTS_COUNT_MAX     10000U

/* Asks all shards for up to count_max events behind a number; what is not kept yet is from now on. The
 * gather is not under way yet; NULL: no memory. */
struct gather *events_ask(struct reactor *reactor, uint64_t since, uint32_t count_max,
                          gather_done_fn *done);

/* What came of it. */
struct events_found {
    uint64_t next;  /* to go on from here loses nothing */
    uint64_t lost;  /* events up to here are not all there any more */
    uint32_t count; /* of those that are to be told */
    bool failed;    /* out of memory */
};
/* No more of them than the connection has room for now: none is no error, the next time there is more. */
struct events_found events_find(struct conn *conn, const struct gather *gather, uint64_t since,
                                uint32_t count_max);
/* As one array: what was found has room. */
void events_reply(struct conn *conn, const struct gather *gather, const struct events_found *found);

/* Pushes to the connection what comes behind a number. KVASIR_OK, KVASIR_BUSY (too many do that here),
 * KVASIR_NO_MEMORY. */
ATTR_MUST_USE enum kvasir_status events_listen(struct conn *conn, uint64_t since);
/* The number that the connection has reached; 0: it did not listen. Also at its end. */
uint64_t events_unlisten(struct conn *conn);
/* Every few milliseconds: asks for those who listen. */
void events_tick(struct reactor *reactor);
/* Has the shard keep what the settings say. False: no memory. */
bool events_configure(struct reactor *reactor);
