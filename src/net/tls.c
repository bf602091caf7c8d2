#include "net/tls.h"

#include "base/check.h"
#include "net/loop.h"
#include "net/tls_context.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The most plain bytes in a record. */
#define RECORD_BYTES_MAX 16384U
/* Beyond what it was asked for a call may read so much: headers, records that carry no payload. */
#define EXTRA_BYTES (64U << 10)
/* The longest ClientHello that any client sends is a quarter of this; OpenSSL would take eight times
 * as much, and the memory for it as soon as it is announced. */
#define HELLO_BYTES_MAX 16384U
/* First bytes of a connection: a record's header and a message's. */
#define HEAD_BYTES         9
#define RECORD_HANDSHAKE   22
#define MESSAGE_HEAD_BYTES 4

/* Measured with OpenSSL 3.0, rounded up: 14 KiB at rest, 4 more with a client's certificate, two
 * record buffers of 17 KiB while bytes are in them, and the handshake's own. */
#define MEMORY_BYTES           (48U << 10)
#define MEMORY_HANDSHAKE_BYTES (80U << 10)
#define MEMORY_VERIFY_BYTES    (16U << 10)

enum tls_state {
    TLS_SHAKING, /* waits for the peer's part of the handshake; then OPEN or BROKEN */
    TLS_OPEN,    /* carries bytes; then ENDED or BROKEN */
    TLS_ENDED,   /* the peer sends nothing more; can be written to */
    TLS_BROKEN   /* neither way; reason is in error_number */
};

struct tls {
    SSL *ssl;       /* owned */
    int descriptor; /* borrowed from the connection */
    enum tls_state state;
    bool read_waits_for_room;   /* to read, the socket must be writable first */
    bool write_waits_for_bytes; /* and the other way */
    bool socket_ended;
    bool more_follows;    /* in this call: the kernel need not send a small packet now */
    size_t allowed_bytes; /* that may still be read from the socket in this call, or handshake */
    size_t
        begun_bytes;  /* of a record that the socket has not taken whole: offered again as it was */
    int error_number; /* of the socket; 0: none */
    const char *refusal;      /* why we ended the handshake; NULL: we did not */
    uint8_t head_count;       /* of head */
    uint8_t head[HEAD_BYTES]; /* the first bytes that came */
};

/* ---- the socket, as OpenSSL sees it ---- */

/* Looks at the first bytes. False: this is no handshake that we want to go through. */
static bool head_fits(struct tls *tls, const uint8_t *bytes, size_t count)
{
    const uint8_t *head = tls->head;
    for (size_t i = 0; i < count && tls->head_count < HEAD_BYTES; i++) {
        tls->head[tls->head_count++] = bytes[i];
    }
    if (head[0] != RECORD_HANDSHAKE) {
        tls->refusal = "the client speaks no TLS; plain text belongs on another port";
        return false;
    }
    if (tls->head_count == HEAD_BYTES &&
        (((unsigned)head[3] << 8 | head[4]) < MESSAGE_HEAD_BYTES ||
         ((unsigned)head[6] << 16 | (unsigned)head[7] << 8 | head[8]) > HELLO_BYTES_MAX)) {
        tls->refusal = "its ClientHello is torn or longer than 16 KiB";
        return false;
    }
    return true;
}

static int socket_read(BIO *bio, char *to, int length)
{
    struct tls *tls = BIO_get_data(bio);
    size_t wanted = length > 0 ? (size_t)length : 0;
    ssize_t got;
    BIO_clear_retry_flags(bio);
    if (tls->allowed_bytes == 0) {
        if (tls->state == TLS_SHAKING) {
            tls->refusal = "its handshake is longer than 64 KiB";
        } else {
            BIO_set_retry_read(bio);
        }
        return -1;
    }
    wanted = wanted < tls->allowed_bytes ? wanted : tls->allowed_bytes;
    do {
        got = recv(tls->descriptor, to, wanted, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        tls->allowed_bytes -= (size_t)got;
        return tls->head_count == HEAD_BYTES || head_fits(tls, (uint8_t *)to, (size_t)got)
                   ? (int)got
                   : -1;
    }
    if (got == 0) {
        tls->socket_ended = true;
        return 0;
    }
    if (errno == EAGAIN) {
        BIO_set_retry_read(bio);
    } else {
        tls->error_number = errno;
    }
    return -1;
}

static int socket_write(BIO *bio, const char *from, int length)
{
    struct tls *tls = BIO_get_data(bio);
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (tls->more_follows ? MSG_MORE : 0);
    ssize_t sent;
    BIO_clear_retry_flags(bio);
    do {
        sent = send(tls->descriptor, from, length > 0 ? (size_t)length : 0, flags);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno == EAGAIN) {
        BIO_set_retry_write(bio);
    } else if (sent < 0) {
        tls->error_number = errno;
    }
    return (int)sent;
}

static long socket_control(BIO *bio, int what, long number, void *pointer)
{
    const struct tls *tls = BIO_get_data(bio);
    (void)number;
    (void)pointer;
    if (what == BIO_CTRL_EOF) {
        return tls->socket_ended;
    }
    return what == BIO_CTRL_FLUSH; /* nothing is held back */
}

/* ---- life ---- */

bool tls_maker_init(struct tls_maker *maker, struct ssl_ctx_st *context)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "kvasir socket");
    if (method == NULL) {
        return false;
    }
    (void)BIO_meth_set_read(method, socket_read);
    (void)BIO_meth_set_write(method, socket_write);
    (void)BIO_meth_set_ctrl(method, socket_control);
    *maker = (struct tls_maker){.context = context, .method = method};
    return true;
}

