#include "net/listener.h"

#include "base/same_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static enum kvasir_status status_of_errno(int error_number)
{
    switch (error_number) {
    case EADDRINUSE:
        return KVASIR_BUSY;
    case EACCES:
    case EPERM:
        return KVASIR_DENIED;
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EPFNOSUPPORT:
    case EPROTONOSUPPORT:
        return KVASIR_NOT_FOUND;
    case EINVAL:
        return KVASIR_INVALID;
    default:
        return KVASIR_IO;
    }
}

static const char *advice(int error_number)
{
    switch (error_number) {
    case EADDRINUSE:
        return "another process listens there: stop it or choose another place";
    case EACCES:
        return "choose a port above 1023 or a path that this user may write";
    case ENOENT:
        return "make the folder first or choose another path";
    case EADDRNOTAVAIL:
        return "bind takes addresses of this host, * and ::* for all; one with - before it may be "
               "absent";
    case EMFILE:
    case ENFILE:
        return "raise the limit on open files (ulimit -n)";
    default:
        return "see the system's text";
    }
}

static enum kvasir_status fail(int descriptor, const char *where, char *error,
                               size_t error_capacity)
{
    int saved = errno;
    if (descriptor >= 0) {
        (void)close(descriptor);
    }
    (void)snprintf(error, error_capacity, "cannot listen on %s: %s; %s", where, strerror(saved),
                   advice(saved));
    return status_of_errno(saved);
}

/* ---- addresses ---- */

uint32_t listener_parse_bind(const char *text, struct listener_bind binds[LISTENER_BIND_MAX])
{
    static const char blanks[] = " \t";
    uint32_t count = 0;
    for (text += strspn(text, blanks); *text != '\0'; text += strspn(text, blanks)) {
        bool optional = *text == '-';
        size_t length = strcspn(text += optional, blanks);
        if (count == LISTENER_BIND_MAX || length == 0 || length >= LISTENER_ADDRESS_BYTES) {
            return 0;
        }
        binds[count].optional = optional;
        memcpy(binds[count].address, text, length);
        binds[count].address[length] = '\0';
        count++;
        text += length;
    }
    return count;
}

bool listener_bind_is_local(const struct listener_bind *bind)
{
    return strncmp(bind->address, "127.", 4) == 0 || strcmp(bind->address, "::1") == 0 ||
           strcmp(bind->address, "localhost") == 0;
}

/* NULL: *result_p is why. */
static struct addrinfo *resolve(const char *address, uint16_t port, int *result_p)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    bool every_ipv4 = strcmp(address, "*") == 0;
    bool every_ipv6 = strcmp(address, "::*") == 0;
    char service[8];
    (void)snprintf(service, sizeof(service), "%u", (unsigned)port);
    if (every_ipv4 || every_ipv6) {
        hints.ai_family = every_ipv4 ? AF_INET : AF_INET6;
        address = NULL;
    }
    *result_p = getaddrinfo(address, service, &hints, &found);
    return *result_p == 0 ? found : NULL;
}

static bool set_options(int descriptor, int family, bool shared)
{
    int on = 1;
    return setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
           (!shared || setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0) &&
           (family != AF_INET6 ||
            setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0);
}

static void name_place(const char *address, uint16_t port, char where[LISTENER_ADDRESS_BYTES + 16])
{
    (void)snprintf(where, LISTENER_ADDRESS_BYTES + 16, "%s port %u", address, (unsigned)port);
}

enum kvasir_status listener_bind_tcp(const char *address, uint16_t port, bool shared, char *error,
                                     size_t error_capacity, int *descriptor_p)
{
    char where[LISTENER_ADDRESS_BYTES + 16];
    int descriptor;
    int result;
    struct addrinfo *found = resolve(address, port, &result);
    name_place(address, port, where);
    if (found == NULL) {
        (void)snprintf(error, error_capacity,
                       "cannot listen on %s: %s; bind takes addresses of this host, * and ::* for "
                       "all",
                       where, gai_strerror(result));
        return KVASIR_INVALID;
    }
    descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0 || !set_options(descriptor, found->ai_family, shared) ||
        bind(descriptor, found->ai_addr, found->ai_addrlen) != 0) {
        freeaddrinfo(found);
        return fail(descriptor, where, error, error_capacity);
    }
    freeaddrinfo(found);
    *descriptor_p = descriptor;
    return KVASIR_OK;
}

enum kvasir_status listener_open_tcp(const char *address, uint16_t port, bool shared, int backlog,
                                     char *error, size_t error_capacity, int *descriptor_p)
{
    char where[LISTENER_ADDRESS_BYTES + 16];
    int descriptor;
    enum kvasir_status status =
        listener_bind_tcp(address, port, shared, error, error_capacity, &descriptor);
    if (status != KVASIR_OK) {
        return status;
    }
    if (listen(descriptor, backlog) != 0) {
        name_place(address, port, where);
        return fail(descriptor, where, error, error_capacity);
    }
    *descriptor_p = descriptor;
    return KVASIR_OK;
}

