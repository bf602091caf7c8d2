#include "base/gate.h"

#include <sched.h>
#include <stdatomic.h>

/* Tries before the core is yielded: about as long as a burst of work takes. */
#define SPINS_MAX 200

void gate_init(struct gate *gate)
{
    atomic_init(&gate->taken, 0);
}

bool gate_try(struct gate *gate)
{
    return atomic_load_explicit(&gate->taken, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&gate->taken, 1, memory_order_acquire) == 0;
}

void gate_enter(struct gate *gate)
{
    for (unsigned spins = 0; !gate_try(gate); spins++) {
        if (spins < SPINS_MAX) {
            CPU_RELAX();
        } else {
            (void)sched_yield();
        }
    }
}

void gate_leave(struct gate *gate)
{
    atomic_store_explicit(&gate->taken, 0, memory_order_release);
}
