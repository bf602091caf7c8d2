#pragma once
/* fake_cuda – what tests may ask of the CUDA driver of memory copies in fake_cuda.c. One thread. */

#include <cuda.h>
#include <stddef.h>

/* The device's memory, so many bytes of it in one allocation, which the CPU cannot touch. */
void *fake_cuda_alloc(int device, size_t bytes);
void *fake_cuda_alloc_managed(int device, size_t bytes);
/* The device's memory mapped piece by piece: to the driver each piece is an allocation of its own. */
void *fake_cuda_alloc_mapped(int device, size_t piece_bytes, unsigned piece_count);
/* Of any of them. New memory of the device gets the address of what was freed last, when it fits. */
void fake_cuda_free(void *memory);
/* The address that new memory of the device gets, if it is free there. */
void fake_cuda_place_next(void *address);

/* Where the CPU finds the same bytes. */
void *fake_cuda_look(void *memory);
/* Dmabufs that were given out. Each is the memory's own file, its position at the exported address. */
unsigned fake_cuda_exports(void);

/* The call of this name that comes after skip others of its name answers with an error, once. */
void fake_cuda_fail(const char *call, unsigned skip, CUresult result);
/* Copies wait until they are let go; then queries say so. */
void fake_cuda_hold_copies(int hold);
/* Devices that there are (2 at first), and whether they export dmabufs (1 at first). */
void fake_cuda_set(int devices, int dmabuf);
/* How devices see what adapters wrote, as the driver's attributes say it (100 and 0 at first). */
void fake_cuda_set_ordering(int ordering, int flush_options);
/* Whether questions about addresses take a current context, as they may in a thread that has none. */
void fake_cuda_set_context_needed(int needed);
unsigned fake_cuda_flushes(void);
/* Contexts and streams and pinned pieces that were made and not given back. */
int fake_cuda_left(void);
