#pragma once
/* listener – sockets that accept, and the small facts of sockets that were accepted. Main makes
 * listeners, reactors accept on them. Descriptors are the caller's. */

#include <kvasir/types.h>

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LISTENER_ADDRESS_BYTES 128

/* A listening, non-blocking TCP socket. shared: SO_REUSEPORT, so that each reactor has its own queue
 * of the same port. On failure error names address, port and the fix. KVASIR_OK, KVASIR_BUSY (the
 * port is taken), KVASIR_INVALID (not an address), KVASIR_DENIED, KVASIR_IO. */
ATTR_MUST_USE enum kvasir_status listener_open_tcp(const char *address, uint16_t port, bool shared,
                                                   int backlog, char *error, size_t error_capacity,
                                                   int *descriptor_p);

/* The same for a Unix socket. A socket file that nobody listens on is replaced; one that is alive is
 * KVASIR_BUSY. mode is the file's. */
ATTR_MUST_USE enum kvasir_status listener_open_unix(const char *path, uint32_t mode, int backlog,
                                                    char *error, size_t error_capacity,
                                                    int *descriptor_p);

/* KVASIR_OK; KVASIR_AGAIN (nobody waits), KVASIR_BUSY (out of descriptors), KVASIR_IO. The socket is
 * non-blocking, close-on-exec, without Nagle's delay. */
ATTR_MUST_USE enum kvasir_status listener_accept(int listening, int *descriptor_p);

/* "ip:port" or "/path:0" of both ends, as CLIENT LIST shows them. */
void listener_addresses(int descriptor, char peer[LISTENER_ADDRESS_BYTES],
                        char local[LISTENER_ADDRESS_BYTES], bool *unix_p);

/* Whether the other end of a connection is on this machine: a Unix socket, or a loopback address. */
bool listener_peer_is_local(int descriptor);

/* User id of the process at the other end of a Unix socket. False: not to be had. */
bool listener_peer_uid(int descriptor, uint32_t *uid_p);
