#include "net/loop.h"

#include "base/check.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <sys/time.h>

struct loop {
    struct event_base *base; /* owned */
};

struct loop_watch {
    struct event read_event;
    struct event write_event;
    unsigned events; /* what is added */
    loop_ready_fn *ready;
    void *argument; /* borrowed by contract of loop_watch */
};

struct loop_timer {
    struct event *event; /* owned */
    loop_timer_fn *due;
    void *argument;
};

struct loop *loop_create(void)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    struct event_config *config = event_config_new();
    if (loop == NULL || config == NULL) {
        goto fail;
    }
    /* One thread, which tells the time by itself. No list of changes (EPOLL_USE_CHANGELIST): what it
     * puts off would reach the kernel after the descriptor was closed, and is another's by then. */
    (void)event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    (void)event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME);
    loop->base = event_base_new_with_config(config);
    if (loop->base == NULL) {
        goto fail;
    }
    event_config_free(config);
    return loop;
fail:
    if (config != NULL) {
        event_config_free(config);
    }
    free(loop);
    return NULL;
}

void loop_destroy(struct loop **loop_p)
{
    struct loop *loop = *loop_p;
    if (loop == NULL) {
        return;
    }
    event_base_free(loop->base);
    free(loop);
    *loop_p = NULL;
}

static void on_ready(evutil_socket_t descriptor, short events, void *argument)
{
    struct loop_watch *watch = argument;
    (void)descriptor;
    watch->ready(watch->argument, (events & EV_READ) != 0 ? LOOP_READ : LOOP_WRITE);
}

static bool interest_in(struct loop_watch *watch, unsigned events, unsigned which,
                        struct event *event)
{
    if (((watch->events ^ events) & which) == 0) {
        return true;
    }
    if ((events & which) == 0) {
        (void)event_del(event);
        watch->events &= ~which;
        return true;
    }
    if (event_add(event, NULL) != 0) {
        return false;
    }
    watch->events |= which;
    return true;
}

void loop_interest(struct loop_watch *watch, unsigned events)
{
    (void)interest_in(watch, events, LOOP_READ, &watch->read_event);
    (void)interest_in(watch, events, LOOP_WRITE, &watch->write_event);
}

struct loop_watch *loop_watch(struct loop *loop, int descriptor, unsigned events,
                              loop_ready_fn *ready, void *argument)
{
    struct loop_watch *watch = calloc(1, sizeof(*watch));
    if (watch == NULL) {
        return NULL;
    }
    watch->ready = ready;
    watch->argument = argument;
    if (event_assign(&watch->read_event, loop->base, descriptor, EV_READ | EV_PERSIST, on_ready,
                     watch) != 0 ||
        event_assign(&watch->write_event, loop->base, descriptor, EV_WRITE | EV_PERSIST, on_ready,
                     watch) != 0 ||
        !interest_in(watch, events, LOOP_READ, &watch->read_event) ||
        !interest_in(watch, events, LOOP_WRITE, &watch->write_event)) {
        loop_unwatch(&watch);
        return NULL;
    }
    return watch;
}

void loop_unwatch(struct loop_watch **watch_p)
{
    struct loop_watch *watch = *watch_p;
    if (watch == NULL) {
        return;
    }
    loop_interest(watch, 0);
    free(watch);
    *watch_p = NULL;
}

static void on_due(evutil_socket_t descriptor, short events, void *argument)
{
    struct loop_timer *timer = argument;
    (void)descriptor;
    (void)events;
    timer->due(timer->argument);
}

struct loop_timer *loop_timer(struct loop *loop, uint32_t period_ms, loop_timer_fn *due,
                              void *argument)
{
    struct timeval period = {.tv_sec = period_ms / 1000, .tv_usec = (period_ms % 1000) * 1000L};
    struct loop_timer *timer = calloc(1, sizeof(*timer));
    if (timer == NULL) {
        return NULL;
    }
    timer->due = due;
    timer->argument = argument;
    timer->event = event_new(loop->base, -1, EV_PERSIST, on_due, timer);
    if (timer->event == NULL || event_add(timer->event, &period) != 0) {
        if (timer->event != NULL) {
            event_free(timer->event);
        }
        free(timer);
        return NULL;
    }
    return timer;
}

void loop_timer_unset(struct loop_timer **timer_p)
{
    struct loop_timer *timer = *timer_p;
    if (timer == NULL) {
        return;
    }
    event_free(timer->event);
    free(timer);
    *timer_p = NULL;
}

void loop_turn(struct loop *loop, bool wait)
{
    int result = event_base_loop(loop->base, EVLOOP_ONCE | (wait ? 0 : EVLOOP_NONBLOCK));
    check(result >= 0);
}
