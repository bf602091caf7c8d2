#pragma once
/* loop – one reactor's event loop: descriptors, timers, one turn at a time. The variant behind it is
 * loop_event.c (libevent). One thread, but for loop_create, which main may call for it. Owns its
 * watches; borrows descriptors, which must be unwatched before they are closed. */

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_watch;
struct loop_timer;

#define LOOP_READ  1U
#define LOOP_WRITE 2U

typedef void loop_ready_fn(void *argument, unsigned events);
typedef void loop_timer_fn(void *argument);

/* NULL when the system gives no event base. */
struct loop *loop_create(void);
void loop_destroy(struct loop **loop_p);

/* Level-triggered: ready is called in each turn in which the descriptor is ready for one of events,
 * until it is drained or loop_interest says otherwise. NULL when out of memory or descriptors. */
struct loop_watch *loop_watch(struct loop *loop, int descriptor, unsigned events,
                              loop_ready_fn *ready, void *argument);
/* Changes what is waited for; cheap when nothing changes. */
void loop_interest(struct loop_watch *watch, unsigned events);
void loop_unwatch(struct loop_watch **watch_p);

/* Calls due every period_ms until unset. NULL when out of memory. */
struct loop_timer *loop_timer(struct loop *loop, uint32_t period_ms, loop_timer_fn *due,
                              void *argument);
void loop_timer_unset(struct loop_timer **timer_p);

/* One turn: waits for something unless wait is false, and runs what is ready. */
void loop_turn(struct loop *loop, bool wait);
