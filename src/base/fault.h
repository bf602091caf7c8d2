#pragma once
/* fault – named points where tests make a call fail. Always false unless KVASIR_FAULT is
 * defined (the test build). Arm and hit on one thread. */

#include <stdbool.h>
#include <stdint.h>

#ifdef KVASIR_FAULT
/* The after-th hit of the point from now on fails (1: the next), and count - 1 more after it. */
void fault_arm(const char *point, uint32_t after, uint32_t count);
/* Likewise of whichever points are hit: with after 1, 2, 3 … each of them fails in its turn. */
void fault_arm_any(uint32_t after, uint32_t count);
/* The point that failed last because of fault_arm_any; NULL: it has not come to that. */
const char *fault_failed(void);
/* While it is held nothing fails and no hit is counted: for what a test does for itself meanwhile. */
void fault_hold(bool held);
/* Holds no longer, either. */
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
