#include "server/fabric.h"

#include "base/check.h"
#include "base/log.h"
#include "base/number.h"
#include "mem/region.h"
#include "plug/loader.h"
#include "server/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ports of adapters that are looked at. */
#define DEVICES_MAX 16

/* What rdma-device names: a device, or DEVICE:PORT. An empty text names any whose port is up. */
static bool is_wanted(const struct kvasir_device *device, const char *wanted)
{
    size_t length = strlen(device->name);
    if (wanted[0] == '\0') {
        return device->up;
    }
    if (strncmp(wanted, device->name, length) != 0) {
        return false;
    }
    return wanted[length] == '\0' ||
           (wanted[length] == ':' && strtoul(wanted + length + 1, NULL, 10) == device->port);
}

static const struct kvasir_device *find_device(const struct kvasir_device *devices, unsigned count,
                                               const char *wanted)
{
    for (unsigned i = 0; i < count; i++) {
        if (is_wanted(&devices[i], wanted)) {
            return &devices[i];
        }
    }
    return NULL;
}

/* The device's domain in fabric; false: said tells why. */
static bool open_domain(struct fabric *fabric, const struct settings *settings, char *said)
{
    struct kvasir_device *devices = calloc(DEVICES_MAX, sizeof(*devices));
    const struct kvasir_device *device = NULL;
    unsigned count = 0;
    bool opened = false;
    (void)snprintf(said, KVASIR_SAID_BYTES, "out of memory for the list of devices");
    if (devices != NULL &&
        fabric->ops->devices(fabric->state, devices, DEVICES_MAX, &count, said) == KVASIR_OK) {
        count = count < DEVICES_MAX ? count : DEVICES_MAX;
        device = find_device(devices, count, settings->rdma_device);
        (void)snprintf(said, KVASIR_SAID_BYTES, "none of %u devices %s%s", count,
                       settings->rdma_device[0] != '\0' ? "is rdma-device "
                                                        : "has a port that is up",
                       settings->rdma_device);
    }
    if (device != NULL) {
        opened = fabric->ops->domain_open(fabric->state, device->name, device->port,
                                          fabric->gid_index, &fabric->domain, said) == KVASIR_OK;
    }
    free(devices);
    return opened;
}

struct fabric *fabric_open(const struct loader *modules, const struct settings *settings,
                           char *reason, size_t reason_capacity)
{
    const struct registry_entry *entry =
        registry_find(loader_registry(modules), REGISTRY_TRANSPORT, slice_of_text("rdma"));
    struct fabric *fabric;
    char said[KVASIR_SAID_BYTES];
    if (entry == NULL) {
        (void)snprintf(reason, reason_capacity, "no RDMA module is loaded (option loadmodule)");
        return NULL;
    }
    fabric = calloc(1, sizeof(*fabric));
    if (fabric == NULL) {
        (void)snprintf(reason, reason_capacity, "out of memory");
        return NULL;
    }
    fabric->ops = &entry->ops.transport;
    fabric->state = entry->state;
    fabric->gid_index = (int)settings->rdma_gid_index;
    fabric->mtu_bytes = (uint32_t)strtoul(settings->rdma_mtu, NULL, 10); /* auto: 0 */
    if (!open_domain(fabric, settings, said)) {
        (void)snprintf(reason, reason_capacity, "%s", said);
        log_warn("RDMA is not on offer: %s", said);
        free(fabric);
        return NULL;
    }
    return fabric;
}

void fabric_close(struct fabric **fabric_p)
{
    struct fabric *fabric = *fabric_p;
    if (fabric == NULL) {
        return;
    }
    if (fabric->payload != NULL) {
        fabric->ops->memory_deregister(&fabric->payload);
    }
    fabric->ops->domain_close(&fabric->domain);
    free(fabric);
    *fabric_p = NULL;
}

static void show_progress(void *argument, size_t done_bytes, size_t bytes)
{
    char done[32];
    char total[32];
    (void)argument;
    number_format_bytes(done, sizeof(done), done_bytes);
    number_format_bytes(total, sizeof(total), bytes);
    log_debug("payload memory %s of %s registered", done, total);
}

bool fabric_register(struct fabric *fabric, const struct region *region, size_t size_bytes,
                     char *reason, size_t reason_capacity)
{
    const struct kvasir_memory_options options = {
        .base = region_base(region),
        .bytes = size_bytes,
        /* The server's own transfers; a peer has no right but by a window. */
        .rights = KVASIR_RIGHT_RELAXED |
                  (fabric->ops->domain_facts(fabric->domain)->windows ? KVASIR_RIGHT_WINDOWS : 0),
        .progress = show_progress,
    };
    const struct kvasir_device *device = fabric_device(fabric);
    char said[KVASIR_SAID_BYTES];
    char size[32];
    if (fabric->ops->memory_register(fabric->domain, &options, &fabric->payload, said) !=
        KVASIR_OK) {
        (void)snprintf(reason, reason_capacity, "%s", said);
        log_warn("RDMA is not on offer: %s", said);
        return false;
    }
    number_format_bytes(size, sizeof(size), size_bytes);
    log_info("RDMA by %s port %u: %s of payload registered, MTU %u", device->name, device->port,
             size, device->mtu_bytes);
    return true;
}

const struct kvasir_device *fabric_device(const struct fabric *fabric)
{
    return &fabric->ops->domain_facts(fabric->domain)->device;
}

bool fabric_is_gone(const struct fabric *fabric)
{
    return metric_get(&fabric->gone) != 0;
}
