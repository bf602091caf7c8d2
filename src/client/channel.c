#include "client/channel.h"

#include "base/check.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void channel_init(struct channel *channel)
{
    memset(channel, 0, sizeof *channel);
    channel->fd = -1;
}

void channel_close(struct channel *channel)
{
    if (channel->fd >= 0) {
        (void)close(channel->fd);
    }
    channel_init(channel);
}

void channel_use_rings(struct channel *channel, void *memory, uint32_t capacity_bytes)
{
    check(channel->fd >= 0 && !channel->has_rings);
    ring_channel_open(&channel->rings, channel->fd, memory, capacity_bytes, RING_CHANNEL_CLIENT);
    channel->has_rings = true;
}

ssize_t channel_receive(struct channel *channel, struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    return channel->has_rings ? ring_channel_receive(&channel->rings, pieces, count)
                              : recvmsg(channel->fd, &message, MSG_DONTWAIT);
}

ssize_t channel_send(struct channel *channel, struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    return channel->has_rings ? ring_channel_send(&channel->rings, pieces, count)
                              : sendmsg(channel->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool channel_is_ready(const struct channel *channel, bool sending)
{
    return channel->has_rings && ring_channel_is_ready(&channel->rings, true, sending);
}

bool channel_sleep(struct channel *channel, bool sending)
{
    return !channel->has_rings || ring_channel_sleep(&channel->rings, true, sending);
}

void channel_awake(struct channel *channel)
{
    if (channel->has_rings) {
        ring_channel_awake(&channel->rings);
    }
}

void channel_listen(struct channel *channel)
{
    if (channel->has_rings) {
        ring_channel_listen(&channel->rings);
    }
}
