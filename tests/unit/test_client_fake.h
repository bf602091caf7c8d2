#pragma once
/* test_client_fake – a small server on a thread of its own, for tests of the client library. It stores
 * values, serves shared memory, and misbehaves on keys that begin with '!' (see fake_special). Its
 * counters are read after fake_stop. */

#include "test_client_fake_io.h"

/* ---- loop --------------------------------------------------------------------------------- */

static inline void fake_accept(struct fake *fake, uint32_t listener)
{
    int fd = accept4(fake->listeners[listener], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fake->read_when_idle) {
        int small = 16384;
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    }
    for (uint32_t i = 0; i < FAKE_CONNS_MAX; i++) {
        struct fake_conn *conn = &fake->conns[i];
        if (conn->fd < 0) {
            *conn = (struct fake_conn){.fd = fd, .listener = listener, .pass = {-1, -1}};
            fake->connections++;
            return;
        }
    }
    (void)close(fd); /* every place is taken */
}

static inline void fake_serve(struct fake *fake, struct fake_conn *conn, short events)
{
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
        fake_receive(fake, conn);
    }
    if (conn->fd >= 0) {
        fake_send(fake, conn);
    }
}

static inline void *fake_main(void *argument)
{
    struct fake *fake = argument;
    for (;;) {
        struct pollfd polled[1 + FAKE_REACTORS_MAX + 1 + FAKE_CONNS_MAX];
        nfds_t count = 0;
        polled[count++] = (struct pollfd){.fd = fake->stop[0], .events = POLLIN};
        for (uint32_t i = 0; i < fake->listener_count; i++) {
            polled[count++] = (struct pollfd){.fd = fake->listeners[i], .events = POLLIN};
        }
        nfds_t first = count;
        for (uint32_t i = 0; i < FAKE_CONNS_MAX; i++) {
            const struct fake_conn *conn = &fake->conns[i];
            bool sending = conn->out_sent < conn->out_length;
            bool reading = !conn->muted && !(fake->read_when_idle && sending);
            short events = (short)((reading ? POLLIN : 0) | (sending ? POLLOUT : 0));
            polled[count++] = (struct pollfd){.fd = conn->fd, .events = events};
        }
        (void)poll(polled, count, 10000);
        if (polled[0].revents != 0) {
            return NULL;
        }
        for (uint32_t i = 0; i < FAKE_CONNS_MAX; i++) {
            if (polled[first + i].fd >= 0 && polled[first + i].revents != 0) {
                fake_serve(fake, &fake->conns[i], polled[first + i].revents);
            }
        }
        for (uint32_t i = 0; i < fake->listener_count; i++) {
            if (polled[1 + i].revents != 0) {
                fake_accept(fake, i);
            }
        }
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

static inline int fake_listen_tcp(uint16_t *port_p)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(*port_p),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 64) == 0);
    socklen_t length = sizeof address;
    check(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    *port_p = ntohs(address.sin_port);
    return fd;
}

static inline int fake_listen_unix(const char *path)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    (void)unlink(path);
    check(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 64) == 0);
    return fd;
}

/* Configured by the fields above; zero is one reactor over TCP. */
static inline void fake_start(struct fake *fake)
{
    fake->reactor_count = fake->reactor_count == 0 ? 1 : fake->reactor_count;
    check(fake->reactor_count <= FAKE_REACTORS_MAX && pipe2(fake->stop, O_CLOEXEC) == 0);
    for (uint32_t i = 0; i < fake->reactor_count; i++) {
        fake->ports[i] = i == 0 ? fake->fixed_port : 0;
        fake->listeners[i] = fake_listen_tcp(&fake->ports[i]);
    }
    fake->listener_count = fake->reactor_count;
    (void)snprintf(fake->path, sizeof fake->path, "/tmp/kvasir-fake-%d-%d.sock", (int)getpid(),
                   fake->ports[0]);
    if (fake->use_unix) {
        fake->listeners[fake->listener_count] = fake_listen_unix(fake->path);
        fake->listener_count++;
    }
    for (uint32_t i = 0; i < FAKE_CONNS_MAX; i++) {
        fake->conns[i].fd = -1;
    }
    fake->entries = calloc(FAKE_KEYS_MAX, sizeof *fake->entries);
    fake->region_fd = memfd_create("fake-region", MFD_CLOEXEC);
    check(fake->entries != NULL && ftruncate(fake->region_fd, FAKE_REGION_BYTES) == 0);
    fake->region =
        mmap(NULL, FAKE_REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fake->region_fd, 0);
    check(fake->region != MAP_FAILED);
    check(pthread_create(&fake->thread, NULL, fake_main, fake) == 0);
}

static inline void fake_stop(struct fake *fake)
{
    check(write(fake->stop[1], "", 1) == 1);
    check(pthread_join(fake->thread, NULL) == 0);
    for (uint32_t i = 0; i < FAKE_CONNS_MAX; i++) {
        /* What the client sent last is still to be counted. */
        while (fake->conns[i].fd >= 0 && !fake->conns[i].muted) {
            size_t before = fake->conns[i].in_length;
            fake_receive(fake, &fake->conns[i]);
            if (fake->conns[i].fd >= 0 && fake->conns[i].in_length == before) {
                break;
            }
        }
        if (fake->conns[i].fd >= 0) {
            fake_conn_close(&fake->conns[i]);
        }
    }
    for (uint32_t i = 0; i < fake->listener_count; i++) {
        (void)close(fake->listeners[i]);
    }
    if (fake->use_unix) {
        (void)unlink(fake->path);
    }
    for (uint32_t i = 0; i < FAKE_KEYS_MAX; i++) {
        free(fake->entries[i].key);
    }
    free(fake->entries);
    (void)munmap(fake->region, FAKE_REGION_BYTES);
    (void)close(fake->region_fd);
    (void)close(fake->stop[0]);
    (void)close(fake->stop[1]);
}
