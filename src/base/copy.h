#pragma once
/* copy – every user-space copy of payload bytes in the project goes through here, so that a test
 * can count them, and large ones bypass the cache. Any thread; owns nothing. */

#include <stddef.h>
#include <stdint.h>

/* From this length on non-temporal stores are used: they save reading the destination's lines and
 * spare the cache (measured by bench/memcpy; about twice the speed on the machines tried). */
#define COPY_STREAM_BYTES_MIN (256U << 10)

/* Copies length bytes; the areas do not overlap. Ends with a store fence when it streamed, so that a
 * flag written afterwards is seen after the bytes. */
void copy_payload(void *to, const void *from, size_t length_bytes);

/* Bytes that copy_payload has moved in the calling thread since it started. */
uint64_t copy_payload_bytes(void);
