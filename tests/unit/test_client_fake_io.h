#pragma once
/* test_client_fake_io – the fake server's connections; see test_client_fake.h. Used by the fake's
 * thread. */

#include "test_client_fake_commands.h"

/* ---- input --------------------------------------------------------------------------------- */

static inline bool fake_number(const struct fake_conn *conn, size_t *at, char type,
                               uint64_t *number_p)
{
    const uint8_t *end = memchr(conn->in + *at, '\n', conn->in_length - *at);
    if (end == NULL) {
        return false;
    }
    check(conn->in[*at] == (uint8_t)type);
    check(slice_to_u64(slice_of(conn->in + *at + 1, (size_t)(end - conn->in) - *at - 2), number_p));
    *at = (size_t)(end - conn->in) + 1;
    return true;
}

/* Runs the whole commands that are there. */
static inline void fake_parse(struct fake *fake, struct fake_conn *conn)
{
    size_t done = 0;
    while (!conn->muted) {
        size_t at = done;
        uint64_t count = 0;
        struct slice *args = fake->args;
        uint64_t have = 0;
        if (!fake_number(conn, &at, '*', &count)) {
            break;
        }
        check(count >= 1 && count <= FAKE_ARGS_MAX);
        uint64_t length = 0;
        while (have < count && fake_number(conn, &at, '$', &length) &&
               conn->in_length - at >= length + 2) {
            args[have] = slice_of(conn->in + at, length);
            have++;
            at += length + 2;
        }
        if (have < count) {
            break;
        }
        done = at;
        fake_run(fake, conn, args, (uint32_t)count);
    }
    memmove(conn->in, conn->in + done, conn->in_length - done);
    conn->in_length -= done;
}

static inline void fake_conn_close(struct fake_conn *conn)
{
    (void)close(conn->fd);
    free(conn->in);
    free(conn->out);
    if (conn->staging != NULL) {
        (void)munmap(conn->staging, conn->staging_size);
        (void)close(conn->staging_fd);
    }
    memset(conn, 0, sizeof *conn);
    conn->fd = -1;
}

static inline void fake_receive(struct fake *fake, struct fake_conn *conn)
{
    if (conn->in_capacity - conn->in_length < 65536) {
        conn->in_capacity = conn->in_capacity * 2 + 131072;
        conn->in = realloc(conn->in, conn->in_capacity);
        check(conn->in != NULL);
    }
    ssize_t got = recv(conn->fd, conn->in + conn->in_length, conn->in_capacity - conn->in_length,
                       MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        fake_conn_close(conn);
        return;
    }
    if (got > 0) {
        conn->in_length += (size_t)got;
        fake_parse(fake, conn);
    }
}

static inline ssize_t fake_send_descriptors(struct fake_conn *conn)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof conn->pass)];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec vector = {.iov_base = conn->out + conn->out_sent, .iov_len = 1};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof conn->pass);
    memcpy(CMSG_DATA(header), conn->pass, sizeof conn->pass);
    conn->pass[0] = -1;
    return sendmsg(conn->fd, &message, MSG_NOSIGNAL);
}

static inline void fake_send(struct fake *fake, struct fake_conn *conn)
{
    while (conn->out_sent < conn->out_length) {
        size_t size = fake->dribble ? 1 : conn->out_length - conn->out_sent;
        ssize_t sent = conn->pass[0] >= 0 ? fake_send_descriptors(conn)
                                          : send(conn->fd, conn->out + conn->out_sent, size,
                                                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno != EAGAIN) {
                fake_conn_close(conn);
            }
            return;
        }
        conn->out_sent += (size_t)sent;
    }
    conn->out_sent = 0;
    conn->out_length = 0;
    if (conn->finishing) {
        fake_conn_close(conn);
    }
}
