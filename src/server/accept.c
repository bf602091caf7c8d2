#include "server/accept.h"

#include "base/check.h"
#include "net/listener.h"
#include "server/conn.h"
#include "server/reactor.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Accepted in one turn, so that those who are served already do not wait long. */
#define ACCEPTS_MAX 64

/* It is a courtesy. A TLS client is not told: it would take plain text for a broken handshake. */
static void refuse(struct reactor *reactor, const struct loop_listener *listener, int descriptor,
                   struct slice text)
{
    if (!listener->tls) {
        ssize_t sent = send(descriptor, text.data, text.length_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)sent;
    }
    (void)close(descriptor);
    metric_add(&reactor->metrics.connections_rejected, 1);
}

static void refuse_client(struct reactor *reactor, const struct loop_listener *listener,
                          int descriptor)
{
    refuse(reactor, listener, descriptor, slice_of_text("-ERR max number of clients reached\r\n"));
    log_limited(&reactor->log_limit, LOG_WARN,
                "client refused: maxclients %llu reached; raise it if the machine can serve more",
                (unsigned long long)reactor->settings.maxclients);
}

/* Protected mode: without a password nobody is served who comes from another machine. */
static bool is_protected(const struct reactor *reactor, int descriptor)
{
    return reactor->settings.protected_mode && acl_table_default(reactor->acl)->nopass &&
           !listener_peer_is_local(descriptor);
}

static void refuse_stranger(struct reactor *reactor, const struct loop_listener *listener,
                            int descriptor)
{
    static const char text[] =
        "-DENIED Kvasir is running in protected mode because protected mode is enabled and no "
        "password is set for the default user. In this mode connections are only accepted from the "
        "loopback interface and the Unix socket. To connect from other machines do one of these: "
        "1) Set a password for the default user: option requirepass, or ACL SETUSER. "
        "2) Disable protected mode by CONFIG SET protected-mode no from the machine the server runs "
        "on, or by the option --protected-mode no at its start; make sure first that nobody "
        "reaches the server who should not.\r\n";
    refuse(reactor, listener, descriptor, slice_of_text(text));
    log_limited(&reactor->log_limit, LOG_WARN,
                "client from another machine refused: protected-mode is on and the user default "
                "has no password");
}

static uint64_t clients_of_all(const struct reactor *reactor)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < reactor->server->reactor_count; i++) {
        count += metric_get(&reactor->server->reactors[i]->metrics.connections_now);
    }
    return count;
}

/* Out of descriptors: the one kept in reserve takes the client in, to be told. */
static void refuse_without_descriptor(struct reactor *reactor, const struct loop_listener *listener)
{
    int descriptor;
    if (reactor->spare_descriptor < 0) {
        return;
    }
    (void)close(reactor->spare_descriptor);
    reactor->spare_descriptor = -1;
    if (listener_accept(listener->descriptor, &descriptor) == KVASIR_OK) {
        refuse_client(reactor, listener, descriptor);
    }
    reactor->spare_descriptor = eventfd(0, EFD_CLOEXEC);
    log_limited(&reactor->log_limit, LOG_ERROR,
                "out of file descriptors: raise the limit (ulimit -n) or lower maxclients");
}

static void on_accept(void *argument, unsigned events)
{
    struct loop_listener *listener = argument;
    struct reactor *reactor = listener->reactor;
    (void)events;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int descriptor;
        enum kvasir_status status = listener_accept(listener->descriptor, &descriptor);
        if (status == KVASIR_BUSY) {
            refuse_without_descriptor(reactor, listener);
        }
        if (status != KVASIR_OK) {
            return;
        }
        if (clients_of_all(reactor) >= reactor->settings.maxclients) {
            refuse_client(reactor, listener, descriptor);
        } else if (is_protected(reactor, descriptor)) {
            refuse_stranger(reactor, listener, descriptor);
        } else {
            conn_accept(reactor, descriptor, listener->tls);
        }
    }
}

void accept_stop(struct reactor *reactor)
{
    for (uint32_t i = 0; i < reactor->listener_count; i++) {
        loop_unwatch(&reactor->listeners[i].watch);
    }
}

