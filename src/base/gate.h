#pragma once
/* gate – lets one of several cores at a time work on something for a moment, such as a shard. The
 * owner waits for it (others are inside only for a bounded burst of work); everybody else only tries,
 * and sends the owner a message when the gate is taken. Embedded, best where no other core writes beside it.
 *
 * Why not messages alone: a hop to another reactor and back costs two wake-ups, about 8 µs of
 * processor time where the work itself takes 0.2; with the gate two reactors on two cores serve as
 * much as one and more, with messages alone .6 to .7 of it (bench/small.sh). */

#include "base/compiler.h"

#include <stdbool.h>

struct gate {
    _Atomic unsigned taken;
};

void gate_init(struct gate *gate);
/* True: the caller is inside and must leave soon. */
ATTR_MUST_USE bool gate_try(struct gate *gate);
/* Waits: spins for a moment, then yields the core until it is free. */
void gate_enter(struct gate *gate);
void gate_leave(struct gate *gate);
