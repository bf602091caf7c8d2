#include "client/device_memory.h"

#include "base/check.h"
#include "client/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than any machine has. */
#define DEVICES_MAX 64

/* A buffer that the caller registered. */
struct range {
    uintptr_t base;
    size_t bytes;
    uint64_t id;    /* of its memory; 0: not known */
    uint32_t count; /* how often it was added */
    int device;
};

struct copier {
    struct kvasir_copier *copier; /* owned; NULL: none is open */
    bool pending;
};

struct device_memory {
    struct loader *loader;              /* owned */
    const struct kvasir_space_ops *ops; /* borrowed from the loader's registry */
    void *state;
    struct range *ranges; /* owned, DEVICE_MEMORY_RANGES_MAX */
    uint32_t range_count;
    uint32_t last; /* where a piece was found last: the next is near */
    struct copier copiers[DEVICES_MAX];
    uint32_t lanes_max;
    uint32_t lane_count; /* pinned so far */
    uint32_t free_count;
    uint8_t **free_lanes; /* owned, lanes_max; the first free_count are free */
    struct iovec *slabs;  /* owned */
    uint32_t slab_count;
    bool failed; /* a copy since all were done */
    char said[KVASIR_SAID_BYTES];
};

/* The one space that there is, and whose driver a process must have loaded to have such memory. */
static const char space_name[] = "cuda";
static const char module_file[] = "cuda.so";
static const char driver_library[] = "libcuda.so.1";

bool device_memory_is_possible(void)
{
    void *library = dlopen(driver_library, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) {
        return false;
    }
    (void)dlclose(library);
    return true;
}

static bool load_module(struct device_memory *memory, const char *wanted, char *said)
{
    const struct registry_entry *entry;
    memory->loader = plugin_load(wanted, module_file, said);
    if (memory->loader == NULL) {
        return false;
    }
    entry =
        registry_find(loader_registry(memory->loader), REGISTRY_SPACE, slice_of_text(space_name));
    if (entry == NULL) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "the module brings no memory space %s", space_name);
        return false;
    }
    memory->ops = &entry->ops.space;
    memory->state = entry->state;
    return true;
}

struct device_memory *device_memory_open(const struct kvasir_options *options, char *said)
{
    struct device_memory *memory = calloc(1, sizeof(*memory));
    (void)snprintf(said, KVASIR_SAID_BYTES, "out of memory");
    if (memory == NULL) {
        return NULL;
    }
    memory->lanes_max = (uint32_t)(options->bounce_bytes / DEVICE_MEMORY_LANE_BYTES);
    memory->free_lanes = calloc(memory->lanes_max, sizeof(*memory->free_lanes));
    memory->slabs =
        calloc(memory->lanes_max / DEVICE_MEMORY_SLAB_LANES + 1, sizeof(*memory->slabs));
    memory->ranges = calloc(DEVICE_MEMORY_RANGES_MAX, sizeof(*memory->ranges));
    if (memory->free_lanes == NULL || memory->slabs == NULL || memory->ranges == NULL ||
        !load_module(memory, options->cuda_module, said)) {
        device_memory_close(&memory);
    }
    return memory;
}

void device_memory_close(struct device_memory **memory_p)
{
    struct device_memory *memory = *memory_p;
    if (memory == NULL) {
        return;
    }
    for (unsigned i = 0; i < DEVICES_MAX; i++) {
        if (memory->copiers[i].copier != NULL) {
            memory->ops->copier_close(&memory->copiers[i].copier);
        }
    }
    for (uint32_t i = 0; i < memory->slab_count; i++) {
        memory->ops->pinned_free(memory->state, &memory->slabs[i].iov_base);
    }
    if (memory->loader != NULL) {
        loader_destroy(&memory->loader);
    }
    free(memory->ranges);
    free(memory->slabs);
    free(memory->free_lanes);
    free(memory);
    *memory_p = NULL;
}

/* ---- buffers ------------------------------------------------------------------------------- */

enum kvasir_status device_memory_find(const struct device_memory *memory, const void *base,
                                      size_t bytes, struct kvasir_space_range *range_p, char *said)
{
    struct kvasir_space_range range;
    enum kvasir_status status = memory->ops->find(memory->state, base, bytes, &range);
    if (status == KVASIR_IO) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "the driver cannot say what address %p is", base);
        return status;
    }
    /* What the driver manages or pinned is the host's as well. */
    if (status != KVASIR_OK || range.kind != KVASIR_SPACE_DEVICE) {
        return KVASIR_NOT_FOUND;
    }
    size_t before = (size_t)((uintptr_t)base - (uintptr_t)range.base);
    if (range.device < 0 || range.device >= DEVICES_MAX) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "device %d is beyond the %d that are known",
                       range.device, DEVICES_MAX);
        return KVASIR_INVALID;
    }
    if (before > range.bytes || bytes > range.bytes - before) {
        (void)snprintf(said, KVASIR_SAID_BYTES,
                       "%zu bytes from %p reach beyond their allocation of %zu bytes on device %d",
                       bytes, base, range.bytes, range.device);
        return KVASIR_INVALID;
    }
    *range_p = range;
    return KVASIR_OK;
}

