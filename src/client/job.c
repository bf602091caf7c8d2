#include "client/job.h"

#include "base/check.h"
#include "client/bounce.h"
#include "client/client_impl.h"
#include "client/establish.h"
#include "client/link.h"
#include "route/slot.h"

#include <stdlib.h>

struct slice job_key(const struct kvasir_item *item)
{
    return slice_of(item->key, item->key_length_bytes);
}

const struct iovec *job_own_segments(const struct kvasir_item *item, uint32_t *segment_count_p)
{
    if (item->segments != NULL) {
        *segment_count_p = item->segment_count;
        return item->segments;
    }
    *segment_count_p = 1;
    return &item->segment;
}

size_t job_payload_bytes(const struct kvasir_item *item)
{
    uint32_t count;
    const struct iovec *segments = job_own_segments(item, &count);
    return segment_total_bytes(segments, count);
}

const struct iovec *job_segments(const struct kvasir_request *request, uint32_t index,
                                 uint32_t *segment_count_p)
{
    const struct iovec *lanes = NULL;
    if (request->work[index].bounce != NULL) {
        lanes = bounce_segments(&request->work[index], segment_count_p);
    }
    return lanes != NULL ? lanes : job_own_segments(&request->items[index], segment_count_p);
}

static void append(struct kvasir_request *request, uint32_t index)
{
    struct job_queue *queue = &request->queues[request->work[index].link];
    request->work[index].next = JOB_NONE;
    if (queue->head == JOB_NONE) {
        queue->head = index;
    } else {
        request->work[queue->tail].next = index;
    }
    queue->tail = index;
}

static void finish(struct kvasir_request *request)
{
    check(!request->finished);
    request->finished = true;
    request->client->done_count++;
    if (request->call == JOB_MATCH) {
        size_t leading = 0;
        while (leading < request->item_count && request->items[leading].status == KVASIR_OK) {
            leading++;
        }
        request->match_count = leading;
        for (size_t i = leading; i < request->item_count; i++) {
            if (request->items[i].status == KVASIR_OK) {
                request->items[i].status = KVASIR_NOT_FOUND;
            }
        }
    }
    list_remove(&request->member);
    list_push_back(&request->client->finished, &request->member);
}

static void item_done(struct kvasir_request *request, uint32_t index, enum kvasir_status status)
{
    check(request->work[index].mode != JOB_DONE && request->left_count > 0);
    if (request->work[index].bounce != NULL && !bounce_leave(request, index, &status)) {
        return;
    }
    request->work[index].mode = JOB_DONE;
    request->items[index].status = status;
    request->left_count--;
    if (request->left_count == 0) {
        finish(request);
    }
}

void job_answer(struct kvasir_request *request, uint32_t index, enum kvasir_status status)
{
    struct kvasir_counters *counters = &request->client->counters;
    if (status == KVASIR_NOT_FOUND && request->call == JOB_GET) {
        counters->get_misses++;
    } else if (status != KVASIR_OK && status != KVASIR_EXISTS && status != KVASIR_NOT_FOUND &&
               status != KVASIR_TOO_SMALL) {
        counters->errors++;
    }
    item_done(request, index, status);
}

void job_copied(struct kvasir_request *request, uint32_t index, enum kvasir_status status)
{
    check(request->work[index].bounce == NULL);
    request->client->counters.errors += status != KVASIR_OK ? 1 : 0;
    item_done(request, index, status);
}

void job_fail(struct kvasir_request *request, uint32_t index, enum kvasir_status status)
{
    if (request->status == KVASIR_OK) {
        request->status = status;
    }
    if (status == KVASIR_TIMEOUT) {
        request->client->counters.timeouts++;
    } else if (status != KVASIR_CANCELLED) {
        request->client->counters.errors++;
    }
    item_done(request, index, status);
}

void job_requeue(struct kvasir_request *request, uint32_t index, enum job_mode mode)
{
    struct job_item *work = &request->work[index];
    check(work->mode != JOB_DONE);
    work->mode = (uint8_t)mode;
    if (mode != JOB_COMMIT) {
        append(request, index);
        return;
    }
    /* A commit frees staging memory that later items may be waiting for. */
    struct job_queue *queue = &request->queues[work->link];
    work->next = queue->head;
    if (queue->head == JOB_NONE) {
        queue->tail = index;
    }
    queue->head = index;
}

uint32_t job_take(struct kvasir_request *request, uint32_t link)
{
    struct job_queue *queue = &request->queues[link];
    uint32_t index = queue->head;
    check(index != JOB_NONE);
    queue->head = request->work[index].next;
    request->work[index].next = JOB_NONE;
    return index;
}

void job_fail_queue(struct kvasir_request *request, uint32_t link, enum kvasir_status status)
{
    while (request->queues[link].head != JOB_NONE) {
        uint32_t index = job_take(request, link);
        job_fail(request, index, status);
    }
}

void job_fail_all(struct kvasir_request *request, enum kvasir_status status)
{
    for (uint32_t link = 0; link < request->client->link_count; link++) {
        request->queues[link].head = JOB_NONE;
    }
    for (uint32_t i = 0; i < request->item_count; i++) {
        if (request->work[i].mode != JOB_DONE) {
            job_fail(request, i, status);
        }
    }
}

