/* Registered buffers: which memory they are, how adapters reach it, and when the queue pairs are made. */

#include "base/check.h"
#include "base/clock.h"
#include "client/bounce.h"
#include "client/client_impl.h"
#include "client/engine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool pairs_are_asked(const struct kvasir_client *client)
{
    for (uint32_t i = 0; i < client->link_count; i++) {
        if (link_asks_rdma(client->links[i])) {
            return true;
        }
    }
    return false;
}

/* The first buffer is what the module is loaded for, and the queue pairs are made. */
static enum kvasir_status begin(struct kvasir_client *client)
{
    int64_t now_us = clock_mono_us();
    int64_t deadline_us = now_us + (int64_t)client->options.connect_timeout_ms * 1000;
    const struct link *home = client->links[client->home];
    char said[KVASIR_SAID_BYTES] = "";
    if (!client->options.rdma) {
        client_explain(client, "no RDMA: it is switched off by the options");
        return KVASIR_UNSUPPORTED;
    }
    if (link_has_shm(home)) {
        client_explain(client, "no RDMA: shared memory is in use, which needs nothing registered");
        return KVASIR_UNSUPPORTED;
    }
    if (home->greeting->rdma_count == 0) {
        client_explain(client, "no RDMA: the server offers none to this user");
        return KVASIR_UNSUPPORTED;
    }
    client->memory = remote_memory_open(&client->options, said);
    if (client->memory == NULL) {
        client_explain(client, "no RDMA: %s", said);
        return KVASIR_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < client->link_count; i++) {
        if (client->links[i]->state == LINK_UP) {
            (void)queue_pair_ask_all(client->links[i], now_us);
        }
    }
    while (pairs_are_asked(client) && clock_mono_us() < deadline_us) {
        engine_turn(client, deadline_us);
    }
    return KVASIR_OK;
}

static enum kvasir_status register_host(struct kvasir_client *client, void *base, size_t bytes)
{
    char said[KVASIR_SAID_BYTES] = "";
    enum kvasir_status status = client->memory == NULL ? begin(client) : KVASIR_OK;
    if (status == KVASIR_OK) {
        status = remote_memory_add(client->memory, base, bytes, NULL, said);
        if (status != KVASIR_OK) {
            client_explain(client, "%s", said);
        } else if (!link_has_rdma(client->links[client->home])) {
            client_explain(client, "registered, but for now %s", client->rdma_reason);
        }
    }
    return status;
}

/* ---- the memory of devices ----------------------------------------------------------------- */

/* Whether the buffer is a device's. KVASIR_NOT_FOUND: the host's, as far as can be known. */
static enum kvasir_status find_device(struct kvasir_client *client, const void *base, size_t bytes,
                                      struct kvasir_space_range *range_p)
{
    char said[KVASIR_SAID_BYTES] = "";
    enum kvasir_status status;
    if (client->bounces == NULL) {
        struct device_memory *devices =
            device_memory_is_possible() ? device_memory_open(&client->options, said) : NULL;
        if (devices != NULL) {
            client->bounces = bounce_create(&devices);
            device_memory_close(&devices);
        }
        if (client->bounces == NULL) {
            /* Where no driver is in the process there is nothing to say. */
            (void)snprintf(client->device_reason, sizeof(client->device_reason), "%.*s",
                           (int)CLIENT_ERROR_BYTES_MAX - 1, said);
            return KVASIR_NOT_FOUND;
        }
        client->device_reason[0] = '\0';
    }
    status = device_memory_find(bounce_devices(client->bounces), base, bytes, range_p, said);
    if (status != KVASIR_OK && status != KVASIR_NOT_FOUND) {
        client_explain(client, "%s", said);
    }
    return status;
}

/* Lets the adapter reach the device's memory. False: payload is staged, and reason tells why. */
static bool make_direct(struct kvasir_client *client, void *base, size_t bytes, char *reason)
{
    struct remote_dmabuf dmabuf = {.fd = -1};
    bool done;
    if (client->memory == NULL && begin(client) != KVASIR_OK) {
        (void)snprintf(reason, KVASIR_SAID_BYTES, "%s", client->error);
        return false;
    }
    bounce_expose(client);
    if (device_memory_export(bounce_devices(client->bounces), base, bytes, &dmabuf.fd,
                             &dmabuf.offset_bytes, reason) != KVASIR_OK) {
        return false;
    }
    done = remote_memory_add(client->memory, base, bytes, &dmabuf, reason) == KVASIR_OK;
    (void)close(dmabuf.fd);
    return done;
}