enum kvasir_status device_memory_export(const struct device_memory *memory, const void *base,
                                        size_t bytes, int *fd_p, uint64_t *offset_p, char *said)
{
    return memory->ops->export_dmabuf(memory->state, base, bytes, fd_p, offset_p, said);
}

static struct range *find_exactly(struct device_memory *memory, uintptr_t base, size_t bytes)
{
    for (uint32_t i = 0; i < memory->range_count; i++) {
        struct range *range = &memory->ranges[i];
        if (range->base == base && range->bytes == bytes) {
            return range;
        }
    }
    return NULL;
}

static bool open_copier(struct device_memory *memory, int device, char *said)
{
    struct copier *copier = &memory->copiers[device];
    return copier->copier != NULL ||
           memory->ops->copier_open(memory->state, device, &copier->copier, said) == KVASIR_OK;
}

enum kvasir_status device_memory_add(struct device_memory *memory, const void *base, size_t bytes,
                                     const struct kvasir_space_range *range, char *said)
{
    struct range *known = find_exactly(memory, (uintptr_t)base, bytes);
    if (known != NULL) {
        known->count++;
        return KVASIR_OK;
    }
    if (memory->range_count == DEVICE_MEMORY_RANGES_MAX) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "%u buffers of devices are registered already",
                       DEVICE_MEMORY_RANGES_MAX);
        return KVASIR_BUSY;
    }
    /* Now, so that a device that cannot be used is found out here. */
    if (!open_copier(memory, range->device, said)) {
        return KVASIR_IO;
    }
    memory->ranges[memory->range_count++] = (struct range){.base = (uintptr_t)base,
                                                           .bytes = bytes,
                                                           .id = range->id,
                                                           .count = 1,
                                                           .device = range->device};
    return KVASIR_OK;
}

/* Where this memory is now there was another when the buffer was registered. */
static bool was_replaced(const struct range *range, const struct kvasir_space_range *now)
{
    uintptr_t base = (uintptr_t)now->base;
    return range->id != 0 && now->id != 0 && range->id != now->id &&
           range->base < base + now->bytes && base < range->base + range->bytes;
}

bool device_memory_find_gone(const struct device_memory *memory,
                             const struct kvasir_space_range *range, struct iovec *gone_p)
{
    const struct range *gone = NULL;
    for (uint32_t i = 0; i < memory->range_count && gone == NULL; i++) {
        gone = was_replaced(&memory->ranges[i], range) ? &memory->ranges[i] : NULL;
    }
    if (gone == NULL) {
        return false;
    }
    /* What else lay in that memory is gone, too; it comes first, while this one is there to know it by. */
    for (uint32_t i = 0; i < memory->range_count; i++) {
        const struct range *other = &memory->ranges[i];
        if (other->id == gone->id && !was_replaced(other, range)) {
            gone = other;
            break;
        }
    }
    *gone_p = (struct iovec){.iov_base = (void *)gone->base, .iov_len = gone->bytes};
    return true;
}

enum kvasir_status device_memory_drop(struct device_memory *memory, const void *base, size_t bytes)
{
    struct range *range = find_exactly(memory, (uintptr_t)base, bytes);
    if (range == NULL) {
        return KVASIR_NOT_FOUND;
    }
    range->count--;
    if (range->count == 0) {
        memory->range_count--;
        *range = memory->ranges[memory->range_count];
        memory->last = 0;
    }
    return KVASIR_OK;
}

enum device_memory_place device_memory_place(struct device_memory *memory, const void *base,
                                             size_t bytes, int *device_p)
{
    enum device_memory_place place = DEVICE_MEMORY_OUTSIDE;
    uintptr_t from = (uintptr_t)base;
    uintptr_t to = bytes <= UINTPTR_MAX - from ? from + bytes : UINTPTR_MAX;
    for (uint32_t i = 0; i < memory->range_count; i++) {
        uint32_t at = (memory->last + i) % memory->range_count;
        const struct range *range = &memory->ranges[at];
        if (from >= range->base && to <= range->base + range->bytes) {
            memory->last = at;
            *device_p = range->device;
            return DEVICE_MEMORY_INSIDE;
        }
        if (from < range->base + range->bytes && to > range->base) {
            place = DEVICE_MEMORY_ASTRIDE;
        }
    }
    return place;
}

