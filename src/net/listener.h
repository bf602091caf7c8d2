#pragma once
/* listener – sockets that accept, and the small facts of sockets that were accepted. Main makes
 * listeners, reactors accept on them. Descriptors are the caller's. */

#include <kvasir/types.h>

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LISTENER_ADDRESS_BYTES 128

/* As many addresses as one option may name. */
#define LISTENER_BIND_MAX 16

/* One word of the option bind: an address, with '-' before it if it need not be there. */
struct listener_bind {
    char address[LISTENER_ADDRESS_BYTES];
    bool optional;
};

/* Takes the words apart. Their count; 0: none, more than LISTENER_BIND_MAX, or one that is too long. */
uint32_t listener_parse_bind(const char *text, struct listener_bind binds[LISTENER_BIND_MAX]);
/* Whether only clients of this machine can reach it. */
bool listener_bind_is_local(const struct listener_bind *bind);

/* A non-blocking TCP socket that has its address and does not listen yet: no client gets through to
 * it. address: "*" is every IPv4 address, "::*" every IPv6 address; an IPv6 socket takes no IPv4
 * clients. shared: SO_REUSEPORT, so that each reactor has its own queue of the same port. On failure
 * error names address, port and the fix. KVASIR_OK, KVASIR_BUSY (the port is taken), KVASIR_INVALID
 * (not an address), KVASIR_NOT_FOUND (not one of this host, or of a family that it does not have),
 * KVASIR_DENIED, KVASIR_IO. */
ATTR_MUST_USE enum kvasir_status listener_bind_tcp(const char *address, uint16_t port, bool shared,
                                                   char *error, size_t error_capacity,
                                                   int *descriptor_p);

/* The same, and it listens. */
ATTR_MUST_USE enum kvasir_status listener_open_tcp(const char *address, uint16_t port, bool shared,
                                                   int backlog, char *error, size_t error_capacity,
                                                   int *descriptor_p);

/* A listening Unix socket. A socket file that nobody listens on is replaced; one that is alive is
 * KVASIR_BUSY. mode is the file's. */
ATTR_MUST_USE enum kvasir_status listener_open_unix(const char *path, uint32_t mode, int backlog,
                                                    char *error, size_t error_capacity,
                                                    int *descriptor_p);

/* KVASIR_OK; KVASIR_AGAIN (nobody waits), KVASIR_BUSY (out of descriptors), KVASIR_IO. The socket is
 * non-blocking, close-on-exec, without Nagle's delay, its buffer bounded within one host. */
ATTR_MUST_USE enum kvasir_status listener_accept(int listening, int *descriptor_p);

/* "ip:port" or "/path:0" of both ends, as CLIENT LIST shows them. */
void listener_addresses(int descriptor, char peer[LISTENER_ADDRESS_BYTES],
                        char local[LISTENER_ADDRESS_BYTES], bool *unix_p);

/* Whether the other end of a connection is on this machine: a Unix socket, or a loopback address. */
bool listener_peer_is_local(int descriptor);

/* User id of the process at the other end of a Unix socket. False: not to be had. */
bool listener_peer_uid(int descriptor, uint32_t *uid_p);
