#include "base/fault.h"

#ifdef KVASIR_FAULT

#include "base/check.h"
#include "base/compiler.h"

#include <string.h>

/* More points than one test arms. */
#define POINT_COUNT_MAX 16

struct fault {
    const char *point; /* borrowed from the caller: a literal; NULL: whichever is hit */
    uint32_t after;
    uint32_t count;
};

/* Points are armed and hit on one thread; a thread of its own that a test runs beside never sees
 * them. Exists in test builds only. */
static _Thread_local struct fault faults[POINT_COUNT_MAX];
static _Thread_local uint32_t fault_count;
static _Thread_local const char *failed_point;
static _Thread_local bool is_held;

static void fault_add(const char *point, uint32_t after, uint32_t count)
{
    check(after > 0 && count > 0);
    check(fault_count < POINT_COUNT_MAX);
    faults[fault_count++] = (struct fault){.point = point, .after = after, .count = count};
}

void fault_arm(const char *point, uint32_t after, uint32_t count)
{
    check(point != NULL);
    fault_add(point, after, count);
}

void fault_arm_any(uint32_t after, uint32_t count)
{
    failed_point = NULL;
    fault_add(NULL, after, count);
}

const char *fault_failed(void)
{
    return failed_point;
}

void fault_hold(bool held)
{
    is_held = held;
}

void fault_disarm_all(void)
{
    fault_count = 0;
    is_held = false;
}

bool fault_hit(const char *point)
{
    bool fails = false;
    for (uint32_t i = 0; i < fault_count && !is_held; i++) {
        struct fault *fault = &faults[i];
        if (fault->point != NULL && strcmp(fault->point, point) != 0) {
            continue;
        }
        if (fault->after > 1) {
            fault->after--;
        } else if (fault->count > 0) {
            fault->count--;
            fails = true;
            failed_point = fault->point == NULL ? point : failed_point;
        }
    }
    return fails;
}

#endif
