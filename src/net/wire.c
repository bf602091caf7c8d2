#include "net/wire.h"

#include "base/check.h"
#include "base/compiler.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 4

void wire_init(struct wire *wire, int descriptor)
{
    *wire = (struct wire){.descriptor = descriptor};
}

void wire_close(struct wire *wire)
{
    tls_destroy(&wire->tls);
    (void)close(wire->descriptor);
    wire->descriptor = -1;
}

bool wire_use_tls(struct wire *wire, const struct tls_maker *maker)
{
    check(wire->kind == WIRE_SOCKET);
    wire->tls = tls_create(maker, wire->descriptor);
    if (wire->tls == NULL) {
        return false;
    }
    wire->kind = WIRE_TLS;
    return true;
}

void wire_use_rings(struct wire *wire, void *memory, uint32_t capacity_bytes)
{
    check(wire->kind == WIRE_SOCKET);
    ring_channel_open(&wire->rings, wire->descriptor, memory, capacity_bytes, RING_CHANNEL_SERVER);
    wire->kind = WIRE_RINGS;
}

ssize_t wire_receive(struct wire *wire, struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    ssize_t got;
    if (UNLIKELY(wire->kind != WIRE_SOCKET)) {
        return wire->kind == WIRE_TLS ? tls_receive(wire->tls, pieces, count)
                                      : ring_channel_receive(&wire->rings, pieces, count);
    }
    do {
        got = recvmsg(wire->descriptor, &message, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return got;
}

bool wire_peer_is_gone(const struct wire *wire)
{
    struct pollfd look = {.fd = wire->descriptor, .events = POLLRDHUP};
    return poll(&look, 1, 0) > 0;
}

static ssize_t send_message(int socket, struct msghdr *message)
{
    ssize_t sent;
    do {
        sent = sendmsg(socket, message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent;
}

ssize_t wire_send(struct wire *wire, struct iovec *pieces, size_t count, const int *descriptors,
                  size_t descriptor_count)
{
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    struct cmsghdr *header;
    if (UNLIKELY(wire->kind != WIRE_SOCKET)) {
        if (descriptors != NULL) {
            errno = EOPNOTSUPP;
            return -1;
        }
        return wire->kind == WIRE_TLS ? tls_send(wire->tls, pieces, count)
                                      : ring_channel_send(&wire->rings, pieces, count);
    }
    if (descriptors == NULL) {
        return send_message(wire->descriptor, &message);
    }
    check(descriptor_count <= DESCRIPTORS_MAX);
    memset(&control, 0, sizeof(control));
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(descriptor_count * sizeof(int));
    header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptor_count * sizeof(int));
    memcpy(CMSG_DATA(header), descriptors, descriptor_count * sizeof(int));
    return send_message(wire->descriptor, &message);
}

bool wire_listen(struct wire *wire)
{
    if (LIKELY(wire->kind != WIRE_RINGS)) {
        return false;
    }
    ring_channel_listen(&wire->rings);
    return true;
}
