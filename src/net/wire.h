#pragma once
/* wire – what a connection reads from and writes to: its socket, TLS on it, or rings in memory shared
 * with a client on the same host. Embedded in the connection; one thread. Owns the socket and the TLS
 * on it; borrows the rings' memory.
 *
 * Readiness: the loop watches the socket (wire_interest, wire_ready), which also carries the rings'
 * bells. A ring has no event of its own while both sides are awake; who owns the wire asks for them in
 * every turn. Bytes that were received short of what was asked for leave nothing behind that no event
 * announces, but for an end (wire_has_ended). */

#include "base/compiler.h"
#include "base/ring_channel.h"
#include "net/loop.h"
#include "net/tls.h"

enum wire_kind {
    WIRE_SOCKET,
    WIRE_RINGS,
    WIRE_TLS
};

struct wire {
    int descriptor; /* owned; -1: closed */
    enum wire_kind kind;
    struct ring_channel rings;
    struct tls *tls; /* owned; NULL: none */
};

void wire_init(struct wire *wire, int descriptor);
/* Closes the socket; TLS says goodbye first. */
void wire_close(struct wire *wire);
/* Everything goes through TLS, which begins with a handshake: see tls_shake_hands. False: no memory. */
ATTR_MUST_USE bool wire_use_tls(struct wire *wire, const struct tls_maker *maker);
/* From now on everything goes through the rings. memory is RING_CHANNEL_BYTES(capacity_bytes) long. */
void wire_use_rings(struct wire *wire, void *memory, uint32_t capacity_bytes);

/* Like recvmsg on a socket that does not block: bytes, 0: the end, -1: errno (never EINTR). */
ATTR_MUST_USE ssize_t wire_receive(struct wire *wire, struct iovec *pieces, size_t count);
/* Like sendmsg on a socket that does not block. descriptors (or NULL) travel with the first byte; a
 * ring or TLS cannot carry any: EOPNOTSUPP. */
ATTR_MUST_USE ssize_t wire_send(struct wire *wire, struct iovec *pieces, size_t count,
                                const int *descriptors, size_t descriptor_count);

/* Whether the peer will send nothing more, as far as is known without reading. */
bool wire_peer_is_gone(const struct wire *wire);
/* The socket had an event. True: that was of the rings, whose bells are off it now. */
bool wire_listen(struct wire *wire);

/* LOOP_… events to wait for, for who wants bytes, or room for them. */
static inline unsigned wire_interest(const struct wire *wire, bool bytes, bool room)
{
    if (UNLIKELY(wire->kind == WIRE_TLS)) {
        return tls_interest(wire->tls, bytes, room);
    }
    return (bytes ? LOOP_READ : 0) | (room ? LOOP_WRITE : 0);
}

/* What the socket's events say about the wire: whether it may have bytes, or room. */
static inline unsigned wire_ready(const struct wire *wire, unsigned events)
{
    return UNLIKELY(wire->kind == WIRE_TLS) ? LOOP_READ | LOOP_WRITE : events;
}

/* The end came right behind the last bytes received: no event will announce it. */
static inline bool wire_has_ended(const struct wire *wire)
{
    return UNLIKELY(wire->kind == WIRE_TLS) && tls_has_ended(wire->tls);
}
