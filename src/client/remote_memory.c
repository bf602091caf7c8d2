#include "client/remote_memory.h"

#include "base/check.h"
#include "client/plugin.h"
#include "client/proximity.h"
#include "client/rdma_move.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 16U

/* A buffer that the caller registered. One that lies within another has no registration of its own, but
 * counts on the other's. */
struct range {
    uint64_t base, bytes;
    uint32_t count;       /* how often it was added */
    uint32_t inner_count; /* ranges that lie within it and use its registration */
    struct range *outer;  /* has the registrations; NULL: this one */
    struct kvasir_memory
        *memories[RAILS_MAX];     /* owned; of each device, NULL: it does not take it */
    uint8_t distances[RAILS_MAX]; /* from each device */
};

struct device {
    struct kvasir_domain *domain; /* owned */
    struct kvasir_queue *queue;   /* owned */
};

struct remote_memory {
    struct loader *loader;                  /* owned */
    const struct kvasir_transport_ops *ops; /* borrowed from the loader's registry */
    void *state;
    uint32_t device_count;
    struct device devices[RAILS_MAX];
    uint32_t range_count;
    uint32_t last; /* where a piece was found last: the next is near */
    struct range *ranges[REMOTE_MEMORY_RANGES_MAX]; /* owned */
};

/* ---- the module and the device ---- */

static bool load_module(struct remote_memory *memory, const char *wanted, char *said)
{
    const struct registry_entry *entry;
    memory->loader = plugin_load(wanted, "rdma.so", said);
    if (memory->loader == NULL) {
        return false;
    }
    entry =
        registry_find(loader_registry(memory->loader), REGISTRY_TRANSPORT, slice_of_text("rdma"));
    if (entry == NULL) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "the module brings no transport rdma");
        return false;
    }
    memory->ops = &entry->ops.transport;
    memory->state = entry->state;
    return true;
}

/* The option names devices, with commas between. */
static bool is_wanted(const char *wanted, const char *name)
{
    size_t length = strlen(name);
    const char *at = wanted;
    while (at != NULL) {
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
        at = strchr(at, ',');
        at = at != NULL ? at + 1 : NULL;
    }
    return wanted == NULL;
}

static bool open_device(struct remote_memory *memory, const struct kvasir_device *found,
                        const struct kvasir_options *options, char *said)
{
    /* Where the server does the work, a client's queue pairs have no jobs. */
    const struct kvasir_queue_options queue = {
        .links_max = 256,
        .jobs_max = options->rdma_mode == KVASIR_RDMA_CLIENT ? RDMA_MOVE_JOBS_MAX : 1};
    struct device *device = &memory->devices[memory->device_count];
    if (memory->ops->domain_open(memory->state, found->name, found->port, options->rdma_gid_index,
                                 &device->domain, said) != KVASIR_OK) {
        return false;
    }
    if (memory->ops->queue_create(device->domain, &queue, &device->queue, said) != KVASIR_OK) {
        memory->ops->domain_close(&device->domain);
        return false;
    }
    memory->device_count++;
    return true;
}

/* False: not one; said tells why. */
static bool open_devices(struct remote_memory *memory, const struct kvasir_options *options,
                         char *said)
{
    struct kvasir_device *devices = calloc(DEVICES_MAX, sizeof(*devices));
    unsigned count = 0;
    (void)snprintf(said, KVASIR_SAID_BYTES, "out of memory");
    if (devices != NULL &&
        memory->ops->devices(memory->state, devices, DEVICES_MAX, &count, said) == KVASIR_OK) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "no device%s%s is up",
                       options->rdma_device != NULL ? " " : "",
                       options->rdma_device != NULL ? options->rdma_device : "");
    }
    for (unsigned i = 0; i < count && i < DEVICES_MAX && memory->device_count < RAILS_MAX; i++) {
        if (devices[i].up && is_wanted(options->rdma_device, devices[i].name)) {
            (void)open_device(memory, &devices[i], options, said);
        }
    }
    free(devices);
    return memory->device_count > 0;
}

struct remote_memory *remote_memory_open(const struct kvasir_options *options, char *said)
{
    struct remote_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "out of memory");
        return NULL;
    }
    if (load_module(memory, options->rdma_module, said) && open_devices(memory, options, said)) {
        return memory;
    }
    remote_memory_close(&memory);
    return NULL;
}

static void range_free(struct remote_memory *memory, struct range *range)
{
    for (uint32_t i = 0; i < memory->device_count; i++) {
        if (range->memories[i] != NULL) {
            memory->ops->memory_deregister(&range->memories[i]);
        }
    }
    free(range);
}

