#include "base/log.h"
#include "net/listener.h"
#include "server/conn.h"
#include "server/reactor.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Accepted in one turn, so that those who are served already do not wait long. */
#define ACCEPTS_MAX 64

static void refuse_client(struct reactor *reactor, int descriptor)
{
    static const char text[] = "-ERR max number of clients reached\r\n";
    ssize_t sent = send(descriptor, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* it is a courtesy */
    (void)close(descriptor);
    metric_add(&reactor->metrics.connections_rejected, 1);
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

static void refuse_stranger(struct reactor *reactor, int descriptor)
{
    static const char text[] =
        "-DENIED Kvasir is running in protected mode because protected mode is enabled and no "
        "password is set for the default user. In this mode connections are only accepted from the "
        "loopback interface and the Unix socket. To connect from other machines do one of these: "
        "1) Set a password for the default user: option requirepass, or ACL SETUSER. "
        "2) Disable protected mode by CONFIG SET protected-mode no from the machine the server runs "
        "on, or by the option --protected-mode no at its start; make sure first that nobody "
        "reaches the server who should not.\r\n";
    ssize_t sent = send(descriptor, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* it is a courtesy */
    (void)close(descriptor);
    metric_add(&reactor->metrics.connections_rejected, 1);
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
static void refuse_without_descriptor(struct reactor *reactor, int listening)
{
    int descriptor;
    if (reactor->spare_descriptor < 0) {
        return;
    }
    (void)close(reactor->spare_descriptor);
    reactor->spare_descriptor = -1;
    if (listener_accept(listening, &descriptor) == KVASIR_OK) {
        refuse_client(reactor, descriptor);
    }
    reactor->spare_descriptor = eventfd(0, EFD_CLOEXEC);
    log_limited(&reactor->log_limit, LOG_ERROR,
                "out of file descriptors: raise the limit (ulimit -n) or lower maxclients");
}

void reactor_accept(void *argument, unsigned events)
{
    struct loop_listener *listener = argument;
    struct reactor *reactor = listener->reactor;
    (void)events;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int descriptor;
        enum kvasir_status status = listener_accept(listener->descriptor, &descriptor);
        if (status == KVASIR_BUSY) {
            refuse_without_descriptor(reactor, listener->descriptor);
        }
        if (status != KVASIR_OK) {
            return;
        }
        if (clients_of_all(reactor) >= reactor->settings.maxclients) {
            refuse_client(reactor, descriptor);
        } else if (is_protected(reactor, descriptor)) {
            refuse_stranger(reactor, descriptor);
        } else {
            conn_accept(reactor, descriptor);
        }
    }
}
