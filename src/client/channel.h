#pragma once
/* channel – what a link sends its requests through and receives the replies from: a socket, or rings
 * in memory shared with the server. One thread. Owns the socket; borrows the rings' memory (the link's
 * shared memory). */

#include "base/ring_channel.h"

struct channel {
    int fd; /* -1: none */
    bool has_rings;
    struct ring_channel rings;
};

void channel_init(struct channel *channel);
/* Closes the socket and forgets the rings. */
void channel_close(struct channel *channel);
/* From now on everything goes through the rings. */
void channel_use_rings(struct channel *channel, void *memory, uint32_t capacity_bytes);

/* As recvmsg and sendmsg on a socket that does not block. */
ATTR_MUST_USE ssize_t channel_receive(struct channel *channel, struct iovec *pieces, size_t count);
ATTR_MUST_USE ssize_t channel_send(struct channel *channel, struct iovec *pieces, size_t count);

/* Whether a ring has replies, or room for who is sending; always false without rings. */
bool channel_is_ready(const struct channel *channel, bool sending);
/* The server shall ring from now on. False: the channel is ready, so do not sleep. */
ATTR_MUST_USE bool channel_sleep(struct channel *channel, bool sending);
void channel_awake(struct channel *channel);
/* The socket was found readable, or it is time to see whether the peer still lives. */
void channel_listen(struct channel *channel);