void remote_memory_close(struct remote_memory **memory_p)
{
    struct remote_memory *memory = *memory_p;
    if (memory == NULL) {
        return;
    }
    for (uint32_t i = 0; i < memory->device_count; i++) {
        memory->ops->queue_destroy(&memory->devices[i].queue);
    }
    for (uint32_t i = 0; i < memory->range_count; i++) {
        range_free(memory, memory->ranges[i]);
    }
    for (uint32_t i = 0; i < memory->device_count; i++) {
        memory->ops->domain_close(&memory->devices[i].domain);
    }
    if (memory->loader != NULL) {
        loader_destroy(&memory->loader);
    }
    free(memory);
    *memory_p = NULL;
}

const struct kvasir_transport_ops *remote_memory_ops(const struct remote_memory *memory)
{
    return memory->ops;
}

uint32_t remote_memory_device_count(const struct remote_memory *memory)
{
    return memory->device_count;
}

const struct kvasir_device *remote_memory_device(const struct remote_memory *memory,
                                                 uint32_t device)
{
    check(device < memory->device_count);
    return &memory->ops->domain_facts(memory->devices[device].domain)->device;
}

struct kvasir_queue *remote_memory_queue(const struct remote_memory *memory, uint32_t device)
{
    check(device < memory->device_count);
    return memory->devices[device].queue;
}

enum kvasir_status remote_memory_gid(const struct remote_memory *memory, uint32_t device,
                                     const struct kvasir_gid *peer, int index,
                                     struct kvasir_gid *gid_p, char *said)
{
    return memory->ops->choose_gid(memory->state, remote_memory_device(memory, device), index, peer,
                                   gid_p, said);
}

/* ---- ranges ---- */

static bool lies_within(const struct range *range, uint64_t base, uint64_t bytes)
{
    return base >= range->base && bytes <= range->bytes &&
           base - range->base <= range->bytes - bytes;
}

static struct range *find_exactly(struct remote_memory *memory, uint64_t base, uint64_t bytes)
{
    for (uint32_t i = 0; i < memory->range_count; i++) {
        struct range *range = memory->ranges[i];
        if (range->base == base && range->bytes == bytes && range->count > 0) {
            return range;
        }
    }
    return NULL;
}

/* The range whose registration serves these bytes: a buffer that holds them is registered now. What else a
 * registration covers that outlived its own buffer is the caller's again: other memory may lie there. */
static struct range *find_outer(struct remote_memory *memory, uint64_t base, uint64_t bytes)
{
    for (uint32_t i = 0; i < memory->range_count; i++) {
        uint32_t at = (memory->last + i) % memory->range_count;
        struct range *range = memory->ranges[at];
        if (range->count > 0 && lies_within(range, base, bytes)) {
            memory->last = at;
            return range->outer == NULL ? range : range->outer;
        }
    }
    return NULL;
}

/* KVASIR_OK: at least one device takes it. */
static enum kvasir_status register_range(struct remote_memory *memory, struct range *range,
                                         const struct kvasir_memory_options *options, char *said)
{
    enum kvasir_status first = KVASIR_OK;
    bool any = false;
    for (uint32_t i = 0; i < memory->device_count; i++) {
        enum kvasir_status status = memory->ops->memory_register(memory->devices[i].domain, options,
                                                                 &range->memories[i], said);
        any = any || status == KVASIR_OK;
        first = first == KVASIR_OK ? status : first;
    }
    return any ? KVASIR_OK : first;
}

/* Registering has brought all its pages. The nodes of devices' memory are not known. */
static void measure_range(const struct remote_memory *memory, struct range *range, bool is_host)
{
    int node = is_host ? proximity_node((const void *)(uintptr_t)range->base, range->bytes) : -1;
    for (uint32_t i = 0; i < memory->device_count; i++) {
        range->distances[i] =
            (uint8_t)proximity_distance("", remote_memory_device(memory, i)->numa_node, node);
    }
}