static enum kvasir_status drop_all(struct kvasir_client *client, const void *base, size_t bytes)
{
    enum kvasir_status status = KVASIR_NOT_FOUND;
    while (device_memory_drop(bounce_devices(client->bounces), base, bytes) == KVASIR_OK) {
        status = KVASIR_OK;
    }
    while (client->memory != NULL && remote_memory_drop(client->memory, base, bytes) == KVASIR_OK) {
        status = KVASIR_OK;
    }
    return status;
}

/* Buffers that were freed while they were registered, and whose place this memory took: an adapter would go
 * on moving the bytes of what is somebody else's by now. */
static enum kvasir_status forget_gone(struct kvasir_client *client,
                                      const struct kvasir_space_range *range)
{
    struct iovec gone;
    while (device_memory_find_gone(bounce_devices(client->bounces), range, &gone)) {
        if (!list_empty(&client->requests)) {
            client_explain(client,
                           "a buffer of device %d that was freed is registered still, and a "
                           "submitted request is in flight, which may use it",
                           range->device);
            return KVASIR_BUSY;
        }
        check(drop_all(client, gone.iov_base, gone.iov_len) == KVASIR_OK);
    }
    return KVASIR_OK;
}

static enum kvasir_status register_device(struct kvasir_client *client, void *base, size_t bytes,
                                          const struct kvasir_space_range *range)
{
    char said[KVASIR_SAID_BYTES] = "";
    enum kvasir_status status = forget_gone(client, range);
    if (status != KVASIR_OK) {
        return status;
    }
    status = device_memory_add(bounce_devices(client->bounces), base, bytes, range, said);
    if (status != KVASIR_OK) {
        client_explain(client, "%s", said);
        return status;
    }
    if (!make_direct(client, base, bytes, said)) {
        client_explain(client, "payload of device %d is staged in pinned host memory: %s",
                       range->device, said);
    } else if (!link_has_rdma(client->links[client->home])) {
        client_explain(client, "registered, but for now %s", client->rdma_reason);
    }
    return KVASIR_OK;
}

/* ---- the public functions ------------------------------------------------------------------ */

enum kvasir_status kvasir_register(struct kvasir_client *client, void *base, size_t length_bytes)
{
    struct kvasir_space_range range;
    enum kvasir_status status;
    if (!client_is_usable(client) || base == NULL || length_bytes == 0) {
        return KVASIR_INVALID;
    }
    client->error[0] = '\0';
    status = find_device(client, base, length_bytes, &range);
    if (status == KVASIR_OK) {
        return register_device(client, base, length_bytes, &range);
    }
    if (status != KVASIR_NOT_FOUND) {
        return status;
    }
    status = register_host(client, base, length_bytes);
    if (status != KVASIR_OK && client->device_reason[0] != '\0') {
        size_t used = strlen(client->error);
        (void)snprintf(client->error + used, sizeof(client->error) - used,
                       "; a device's memory is not known here: %s", client->device_reason);
    }
    return status;
}

enum kvasir_status kvasir_unregister(struct kvasir_client *client, const void *base,
                                     size_t length_bytes)
{
    enum kvasir_status status = KVASIR_NOT_FOUND;
    bool of_device = false;
    if (!client_is_usable(client)) {
        return KVASIR_INVALID;
    }
    if (!list_empty(&client->requests)) {
        client_explain(client, "a submitted request is in flight, which may use the buffer");
        return KVASIR_BUSY;
    }
    if (!list_empty(&client->moves)) {
        (void)rdma_move_poll(client); /* the last words of those that were cancelled */
    }
    if (client->bounces != NULL) {
        of_device =
            device_memory_drop(bounce_devices(client->bounces), base, length_bytes) == KVASIR_OK;
    }
    if (client->memory != NULL) {
        status = remote_memory_drop(client->memory, base, length_bytes);
    }
    return of_device ? KVASIR_OK : status;
}

enum kvasir_buffer kvasir_buffer(struct kvasir_client *client, const void *base,
                                 size_t length_bytes)
{
    const struct iovec piece = {.iov_base = segment_base(base), .iov_len = length_bytes};
    int device;
    if (!client_is_usable(client) || base == NULL || length_bytes == 0) {
        return KVASIR_BUFFER_NONE;
    }
    bool direct = client->memory != NULL && remote_memory_holds(client->memory, &piece, 1);
    if (client->bounces != NULL &&
        device_memory_place(bounce_devices(client->bounces), base, length_bytes, &device) ==
            DEVICE_MEMORY_INSIDE) {
        return direct ? KVASIR_BUFFER_DEVICE : KVASIR_BUFFER_STAGED;
    }
    return direct ? KVASIR_BUFFER_HOST : KVASIR_BUFFER_NONE;
}