void tls_maker_renew(struct tls_maker *maker, struct ssl_ctx_st *context)
{
    tls_context_put(&maker->context);
    maker->context = context;
}

void tls_maker_fini(struct tls_maker *maker)
{
    tls_context_put(&maker->context);
    BIO_meth_free(maker->method);
    maker->method = NULL;
}

size_t tls_memory_bytes(const struct tls_maker *maker, bool handshake)
{
    bool verifies = SSL_CTX_get_verify_mode(maker->context) != SSL_VERIFY_NONE;
    return (handshake ? MEMORY_HANDSHAKE_BYTES : MEMORY_BYTES) +
           (verifies ? MEMORY_VERIFY_BYTES : 0);
}

struct tls *tls_create(const struct tls_maker *maker, int descriptor)
{
    struct tls *tls = calloc(1, sizeof(*tls));
    BIO *bio = BIO_new(maker->method);
    SSL *ssl = SSL_new(maker->context);
    if (tls == NULL || bio == NULL || ssl == NULL) {
        free(tls);
        (void)BIO_free(bio);
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    tls->ssl = ssl;
    tls->descriptor = descriptor;
    tls->state = TLS_SHAKING;
    tls->allowed_bytes = TLS_HANDSHAKE_BYTES_MAX;
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio); /* owns it now */
    SSL_set_accept_state(ssl);
    return tls;
}

void tls_destroy(struct tls **tls_p)
{
    struct tls *tls = *tls_p;
    if (tls == NULL) {
        return;
    }
    /* A goodbye cannot go into the middle of a record. */
    if ((tls->state == TLS_OPEN || tls->state == TLS_ENDED) && tls->begun_bytes == 0) {
        tls->more_follows = false;
        (void)SSL_shutdown(tls->ssl);
    }
    SSL_free(tls->ssl);
    ERR_clear_error();
    free(tls);
    *tls_p = NULL;
}

/* ---- handshake ---- */

static void describe_failure(const struct tls *tls, int error, char failure[TLS_FAILURE_BYTES])
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    long verified = SSL_get_verify_result(tls->ssl);
    if (tls->refusal != NULL) {
        (void)snprintf(failure, TLS_FAILURE_BYTES, "%s", tls->refusal);
    } else if (tls->socket_ended) {
        (void)snprintf(failure, TLS_FAILURE_BYTES, "the client closed the connection");
    } else if (tls->error_number != 0) {
        (void)snprintf(failure, TLS_FAILURE_BYTES, "%s", strerror(tls->error_number));
    } else if (verified != X509_V_OK) {
        (void)snprintf(failure, TLS_FAILURE_BYTES, "the client's certificate is refused: %s",
                       X509_verify_cert_error_string(verified));
    } else {
        (void)snprintf(failure, TLS_FAILURE_BYTES, "%s (error %d)",
                       reason != NULL ? reason : "no reason is known", error);
    }
}

enum kvasir_status tls_shake_hands(struct tls *tls, char failure[TLS_FAILURE_BYTES])
{
    int done;
    int error;
    check(tls->state == TLS_SHAKING);
    ERR_clear_error();
    done = SSL_do_handshake(tls->ssl);
    if (done == 1) {
        tls->state = TLS_OPEN;
        return KVASIR_OK;
    }
    error = SSL_get_error(tls->ssl, done);
    tls->read_waits_for_room = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        return KVASIR_AGAIN;
    }
    tls->state = TLS_BROKEN;
    describe_failure(tls, error, failure);
    ERR_clear_error();
    return KVASIR_CLOSED;
}

