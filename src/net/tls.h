#pragma once
/* tls – TLS on one connection's socket: handshake, bytes in and out, the end. The server's side only.
 * One thread, that of the connection. Borrows the socket. Payload is deciphered into the caller's
 * memory and enciphered from it: nothing is copied but by OpenSSL itself.
 *
 * Bounds: a client may send TLS_HANDSHAKE_BYTES_MAX until it has shaken hands; a call reads no more
 * from the socket than it was asked for, and a little; the memory of a connection is known
 * (tls_memory_bytes). A peer cannot renegotiate. */

#include <kvasir/types.h>

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define TLS_HANDSHAKE_BYTES_MAX (64U << 10)
#define TLS_FAILURE_BYTES       256

struct bio_method_st;
struct ssl_ctx_st;
struct tls;

/* What a reactor makes its TLS connections with; outlives them. */
struct tls_maker {
    struct ssl_ctx_st *context;   /* shared by count; NULL: no TLS */
    struct bio_method_st *method; /* owned */
};

/* Takes the caller's count of the context. False: no memory. */
ATTR_MUST_USE bool tls_maker_init(struct tls_maker *maker, struct ssl_ctx_st *context);
/* Connections from now on are made with this one, whose count it takes. */
void tls_maker_renew(struct tls_maker *maker, struct ssl_ctx_st *context);
void tls_maker_fini(struct tls_maker *maker);
/* What a connection takes at most, in and after its handshake. */
size_t tls_memory_bytes(const struct tls_maker *maker, bool handshake);

/* NULL: no memory. */
struct tls *tls_create(const struct tls_maker *maker, int descriptor);
/* Says goodbye to the peer where that is possible at once. */
void tls_destroy(struct tls **tls_p);

/* KVASIR_OK: hands are shaken; KVASIR_AGAIN: waits for the socket (tls_interest); KVASIR_CLOSED: it
 * failed, failure says why. */
ATTR_MUST_USE enum kvasir_status tls_shake_hands(struct tls *tls, char failure[TLS_FAILURE_BYTES]);
/* After a failure: the peer's first byte began no TLS, so it will understand plain text. */
bool tls_is_spoken_to_plainly(const struct tls *tls);

/* As wire_receive and wire_send. */
ATTR_MUST_USE ssize_t tls_receive(struct tls *tls, const struct iovec *pieces, size_t count);
ATTR_MUST_USE ssize_t tls_send(struct tls *tls, const struct iovec *pieces, size_t count);
/* An end or a failure was seen behind the last bytes that tls_receive gave. */
bool tls_has_ended(const struct tls *tls);
/* LOOP_… events of the socket to wait for, for who wants to read, to write, or (neither) to go on
 * with the handshake. */
unsigned tls_interest(const struct tls *tls, bool read, bool write);
/* "TLSv1.3". */
const char *tls_version(const struct tls *tls);
