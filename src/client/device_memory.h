#pragma once
/* device_memory – the memory of devices (GPUs) as a client sees it: the module that knows it, the buffers
 * in it that the caller registered, copies to and from it, and pinned host memory, in lanes, that payload
 * is staged in. One thread, in the process that made it. Owns the module, the lanes and the copiers;
 * borrows the buffers until they are dropped. */

#include "base/compiler.h"

#include <kvasir/client.h>
#include <kvasir/space.h>

/* Buffers that one client may register. */
#define DEVICE_MEMORY_RANGES_MAX 4096U
/* Of pinned memory, and what is pinned at a time. */
#define DEVICE_MEMORY_LANE_BYTES ((size_t)1 << 20)
#define DEVICE_MEMORY_SLAB_LANES 16U

struct device_memory;

/* Whether a driver of devices is in this process: without one there is nothing to know, and a module need
 * not be loaded. */
bool device_memory_is_possible(void);
/* NULL: no module, or it does not work here; said (KVASIR_SAID_BYTES) tells why. The options are borrowed
 * for the call. */
struct device_memory *device_memory_open(const struct kvasir_options *options, char *said);
/* Waits for copies under way. No adapter uses the lanes any more. */
void device_memory_close(struct device_memory **memory_p);

/* ---- buffers ---- */

/* Whether a buffer is the device's own memory. KVASIR_OK: it is; KVASIR_NOT_FOUND: it is the host's;
 * KVASIR_INVALID: it does not lie within one allocation; KVASIR_IO. said tells why. */
ATTR_MUST_USE enum kvasir_status device_memory_find(const struct device_memory *memory,
                                                    const void *base, size_t bytes,
                                                    struct kvasir_space_range *range_p, char *said);
/* As kvasir_space_ops.export_dmabuf. */
ATTR_MUST_USE enum kvasir_status device_memory_export(const struct device_memory *memory,
                                                      const void *base, size_t bytes, int *fd_p,
                                                      uint64_t *offset_p, char *said);
/* Registers a buffer of what was found, as often as is wished. KVASIR_OK; KVASIR_BUSY
 * (DEVICE_MEMORY_RANGES_MAX), KVASIR_NO_MEMORY, KVASIR_IO. */
ATTR_MUST_USE enum kvasir_status device_memory_add(struct device_memory *memory, const void *base,
                                                   size_t bytes,
                                                   const struct kvasir_space_range *range,
                                                   char *said);
/* A registered buffer whose memory is no more: it was freed without having been unregistered, as what was
 * found in its place tells. False: there is none (left, once each was dropped in turn). */
bool device_memory_find_gone(const struct device_memory *memory,
                             const struct kvasir_space_range *range, struct iovec *gone_p);
/* Undoes one device_memory_add of the same buffer. KVASIR_OK; KVASIR_NOT_FOUND. */
ATTR_MUST_USE enum kvasir_status device_memory_drop(struct device_memory *memory, const void *base,
                                                    size_t bytes);

enum device_memory_place {
    DEVICE_MEMORY_OUTSIDE, /* no registered buffer has a byte of it */
    DEVICE_MEMORY_INSIDE,  /* one registered buffer has all */
    DEVICE_MEMORY_ASTRIDE, /* it reaches beyond one */
};
/* Where a piece lies; *device_p is set where it lies inside. */
enum device_memory_place device_memory_place(struct device_memory *memory, const void *base,
                                             size_t bytes, int *device_p);

/* ---- lanes ---- */

/* How many there are at most; fewer once the driver pinned no more. */
uint32_t device_memory_lanes_max(const struct device_memory *memory);
/* Takes count lanes, whole ones. False: they are not free now. */
ATTR_MUST_USE bool device_memory_lanes_take(struct device_memory *memory, struct iovec *lanes,
                                            uint32_t count);
void device_memory_lanes_give(struct device_memory *memory, const struct iovec *lanes,
                              uint32_t count);
/* What is pinned so far, piece by piece: for adapters to register. False: there is no such piece. */
bool device_memory_slab(const struct device_memory *memory, uint32_t index, struct iovec *slab_p);

/* ---- copies ---- */

/* What adapters wrote into a registered piece by now is seen by the device's work from here on. KVASIR_OK;
 * KVASIR_IO. */
ATTR_MUST_USE enum kvasir_status device_memory_settle(struct device_memory *memory,
                                                      const struct iovec *pieces, uint32_t count,
                                                      char *said);
/* Begins a copy between one device and the host; whether it could, the poll tells. */
void device_memory_copy(struct device_memory *memory, int device, void *to, const void *from,
                        size_t bytes);
/* KVASIR_OK: all that were begun are done; KVASIR_PENDING; KVASIR_IO: some failed, *said_p tells why, none
 * is under way any more, and the next begin anew. */
ATTR_MUST_USE enum kvasir_status device_memory_poll(struct device_memory *memory,
                                                    const char **said_p);
