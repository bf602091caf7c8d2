#pragma once
/* bounce – items whose payload lies in the memory of a device, and their way through pinned host memory
 * where no adapter reaches that: a put's bytes are copied to the host before the item is sent, those of a get to
 * the device after it was answered. Copies go in rounds, the next one while the items of the last are on
 * their way. Driven by the engine; one thread.
 *
 * Where no device memory is registered a client has no bounces, and nothing of this is called. */

#include "base/compiler.h"
#include "client/device_memory.h"

#include <kvasir/types.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct bounce; /* of one item */
struct bounces;
struct job_item;
struct kvasir_client;
struct kvasir_request;

/* NULL: out of memory. Takes over what *devices_p is. */
struct bounces *bounce_create(struct device_memory **devices_p);
/* No request is in flight, and no adapter uses host memory of it. */
void bounce_destroy(struct bounces **bounces_p);
struct device_memory *bounce_devices(const struct bounces *bounces);

/* Before the item is queued: where its payload is in a device's memory, the item is marked. False: it was
 * answered, because that cannot be. */
ATTR_MUST_USE bool bounce_mark(struct kvasir_request *request, uint32_t index);
/* Whether only the device and what reaches its memory may touch the item's bytes. */
bool bounce_is_apart(const struct job_item *work);
/* The pieces of host memory that stand for the item's; NULL: they are its own. */
const struct iovec *bounce_segments(const struct job_item *work, uint32_t *count_p);
/* A marked item, which its queue was taken off, is to go by host memory. It comes back into the queue when
 * that is there. */
void bounce_enter(struct kvasir_request *request, uint32_t index);
/* The item ends with *status_p, which is another one afterwards where the device did not do its part.
 * False: its bytes are to be copied first, job_copied will follow. */
ATTR_MUST_USE bool bounce_leave(struct kvasir_request *request, uint32_t index,
                                enum kvasir_status *status_p);

/* Goes on with copies. True: items went back into their queues, or ended. */
bool bounce_advance(struct kvasir_client *client);
/* Whether copies are under way, which nothing but looking tells the end of. */
bool bounce_is_copying(const struct kvasir_client *client);
/* Registers with the client's RDMA device what is pinned. */
void bounce_expose(struct kvasir_client *client);
