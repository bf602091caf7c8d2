#pragma once
/* check – assertions that stay on in release builds. Any thread; owns nothing.
 *
 * check() is for facts of our own code only: bytes from a peer, a disk, a user or a module are
 * refused with a status, never asserted. check_slow() may walk structures; it is compiled in with
 * KVASIR_DEBUG. A failed check prints file, line, condition and aborts. */

#include "base/compiler.h"

ATTR_NORETURN ATTR_COLD void check_failed(const char *condition, const char *file, int line);

#define check(condition)                                  \
    do {                                                  \
        if (UNLIKELY(!(condition))) {                     \
            check_failed(#condition, __FILE__, __LINE__); \
        }                                                 \
    } while (0)

#ifdef KVASIR_DEBUG
#define check_slow(condition) check(condition)
#else
#define check_slow(condition) \
    do {                      \
        if (0) {              \
            check(condition); \
        }                     \
    } while (0)
#endif

/* Closes every switch over an enum. */
#define unreachable() check_failed("unreachable", __FILE__, __LINE__)

/* A structure that travels through a void pointer carries a magic, set on init and cleared on
 * destroy, and is checked when it comes back. */
#define CHECK_MAGIC(object, value) check((object) != NULL && (object)->magic == (value))
