#pragma once
/* endpoint – a place to connect to: a TCP address or a Unix socket's path. Used by the client while it
 * connects; owns nothing. Names are resolved once, when the address is parsed. */

#include "base/compiler.h"

#include <kvasir/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ENDPOINT_TEXT_BYTES_MAX 160

struct endpoint {
    struct sockaddr_storage address;
    socklen_t address_bytes;            /* 0: no such endpoint */
    char text[ENDPOINT_TEXT_BYTES_MAX]; /* for messages: "127.0.0.1:6400", "/run/kvasir.sock" */
};

/* Reads "tcp://host:port", "host:port", "tcp://[v6]:port" or "unix:///path". KVASIR_OK;
 * KVASIR_INVALID: not of that form; KVASIR_CLOSED: the name does not resolve. *reason_p is a static
 * text on failure. */
ATTR_MUST_USE enum kvasir_status endpoint_parse(const char *text, struct endpoint *endpoint_p,
                                                const char **reason_p);
/* A Unix socket by its path; KVASIR_TOO_LARGE when the path does not fit a socket address. */
ATTR_MUST_USE enum kvasir_status endpoint_of_path(const char *path, struct endpoint *endpoint_p);
/* The same host with another port (TCP endpoints only). */
void endpoint_of_port(const struct endpoint *host, uint16_t port, struct endpoint *endpoint_p);

bool endpoint_is_unix(const struct endpoint *endpoint);
bool endpoint_equal(const struct endpoint *a, const struct endpoint *b);

/* Opens a non-blocking, close-on-exec socket and begins to connect. KVASIR_OK: connected;
 * KVASIR_PENDING: wait until it is writable, then ask endpoint_finish; KVASIR_CLOSED (errno says
 * why). The caller owns *fd_p. */
ATTR_MUST_USE enum kvasir_status endpoint_open(const struct endpoint *endpoint, int *fd_p);
/* KVASIR_OK or KVASIR_CLOSED (errno says why) after the socket became writable. */
ATTR_MUST_USE enum kvasir_status endpoint_finish(int fd);
