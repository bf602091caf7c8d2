#include "base/check.h"
#include "base/clock.h"
#include "client/client_impl.h"
#include "client/engine.h"
#include "client/pipeline.h"

static enum job_call call_of(enum kvasir_call call, bool *known_p)
{
    *known_p = true;
    switch (call) {
    case KVASIR_CALL_PUT:
        return JOB_PUT;
    case KVASIR_CALL_GET:
        return JOB_GET;
    case KVASIR_CALL_EXISTS:
        return JOB_EXISTS;
    case KVASIR_CALL_DELETE:
        return JOB_DELETE;
    case KVASIR_CALL_MATCH:
        return JOB_MATCH;
    }
    *known_p = false;
    return JOB_GET;
}

enum kvasir_status kvasir_submit(struct kvasir_client *client, enum kvasir_call call,
                                 struct kvasir_item *items, size_t item_count,
                                 const struct kvasir_submit_options *options,
                                 struct kvasir_request **request_p)
{
    bool known;
    struct job_spec spec = {.call = call_of(call, &known), .items = items};
    if (!client_is_usable(client) || !known) {
        return KVASIR_INVALID;
    }
    spec.item_count = item_count;
    if (options != NULL) {
        spec.put = options->put;
        spec.pin_ms = options->pin_ms;
        spec.timeout_ms = options->timeout_ms;
        spec.user_data = options->user_data;
    }
    struct kvasir_request *request;
    enum kvasir_status status = job_create(client, &spec, clock_mono_us(), &request);
    if (status != KVASIR_OK) {
        return status;
    }
    request->submitted = true;
    /* Sent now, so that the server works while the caller does something else. */
    engine_turn(client, 0);
    *request_p = request;
    return KVASIR_PENDING;
}

static struct kvasir_request *take_finished(struct kvasir_client *client)
{
    list_foreach (member, &client->finished) {
        struct kvasir_request *request = list_entry(member, struct kvasir_request, member);
        if (request->submitted) {
            list_remove(member);
            return request;
        }
    }
    return NULL;
}

static void release_when_idle(struct kvasir_client *client)
{
    int64_t now_us = clock_mono_us();
    for (uint32_t i = 0; i < client->link_count; i++) {
        if (client->links[i]->state == LINK_UP && client->links[i]->release_count > 0) {
            pipeline_release(client->links[i]);
            link_flush(client->links[i], now_us);
        }
    }
}

enum kvasir_status kvasir_poll(struct kvasir_client *client, int timeout_ms,
                               struct kvasir_request **request_p)
{
    if (!client_is_usable(client)) {
        return KVASIR_INVALID;
    }
    int64_t deadline_us = timeout_ms < 0 ? INT64_MAX : clock_mono_us() + (int64_t)timeout_ms * 1000;
    bool looked = false;
    for (;;) {
        struct kvasir_request *request = take_finished(client);
        if (request != NULL) {
            *request_p = request;
            return KVASIR_OK;
        }
        if (list_empty(&client->requests)) {
            release_when_idle(client);
            return KVASIR_NOT_FOUND;
        }
        if (looked && clock_mono_us() >= deadline_us) {
            return KVASIR_AGAIN;
        }
        engine_turn(client, deadline_us);
        looked = true;
    }
}

enum kvasir_status kvasir_request_status(const struct kvasir_request *request)
{
    return request->finished ? request->status : KVASIR_PENDING;
}

void *kvasir_request_user_data(const struct kvasir_request *request)
{
    return request->user_data;
}

size_t kvasir_request_match_count(const struct kvasir_request *request)
{
    return request->match_count;
}

void kvasir_request_free(struct kvasir_client *client, struct kvasir_request **request_p)
{
    if (request_p == NULL || *request_p == NULL) {
        return;
    }
    struct kvasir_request *request = *request_p;
    CHECK_MAGIC(request, JOB_MAGIC);
    check(request->client == client);
    if (!request->finished) {
        engine_withdraw(client, request, KVASIR_CANCELLED);
    }
    job_destroy(request_p);
}
