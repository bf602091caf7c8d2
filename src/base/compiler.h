#pragma once
/* compiler – the compiler attributes the project uses, each behind one name. Any thread. */

#define ATTR_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define ATTR_NORETURN            __attribute__((noreturn))
#define ATTR_COLD                __attribute__((cold))
#define ATTR_MUST_USE            __attribute__((warn_unused_result))
#define ATTR_ALIGNED(bytes)      __attribute__((aligned(bytes)))
#define ATTR_UNUSED              __attribute__((unused))
#define ATTR_FALLTHROUGH         __attribute__((fallthrough))
#define LIKELY(x)                __builtin_expect(!!(x), 1)
#define UNLIKELY(x)              __builtin_expect(!!(x), 0)

/* Tells the core that this is a loop that waits. */
#if defined(__x86_64__)
#define CPU_RELAX() __builtin_ia32_pause()
#else
#define CPU_RELAX() ((void)0)
#endif

#define CACHE_LINE_BYTES 64

#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))