/* True when a process accepts connections on the socket file. */
static bool unix_alive(const struct sockaddr_un *name)
{
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool alive;
    if (probe < 0) {
        return true;
    }
    alive = connect(probe, (const struct sockaddr *)name, sizeof(*name)) == 0 || errno == EAGAIN;
    (void)close(probe);
    return alive;
}

/* What a server that was killed left behind; any other file stays, and bind fails. */
static void remove_dead_socket(const char *path)
{
    struct stat facts;
    if (lstat(path, &facts) == 0 && S_ISSOCK(facts.st_mode)) {
        (void)unlink(path);
    }
}

enum kvasir_status listener_open_unix(const char *path, uint32_t mode, int backlog, char *error,
                                      size_t error_capacity, int *descriptor_p)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int descriptor;
    if (strlen(path) >= sizeof(name.sun_path)) {
        (void)snprintf(error, error_capacity,
                       "unixsocket %s is %zu bytes long, allowed are %zu: choose a shorter path",
                       path, strlen(path), sizeof(name.sun_path) - 1);
        return KVASIR_INVALID;
    }
    memcpy(name.sun_path, path, strlen(path) + 1);
    descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
        return fail(descriptor, path, error, error_capacity);
    }
    if (unix_alive(&name)) {
        errno = EADDRINUSE;
        return fail(descriptor, path, error, error_capacity);
    }
    remove_dead_socket(path);
    if (bind(descriptor, (const struct sockaddr *)&name, sizeof(name)) != 0 ||
        chmod(path, (mode_t)mode) != 0 || listen(descriptor, backlog) != 0) {
        return fail(descriptor, path, error, error_capacity);
    }
    *descriptor_p = descriptor;
    return KVASIR_OK;
}

enum kvasir_status listener_accept(int listening, int *descriptor_p)
{
    int on = 1;
    int descriptor;
    do {
        descriptor = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (descriptor < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (descriptor < 0) {
        switch (errno) {
        case EAGAIN:
            return KVASIR_AGAIN;
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
            return KVASIR_BUSY;
        default:
            return KVASIR_IO;
        }
    }
    /* Fails harmlessly on a Unix socket. */
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    same_host_bound_send(descriptor);
    *descriptor_p = descriptor;
    return KVASIR_OK;
}

static void address_text(const struct sockaddr_storage *address, char text[LISTENER_ADDRESS_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        (void)snprintf(text, LISTENER_ADDRESS_BYTES, "%s:%u", host, (unsigned)ntohs(in->sin_port));
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)address;
        (void)inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof(host));
        (void)snprintf(text, LISTENER_ADDRESS_BYTES, "[%s]:%u", host,
                       (unsigned)ntohs(in->sin6_port));
    } else if (address->ss_family == AF_UNIX) {
        const struct sockaddr_un *name = (const struct sockaddr_un *)(const void *)address;
        (void)snprintf(text, LISTENER_ADDRESS_BYTES, "%.100s:0", name->sun_path);
    } else {
        (void)snprintf(text, LISTENER_ADDRESS_BYTES, "?:0");
    }
}

void listener_addresses(int descriptor, char peer[LISTENER_ADDRESS_BYTES],
                        char local[LISTENER_ADDRESS_BYTES], bool *unix_p)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof(address);
    if (getsockname(descriptor, (struct sockaddr *)&address, &length) != 0) {
        address.ss_family = AF_UNSPEC;
    }
    address_text(&address, local);
    *unix_p = address.ss_family == AF_UNIX;
    if (*unix_p) {
        /* The other end of a Unix socket has no name worth showing; Redis shows the path twice. */
        memcpy(peer, local, LISTENER_ADDRESS_BYTES);
        return;
    }
    address = (struct sockaddr_storage){0};
    length = sizeof(address);
    if (getpeername(descriptor, (struct sockaddr *)&address, &length) != 0) {
        address.ss_family = AF_UNSPEC;
    }
    address_text(&address, peer);
}

bool listener_peer_is_local(int descriptor)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof(address);
    if (getpeername(descriptor, (struct sockaddr *)&address, &length) != 0) {
        return false;
    }
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&address;
        return (ntohl(in->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
    }
    if (address.ss_family == AF_INET6) {
        const struct in6_addr *in =
            &((const struct sockaddr_in6 *)(const void *)&address)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(in) ||
               (IN6_IS_ADDR_V4MAPPED(in) && in->s6_addr[12] == IN_LOOPBACKNET);
    }
    return address.ss_family == AF_UNIX;
}

bool listener_peer_uid(int descriptor, uint32_t *uid_p)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
        return false;
    }
    *uid_p = peer.uid;
    return true;
}
