#include "pattern.h"

#include <cuda_runtime.h>

#define THREADS 256U
#define BLOCKS  1024U

typedef unsigned long long count_type;

static __device__ unsigned char byte_at(size_t place, unsigned seed)
{
    return (unsigned char)(place * 7 + (place >> 8) + (place >> 16) * 3 + seed);
}

static __global__ void fill(unsigned char *memory, size_t bytes, unsigned seed)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += stride) {
        memory[i] = byte_at(i, seed);
    }
}

static __global__ void compare(const unsigned char *memory, size_t bytes, unsigned seed,
                               count_type *differences)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += stride) {
        if (memory[i] != byte_at(i, seed)) {
            atomicAdd(differences, 1ULL);
        }
    }
}

/* The device that memory is on becomes the current one. */
static bool enter_device(const void *memory)
{
    cudaPointerAttributes facts;
    return cudaPointerGetAttributes(&facts, memory) == cudaSuccess &&
           cudaSetDevice(facts.device) == cudaSuccess;
}

extern "C" int pattern_devices(const char **reason_p)
{
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    *reason_p = cudaGetErrorString(result);
    return result == cudaSuccess ? count : 0;
}

extern "C" void *pattern_alloc(int device, size_t bytes)
{
    void *memory = NULL;
    if (cudaSetDevice(device) != cudaSuccess || cudaMalloc(&memory, bytes) != cudaSuccess) {
        return NULL;
    }
    return memory;
}

extern "C" void pattern_free(void *memory)
{
    (void)cudaFree(memory);
}

extern "C" int pattern_fill(void *memory, size_t bytes, unsigned seed)
{
    if (!enter_device(memory)) {
        return 0;
    }
    fill<<<BLOCKS, THREADS>>>((unsigned char *)memory, bytes, seed);
    return cudaGetLastError() == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
}

extern "C" size_t pattern_differences(const void *memory, size_t bytes, unsigned seed)
{
    count_type *differences = NULL;
    count_type count = bytes;
    if (!enter_device(memory) || cudaMalloc(&differences, sizeof(*differences)) != cudaSuccess) {
        return bytes;
    }
    if (cudaMemset(differences, 0, sizeof(*differences)) == cudaSuccess) {
        compare<<<BLOCKS, THREADS>>>((const unsigned char *)memory, bytes, seed, differences);
        if (cudaGetLastError() != cudaSuccess ||
            cudaMemcpy(&count, differences, sizeof(count), cudaMemcpyDeviceToHost) != cudaSuccess) {
            count = bytes;
        }
    }
    (void)cudaFree(differences);
    return (size_t)count;
}
