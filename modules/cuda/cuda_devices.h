#pragma once
/* cuda_devices – the devices that the driver knows, and the one context of each. A context takes
 * hundreds of MiB of the device's memory, so it is made when the device is first used, and shared with
 * the framework in this process that uses the device, too (the "primary" one). Any thread. */

#include "cuda_driver.h"

#include <stdatomic.h>
#include <stdbool.h>

struct cuda_device {
    _Atomic(CUcontext) context; /* NULL: not used yet */
    bool dmabuf;
    bool ordered; /* its work sees what adapters wrote before it; false: only after a flush */
    char name[64];
    char pci_address[16];
};

struct cuda_devices {
    struct cuda_driver driver;
    int count;
    struct cuda_device *devices; /* owned */
};

/* path: of the driver library. As cuda_driver_open; KVASIR_NOT_FOUND also: no device. */
enum kvasir_status cuda_devices_open(struct cuda_devices *devices, const char *path, char *said);
void cuda_devices_close(struct cuda_devices *devices);

/* Makes the device's context this thread's until cuda_devices_leave. KVASIR_OK; KVASIR_INVALID (no such
 * device), KVASIR_NO_MEMORY, KVASIR_IO. */
enum kvasir_status cuda_devices_enter(struct cuda_devices *devices, int device, char *said);
void cuda_devices_leave(struct cuda_devices *devices);
/* Likewise, of any device that is in use already, else of the first: for what takes a context and does not
 * care which. */
enum kvasir_status cuda_devices_enter_any(struct cuda_devices *devices, char *said);

/* What a failed call of the driver is to the project. */
enum kvasir_status cuda_devices_status(CUresult result);
