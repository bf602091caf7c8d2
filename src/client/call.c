#include "base/check.h"
#include "base/clock.h"
#include "client/client_impl.h"
#include "client/engine.h"

#include <string.h>

/* Submits, drives the engine until done, and returns the batch's status. */
static enum kvasir_status run(struct kvasir_client *client, const struct job_spec *spec,
                              size_t *match_count_p)
{
    if (!client_is_usable(client)) {
        return KVASIR_INVALID;
    }
    struct kvasir_request *request;
    enum kvasir_status status = job_create(client, spec, clock_mono_us(), &request);
    if (status != KVASIR_OK) {
        return status == KVASIR_AGAIN ? KVASIR_BUSY : status;
    }
    engine_run(client, request);
    status = request->status;
    if (match_count_p != NULL && status == KVASIR_OK) {
        *match_count_p = request->match_count;
    }
    job_destroy(&request);
    return status;
}

static enum kvasir_status run_one(struct kvasir_client *client, struct job_spec *spec)
{
    spec->item_count = 1;
    enum kvasir_status status = run(client, spec, NULL);
    return status != KVASIR_OK ? status : spec->items->status;
}

enum kvasir_status kvasir_put(struct kvasir_client *client, const void *key,
                              size_t key_length_bytes, const void *data, size_t length_bytes,
                              const struct kvasir_put_options *options, uint32_t timeout_ms)
{
    if (data == NULL && length_bytes > 0) {
        return KVASIR_INVALID;
    }
    struct kvasir_item item = {
        .key = key,
        .key_length_bytes = key_length_bytes,
        .segment = {.iov_base = segment_base(data), .iov_len = length_bytes}};
    struct job_spec spec = {
        .call = JOB_PUT, .items = &item, .put = options, .timeout_ms = timeout_ms};
    return run_one(client, &spec);
}

enum kvasir_status kvasir_put_batch(struct kvasir_client *client, struct kvasir_item *items,
                                    size_t item_count, const struct kvasir_put_options *options,
                                    uint32_t timeout_ms)
{
    struct job_spec spec = {.call = JOB_PUT,
                            .items = items,
                            .item_count = item_count,
                            .put = options,
                            .timeout_ms = timeout_ms};
    return run(client, &spec, NULL);
}

enum kvasir_status kvasir_get(struct kvasir_client *client, const void *key,
                              size_t key_length_bytes, void *buffer, size_t capacity_bytes,
                              size_t *length_bytes_p, uint32_t timeout_ms)
{
    if (buffer == NULL && capacity_bytes > 0) {
        return KVASIR_INVALID;
    }
    struct kvasir_item item = {.key = key,
                               .key_length_bytes = key_length_bytes,
                               .segment = {.iov_base = buffer, .iov_len = capacity_bytes}};
    struct job_spec spec = {.call = JOB_GET, .items = &item, .timeout_ms = timeout_ms};
    enum kvasir_status status = run_one(client, &spec);
    if (length_bytes_p != NULL && (status == KVASIR_OK || status == KVASIR_TOO_SMALL)) {
        *length_bytes_p = item.length_bytes;
    }
    return status;
}

enum kvasir_status kvasir_get_batch(struct kvasir_client *client, struct kvasir_item *items,
                                    size_t item_count, uint32_t timeout_ms)
{
    struct job_spec spec = {
        .call = JOB_GET, .items = items, .item_count = item_count, .timeout_ms = timeout_ms};
    return run(client, &spec, NULL);
}

static void explain_unsupported(struct kvasir_client *client, enum kvasir_status status)
{
    if (status == KVASIR_UNSUPPORTED && client_is_usable(client)) {
        client_explain(client, "views need shared memory: %s",
                       client->shm_reason[0] != '\0' ? client->shm_reason
                                                     : "the server refused the lease");
    }
}

enum kvasir_status kvasir_get_view(struct kvasir_client *client, const void *key,
                                   size_t key_length_bytes, struct kvasir_view **view_p,
                                   uint32_t timeout_ms)
{
    struct kvasir_item item = {.key = key, .key_length_bytes = key_length_bytes};
    struct kvasir_view *view = NULL;
    struct job_spec spec = {
        .call = JOB_VIEW, .items = &item, .timeout_ms = timeout_ms, .views = &view};
    enum kvasir_status status = run_one(client, &spec);
    explain_unsupported(client, status);
    if (status == KVASIR_OK) {
        *view_p = view;
    }
    return status;
}