/* ---- lanes --------------------------------------------------------------------------------- */

uint32_t device_memory_lanes_max(const struct device_memory *memory)
{
    return memory->lanes_max;
}

/* What the driver does not pin now it is not asked for again. */
static void add_slab(struct device_memory *memory)
{
    char said[KVASIR_SAID_BYTES];
    uint32_t count = memory->lanes_max - memory->lane_count;
    void *base = NULL;
    int device = memory->range_count > 0 ? memory->ranges[0].device : 0;
    count = count < DEVICE_MEMORY_SLAB_LANES ? count : DEVICE_MEMORY_SLAB_LANES;
    size_t bytes = count * DEVICE_MEMORY_LANE_BYTES;
    if (memory->ops->pinned_alloc(memory->state, device, bytes, &base, said) != KVASIR_OK) {
        memory->lanes_max = memory->lane_count;
        return;
    }
    memory->slabs[memory->slab_count++] = (struct iovec){.iov_base = base, .iov_len = bytes};
    memory->lane_count += count;
    for (uint32_t i = count; i > 0; i--) {
        memory->free_lanes[memory->free_count++] =
            (uint8_t *)base + (i - 1) * DEVICE_MEMORY_LANE_BYTES;
    }
}

bool device_memory_lanes_take(struct device_memory *memory, struct iovec *lanes, uint32_t count)
{
    while (memory->free_count < count && memory->lane_count < memory->lanes_max) {
        add_slab(memory);
    }
    if (memory->free_count < count) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        lanes[i] = (struct iovec){.iov_base = memory->free_lanes[--memory->free_count],
                                  .iov_len = DEVICE_MEMORY_LANE_BYTES};
    }
    return true;
}

void device_memory_lanes_give(struct device_memory *memory, const struct iovec *lanes,
                              uint32_t count)
{
    check(memory->free_count + count <= memory->lane_count);
    for (uint32_t i = count; i > 0; i--) {
        memory->free_lanes[memory->free_count++] = lanes[i - 1].iov_base;
    }
}

bool device_memory_slab(const struct device_memory *memory, uint32_t index, struct iovec *slab_p)
{
    if (index >= memory->slab_count) {
        return false;
    }
    *slab_p = memory->slabs[index];
    return true;
}

/* ---- adapters ------------------------------------------------------------------------------- */

enum kvasir_status device_memory_settle(struct device_memory *memory, const struct iovec *pieces,
                                        uint32_t count, char *said)
{
    enum kvasir_status status = KVASIR_OK;
    int settled = -1; /* an item's pieces are mostly on one device */
    for (uint32_t i = 0; status == KVASIR_OK && i < count; i++) {
        int device = -1;
        if (pieces[i].iov_len > 0 &&
            device_memory_place(memory, pieces[i].iov_base, pieces[i].iov_len, &device) ==
                DEVICE_MEMORY_INSIDE &&
            device != settled) {
            status = memory->ops->settle(memory->state, device, said);
            settled = device;
        }
    }
    return status;
}

/* ---- copies -------------------------------------------------------------------------------- */

void device_memory_copy(struct device_memory *memory, int device, void *to, const void *from,
                        size_t bytes)
{
    struct copier *copier = &memory->copiers[device];
    if (!open_copier(memory, device, memory->said)) {
        memory->failed = true;
        return;
    }
    /* Where it does not begin the copier failed for good, and the poll tells so. */
    (void)memory->ops->copy(copier->copier, to, from, bytes);
    copier->pending = true;
}

enum kvasir_status device_memory_poll(struct device_memory *memory, const char **said_p)
{
    bool pending = false;
    bool failed;
    for (int i = 0; i < DEVICES_MAX; i++) {
        struct copier *copier = &memory->copiers[i];
        enum kvasir_status status =
            copier->pending ? memory->ops->copier_poll(copier->copier) : KVASIR_OK;
        copier->pending = status == KVASIR_PENDING;
        pending = pending || copier->pending;
        if (status != KVASIR_OK && status != KVASIR_PENDING) {
            (void)snprintf(memory->said, sizeof(memory->said), "a copy to or from device %d failed",
                           i);
            memory->failed = true;
            memory->ops->copier_close(&copier->copier);
        }
    }
    if (pending) {
        return KVASIR_PENDING;
    }
    failed = memory->failed;
    memory->failed = false;
    *said_p = memory->said;
    return failed ? KVASIR_IO : KVASIR_OK;
}
