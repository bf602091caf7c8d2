#pragma once
/* cuda_driver – the functions of NVIDIA's driver library that the module uses, found at run time: the
 * module is built without the library and loads where there is none. Read-only once it is open. */

#include <kvasir/types.h>

#include <cuda.h>
#include <stddef.h>

/* Each by the name that the toolkit's header gives it, version suffix and all. */
#define CUDA_FUNCTIONS(ROW)            \
    ROW(cuInit)                        \
    ROW(cuGetErrorName)                \
    ROW(cuDeviceGetCount)              \
    ROW(cuDeviceGet)                   \
    ROW(cuDeviceGetName)               \
    ROW(cuDeviceGetAttribute)          \
    ROW(cuDeviceGetPCIBusId)           \
    ROW(cuDevicePrimaryCtxRetain)      \
    ROW(cuDevicePrimaryCtxRelease)     \
    ROW(cuCtxPushCurrent)              \
    ROW(cuCtxPopCurrent)               \
    ROW(cuPointerGetAttribute)         \
    ROW(cuMemGetHandleForAddressRange) \
    ROW(cuMemHostAlloc)                \
    ROW(cuMemFreeHost)                 \
    ROW(cuMemcpyAsync)                 \
    ROW(cuPointerSetAttribute)         \
    ROW(cuFlushGPUDirectRDMAWrites)    \
    ROW(cuStreamCreate)                \
    ROW(cuStreamDestroy)               \
    ROW(cuStreamQuery)                 \
    ROW(cuStreamSynchronize)

/* The header turns some names into others ("cuStreamDestroy_v2"); fields are named after those. */
#define CUDA_FIELD(function) __typeof__(&(function)) function;

struct cuda_driver {
    void *library;
    CUDA_FUNCTIONS(CUDA_FIELD)
};

/* Opens the library and initialises it. KVASIR_OK; KVASIR_NOT_FOUND: there is no driver here;
 * KVASIR_UNSUPPORTED: one that lacks a function; KVASIR_IO: it does not work. said
 * (KVASIR_SAID_BYTES) then tells why. */
enum kvasir_status cuda_driver_open(struct cuda_driver *driver, const char *path, char *said);
void cuda_driver_close(struct cuda_driver *driver);

/* "CUDA_ERROR_OUT_OF_MEMORY" */
const char *cuda_driver_error(const struct cuda_driver *driver, CUresult result);
