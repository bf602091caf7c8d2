#include "client/client_impl.h"

#include "base/check.h"
#include "base/clock.h"
#include "client/bounce.h"
#include "client/engine.h"
#include "client/establish.h"
#include "client/pipeline.h"
#include "client/view.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longer names and passwords do not fit the greeting's room in the outbox. */
#define CLIENT_TEXT_BYTES_MAX 4096U
/* A lane; and more than anybody pins. */
#define CLIENT_BOUNCE_BYTES_MIN ((size_t)1 << 20)
#define CLIENT_BOUNCE_BYTES_MAX ((size_t)64 << 30)

/* ---- what the other files need ------------------------------------------------------------- */

void client_explain(struct kvasir_client *client, const char *form, ...)
{
    va_list arguments;
    va_start(arguments, form);
    (void)vsnprintf(client->error, sizeof client->error, form, arguments);
    va_end(arguments);
}

void client_explain_shm(struct kvasir_client *client, const char *form, ...)
{
    va_list arguments;
    va_start(arguments, form);
    (void)vsnprintf(client->shm_reason, sizeof client->shm_reason, form, arguments);
    va_end(arguments);
}

void client_explain_rdma(struct kvasir_client *client, const char *form, ...)
{
    va_list arguments;
    va_start(arguments, form);
    (void)vsnprintf(client->rdma_reason, sizeof client->rdma_reason, form, arguments);
    va_end(arguments);
}

void client_back_off(struct kvasir_client *client, int64_t now_us)
{
    const struct kvasir_options *options = &client->options;
    uint32_t next = client->backoff_ms == 0 ? options->backoff_min_ms : client->backoff_ms * 2;
    client->backoff_ms = next < options->backoff_max_ms ? next : options->backoff_max_ms;
    /* Between half and all of it, so that many clients do not come back together. */
    uint64_t half_us = (uint64_t)client->backoff_ms * 500;
    client->retry_at_us = now_us + (int64_t)(half_us + random_below(&client->random, half_us + 1));
}

bool client_is_usable(const struct kvasir_client *client)
{
    return client != NULL && client->magic == CLIENT_MAGIC && client->process == getpid();
}

void client_count_payload(struct kvasir_client *client, struct kvasir_item *item, bool put,
                          enum kvasir_path path, size_t length_bytes)
{
    struct kvasir_counters *counters = &client->counters;
    item->path = path;
    client->last_path = path;
    if (put) {
        counters->put_items++;
        counters->put_bytes += length_bytes;
    } else {
        counters->get_hits++;
        counters->get_bytes += length_bytes;
    }
    if (path == KVASIR_PATH_RDMA_CLIENT) {
        counters->rdma_client_bytes += length_bytes;
    } else if (path == KVASIR_PATH_RDMA) {
        counters->rdma_bytes += length_bytes;
    } else if (path == KVASIR_PATH_SHM) {
        counters->shm_bytes += length_bytes;
    } else if (path == KVASIR_PATH_UNIX) {
        counters->unix_bytes += length_bytes;
    } else {
        counters->tcp_bytes += length_bytes;
    }
}

/* ---- options ------------------------------------------------------------------------------- */

void kvasir_options_init(struct kvasir_options *options)
{
    *options = (struct kvasir_options){.struct_size = sizeof *options,
                                       .timeout_ms = 5000,
                                       .connect_timeout_ms = 1000,
                                       .backoff_min_ms = 50,
                                       .backoff_max_ms = 2000,
                                       .shm = true,
                                       .staging_bytes = 32U << 20,
                                       .rdma = true,
                                       .rdma_gid_index = -1,
                                       .bounce_bytes = 128U << 20,
                                       .lease_ms = 30000};
}

static const char *refuse_options(const struct kvasir_options *options)
{
    if (options == NULL || options->struct_size != sizeof *options) {
        return "the options were not set up by kvasir_options_init of this library version";
    }
    if (options->timeout_ms == 0 || options->connect_timeout_ms == 0 ||
        options->backoff_min_ms == 0 || options->lease_ms == 0) {
        return "timeouts, back-off and lease must not be 0";
    }
    if ((unsigned)options->rdma_mode > KVASIR_RDMA_CLIENT) {
        return "rdma_mode is neither KVASIR_RDMA_SERVER nor KVASIR_RDMA_CLIENT";
    }
    if (options->bounce_bytes < CLIENT_BOUNCE_BYTES_MIN ||
        options->bounce_bytes > CLIENT_BOUNCE_BYTES_MAX) {
        return "bounce_bytes is less than 1 MiB or more than 64 GiB";
    }
    const char *const texts[] = {options->user,        options->password,    options->name,
                                 options->rdma_module, options->rdma_device, options->cuda_module};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        if (texts[i] != NULL && strlen(texts[i]) > CLIENT_TEXT_BYTES_MAX) {
            return "user, password, name, module or device is too long";
        }
    }
    return NULL;
}

/* The options' texts belong to the caller, who may change them after connecting. */
static bool own_texts(struct kvasir_client *client)
{
    struct kvasir_options *options = &client->options;
    const char **const texts[] = {
        &options->address,     &options->user,        &options->password,   &options->name,
        &options->rdma_module, &options->rdma_device, &options->cuda_module};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        if (*texts[i] == NULL) {
            continue;
        }
        client->texts[i] = strdup(*texts[i]);
        if (client->texts[i] == NULL) {
            return false;
        }
        *texts[i] = client->texts[i];
    }
    return true;
}

/* ---- making and ending --------------------------------------------------------------------- */

