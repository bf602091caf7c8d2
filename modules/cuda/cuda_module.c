/* cuda_module – what the module exports: the memory space "cuda". */

#include "cuda_said.h"
#include "cuda_space.h"

#include <kvasir/module.h>

#include <stdio.h>
#include <stdlib.h>

/* The driver's own name; the toolkit's is not asked for. */
#define CUDA_LIBRARY "libcuda.so.1"

static void log_devices(const struct kvasir_host *host, const struct cuda_devices *devices)
{
    for (int index = 0; index < devices->count; index++) {
        const struct cuda_device *device = &devices->devices[index];
        char text[KVASIR_SAID_BYTES];
        (void)snprintf(text, sizeof(text), "device %d: %s at %s; payload %s", index, device->name,
                       device->pci_address,
                       device->dmabuf
                           ? "can go to adapters directly (dmabuf)"
                           : "is staged in pinned host memory: the driver offers no dmabuf");
        host->log(host, KVASIR_LOG_INFO, text);
    }
}

static enum kvasir_status setup(const struct kvasir_host *host, void **state_p)
{
    char said[KVASIR_SAID_BYTES];
    struct cuda_devices *devices;
    enum kvasir_status status;
    if (host->struct_size < offsetof(struct kvasir_host, register_space) + sizeof(void *)) {
        host->log(host, KVASIR_LOG_ERROR, "this program is too old to use memory spaces");
        return KVASIR_UNSUPPORTED;
    }
    devices = calloc(1, sizeof(*devices));
    if (devices == NULL) {
        return KVASIR_NO_MEMORY;
    }
    status = cuda_devices_open(devices, CUDA_LIBRARY, said);
    if (status != KVASIR_OK) {
        host->log(host, KVASIR_LOG_WARN, said);
        free(devices);
        return status;
    }
    log_devices(host, devices);
    status = host->register_space(host, &cuda_space_ops, devices);
    if (status != KVASIR_OK) {
        cuda_devices_close(devices);
        free(devices);
        return status;
    }
    *state_p = devices;
    return KVASIR_OK;
}

static void teardown(void *state)
{
    struct cuda_devices *devices = state;
    cuda_devices_close(devices);
    free(devices);
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "cuda",
    .summary = "buffers in the memory of NVIDIA devices (CUDA driver)",
    .version = KVASIR_MODULE_VERSION(0, 1, 0),
    .setup = setup,
    .teardown = teardown,
};
