#include "base/ring_channel.h"

#include <errno.h>
#include <sys/socket.h>

/* Bells taken off the socket in one call. */
#define BELLS_MAX 64

void ring_channel_open(struct ring_channel *channel, int bell, void *memory,
                       uint32_t capacity_bytes, enum ring_channel_side side)
{
    void *second = (char *)memory + BYTE_RING_BYTES(capacity_bytes);
    bool client = side == RING_CHANNEL_CLIENT;
    channel->bell = bell;
    channel->gone = false;
    channel->reason = 0;
    byte_ring_attach(&channel->out, client ? memory : second, capacity_bytes);
    byte_ring_attach(&channel->in, client ? second : memory, capacity_bytes);
}

/* It may fail: a full socket is full of bells already, and that the peer is gone shows when the socket
 * is listened to. */
static void ring_bell(const struct ring_channel *channel)
{
    (void)send(channel->bell, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ring_channel_listen(struct ring_channel *channel)
{
    char bells[BELLS_MAX];
    ssize_t got = recv(channel->bell, bells, sizeof(bells), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        channel->gone = true;
        channel->reason = got == 0 ? 0 : errno;
    }
}

ssize_t ring_channel_receive(struct ring_channel *channel, const struct iovec *pieces,
                             size_t piece_count)
{
    /* What the peer said last was there before its end was noticed. */
    ssize_t got = byte_ring_read(&channel->in, pieces, piece_count);
    if (got > 0) {
        if (byte_ring_bell_for_room(&channel->in)) {
            ring_bell(channel);
        }
        return got;
    }
    if (got == 0 && channel->gone && channel->reason == 0) {
        return 0;
    }
    errno = got < 0 ? EPROTO : channel->gone ? channel->reason : EAGAIN;
    return -1;
}

ssize_t ring_channel_send(struct ring_channel *channel, const struct iovec *pieces,
                          size_t piece_count)
{
    ssize_t sent = byte_ring_write(&channel->out, pieces, piece_count);
    if (sent <= 0) {
        errno = sent < 0 ? EPROTO : channel->gone ? EPIPE : EAGAIN;
        return -1;
    }
    if (byte_ring_bell_for_bytes(&channel->out)) {
        ring_bell(channel);
    }
    return sent;
}

bool ring_channel_is_ready(const struct ring_channel *channel, bool bytes, bool room)
{
    return (bytes && byte_ring_has_bytes(&channel->in)) ||
           (room && byte_ring_has_room(&channel->out));
}

bool ring_channel_sleep(struct ring_channel *channel, bool bytes, bool room)
{
    return (!bytes || byte_ring_sleep_for_bytes(&channel->in)) &&
           (!room || byte_ring_sleep_for_room(&channel->out));
}

void ring_channel_awake(struct ring_channel *channel)
{
    byte_ring_awake_for_bytes(&channel->in);
    byte_ring_awake_for_room(&channel->out);
}
