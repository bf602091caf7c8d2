#include "cuda_space.h"

#include "cuda_copier.h"
#include "cuda_said.h"

#include <stdio.h>
#include <unistd.h>

static enum kvasir_space_kind kind_of(unsigned memory_type, unsigned managed)
{
    if (managed != 0) {
        return KVASIR_SPACE_MANAGED;
    }
    return memory_type == CU_MEMORYTYPE_HOST ? KVASIR_SPACE_PINNED : KVASIR_SPACE_DEVICE;
}

static enum kvasir_status space_find(void *state, const void *address,
                                     struct kvasir_space_range *range_p)
{
    struct cuda_devices *devices = state;
    const struct cuda_driver *driver = &devices->driver;
    CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)address;
    struct kvasir_space_range range = {.base = NULL};
    CUdeviceptr base = 0;
    unsigned memory_type = 0, managed = 0;
    size_t bytes = 0;
    int ordinal = -1;

    /* An address that the driver never heard of is an invalid value to it. */
    CUresult result =
        driver->cuPointerGetAttribute(&memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
    if (result == CUDA_ERROR_INVALID_VALUE) {
        return KVASIR_NOT_FOUND;
    }
    if (result != CUDA_SUCCESS ||
        driver->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer) !=
            CUDA_SUCCESS ||
        driver->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer) !=
            CUDA_SUCCESS ||
        driver->cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer) !=
            CUDA_SUCCESS ||
        driver->cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer) !=
            CUDA_SUCCESS ||
        ordinal < 0 || ordinal >= devices->count) {
        return KVASIR_IO;
    }
    range.base = (void *)(uintptr_t)base;
    range.bytes = bytes;
    range.kind = kind_of(memory_type, managed);
    range.device = ordinal;
    range.dmabuf = range.kind == KVASIR_SPACE_DEVICE && devices->devices[ordinal].dmabuf;
    (void)snprintf(range.pci_address, sizeof(range.pci_address), "%s",
                   devices->devices[ordinal].pci_address);
    *range_p = range;
    return KVASIR_OK;
}

/* The range in whole host pages, which the driver insists on, is within the allocation: those are made
 * of larger pages. */
static enum kvasir_status export_pages(struct cuda_devices *devices,
                                       const struct kvasir_space_range *range, uintptr_t address,
                                       size_t bytes, int *fd_p, uint64_t *offset_p, char *said)
{
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = address & ~(page_bytes - 1);
    uintptr_t end = (address + bytes + page_bytes - 1) & ~(page_bytes - 1);
    int fd = -1;
    enum kvasir_status status = cuda_devices_enter(devices, range->device, said);
    if (status != KVASIR_OK) {
        return status;
    }
    CUresult result = devices->driver.cuMemGetHandleForAddressRange(
        &fd, begin, end - begin, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    cuda_devices_leave(devices);
    if (result != CUDA_SUCCESS) {
        return cuda_said(said, KVASIR_UNSUPPORTED,
                         "CUDA device %d (%s) gives no dmabuf of %zu bytes: %s", range->device,
                         range->pci_address, (size_t)(end - begin),
                         cuda_driver_error(&devices->driver, result));
    }
    *fd_p = fd;
    *offset_p = address - begin;
    return KVASIR_OK;
}

static enum kvasir_status space_export_dmabuf(void *state, const void *address, size_t bytes,
                                              int *fd_p, uint64_t *offset_p, char *said)
{
    struct cuda_devices *devices = state;
    struct kvasir_space_range range;
    enum kvasir_status status = space_find(state, address, &range);
    if (status == KVASIR_IO) {
        return cuda_said(said, status, "the CUDA driver cannot say what address %p is", address);
    }
    if (status != KVASIR_OK || range.kind != KVASIR_SPACE_DEVICE) {
        return cuda_said(said, KVASIR_INVALID, "address %p is not in a CUDA device's memory",
                         address);
    }
    size_t before = (size_t)((uintptr_t)address - (uintptr_t)range.base);
    if (bytes == 0 || before >= range.bytes || bytes > range.bytes - before) {
        return cuda_said(said, KVASIR_INVALID,
                         "%zu bytes from %p reach beyond their allocation of %zu bytes", bytes,
                         address, range.bytes);
    }
    if (!range.dmabuf) {
        return cuda_said(said, KVASIR_UNSUPPORTED,
                         "the driver offers no dmabuf for CUDA device %d (%s)", range.device,
                         range.pci_address);
    }
    return export_pages(devices, &range, (uintptr_t)address, bytes, fd_p, offset_p, said);
}

static enum kvasir_status space_pinned_alloc(void *state, int device, size_t bytes, void **memory_p,
                                             char *said)
{
    struct cuda_devices *devices = state;
    void *memory = NULL;
    enum kvasir_status status = cuda_devices_enter(devices, device, said);
    if (status != KVASIR_OK) {
        return status;
    }
    CUresult result = devices->driver.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
    cuda_devices_leave(devices);
    if (result != CUDA_SUCCESS) {
        return cuda_said(said, cuda_devices_status(result),
                         "the CUDA driver pins no %zu bytes of host memory: %s", bytes,
                         cuda_driver_error(&devices->driver, result));
    }
    *memory_p = memory;
    return KVASIR_OK;
}

static void space_pinned_free(void *state, void **memory_p)
{
    struct cuda_devices *devices = state;
    if (*memory_p != NULL) {
        (void)devices->driver.cuMemFreeHost(*memory_p);
        *memory_p = NULL;
    }
}

const struct kvasir_space_ops cuda_space_ops = {
    .struct_size = sizeof(cuda_space_ops),
    .name = "cuda",
    .find = space_find,
    .export_dmabuf = space_export_dmabuf,
    .pinned_alloc = space_pinned_alloc,
    .pinned_free = space_pinned_free,
    .copier_open = cuda_copier_open,
    .copier_close = cuda_copier_close,
    .copy = cuda_copier_copy,
    .copier_poll = cuda_copier_poll,
};
