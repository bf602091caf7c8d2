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

/* What the driver says of one address, in one answer or several. */
struct facts {
    unsigned memory_type;
    unsigned managed;
    int device;
    CUdeviceptr base;
    size_t bytes;
};

static CUresult ask(const struct cuda_driver *driver, CUdeviceptr pointer, struct facts *facts)
{
    const struct {
        CUpointer_attribute attribute;
        void *answer;
    } questions[] = {
        {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &facts->memory_type},
        {CU_POINTER_ATTRIBUTE_IS_MANAGED, &facts->managed},
        {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &facts->device},
        {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, &facts->base},
        {CU_POINTER_ATTRIBUTE_RANGE_SIZE, &facts->bytes},
    };
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; result == CUDA_SUCCESS && i < sizeof(questions) / sizeof(questions[0]);
         i++) {
        result =
            driver->cuPointerGetAttribute(questions[i].answer, questions[i].attribute, pointer);
        /* An address that the driver never heard of is an invalid value to the first question. */
        if (result == CUDA_ERROR_INVALID_VALUE && i > 0) {
            result = CUDA_ERROR_UNKNOWN;
        }
    }
    return result;
}

/* KVASIR_OK, KVASIR_NOT_FOUND, KVASIR_IO. */
static enum kvasir_status find_one(struct cuda_devices *devices, CUdeviceptr pointer,
                                   struct facts *facts)
{
    char said[KVASIR_SAID_BYTES];
    CUresult result = ask(&devices->driver, pointer, facts);
    /* A thread that never used a device may have to have a context to be answered. */
    if (result == CUDA_ERROR_INVALID_CONTEXT &&
        cuda_devices_enter_any(devices, said) == KVASIR_OK) {
        result = ask(&devices->driver, pointer, facts);
        cuda_devices_leave(devices);
    }
    if (result == CUDA_ERROR_INVALID_VALUE) {
        return KVASIR_NOT_FOUND;
    }
    return result == CUDA_SUCCESS && facts->device >= 0 && facts->device < devices->count
               ? KVASIR_OK
               : KVASIR_IO;
}

/* Goes on from one piece that is mapped to the next, as far as bytes are asked for: a large tensor may be
 * made of many, and the driver tells of one at a time. What was allocated as one is one: its neighbour is
 * somebody else's. */
static void follow(struct cuda_devices *devices, CUdeviceptr pointer, size_t bytes,
                   struct facts *facts)
{
    struct facts next;
    int whole = 0;
    if (bytes <= facts->bytes - (pointer - facts->base) ||
        devices->driver.cuPointerGetAttribute(
            &whole, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pointer) != CUDA_SUCCESS ||
        whole != 0) {
        return;
    }
    while (facts->bytes > 0 && bytes > facts->bytes - (pointer - facts->base) &&
           find_one(devices, facts->base + facts->bytes, &next) == KVASIR_OK &&
           next.base == facts->base + facts->bytes && next.bytes > 0 &&
           next.device == facts->device && next.memory_type == facts->memory_type &&
           next.managed == facts->managed) {
        facts->bytes += next.bytes;
    }
}

static enum kvasir_status space_find(void *state, const void *address, size_t bytes,
                                     struct kvasir_space_range *range_p)
{
    struct cuda_devices *devices = state;
    struct facts facts = {.device = -1};
    unsigned long long id = 0;
    CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)address;
    enum kvasir_status status = find_one(devices, pointer, &facts);
    if (status != KVASIR_OK) {
        return status;
    }
    follow(devices, pointer, bytes, &facts);
    /* A driver that numbers no allocations leaves it at 0. */
    (void)devices->driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer);
    *range_p = (struct kvasir_space_range){.base = (void *)(uintptr_t)facts.base,
                                           .bytes = facts.bytes,
                                           .id = id,
                                           .kind = kind_of(facts.memory_type, facts.managed),
                                           .device = facts.device};
    range_p->dmabuf = range_p->kind == KVASIR_SPACE_DEVICE && devices->devices[facts.device].dmabuf;
    (void)snprintf(range_p->pci_address, sizeof(range_p->pci_address), "%s",
                   devices->devices[facts.device].pci_address);
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
    /* Else a copy within the device that the framework was told is done may still be under way when an
     * adapter reads. Memory of which it cannot be asked is copied asynchronously only. */
    (void)devices->driver.cuPointerSetAttribute(&(unsigned){1}, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                                (CUdeviceptr)address);
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
    enum kvasir_status status = space_find(state, address, bytes, &range);
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
    char said[KVASIR_SAID_BYTES];
    if (*memory_p != NULL && cuda_devices_enter_any(devices, said) == KVASIR_OK) {
        (void)devices->driver.cuMemFreeHost(*memory_p);
        cuda_devices_leave(devices);
    }
    *memory_p = NULL;
}

static enum kvasir_status space_settle(void *state, int device, char *said)
{
    struct cuda_devices *devices = state;
    enum kvasir_status status;
    CUresult result;
    if (device >= 0 && device < devices->count && devices->devices[device].ordered) {
        return KVASIR_OK;
    }
    status = cuda_devices_enter(devices, device, said);
    if (status != KVASIR_OK) {
        return KVASIR_IO;
    }
    result = devices->driver.cuFlushGPUDirectRDMAWrites(
        CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
        CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    cuda_devices_leave(devices);
    if (result != CUDA_SUCCESS) {
        return cuda_said(said, KVASIR_IO,
                         "CUDA device %d (%s) does not say that it sees what adapters wrote: %s",
                         device, devices->devices[device].pci_address,
                         cuda_driver_error(&devices->driver, result));
    }
    return KVASIR_OK;
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
    .settle = space_settle,
};
