#include "cuda_devices.h"

#include "cuda_said.h"

#include <stdlib.h>
#include <string.h>

/* A driver that does not know the question answers 0. */
static int attribute_of(const struct cuda_driver *driver, CUdevice device,
                        CUdevice_attribute attribute)
{
    int value = 0;
    CUresult result = driver->cuDeviceGetAttribute(&value, attribute, device);
    return result == CUDA_SUCCESS ? value : 0;
}

/* What adapters may do with the device's memory: where its work cannot be made to see what they wrote,
 * nothing. */
static void learn_about_adapters(const struct cuda_driver *driver, CUdevice handle,
                                 struct cuda_device *device)
{
    int ordering =
        attribute_of(driver, handle, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
    int flush =
        attribute_of(driver, handle, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
    device->ordered = ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    device->dmabuf =
        (device->ordered || (flush & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0) &&
        attribute_of(driver, handle, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) != 0;
}

static CUresult describe(const struct cuda_driver *driver, int index, struct cuda_device *device)
{
    CUdevice handle;
    CUresult result = driver->cuDeviceGet(&handle, index);
    if (result == CUDA_SUCCESS) {
        result = driver->cuDeviceGetName(device->name, (int)sizeof(device->name), handle);
    }
    if (result == CUDA_SUCCESS) {
        result = driver->cuDeviceGetPCIBusId(device->pci_address, (int)sizeof(device->pci_address),
                                             handle);
    }
    if (result == CUDA_SUCCESS) {
        learn_about_adapters(driver, handle, device);
    }
    return result;
}

static enum kvasir_status list_devices(struct cuda_devices *devices, char *said)
{
    const struct cuda_driver *driver = &devices->driver;
    CUresult result = driver->cuDeviceGetCount(&devices->count);
    if (result == CUDA_SUCCESS && devices->count == 0) {
        return cuda_said(said, KVASIR_NOT_FOUND, "the CUDA driver knows no device");
    }
    if (result == CUDA_SUCCESS) {
        devices->devices = calloc((size_t)devices->count, sizeof(*devices->devices));
        if (devices->devices == NULL) {
            return cuda_said(said, KVASIR_NO_MEMORY, "out of memory for %d devices",
                             devices->count);
        }
    }
    for (int index = 0; result == CUDA_SUCCESS && index < devices->count; index++) {
        result = describe(driver, index, &devices->devices[index]);
    }
    if (result != CUDA_SUCCESS) {
        return cuda_said(said, KVASIR_IO, "the CUDA driver cannot list its devices: %s",
                         cuda_driver_error(driver, result));
    }
    return KVASIR_OK;
}

enum kvasir_status cuda_devices_open(struct cuda_devices *devices, const char *path, char *said)
{
    enum kvasir_status status;
    memset(devices, 0, sizeof(*devices));
    status = cuda_driver_open(&devices->driver, path, said);
    if (status != KVASIR_OK) {
        return status;
    }
    status = list_devices(devices, said);
    if (status != KVASIR_OK) {
        cuda_devices_close(devices);
    }
    return status;
}

void cuda_devices_close(struct cuda_devices *devices)
{
    const struct cuda_driver *driver = &devices->driver;
    for (int index = 0; devices->devices != NULL && index < devices->count; index++) {
        CUdevice handle;
        if (devices->devices[index].context != NULL &&
            driver->cuDeviceGet(&handle, index) == CUDA_SUCCESS) {
            (void)driver->cuDevicePrimaryCtxRelease(handle);
        }
    }
    free(devices->devices);
    devices->devices = NULL;
    cuda_driver_close(&devices->driver);
}

/* Two threads may both be the first: a device has one primary context and counts who holds it, so the
 * later one gives its hold back. */
static CUresult find_context(struct cuda_devices *devices, int index, CUcontext *context_p)
{
    const struct cuda_driver *driver = &devices->driver;
    struct cuda_device *device = &devices->devices[index];
    CUcontext none = NULL;
    CUdevice handle;
    CUresult result = CUDA_SUCCESS;
    *context_p = atomic_load(&device->context);
    if (*context_p == NULL) {
        result = driver->cuDeviceGet(&handle, index);
        if (result == CUDA_SUCCESS) {
            result = driver->cuDevicePrimaryCtxRetain(context_p, handle);
        }
        if (result == CUDA_SUCCESS &&
            !atomic_compare_exchange_strong(&device->context, &none, *context_p)) {
            (void)driver->cuDevicePrimaryCtxRelease(handle);
        }
    }
    return result;
}

enum kvasir_status cuda_devices_enter(struct cuda_devices *devices, int device, char *said)
{
    const struct cuda_driver *driver = &devices->driver;
    CUcontext context = NULL;
    CUresult result;
    if (device < 0 || device >= devices->count) {
        return cuda_said(said, KVASIR_INVALID, "there is no CUDA device %d: there are %d", device,
                         devices->count);
    }
    result = find_context(devices, device, &context);
    if (result == CUDA_SUCCESS) {
        result = driver->cuCtxPushCurrent(context);
    }
    if (result != CUDA_SUCCESS) {
        return cuda_said(said, cuda_devices_status(result),
                         "CUDA device %d (%s, %s) cannot be used: %s", device,
                         devices->devices[device].name, devices->devices[device].pci_address,
                         cuda_driver_error(driver, result));
    }
    return KVASIR_OK;
}

enum kvasir_status cuda_devices_enter_any(struct cuda_devices *devices, char *said)
{
    int device = 0;
    while (device < devices->count && devices->devices[device].context == NULL) {
        device++;
    }
    return cuda_devices_enter(devices, device < devices->count ? device : 0, said);
}

void cuda_devices_leave(struct cuda_devices *devices)
{
    CUcontext context;
    (void)devices->driver.cuCtxPopCurrent(&context);
}

enum kvasir_status cuda_devices_status(CUresult result)
{
    if (result == CUDA_SUCCESS) {
        return KVASIR_OK;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return KVASIR_NO_MEMORY;
    }
    return result == CUDA_ERROR_NOT_SUPPORTED ? KVASIR_UNSUPPORTED : KVASIR_IO;
}
