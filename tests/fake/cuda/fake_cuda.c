/* fake_cuda – a CUDA driver whose devices are memory files: built as a library that the module opens as
 * it opens the true one. A device's address is mapped without any right, so that a CPU that touches it
 * dies; copies use another mapping. Copies happen when the stream is asked about, not before,
 * so that who reads too early is found out. Each call can be made to fail. */

#include "fake_cuda.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECES_MAX 64
#define COPIES_MAX 4096
#define PAGE_BYTES 65536U

struct piece {
    char *base;
    char *alias; /* the same bytes for copies; base itself for the host's memory */
    int fd;      /* -1: of the host's memory */
    size_t bytes;
    int device;
    CUmemorytype type;
    bool managed;
    size_t mapped_bytes; /* the driver tells of so many at a time; 0: of all */
    unsigned long long id;
};

struct CUstream_st {
    struct {
        void *to;
        void *from;
        size_t bytes;
    } copies[COPIES_MAX];
    unsigned count;
};

static struct {
    int device_count;
    bool dmabuf;
    bool hold;
    int left;
    unsigned exports;
    char fail_call[64];
    unsigned fail_skip;
    CUresult fail_result;
    int context_depth;
    int ordering;
    int flush_options;
    bool context_needed;
    unsigned flushes;
    unsigned long long next_id;
    void *freed; /* where the next may be mapped */
    struct piece pieces[PIECES_MAX];
} fake = {.device_count = 2, .dmabuf = true, .ordering = 100, .next_id = 1};

/* call is as the library exports it, perhaps with a version: cuCtxPushCurrent_v2. */
static CUresult fails(const char *call)
{
    size_t bytes = strlen(fake.fail_call);
    bool same = bytes > 0 && strncmp(call, fake.fail_call, bytes) == 0 &&
                (call[bytes] == '\0' || call[bytes] == '_');
    if (!same) {
        return CUDA_SUCCESS;
    }
    if (fake.fail_skip > 0) {
        fake.fail_skip--;
        return CUDA_SUCCESS;
    }
    fake.fail_call[0] = '\0';
    return fake.fail_result;
}

#define FAIL_POINT()                        \
    do {                                    \
        CUresult planned = fails(__func__); \
        if (planned != CUDA_SUCCESS) {      \
            return planned;                 \
        }                                   \
    } while (0)

/* ---- for the test ---- */

void fake_cuda_fail(const char *call, unsigned skip, CUresult result)
{
    (void)snprintf(fake.fail_call, sizeof(fake.fail_call), "%s", call);
    fake.fail_skip = skip;
    fake.fail_result = result;
}

void fake_cuda_hold_copies(int hold)
{
    fake.hold = hold != 0;
}

void fake_cuda_set(int devices, int dmabuf)
{
    fake.device_count = devices;
    fake.dmabuf = dmabuf != 0;
}

void fake_cuda_set_ordering(int ordering, int flush_options)
{
    fake.ordering = ordering;
    fake.flush_options = flush_options;
}

void fake_cuda_set_context_needed(int needed)
{
    fake.context_needed = needed != 0;
}

unsigned fake_cuda_flushes(void)
{
    return fake.flushes;
}

int fake_cuda_left(void)
{
    return fake.left;
}

static void *map(void *wanted, int fd, size_t bytes, int rights)
{
    void *base = mmap(wanted, bytes, rights, MAP_SHARED, fd, 0);
    return base == MAP_FAILED ? NULL : base;
}

static struct piece *add_piece(int device, size_t bytes, CUmemorytype type, bool managed)
{
    for (unsigned i = 0; i < PIECES_MAX; i++) {
        struct piece *piece = &fake.pieces[i];
        bool apart = type == CU_MEMORYTYPE_DEVICE && !managed;
        if (piece->base == NULL) {
            size_t whole = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
            *piece = (struct piece){.fd = -1,
                                    .bytes = whole,
                                    .device = device,
                                    .type = type,
                                    .managed = managed,
                                    .id = fake.next_id};
            fake.next_id += 1000;
            if (apart) {
                piece->fd = memfd_create("fake-device", MFD_CLOEXEC);
                if (piece->fd >= 0 && ftruncate(piece->fd, (off_t)whole) == 0) {
                    piece->base = map(fake.freed, piece->fd, whole, PROT_NONE);
                    piece->alias = map(NULL, piece->fd, whole, PROT_READ | PROT_WRITE);
                }
            } else {
                piece->base = piece->alias = aligned_alloc(PAGE_BYTES, whole);
            }
            return piece;
        }
    }
    abort(); /* a test that takes more than there is */
}

static struct piece *find_piece(const void *address)
{
    for (unsigned i = 0; i < PIECES_MAX; i++) {
        struct piece *piece = &fake.pieces[i];
        if (piece->base != NULL && (const char *)address >= piece->base &&
            (const char *)address < piece->base + piece->bytes) {
            return piece;
        }
    }
    return NULL;
}

void *fake_cuda_alloc(int device, size_t bytes)
{
    return add_piece(device, bytes, CU_MEMORYTYPE_DEVICE, false)->base;
}

void *fake_cuda_alloc_managed(int device, size_t bytes)
{
    return add_piece(device, bytes, CU_MEMORYTYPE_DEVICE, true)->base;
}

void *fake_cuda_alloc_mapped(int device, size_t piece_bytes, unsigned piece_count)
{
    struct piece *piece = add_piece(device, piece_bytes * piece_count, CU_MEMORYTYPE_DEVICE, false);
    piece->mapped_bytes = piece_bytes;
    return piece->base;
}

