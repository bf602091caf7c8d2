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

/* Takes the next name off the list that rdma-device is: DEVICE or DEVICE:PORT. False: there is none. */
static bool next_name(const char **list_p, char *name, uint32_t *port_p)
{
    size_t length = strcspn(*list_p, ",");
    const char *colon = memchr(*list_p, ':', length);
    size_t name_length = colon != NULL ? (size_t)(colon - *list_p) : length;
    if (length == 0) {
        return false;
    }
    name_length =
        name_length < KVASIR_DEVICE_NAME_BYTES ? name_length : KVASIR_DEVICE_NAME_BYTES - 1;
    memcpy(name, *list_p, name_length);
    name[name_length] = '\0';
    *port_p = colon != NULL ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
    *list_p += length + ((*list_p)[length] == ',' ? 1 : 0);
    return true;
}

/* An empty list names every device whose port is up. */
static bool is_wanted(const struct kvasir_device *device, const char *wanted)
{
    char name[KVASIR_DEVICE_NAME_BYTES];
    uint32_t port;
    if (wanted[0] == '\0') {
        return device->up;
    }
    while (next_name(&wanted, name, &port)) {
        if (strcmp(name, device->name) == 0 && (port == 0 || port == device->port)) {
            return true;
        }
    }
    return false;
}

/* Domains of all that are wanted and can be opened; said: why one could not. */
static void open_wanted(struct fabric *fabric, const struct kvasir_device *devices, unsigned count,
                        const char *wanted, char *said)
{
    for (unsigned i = 0; i < count && fabric->device_count < FABRIC_DEVICES_MAX; i++) {
        struct fabric_device *device = &fabric->devices[fabric->device_count];
        if (!is_wanted(&devices[i], wanted)) {
            continue;
        }
        if (fabric->ops->domain_open(fabric->state, devices[i].name, devices[i].port,
                                     fabric->gid_index, &device->domain, said) == KVASIR_OK) {
            fabric->device_count++;
        } else {
            log_warn("RDMA device %s is not used: %s", devices[i].name, said);
        }
    }
}

/* False: not one; said tells why. */
static bool open_domains(struct fabric *fabric, const struct settings *settings, char *said)
{
    struct kvasir_device *devices = calloc(DEVICES_MAX, sizeof(*devices));
    unsigned count = 0;
    (void)snprintf(said, KVASIR_SAID_BYTES, "out of memory for the list of devices");
    if (devices != NULL &&
        fabric->ops->devices(fabric->state, devices, DEVICES_MAX, &count, said) == KVASIR_OK) {
        count = count < DEVICES_MAX ? count : DEVICES_MAX;
        (void)snprintf(said, KVASIR_SAID_BYTES, "none of %u devices %s%s", count,
                       settings->rdma_device[0] != '\0' ? "is rdma-device "
                                                        : "has a port that is up",
                       settings->rdma_device);
        open_wanted(fabric, devices, count, settings->rdma_device, said);
    }
    free(devices);
    return fabric->device_count > 0;
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
    fabric->traffic_class = (uint8_t)settings->rdma_traffic_class;
    fabric->mtu_bytes = (uint32_t)strtoul(settings->rdma_mtu, NULL, 10); /* auto: 0 */
    if (!open_domains(fabric, settings, said)) {
        (void)snprintf(reason, reason_capacity, "%s", said);
        log_warn("RDMA is not on offer: %s", said);
        free(fabric);
        return NULL;
    }
    return fabric;
}

static void close_device(struct fabric *fabric, struct fabric_device *device)
{
    if (device->payload != NULL) {
        fabric->ops->memory_deregister(&device->payload);
    }
    fabric->ops->domain_close(&device->domain);
}

void fabric_close(struct fabric **fabric_p)
{
    struct fabric *fabric = *fabric_p;
    if (fabric == NULL) {
        return;
    }
    for (uint32_t i = 0; i < fabric->device_count; i++) {
        close_device(fabric, &fabric->devices[i]);
    }
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

static bool register_with(struct fabric *fabric, uint32_t index, const struct region *region,
                          size_t size_bytes, char *said)
{
    const struct kvasir_memory_options options = {
        .base = region_base(region),
        .bytes = size_bytes,
        /* The server's own transfers; a peer has no right but by a window. */
        .rights =
            KVASIR_RIGHT_RELAXED | (fabric_has_windows(fabric, index) ? KVASIR_RIGHT_WINDOWS : 0),
        .progress = show_progress,
    };
    const struct kvasir_device *device = fabric_device(fabric, index);
    char size[32];
    if (fabric->ops->memory_register(fabric->devices[index].domain, &options,
                                     &fabric->devices[index].payload, said) != KVASIR_OK) {
        return false;
    }
    number_format_bytes(size, sizeof(size), size_bytes);
    log_info("RDMA by %s port %u: %s of payload registered, MTU %u", device->name, device->port,
             size, device->mtu_bytes);
    return true;
}

bool fabric_register(struct fabric *fabric, const struct region *region, size_t size_bytes,
                     char *reason, size_t reason_capacity)
{
    char said[KVASIR_SAID_BYTES] = "";
    uint32_t kept = 0;
    for (uint32_t i = 0; i < fabric->device_count; i++) {
        if (register_with(fabric, i, region, size_bytes, said)) {
            fabric->devices[kept++] = fabric->devices[i];
        } else {
            log_warn("RDMA device %s is not used: %s", fabric_device(fabric, i)->name, said);
            close_device(fabric, &fabric->devices[i]);
        }
    }
    fabric->device_count = kept;
    if (kept == 0) {
        (void)snprintf(reason, reason_capacity, "%s", said);
        log_warn("RDMA is not on offer: %s", said);
    }
    return kept > 0;
}

const struct kvasir_device *fabric_device(const struct fabric *fabric, uint32_t index)
{
    check(index < fabric->device_count);
    return &fabric->ops->domain_facts(fabric->devices[index].domain)->device;
}

bool fabric_has_windows(const struct fabric *fabric, uint32_t index)
{
    check(index < fabric->device_count);
    return fabric->ops->domain_facts(fabric->devices[index].domain)->windows;
}

bool fabric_is_gone(const struct fabric *fabric, uint32_t index)
{
    check(index < fabric->device_count);
    return metric_get(&fabric->devices[index].gone) != 0;
}

uint32_t fabric_find(const struct fabric *fabric, const char *name)
{
    for (uint32_t i = 0; i < fabric->device_count; i++) {
        if (!fabric_is_gone(fabric, i) &&
            (name == NULL || strcmp(fabric_device(fabric, i)->name, name) == 0)) {
            return i;
        }
    }
    return FABRIC_DEVICES_MAX;
}