/* Takes the descriptor over, but for the server's own. */
static bool listen_on(struct reactor *reactor, int descriptor, bool tls)
{
    struct loop_listener *listener = &reactor->listeners[reactor->listener_count];
    check(reactor->listener_count < REACTOR_LISTENERS_MAX);
    reactor->listener_count++;
    listener->reactor = reactor;
    listener->descriptor = descriptor;
    listener->tls = tls;
    listener->watch = loop_watch(reactor->loop, descriptor, LOOP_READ, on_accept, listener);
    return listener->watch != NULL;
}

enum port_kind {
    PORT_SHARED,
    PORT_OWN,
    PORT_TLS, /* shared, too */
};

/* The port on every address of bind that there is. */
static bool open_tcp(struct reactor *reactor, enum port_kind kind, uint16_t port, char *error,
                     size_t error_capacity)
{
    const struct settings *settings = &reactor->settings;
    struct listener_bind binds[LISTENER_BIND_MAX];
    uint32_t count = listener_parse_bind(settings->bind, binds);
    uint32_t opened_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        int descriptor;
        enum kvasir_status status =
            listener_open_tcp(binds[i].address, port, kind != PORT_OWN, (int)settings->tcp_backlog,
                              error, error_capacity, &descriptor);
        if (status == KVASIR_NOT_FOUND && binds[i].optional) {
            continue;
        }
        if (status != KVASIR_OK || !listen_on(reactor, descriptor, kind == PORT_TLS)) {
            return false;
        }
        opened_count++;
    }
    return opened_count > 0;
}

static bool open_own_port(struct reactor *reactor, char *error, size_t error_capacity)
{
    const struct settings *settings = &reactor->settings;
    uint64_t base =
        settings->reactor_port_base != 0 ? settings->reactor_port_base : settings->port + 1;
    if (base + reactor->index > UINT16_MAX) {
        (void)snprintf(error, error_capacity,
                       "reactor %u's own port would be %llu: choose a lower "
                       "reactor-port-base, or reactor-ports no",
                       reactor->index, (unsigned long long)base + reactor->index);
        return false;
    }
    reactor->own_port = (uint16_t)(base + reactor->index);
    return open_tcp(reactor, PORT_OWN, reactor->own_port, error, error_capacity);
}

static bool open_unix(struct reactor *reactor, char *error, size_t error_capacity)
{
    const struct settings *settings = &reactor->settings;
    uint32_t mode = (uint32_t)strtoul(settings->unixsocketperm, NULL, 8);
    int descriptor;
    if (!listen_on(reactor, reactor->server->unix_listener, false)) {
        return false;
    }
    (void)snprintf(reactor->own_socket, sizeof(reactor->own_socket), "%.240s.%u",
                   settings->unixsocket, reactor->index);
    if (listener_open_unix(reactor->own_socket, mode, (int)settings->tcp_backlog, error,
                           error_capacity, &descriptor) != KVASIR_OK) {
        reactor->own_socket[0] = '\0'; /* it is not ours to remove */
        return false;
    }
    return listen_on(reactor, descriptor, false);
}

bool accept_open(struct reactor *reactor, char *error, size_t error_capacity)
{
    const struct settings *settings = &reactor->settings;
    uint16_t port = reactor->server->port;
    if (port != 0 &&
        (!open_tcp(reactor, PORT_SHARED, port, error, error_capacity) ||
         (settings->reactor_ports && !open_own_port(reactor, error, error_capacity)))) {
        return false;
    }
    if (settings->tls_port != 0 &&
        !open_tcp(reactor, PORT_TLS, (uint16_t)settings->tls_port, error, error_capacity)) {
        return false;
    }
    return settings->unixsocket[0] == '\0' || open_unix(reactor, error, error_capacity);
}

void accept_close(struct reactor *reactor)
{
    for (uint32_t i = 0; i < reactor->listener_count; i++) {
        struct loop_listener *listener = &reactor->listeners[i];
        loop_unwatch(&listener->watch);
        if (listener->descriptor != reactor->server->unix_listener) {
            (void)close(listener->descriptor);
        }
    }
    if (reactor->own_socket[0] != '\0') {
        (void)unlink(reactor->own_socket);
    }
}