static void destroy(struct kvasir_client *client)
{
    for (uint32_t i = 0; i < GREETING_REACTORS_MAX; i++) {
        link_destroy(&client->links[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(client->texts); i++) {
        free(client->texts[i]);
    }
    remote_memory_close(&client->memory);
    rdma_move_free_all(client);
    bounce_destroy(&client->bounces);
    free(client->regions);
    client->magic = 0;
    free(client);
}

static struct kvasir_client *create(const struct kvasir_options *options)
{
    struct kvasir_client *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return NULL;
    }
    client->magic = CLIENT_MAGIC;
    client->process = getpid();
    client->options = *options;
    list_init(&client->requests);
    list_init(&client->finished);
    list_init(&client->views);
    list_init(&client->moves);
    /* Jitter only: another value in every process and client is all it takes. */
    random_init(&client->random, (uint64_t)clock_mono_us() ^ (uint64_t)client->process << 40);
    client->regions = calloc(1, sizeof *client->regions);
    if (client->regions == NULL || !own_texts(client)) {
        destroy(client);
        return NULL;
    }
    return client;
}

/* ---- connecting ---------------------------------------------------------------------------- */

static void write_error(char *error, size_t capacity, const char *text)
{
    if (error != NULL && capacity > 0) {
        size_t length = strlen(text) < capacity - 1 ? strlen(text) : capacity - 1;
        memcpy(error, text, length);
        error[length] = '\0';
    }
}

enum kvasir_status kvasir_connect(const struct kvasir_options *options, char *error,
                                  size_t error_capacity, struct kvasir_client **client_p)
{
    const char *reason = refuse_options(options);
    if (reason != NULL) {
        write_error(error, error_capacity, reason);
        return KVASIR_INVALID;
    }
    struct endpoint endpoint;
    enum kvasir_status status = endpoint_parse(options->address, &endpoint, &reason);
    if (status != KVASIR_OK) {
        char text[CLIENT_ERROR_BYTES_MAX];
        (void)snprintf(text, sizeof text, "%.160s: %s",
                       options->address == NULL ? "(no address)" : options->address, reason);
        write_error(error, error_capacity, text);
        return status;
    }
    struct kvasir_client *client = create(options);
    if (client == NULL) {
        write_error(error, error_capacity, "out of memory");
        return KVASIR_NO_MEMORY;
    }
    client->origin = endpoint;
    status = establish_first(client);
    if (status != KVASIR_OK) {
        if (client->error[0] == '\0') {
            client_explain(client, "%s: %s", client->shared.text, kvasir_status_name(status));
        }
        write_error(error, error_capacity, client->error);
        destroy(client);
        return status;
    }
    client->error[0] = '\0';
    client->retry_at_us = 0;
    *client_p = client;
    return KVASIR_OK;
}

static void free_finished(struct kvasir_client *client)
{
    list_foreach_safe (member, after, &client->finished) {
        struct kvasir_request *request = list_entry(member, struct kvasir_request, member);
        job_destroy(&request);
    }
}

/* In a forked child queue pairs, registrations and the devices' driver are the parent's: what the child ends would end for the
 * parent, so that the child only forgets them. */
static void forget_memory(struct kvasir_client *client)
{
    client->memory = NULL;
    client->bounces = NULL;
    for (uint32_t i = 0; i < client->link_count; i++) {
        queue_pair_init(client->links[i]);
    }
    client->connecting_count = 0;
}

void kvasir_close(struct kvasir_client **client_p)
{
    if (client_p == NULL || *client_p == NULL) {
        return;
    }
    struct kvasir_client *client = *client_p;
    *client_p = NULL;
    CHECK_MAGIC(client, CLIENT_MAGIC);
    bool own_process = client_is_usable(client);
    if (!own_process) {
        forget_memory(client);
    }
    /* In a forked child the descriptors are copies: they are closed and nothing is sent on them. */
    for (uint32_t i = 0; own_process && i < client->link_count; i++) {
        if (client->links[i]->state == LINK_UP) {
            pipeline_release(client->links[i]);
            link_flush(client->links[i], clock_mono_us());
        }
    }
    list_foreach_safe (member, after, &client->requests) {
        struct kvasir_request *request = list_entry(member, struct kvasir_request, member);
        engine_withdraw(client, request, KVASIR_CANCELLED);
    }
    free_finished(client);
    view_detach_all(client);
    destroy(client);
}

/* ---- facts --------------------------------------------------------------------------------- */

enum kvasir_path kvasir_path(const struct kvasir_client *client)
{
    return client->last_path;
}

const char *kvasir_path_name(enum kvasir_path path)
{
    switch (path) {
    case KVASIR_PATH_NONE:
        return "none";
    case KVASIR_PATH_TCP:
        return "tcp";
    case KVASIR_PATH_UNIX:
        return "unix";
    case KVASIR_PATH_SHM:
        return "shm";
    case KVASIR_PATH_RDMA:
        return "rdma";
    case KVASIR_PATH_RDMA_CLIENT:
        return "rdma-client";
    }
    return "none"; /* a number from outside */
}

const char *kvasir_error(const struct kvasir_client *client)
{
    return client->error;
}

void kvasir_counters(const struct kvasir_client *client, struct kvasir_counters *counters_p)
{
    *counters_p = client->counters;
}

void kvasir_server_info(const struct kvasir_client *client, struct kvasir_server_info *info_p)
{
    *info_p = client->info;
    info_p->rdma = client->memory != NULL;
}

const char *kvasir_version(void)
{
    return KVASIR_VERSION;
}
