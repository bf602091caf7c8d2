#include "base/check.h"
#include "base/clock.h"
#include "client/client_impl.h"
#include "client/engine.h"
#include "client/event_list.h"

#include <stdlib.h>

#define SUBSCRIPTION_MAGIC 0x4b564556U
/* Events of one poll. */
#define SUBSCRIPTION_EVENTS_DEFAULT 1000U
#define SUBSCRIPTION_EVENTS_MAX     10000U

struct kvasir_events {
    uint32_t magic;
    struct kvasir_client *client; /* borrowed; not looked at when the subscription is closed */
    uint64_t since;               /* the number that is reached */
    struct event_list *list;      /* owned */
};

/* Asks once; the list has the answer, or behind which number to go on after KVASIR_OVERRUN. */
static enum kvasir_status ask(struct kvasir_events *events, uint64_t since, uint32_t timeout_ms)
{
    struct kvasir_client *client = events->client;
    struct kvasir_item item = {0};
    struct job_spec spec = {.call = JOB_EVENTS,
                            .items = &item,
                            .item_count = 1,
                            .timeout_ms = timeout_ms,
                            .since = since,
                            .events = events->list};
    struct kvasir_request *request;
    if (!client_is_usable(client)) {
        return KVASIR_INVALID;
    }
    enum kvasir_status status = job_create(client, &spec, clock_mono_us(), &request);
    if (status != KVASIR_OK) {
        return status == KVASIR_AGAIN ? KVASIR_BUSY : status;
    }
    engine_run(client, request);
    status = request->status != KVASIR_OK ? request->status : item.status;
    job_destroy(&request);
    if (status == KVASIR_OK || status == KVASIR_OVERRUN) {
        events->since = event_list_next(events->list);
    }
    return status;
}

enum kvasir_status kvasir_events_open(struct kvasir_client *client, uint64_t since,
                                      uint32_t count_max, uint32_t timeout_ms,
                                      struct kvasir_events **events_p)
{
    if (!client_is_usable(client)) {
        return KVASIR_INVALID;
    }
    if (count_max > SUBSCRIPTION_EVENTS_MAX || (since > INT64_MAX && since != KVASIR_EVENTS_NOW)) {
        client_explain(client, "events: up to %u at once, and a number that was an event's",
                       SUBSCRIPTION_EVENTS_MAX);
        return KVASIR_INVALID;
    }
    struct kvasir_events *events = calloc(1, sizeof *events);
    if (events != NULL) {
        events->list = event_list_create(count_max > 0 ? count_max : SUBSCRIPTION_EVENTS_DEFAULT);
    }
    if (events == NULL || events->list == NULL) {
        free(events);
        client_explain(client, "out of memory for events");
        return KVASIR_NO_MEMORY;
    }
    events->magic = SUBSCRIPTION_MAGIC;
    events->client = client;
    events->since = since;
    /* "From now on" is a number that only the server knows. */
    enum kvasir_status status =
        since == KVASIR_EVENTS_NOW ? ask(events, since, timeout_ms) : KVASIR_OK;
    if (status != KVASIR_OK) {
        kvasir_events_close(&events);
        return status;
    }
    *events_p = events;
    return KVASIR_OK;
}

enum kvasir_status kvasir_events_poll(struct kvasir_events *events, uint32_t timeout_ms,
                                      const struct kvasir_key_event **list_p, size_t *count_p)
{
    CHECK_MAGIC(events, SUBSCRIPTION_MAGIC);
    enum kvasir_status status = ask(events, events->since, timeout_ms);
    if (status == KVASIR_OK) {
        *list_p = event_list_events(events->list, count_p);
    }
    /* Where the loss ends is where the next one begins while events go on coming. Who learns anew what is
     * there needs nothing from before that; when this fails, he goes on at the loss's end. */
    if (status == KVASIR_OVERRUN && ask(events, KVASIR_EVENTS_NOW, timeout_ms) != KVASIR_OK) {
        client_explain(events->client, "events were lost");
    }
    return status;
}

uint64_t kvasir_events_number(const struct kvasir_events *events)
{
    return events->since;
}

void kvasir_events_close(struct kvasir_events **events_p)
{
    if (events_p == NULL || *events_p == NULL) {
        return;
    }
    struct kvasir_events *events = *events_p;
    CHECK_MAGIC(events, SUBSCRIPTION_MAGIC);
    event_list_destroy(&events->list);
    events->magic = 0;
    free(events);
    *events_p = NULL;
}