/* Items that can be answered without asking; true when this one was. */
static bool refuse_early(struct kvasir_request *request, uint32_t index)
{
    const struct kvasir_client *client = request->client;
    const struct kvasir_item *item = &request->items[index];
    if (item->key == NULL && item->key_length_bytes > 0) {
        job_answer(request, index, KVASIR_INVALID);
        return true;
    }
    if (client->info.key_bytes_max > 0 && item->key_length_bytes > client->info.key_bytes_max) {
        job_answer(request, index, KVASIR_TOO_LARGE);
        return true;
    }
    /* Sent anyway, a value this long would be read by the server only to be thrown away. */
    if (request->call == JOB_PUT && client->info.value_bytes_max > 0 &&
        job_payload_bytes(item) > client->info.value_bytes_max) {
        job_answer(request, index, KVASIR_TOO_LARGE);
        return true;
    }
    return false;
}

/* Payload that travels by sockets is spread over the reactors that own the keys, which move it side
 * by side. All else goes over one link: every reactor serves every key, and waking one that slept
 * costs more than its work (one key by shared memory, two reactors on two cores: 12 µs instead of
 * 42). */
static bool is_spread(const struct kvasir_request *request)
{
    const struct kvasir_client *client = request->client;
    bool payload = request->call == JOB_PUT || request->call == JOB_GET;
    return payload && request->item_count > 1 && !link_has_shm(client->links[client->home]);
}

static void route(struct kvasir_request *request)
{
    const struct kvasir_client *client = request->client;
    bool spread = is_spread(request);
    bool payload = request->call == JOB_PUT || request->call == JOB_GET;
    for (uint32_t i = 0; i < request->item_count; i++) {
        struct kvasir_item *item = &request->items[i];
        item->path = KVASIR_PATH_NONE;
        item->status = KVASIR_PENDING;
        if (request->call != JOB_PUT) {
            item->length_bytes = 0;
        }
        if (refuse_early(request, i) ||
            (client->bounces != NULL && payload && !bounce_mark(request, i))) {
            continue;
        }
        request->work[i].link =
            spread ? (uint16_t)slot_reactor(slot_of_key(job_key(item)), client->link_count)
                   : (uint16_t)client->home;
        append(request, i);
    }
}

static bool spec_is_valid(const struct job_spec *spec)
{
    if (spec->item_count > JOB_ITEMS_MAX || (spec->items == NULL && spec->item_count > 0)) {
        return false;
    }
    return spec->put == NULL ||
           ((unsigned)spec->put->value_class <= KVASIR_CLASS_ENCODER &&
            (spec->put->parent != NULL || spec->put->parent_length_bytes == 0));
}

enum kvasir_status job_create(struct kvasir_client *client, const struct job_spec *spec,
                              int64_t now_us, struct kvasir_request **request_p)
{
    if (!spec_is_valid(spec)) {
        client_explain(client, "the items or the options of the put are malformed");
        return KVASIR_INVALID;
    }
    if (client->request_count >= CLIENT_REQUESTS_MAX) {
        return KVASIR_AGAIN;
    }
    uint32_t timeout_ms = spec->timeout_ms > 0 ? spec->timeout_ms : client->options.timeout_ms;
    if (establish_is_due(client, now_us)) {
        uint32_t look_ms = client->options.connect_timeout_ms;
        look_ms = look_ms < timeout_ms / 2 ? look_ms : timeout_ms / 2;
        establish_look(client, now_us, now_us + (int64_t)look_ms * 1000);
    }
    size_t work_bytes = spec->item_count * sizeof(struct job_item);
    size_t queue_bytes = client->link_count * sizeof(struct job_queue);
    struct kvasir_request *request = malloc(sizeof *request + work_bytes + queue_bytes);
    if (request == NULL) {
        client_explain(client, "out of memory for a request of %zu items", spec->item_count);
        return KVASIR_NO_MEMORY;
    }
    memset(request, 0, sizeof *request + work_bytes);
    request->magic = JOB_MAGIC;
    request->call = spec->call;
    request->client = client;
    request->items = spec->items;
    request->item_count = spec->item_count;
    request->left_count = spec->item_count;
    request->pin_ms = spec->pin_ms;
    request->start_us = now_us;
    request->deadline_us = now_us + (int64_t)timeout_ms * 1000;
    request->user_data = spec->user_data;
    request->stats = spec->stats;
    request->views = spec->views;
    request->events = spec->events;
    request->since = spec->since;
    if (spec->put != NULL) {
        request->put = *spec->put;
    }
    request->work = (struct job_item *)(request + 1);
    request->queues = (struct job_queue *)(void *)((char *)(request + 1) + work_bytes);
    for (uint32_t i = 0; i < client->link_count; i++) {
        request->queues[i] = (struct job_queue){.head = JOB_NONE, .tail = JOB_NONE};
    }
    list_push_back(&client->requests, &request->member);
    client->request_count++;
    client->counters.calls++;
    *request_p = request;
    if (spec->item_count == 0) {
        finish(request);
    } else {
        route(request);
    }
    return KVASIR_OK;
}

void job_destroy(struct kvasir_request **request_p)
{
    struct kvasir_request *request = *request_p;
    check(request->magic == JOB_MAGIC && request->finished);
    list_remove(&request->member);
    request->client->request_count--;
    request->magic = 0;
    free(request);
    *request_p = NULL;
}
