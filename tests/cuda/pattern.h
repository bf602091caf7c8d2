#pragma once
/* pattern – memory of a CUDA device for tests, filled and looked at by the device itself, so that no copy
 * of the host's hides what a transfer did. One thread; owns nothing. */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many devices there are; 0: none, or no driver, and *reason_p says why. */
int pattern_devices(const char **reason_p);
/* NULL: the device has no such memory. */
void *pattern_alloc(int device, size_t bytes);
void pattern_free(void *memory);
/* Each byte by its place and the seed; done when it returns. False: the device failed. */
int pattern_fill(void *memory, size_t bytes, unsigned seed);
/* How many bytes are others; all of them where the device failed. */
size_t pattern_differences(const void *memory, size_t bytes, unsigned seed);

#ifdef __cplusplus
}
#endif
