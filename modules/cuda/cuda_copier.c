#include "cuda_copier.h"

#include "cuda_devices.h"
#include "cuda_said.h"

#include <stdlib.h>

struct kvasir_copier {
    struct cuda_devices *devices; /* borrowed */
    CUstream stream;
    int device;
    bool failed; /* once and for all: the driver's errors stay with the context */
};

enum kvasir_status cuda_copier_open(void *state, int device, struct kvasir_copier **copier_p,
                                    char *said)
{
    struct cuda_devices *devices = state;
    struct kvasir_copier *copier = calloc(1, sizeof(*copier));
    if (copier == NULL) {
        return cuda_said(said, KVASIR_NO_MEMORY, "out of memory");
    }
    enum kvasir_status status = cuda_devices_enter(devices, device, said);
    if (status == KVASIR_OK) {
        CUresult result = devices->driver.cuStreamCreate(&copier->stream, CU_STREAM_NON_BLOCKING);
        cuda_devices_leave(devices);
        if (result != CUDA_SUCCESS) {
            status = cuda_said(said, cuda_devices_status(result),
                               "CUDA device %d (%s) makes no stream: %s", device,
                               devices->devices[device].pci_address,
                               cuda_driver_error(&devices->driver, result));
        }
    }
    if (status != KVASIR_OK) {
        free(copier);
        return status;
    }
    copier->devices = devices;
    copier->device = device;
    *copier_p = copier;
    return KVASIR_OK;
}

void cuda_copier_close(struct kvasir_copier **copier_p)
{
    struct kvasir_copier *copier = *copier_p;
    char said[KVASIR_SAID_BYTES];
    *copier_p = NULL;
    if (copier == NULL) {
        return;
    }
    if (cuda_devices_enter(copier->devices, copier->device, said) == KVASIR_OK) {
        (void)copier->devices->driver.cuStreamSynchronize(copier->stream);
        (void)copier->devices->driver.cuStreamDestroy(copier->stream);
        cuda_devices_leave(copier->devices);
    }
    free(copier);
}

enum kvasir_status cuda_copier_copy(struct kvasir_copier *copier, void *to, const void *from,
                                    size_t bytes)
{
    char said[KVASIR_SAID_BYTES];
    CUresult result;
    if (copier->failed || cuda_devices_enter(copier->devices, copier->device, said) != KVASIR_OK) {
        return KVASIR_IO;
    }
    /* All addresses are in one space, so the driver knows which way. */
    result = copier->devices->driver.cuMemcpyAsync(
        (CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes, copier->stream);
    cuda_devices_leave(copier->devices);
    copier->failed = result != CUDA_SUCCESS;
    return copier->failed ? KVASIR_IO : KVASIR_PENDING;
}

enum kvasir_status cuda_copier_poll(struct kvasir_copier *copier)
{
    char said[KVASIR_SAID_BYTES];
    CUresult result;
    if (copier->failed || cuda_devices_enter(copier->devices, copier->device, said) != KVASIR_OK) {
        return KVASIR_IO;
    }
    result = copier->devices->driver.cuStreamQuery(copier->stream);
    cuda_devices_leave(copier->devices);
    if (result == CUDA_ERROR_NOT_READY) {
        return KVASIR_PENDING;
    }
    copier->failed = result != CUDA_SUCCESS;
    return copier->failed ? KVASIR_IO : KVASIR_OK;
}