enum kvasir_status remote_memory_add(struct remote_memory *memory, void *base, size_t bytes,
                                     const struct remote_dmabuf *dmabuf, char *said)
{
    struct kvasir_memory_options options = {
        .base = base,
        .bytes = bytes,
        .rights = KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE | KVASIR_RIGHT_RELAXED,
        .dmabuf_fd = -1,
    };
    struct range *range = find_exactly(memory, (uintptr_t)base, bytes);
    if (dmabuf != NULL) {
        options.rights |= KVASIR_RIGHT_DMABUF;
        options.dmabuf_fd = dmabuf->fd;
        options.dmabuf_offset = dmabuf->offset_bytes;
    }
    if (range != NULL) {
        range->count++;
        return KVASIR_OK;
    }
    if (memory->range_count == REMOTE_MEMORY_RANGES_MAX) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "%u buffers are registered already",
                       REMOTE_MEMORY_RANGES_MAX);
        return KVASIR_BUSY;
    }
    range = calloc(1, sizeof(*range));
    if (range == NULL) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "out of memory");
        return KVASIR_NO_MEMORY;
    }
    *range = (struct range){.base = (uintptr_t)base, .bytes = bytes, .count = 1};
    range->outer = find_outer(memory, range->base, range->bytes);
    if (range->outer != NULL) {
        range->outer->inner_count++;
    } else {
        enum kvasir_status status = register_range(memory, range, &options, said);
        if (status != KVASIR_OK) {
            free(range);
            return status;
        }
        measure_range(memory, range, dmabuf == NULL);
    }
    memory->ranges[memory->range_count++] = range;
    return KVASIR_OK;
}

/* Takes a range that nobody needs off the list. */
static void forget(struct remote_memory *memory, struct range *range)
{
    uint32_t at = 0;
    while (memory->ranges[at] != range) {
        at++;
    }
    memory->range_count--;
    memory->ranges[at] = memory->ranges[memory->range_count];
    memory->last = 0;
    range_free(memory, range);
}

enum kvasir_status remote_memory_drop(struct remote_memory *memory, const void *base, size_t bytes)
{
    struct range *range = find_exactly(memory, (uintptr_t)base, bytes);
    struct range *outer;
    if (range == NULL) {
        return KVASIR_NOT_FOUND;
    }
    range->count--;
    if (range->count > 0 || range->inner_count > 0) {
        return KVASIR_OK; /* what lies within it still uses it */
    }
    outer = range->outer;
    forget(memory, range);
    if (outer != NULL) {
        outer->inner_count--;
        if (outer->inner_count == 0 && outer->count == 0) {
            forget(memory, outer);
        }
    }
    return KVASIR_OK;
}

const uint8_t *remote_memory_distances(struct remote_memory *memory, const void *address)
{
    const struct range *range = find_outer(memory, (uintptr_t)address, 1);
    return range != NULL ? range->distances : NULL;
}

unsigned remote_memory_expose(struct remote_memory *memory, uint32_t device,
                              const struct iovec *segments, uint32_t segment_count,
                              struct kvasir_remote *remotes, unsigned capacity)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < segment_count; i++) {
        uint64_t base = (uintptr_t)segments[i].iov_base;
        const struct range *range;
        unsigned more = 0;
        if (segments[i].iov_len == 0) {
            continue;
        }
        range = find_outer(memory, base, segments[i].iov_len);
        if (range == NULL || range->memories[device] == NULL ||
            memory->ops->memory_expose(range->memories[device], base, segments[i].iov_len,
                                       remotes + count, capacity - count, &more) != KVASIR_OK) {
            return 0;
        }
        count += more;
    }
    return count;
}

unsigned remote_memory_locals(struct remote_memory *memory, uint32_t device,
                              const struct iovec *segments, uint32_t segment_count,
                              uint64_t length_bytes, struct kvasir_local *locals)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < segment_count && length_bytes > 0; i++) {
        uint64_t bytes = segments[i].iov_len < length_bytes ? segments[i].iov_len : length_bytes;
        const struct range *range;
        if (bytes == 0) {
            continue;
        }
        range = find_outer(memory, (uintptr_t)segments[i].iov_base, bytes);
        if (range == NULL || range->memories[device] == NULL) {
            return 0;
        }
        locals[count++] = (struct kvasir_local){.memory = range->memories[device],
                                                .address = (uintptr_t)segments[i].iov_base,
                                                .bytes = bytes};
        length_bytes -= bytes;
    }
    return length_bytes == 0 ? count : 0;
}

bool remote_memory_holds(struct remote_memory *memory, const struct iovec *segments,
                         uint32_t segment_count)
{
    for (uint32_t i = 0; i < segment_count; i++) {
        if (segments[i].iov_len > 0 &&
            find_outer(memory, (uintptr_t)segments[i].iov_base, segments[i].iov_len) == NULL) {
            return false;
        }
    }
    return true;
}
