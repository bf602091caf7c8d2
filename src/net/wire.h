#pragma once
/* wire – what a connection reads from and writes to: its socket, or rings in memory shared with a
 * client on the same host. Embedded in the connection; one thread. Borrows the socket, which stays the
 * connection's, and the rings' memory.
 *
 * Readiness: the loop watches the socket, which also carries the rings' bells. A ring has no event of
 * its own while both sides are awake; who owns the wire asks for them in every turn. */

#include "base/ring_channel.h"

struct wire {
    int descriptor; /* -1: closed */
    bool has_rings;
    struct ring_channel rings;
};

void wire_init(struct wire *wire, int descriptor);
/* From now on everything goes through the rings. memory is RING_CHANNEL_BYTES(capacity_bytes) long. */
void wire_use_rings(struct wire *wire, void *memory, uint32_t capacity_bytes);

/* Like recvmsg on a socket that does not block: bytes, 0: the end, -1: errno (never EINTR). */
ATTR_MUST_USE ssize_t wire_receive(struct wire *wire, struct iovec *pieces, size_t count);
/* Like sendmsg on a socket that does not block. descriptors (or NULL) travel with the first byte; a
 * ring cannot carry any: EOPNOTSUPP. */
ATTR_MUST_USE ssize_t wire_send(struct wire *wire, struct iovec *pieces, size_t count,
                                const int *descriptors, size_t descriptor_count);

/* The socket had an event. True: that was of the rings, whose bells are off it now. */
bool wire_listen(struct wire *wire);
