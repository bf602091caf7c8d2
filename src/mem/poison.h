#pragma once
/* poison – marks memory that nobody holds, so that AddressSanitizer reports whoever touches it; does
 * nothing in other builds. For the files of this layer only. Any thread; owns nothing. */

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISON_ACTIVE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON_ACTIVE 1
#endif
#endif

#ifdef POISON_ACTIVE
#include <sanitizer/asan_interface.h>
#endif

static inline void poison_set(const volatile void *address, size_t length_bytes)
{
#ifdef POISON_ACTIVE
    ASAN_POISON_MEMORY_REGION(address, length_bytes);
#else
    (void)address;
    (void)length_bytes;
#endif
}

static inline void poison_clear(const volatile void *address, size_t length_bytes)
{
#ifdef POISON_ACTIVE
    ASAN_UNPOISON_MEMORY_REGION(address, length_bytes);
#else
    (void)address;
    (void)length_bytes;
#endif
}