void fake_cuda_free(void *memory)
{
    struct piece *piece = find_piece(memory);
    if (piece != NULL && piece->fd >= 0) {
        (void)munmap(piece->base, piece->bytes);
        (void)munmap(piece->alias, piece->bytes);
        (void)close(piece->fd);
        fake.freed = piece->base;
    } else if (piece != NULL) {
        free(piece->base);
    }
    if (piece != NULL) {
        piece->base = NULL;
    }
}

void fake_cuda_place_next(void *address)
{
    fake.freed = address;
}

void *fake_cuda_look(void *memory)
{
    const struct piece *piece = find_piece(memory);
    return piece != NULL ? piece->alias + ((char *)memory - piece->base) : memory;
}

unsigned fake_cuda_exports(void)
{
    return fake.exports;
}

/* ---- devices and contexts ---- */

CUresult cuInit(unsigned int flags)
{
    (void)flags;
    FAIL_POINT();
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text_p)
{
    FAIL_POINT();
    *text_p = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count_p)
{
    FAIL_POINT();
    *count_p = fake.device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device_p, int ordinal)
{
    FAIL_POINT();
    *device_p = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    FAIL_POINT();
    (void)snprintf(name, (size_t)length, "Fake %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value_p, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    FAIL_POINT();
    *value_p = 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) {
        *value_p = fake.dmabuf;
    } else if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) {
        *value_p = fake.ordering;
    } else if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) {
        *value_p = fake.flush_options;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    FAIL_POINT();
    (void)snprintf(text, (size_t)length, "0000:%02x:00.0", 0x1b + (unsigned)device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context_p, CUdevice device)
{
    FAIL_POINT();
    *context_p = (CUcontext)(uintptr_t)(0x1000 + device);
    fake.left++;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    fake.left--;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    (void)context;
    FAIL_POINT();
    fake.context_depth++;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context_p)
{
    *context_p = NULL;
    fake.context_depth--;
    return CUDA_SUCCESS;
}

static bool in_context(void)
{
    return fake.context_depth > 0;
}

/* ---- memory ---- */

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    const struct piece *piece = find_piece((const void *)(uintptr_t)address);
    FAIL_POINT();
    if (fake.context_needed && !in_context()) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (piece == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t part_bytes = piece->mapped_bytes != 0 ? piece->mapped_bytes : piece->bytes;
    size_t part = (address - (uintptr_t)piece->base) / part_bytes;
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
        memcpy(data, &(unsigned){piece->type}, sizeof(unsigned));
    } else if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
        memcpy(data, &(unsigned){piece->managed}, sizeof(unsigned));
    } else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
        memcpy(data, &piece->device, sizeof(int));
    } else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) {
        CUdeviceptr start = (uintptr_t)piece->base + part * part_bytes;
        memcpy(data, &start, sizeof(start));
    } else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) {
        memcpy(data, &part_bytes, sizeof(part_bytes));
    } else if (attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) {
        memcpy(data, &(int){piece->mapped_bytes == 0}, sizeof(int));
    } else if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID) {
        memcpy(data, &(unsigned long long){piece->id + part}, sizeof(unsigned long long));
    } else {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    unsigned on;
    FAIL_POINT();
    memcpy(&on, value, sizeof(on));
    return in_context() && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && on == 1 &&
                   find_piece((const void *)(uintptr_t)address) != NULL
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope)
{
    FAIL_POINT();
    if (!in_context() || (fake.flush_options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) == 0 ||
        target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    fake.flushes++;
    return CUDA_SUCCESS;
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags)
{
    const struct piece *piece = find_piece((const void *)(uintptr_t)address);
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    FAIL_POINT();
    if (!in_context() || piece == NULL || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
        flags != 0 || address % page_bytes != 0 || bytes % page_bytes != 0 ||
        address + bytes > (uintptr_t)piece->base + piece->bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* A true dmabuf begins at address; a file of the whole piece says where that is by its offset. */
    int fd = dup(piece->fd);
    if (fd < 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (void)lseek(fd, (off_t)(address - (uintptr_t)piece->base), SEEK_SET);
    fake.exports++;
    memcpy(handle, &fd, sizeof(fd));
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **memory_p, size_t bytes, unsigned int flags)
{
    (void)flags;
    FAIL_POINT();
    if (!in_context()) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *memory_p = add_piece(0, bytes, CU_MEMORYTYPE_HOST, false)->base;
    fake.left++;
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *memory)
{
    if (!in_context()) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    fake_cuda_free(memory);
    fake.left--;
    return CUDA_SUCCESS;
}

/* ---- streams ---- */

CUresult cuStreamCreate(CUstream *stream_p, unsigned int flags)
{
    (void)flags;
    FAIL_POINT();
    if (!in_context()) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *stream_p = calloc(1, sizeof(**stream_p));
    fake.left++;
    return *stream_p != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    FAIL_POINT();
    if (!in_context() || stream->count == COPIES_MAX) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    stream->copies[stream->count].to = (void *)(uintptr_t)to;
    stream->copies[stream->count].from = (void *)(uintptr_t)from;
    stream->copies[stream->count].bytes = bytes;
    stream->count++;
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    for (unsigned i = 0; i < stream->count; i++) {
        memcpy(fake_cuda_look(stream->copies[i].to), fake_cuda_look(stream->copies[i].from),
               stream->copies[i].bytes);
    }
    stream->count = 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream)
{
    FAIL_POINT();
    if (!in_context()) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (fake.hold && stream->count > 0) {
        return CUDA_ERROR_NOT_READY;
    }
    return cuStreamSynchronize(stream);
}

CUresult cuStreamDestroy(CUstream stream)
{
    free(stream);
    fake.left--;
    return CUDA_SUCCESS;
}
