#include "client/endpoint.h"

#include "base/same_host.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define ENDPOINT_HOST_BYTES_MAX 256
#define ENDPOINT_PORT_BYTES_MAX 6

enum kvasir_status endpoint_of_path(const char *path, struct endpoint *endpoint_p)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0) {
        return KVASIR_INVALID;
    }
    if (length >= sizeof local.sun_path) {
        return KVASIR_TOO_LARGE;
    }
    memcpy(local.sun_path, path, length + 1);
    memset(endpoint_p, 0, sizeof *endpoint_p);
    memcpy(&endpoint_p->address, &local, sizeof local);
    endpoint_p->address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    memcpy(endpoint_p->text, path, length + 1);
    return KVASIR_OK;
}

/* The text of a TCP endpoint is built from the numeric address, so that a message names what was
 * really tried. */
static void describe(struct endpoint *endpoint)
{
    char host[ENDPOINT_HOST_BYTES_MAX];
    char port[ENDPOINT_PORT_BYTES_MAX + 1];
    if (getnameinfo((const struct sockaddr *)&endpoint->address, endpoint->address_bytes, host,
                    sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        (void)snprintf(endpoint->text, sizeof endpoint->text, "unknown");
        return;
    }
    bool six = endpoint->address.ss_family == AF_INET6;
    (void)snprintf(endpoint->text, sizeof endpoint->text, six ? "[%.128s]:%s" : "%.128s:%s", host,
                   port);
}

/* Splits "host:port" or "[host]:port". */
static bool split(const char *text, char *host, size_t host_capacity, char *port)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text) {
        return false;
    }
    const char *from = text;
    size_t length = (size_t)(colon - text);
    if (from[0] == '[') {
        if (length < 3 || from[length - 1] != ']') {
            return false;
        }
        from++;
        length -= 2;
    } else if (memchr(from, ':', length) != NULL) {
        return false;
    }
    size_t digits = strlen(colon + 1);
    if (length >= host_capacity || digits == 0 || digits > ENDPOINT_PORT_BYTES_MAX - 1 ||
        strspn(colon + 1, "0123456789") != digits) {
        return false;
    }
    unsigned long number = strtoul(colon + 1, NULL, 10);
    if (number == 0 || number > UINT16_MAX) {
        return false;
    }
    memcpy(host, from, length);
    host[length] = '\0';
    memcpy(port, colon + 1, digits + 1);
    return true;
}

/* Numbers need no resolver; NULL: nothing was found. */
static struct addrinfo *resolve(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, port, &hints, &found) == 0) {
        return found;
    }
    hints.ai_flags = AI_NUMERICSERV;
    return getaddrinfo(host, port, &hints, &found) == 0 ? found : NULL;
}

enum kvasir_status endpoint_parse(const char *text, struct endpoint *endpoint_p,
                                  const char **reason_p)
{
    *reason_p = "the address must be tcp://host:port, host:port or unix:///path";
    if (text == NULL) {
        return KVASIR_INVALID;
    }
    if (strncmp(text, "unix://", 7) == 0) {
        if (text[7] != '/') {
            return KVASIR_INVALID;
        }
        *reason_p = "the path of the Unix socket is too long";
        return endpoint_of_path(text + 7, endpoint_p) == KVASIR_OK ? KVASIR_OK : KVASIR_INVALID;
    }
    if (strncmp(text, "tcp://", 6) == 0) {
        text += 6;
    }
    char host[ENDPOINT_HOST_BYTES_MAX];
    char port[ENDPOINT_PORT_BYTES_MAX + 1];
    if (!split(text, host, sizeof host, port)) {
        return KVASIR_INVALID;
    }
    struct addrinfo *found = resolve(host, port);
    if (found == NULL) {
        *reason_p = "the host name does not resolve";
        return KVASIR_CLOSED;
    }
    /* "localhost" often resolves to ::1 first while servers listen on IPv4 by default. */
    const struct addrinfo *best = found;
    for (const struct addrinfo *one = found; one != NULL; one = one->ai_next) {
        if (one->ai_family == AF_INET) {
            best = one;
            break;
        }
    }
    memset(endpoint_p, 0, sizeof *endpoint_p);
    memcpy(&endpoint_p->address, best->ai_addr, best->ai_addrlen);
    endpoint_p->address_bytes = best->ai_addrlen;
    freeaddrinfo(found);
    describe(endpoint_p);
    return KVASIR_OK;
}

void endpoint_of_port(const struct endpoint *host, uint16_t port, struct endpoint *endpoint_p)
{
    struct sockaddr_storage address = host->address;
    *endpoint_p = *host;
    if (address.ss_family == AF_INET6) {
        struct sockaddr_in6 six;
        memcpy(&six, &address, sizeof six);
        six.sin6_port = htons(port);
        memcpy(&endpoint_p->address, &six, sizeof six);
    } else {
        struct sockaddr_in four;
        memcpy(&four, &address, sizeof four);
        four.sin_port = htons(port);
        memcpy(&endpoint_p->address, &four, sizeof four);
    }
    describe(endpoint_p);
}

bool endpoint_is_unix(const struct endpoint *endpoint)
{
    return endpoint->address.ss_family == AF_UNIX;
}

bool endpoint_equal(const struct endpoint *a, const struct endpoint *b)
{
    return a->address_bytes == b->address_bytes &&
           memcmp(&a->address, &b->address, a->address_bytes) == 0;
}

enum kvasir_status endpoint_open(const struct endpoint *endpoint, int *fd_p)
{
    int fd = socket(endpoint->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return KVASIR_CLOSED;
    }
    if (!endpoint_is_unix(endpoint)) {
        int on = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    if (connect(fd, (const struct sockaddr *)&endpoint->address, endpoint->address_bytes) == 0) {
        same_host_bound_send(fd);
        *fd_p = fd;
        return KVASIR_OK;
    }
    if (errno == EINPROGRESS) {
        *fd_p = fd;
        return KVASIR_PENDING;
    }
    int reason = errno;
    (void)close(fd);
    errno = reason;
    return KVASIR_CLOSED;
}

enum kvasir_status endpoint_finish(int fd)
{
    int reason = 0;
    socklen_t length = sizeof reason;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &length) != 0) {
        return KVASIR_CLOSED;
    }
    if (reason == 0) {
        same_host_bound_send(fd);
    }
    errno = reason;
    return reason == 0 ? KVASIR_OK : KVASIR_CLOSED;
}
