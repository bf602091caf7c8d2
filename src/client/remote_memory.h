#pragma once
/* remote_memory – a client's RDMA devices and the buffers that it registered with each, so that the server
 * may read and write them. Made when a server first offers RDMA; one thread, in the process that made it.
 * Owns the module, the devices and the registrations; borrows the buffers until they are unregistered. */

#include "base/compiler.h"
#include "client/rail.h"

#include <kvasir/client.h>
#include <kvasir/transport.h>

#include <stdbool.h>

/* Buffers that one client may register. */
#define REMOTE_MEMORY_RANGES_MAX 4096U

struct remote_memory;

/* NULL: there is no module, or no device; said tells why. The options are borrowed for the call. */
struct remote_memory *remote_memory_open(const struct kvasir_options *options, char *said);
/* Every queue pair is closed. */
void remote_memory_close(struct remote_memory **memory_p);

const struct kvasir_transport_ops *remote_memory_ops(const struct remote_memory *memory);
/* 1 at least, RAILS_MAX at most. */
uint32_t remote_memory_device_count(const struct remote_memory *memory);
const struct kvasir_device *remote_memory_device(const struct remote_memory *memory,
                                                 uint32_t device);
struct kvasir_queue *remote_memory_queue(const struct remote_memory *memory, uint32_t device);
/* The GID to speak from to a peer. KVASIR_OK or what the transport says. */
ATTR_MUST_USE enum kvasir_status remote_memory_gid(const struct remote_memory *memory,
                                                   uint32_t device, const struct kvasir_gid *peer,
                                                   int index, struct kvasir_gid *gid_p, char *said);

/* How an adapter reaches the memory of another device. */
struct remote_dmabuf {
    int fd; /* borrowed for the call */
    uint64_t offset_bytes;
};

/* Registers a buffer with every device that takes it; what lies within one that is registered already is only counted. dmabuf: NULL for
 * the host's own memory. KVASIR_OK, KVASIR_BUSY (REMOTE_MEMORY_RANGES_MAX), KVASIR_NO_MEMORY, or what the
 * transport says where no device takes it. */
ATTR_MUST_USE enum kvasir_status remote_memory_add(struct remote_memory *memory, void *base,
                                                   size_t bytes, const struct remote_dmabuf *dmabuf,
                                                   char *said);
/* Undoes one remote_memory_add of the same buffer. KVASIR_OK; KVASIR_NOT_FOUND. */
ATTR_MUST_USE enum kvasir_status remote_memory_drop(struct remote_memory *memory, const void *base,
                                                    size_t bytes);

/* The same memory, length_bytes of it, for our own transfers; locals has room for one a piece. Returns how
 * many parts there are; 0: not all is registered. */
unsigned remote_memory_locals(struct remote_memory *memory, uint32_t device,
                              const struct iovec *segments, uint32_t segment_count,
                              uint64_t length_bytes, struct kvasir_local *locals);
/* Whether all pieces are registered, with some device at least. */
bool remote_memory_holds(struct remote_memory *memory, const struct iovec *segments,
                         uint32_t segment_count);
/* How far the memory at an address is from each device (proximity.h), RAILS_MAX of them; until it is
 * unregistered. NULL: it is not registered. */
const uint8_t *remote_memory_distances(struct remote_memory *memory, const void *address);
/* How the server names these pieces of memory, which are registered. Returns how many parts there are;
 * 0: not all is registered, or there are more than capacity. */
unsigned remote_memory_expose(struct remote_memory *memory, uint32_t device,
                              const struct iovec *segments, uint32_t segment_count,
                              struct kvasir_remote *remotes, unsigned capacity);
