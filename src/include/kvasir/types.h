#pragma once
/* types – the status every call of Kvasir returns, and the few plain types shared by server,
 * client library and modules. Any thread; owns nothing. */

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KVASIR_MUST_USE __attribute__((warn_unused_result))
#define KVASIR_API      __attribute__((visibility("default")))
#else
#define KVASIR_MUST_USE
#define KVASIR_API
#endif

/* Zero is success, positive is an ordinary answer that is not final, negative is a failure.
 * Output parameters are touched only on KVASIR_OK, unless a function says otherwise.
 * The values are part of the ABI: append, never renumber. */
enum kvasir_status {
    KVASIR_OK = 0,
    KVASIR_PENDING = 1,       /* accepted; completion is reported later */
    KVASIR_AGAIN = 2,         /* no room just now; the caller keeps what it offered */
    KVASIR_NOT_FOUND = -1,    /* no such key, lease, reservation or option */
    KVASIR_EXISTS = -2,       /* the key is there already (put with "only if absent") */
    KVASIR_NO_MEMORY = -3,    /* the store is full of what may not be evicted, or malloc failed */
    KVASIR_TOO_LARGE = -4,    /* longer than the store, the limit or the peer can ever take */
    KVASIR_TOO_SMALL = -5,    /* the caller's buffer is shorter than the value */
    KVASIR_INVALID = -6,      /* an argument is malformed or out of range */
    KVASIR_TIMEOUT = -7,      /* the deadline passed first */
    KVASIR_CLOSED = -8,       /* the peer is gone or refuses connections */
    KVASIR_DENIED = -9,       /* not authenticated, or not allowed */
    KVASIR_UNSUPPORTED = -10, /* this build, peer or path cannot do it */
    KVASIR_PROTOCOL = -11,    /* the peer sent bytes that are not the protocol */
    KVASIR_CORRUPT = -12,     /* the checksum of the payload differs */
    KVASIR_EXPIRED = -13,     /* the lease or reservation ran out before it was used */
    KVASIR_IO = -14,          /* the operating system failed a call; see the log */
    KVASIR_BUSY = -15,        /* a limit on how many is reached, or the resource is taken */
    KVASIR_CANCELLED = -16,   /* withdrawn by the caller before it was done */
    KVASIR_QUOTA = -17,       /* the tenant has all it may have, and none of that can go */
    KVASIR_OVERRUN = -18,     /* what was asked for is not kept any more */
};

/* The status in lower case words for logs and messages, "unknown status" for any other number.
 * The string is static. */
KVASIR_API const char *kvasir_status_name(enum kvasir_status status);

#ifdef __cplusplus
}
#endif
