#pragma once
/* ring_channel – a stream of bytes both ways between two processes: two rings in memory that both map,
 * and a connected socket of which only the bell is used (a byte that means: look at the rings) and the
 * end. Calls answer as a socket that does not block: -1 and errno. One thread a side; borrows the
 * socket and the memory. */

#include "base/byte_ring.h"

struct ring_channel {
    int bell;   /* the socket */
    bool gone;  /* the peer: the socket has ended */
    int reason; /* errno that ended it; 0: closed */
    struct byte_ring in;
    struct byte_ring out;
};

/* Memory for both rings, aligned to a page, all zero at first. */
#define RING_CHANNEL_BYTES(capacity_bytes) (2 * BYTE_RING_BYTES(capacity_bytes))

enum ring_channel_side {
    RING_CHANNEL_CLIENT, /* writes the first ring */
    RING_CHANNEL_SERVER,
};

void ring_channel_open(struct ring_channel *channel, int bell, void *memory,
                       uint32_t capacity_bytes, enum ring_channel_side side);

/* The socket is readable, or it is time to see whether the peer still lives: takes bells off it. */
void ring_channel_listen(struct ring_channel *channel);

/* Bytes that arrived; 0: the peer is gone and everything it said is read; -1: EAGAIN, EPROTO: the
 * peer broke the rings, or what ended the socket. */
ATTR_MUST_USE ssize_t ring_channel_receive(struct ring_channel *channel, const struct iovec *pieces,
                                           size_t piece_count);
/* Bytes that were taken; -1: EAGAIN, EPROTO, or EPIPE: full, and the peer is gone. */
ATTR_MUST_USE ssize_t ring_channel_send(struct ring_channel *channel, const struct iovec *pieces,
                                        size_t piece_count);

/* For who waits for bytes, for room, or for either: there is some. */
bool ring_channel_is_ready(const struct ring_channel *channel, bool bytes, bool room);
/* The same, and the peer shall ring from now on. False: the channel is ready, so do not sleep. */
ATTR_MUST_USE bool ring_channel_sleep(struct ring_channel *channel, bool bytes, bool room);
void ring_channel_awake(struct ring_channel *channel);