bool tls_is_spoken_to_plainly(const struct tls *tls)
{
    return tls->head_count > 0 && tls->head[0] != RECORD_HANDSHAKE;
}

/* ---- bytes ---- */

static void break_off(struct tls *tls)
{
    tls->state = TLS_BROKEN;
    if (tls->error_number == 0) {
        tls->error_number = EPROTO;
    }
    ERR_clear_error();
}

/* What a read of nothing means, in the way of recv: 0, or -1 and errno. */
static ssize_t nothing_read(struct tls *tls, int result)
{
    int error = SSL_get_error(tls->ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        tls->read_waits_for_room = error == SSL_ERROR_WANT_WRITE;
        errno = EAGAIN;
        return -1;
    }
    if (error == SSL_ERROR_ZERO_RETURN || tls->socket_ended) {
        tls->state = TLS_ENDED;
        ERR_clear_error();
        return 0;
    }
    break_off(tls);
    errno = tls->error_number;
    return -1;
}

static size_t total_bytes(const struct iovec *pieces, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += pieces[i].iov_len;
    }
    return total;
}

ssize_t tls_receive(struct tls *tls, const struct iovec *pieces, size_t count)
{
    size_t total = 0;
    check(tls->state != TLS_SHAKING);
    if (tls->state == TLS_ENDED) {
        return 0;
    }
    if (tls->state == TLS_BROKEN) {
        errno = tls->error_number;
        return -1;
    }
    ERR_clear_error();
    tls->read_waits_for_room = false;
    tls->allowed_bytes = total_bytes(pieces, count) + EXTRA_BYTES;
    for (size_t i = 0; i < count; i++) {
        uint8_t *to = pieces[i].iov_base;
        size_t left = pieces[i].iov_len;
        while (left > 0) {
            size_t got = 0;
            int result = SSL_read_ex(tls->ssl, to, left, &got);
            if (result != 1) {
                ssize_t nothing = nothing_read(tls, result);
                return total > 0 ? (ssize_t)total : nothing;
            }
            to += got;
            left -= got;
            total += got;
        }
    }
    return (ssize_t)total;
}

/* Sends one record of at most length_bytes. False: the socket takes nothing more, or it failed. */
static bool send_record(struct tls *tls, const uint8_t *from, size_t length_bytes, size_t *sent_p)
{
    size_t part = length_bytes < RECORD_BYTES_MAX ? length_bytes : RECORD_BYTES_MAX;
    int error;
    if (tls->begun_bytes > 0) {
        check(length_bytes >= tls->begun_bytes);
        part = tls->begun_bytes;
    }
    if (SSL_write_ex(tls->ssl, from, part, sent_p) == 1) {
        tls->begun_bytes = 0;
        return true;
    }
    error = SSL_get_error(tls->ssl, 0);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        tls->write_waits_for_bytes = error == SSL_ERROR_WANT_READ;
        tls->begun_bytes = part;
    } else {
        break_off(tls);
    }
    return false;
}

ssize_t tls_send(struct tls *tls, const struct iovec *pieces, size_t count)
{
    size_t all = total_bytes(pieces, count);
    size_t total = 0;
    check(tls->state != TLS_SHAKING);
    if (tls->state == TLS_BROKEN) {
        errno = tls->error_number;
        return -1;
    }
    ERR_clear_error();
    tls->write_waits_for_bytes = false;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *from = pieces[i].iov_base;
        size_t left = pieces[i].iov_len;
        while (left > 0) {
            size_t sent = 0;
            tls->more_follows = all - total > left || left > RECORD_BYTES_MAX;
            if (!send_record(tls, from, left, &sent)) {
                errno = tls->state == TLS_BROKEN ? tls->error_number : EAGAIN;
                return total > 0 ? (ssize_t)total : -1;
            }
            from += sent;
            left -= sent;
            total += sent;
        }
    }
    return (ssize_t)total;
}

bool tls_has_ended(const struct tls *tls)
{
    return tls->state == TLS_ENDED || tls->state == TLS_BROKEN;
}

unsigned tls_interest(const struct tls *tls, bool read, bool write)
{
    unsigned events = 0;
    if (read || tls->state == TLS_SHAKING) {
        events |= tls->read_waits_for_room ? LOOP_WRITE : LOOP_READ;
    }
    if (write) {
        events |= tls->write_waits_for_bytes ? LOOP_READ : LOOP_WRITE;
    }
    return events;
}

const char *tls_version(const struct tls *tls)
{
    return SSL_get_version(tls->ssl);
}
