#pragma once
/* fault – named points where tests make a call fail. Always false unless KVASIR_FAULT is
 * defined (the test build). Arm and hit on one thread. */

#include <stdbool.h>
#include <stdint.h>

#ifdef KVASIR_FAULT
/* The after-th hit of the point from now on fails (1: the next), and count - 1 more after it. */
void fault_arm(const char *point, uint32_t after, uint32_t count);
void fault_disarm_all(void);
bool fault_hit(const char *point);
#else
/* A function and not a constant, so that compilers do not call the failing branch dead code. */
static inline bool fault_hit(const char *point)
{
    (void)point;
    return false;
}
#endif