enum kvasir_status kvasir_get_view_batch(struct kvasir_client *client, struct kvasir_item *items,
                                         size_t item_count, struct kvasir_view **views,
                                         uint32_t timeout_ms)
{
    struct job_spec spec = {.call = JOB_VIEW,
                            .items = items,
                            .item_count = item_count,
                            .timeout_ms = timeout_ms,
                            .views = views};
    if (views == NULL && item_count > 0) {
        return KVASIR_INVALID;
    }
    /* So that the caller may release all of them whatever happened. */
    for (size_t i = 0; i < item_count; i++) {
        views[i] = NULL;
    }
    enum kvasir_status status = run(client, &spec, NULL);
    if (status == KVASIR_OK && item_count > 0) {
        explain_unsupported(client, items[0].status);
    }
    return status;
}

enum kvasir_status kvasir_exists(struct kvasir_client *client, const void *key,
                                 size_t key_length_bytes, uint32_t timeout_ms)
{
    struct kvasir_item item = {.key = key, .key_length_bytes = key_length_bytes};
    struct job_spec spec = {.call = JOB_EXISTS, .items = &item, .timeout_ms = timeout_ms};
    return run_one(client, &spec);
}

enum kvasir_status kvasir_exists_batch(struct kvasir_client *client, struct kvasir_item *items,
                                       size_t item_count, uint32_t timeout_ms)
{
    struct job_spec spec = {
        .call = JOB_EXISTS, .items = items, .item_count = item_count, .timeout_ms = timeout_ms};
    return run(client, &spec, NULL);
}

enum kvasir_status kvasir_match(struct kvasir_client *client, struct kvasir_item *items,
                                size_t item_count, uint32_t pin_ms, size_t *match_count_p,
                                uint32_t timeout_ms)
{
    struct job_spec spec = {.call = JOB_MATCH,
                            .items = items,
                            .item_count = item_count,
                            .pin_ms = pin_ms,
                            .timeout_ms = timeout_ms};
    return run(client, &spec, match_count_p);
}

enum kvasir_status kvasir_delete(struct kvasir_client *client, const void *key,
                                 size_t key_length_bytes, uint32_t timeout_ms)
{
    struct kvasir_item item = {.key = key, .key_length_bytes = key_length_bytes};
    struct job_spec spec = {.call = JOB_DELETE, .items = &item, .timeout_ms = timeout_ms};
    return run_one(client, &spec);
}

enum kvasir_status kvasir_delete_batch(struct kvasir_client *client, struct kvasir_item *items,
                                       size_t item_count, uint32_t timeout_ms)
{
    struct job_spec spec = {
        .call = JOB_DELETE, .items = items, .item_count = item_count, .timeout_ms = timeout_ms};
    return run(client, &spec, NULL);
}

enum kvasir_status kvasir_stat(struct kvasir_client *client, const void *key,
                               size_t key_length_bytes, struct kvasir_stat *stat_p,
                               uint32_t timeout_ms)
{
    struct kvasir_item item = {.key = key, .key_length_bytes = key_length_bytes};
    struct kvasir_stat stat = {0};
    struct job_spec spec = {
        .call = JOB_STAT, .items = &item, .timeout_ms = timeout_ms, .stats = &stat};
    enum kvasir_status status = run_one(client, &spec);
    if (status == KVASIR_OK) {
        *stat_p = stat;
    }
    return status;
}

enum kvasir_status kvasir_stat_batch(struct kvasir_client *client, struct kvasir_item *items,
                                     size_t item_count, struct kvasir_stat *stats,
                                     uint32_t timeout_ms)
{
    if (stats == NULL && item_count > 0) {
        return KVASIR_INVALID;
    }
    struct job_spec spec = {.call = JOB_STAT,
                            .items = items,
                            .item_count = item_count,
                            .timeout_ms = timeout_ms,
                            .stats = stats};
    return run(client, &spec, NULL);
}
