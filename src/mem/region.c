#include "mem/region.h"

#include "base/check.h"
#include "base/fault.h"
#include "base/number.h"
#include "mem/numa.h"
#include "mem/region_limits.h"
#include "mem/region_populate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define REGION_ALIGN_BYTES (2UL << 20)

struct region {
    uint8_t *base; /* owned mapping */
    size_t size_bytes;
    int fd; /* owned; -1 when private */
    char name[32];
    bool registered;
    enum region_pages page_kind;
};

/* Where the sentence about a failure goes. */
struct region_error {
    char *text;
    size_t capacity;
};

static void region_explain(const struct region_error *error, const struct region_config *config,
                           const char *what, int error_number)
{
    char size[32];
    number_format_bytes(size, sizeof(size), config->size_bytes);
    (void)snprintf(error->text, error->capacity, "%s memory of %s: %s: %s", config->name, size,
                   what, strerrordesc_np(error_number));
}

/* Address space at a 2 MiB boundary, so that huge pages can lie under it; nothing is behind it yet.
 * NULL: there is none. */
static uint8_t *region_reserve(size_t size_bytes)
{
    size_t wide_bytes = size_bytes + REGION_ALIGN_BYTES;
    void *wide =
        mmap(NULL, wide_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (wide == MAP_FAILED) {
        return NULL;
    }
    uint8_t *start = wide;
    size_t misfit = (uintptr_t)start % REGION_ALIGN_BYTES;
    size_t front_bytes = misfit > 0 ? REGION_ALIGN_BYTES - misfit : 0;
    size_t back_bytes = REGION_ALIGN_BYTES - front_bytes;
    if (front_bytes > 0) {
        munmap(start, front_bytes);
    }
    if (back_bytes > 0) {
        munmap(start + front_bytes + size_bytes, back_bytes);
    }
    return start + front_bytes;
}

/* Puts memory behind the reserved addresses. False: errno says why, and nothing is left open. */
static bool region_map(struct region *region, const struct region_config *config, bool is_huge)
{
    size_t size_bytes = is_huge ? config->size_bytes : region->size_bytes;
    int flags = MAP_FIXED;
    if (config->shared) {
        unsigned memfd_flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
        memfd_flags |= is_huge ? (unsigned)MFD_HUGETLB | MFD_HUGE_2MB : 0;
        region->fd = fault_hit("region_memfd") ? -1 : memfd_create(config->name, memfd_flags);
        if (region->fd < 0 || ftruncate(region->fd, (off_t)size_bytes) != 0) {
            goto close_file;
        }
        flags |= MAP_SHARED;
    } else {
        flags |= MAP_PRIVATE | MAP_ANONYMOUS | (is_huge ? MAP_HUGETLB | MAP_HUGE_2MB : 0);
    }
    /* Huge pages are set aside by this very call: it fails when too few are free. */
    flags |= size_bytes > config->size_bytes ? MAP_NORESERVE : 0;
    if (!fault_hit("region_map") && mmap(region->base, size_bytes, PROT_READ | PROT_WRITE, flags,
                                         region->fd, 0) != MAP_FAILED) {
        return true;
    }
close_file:
    if (region->fd >= 0) {
        int saved = errno;
        close(region->fd);
        region->fd = -1;
        errno = saved;
    }
    return false;
}

/* The word in brackets in one of the kernel's selection files says what it does with the advice. */
static bool region_advice_counts(bool is_shared)
{
    const char *path = is_shared ? "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
                                 : "/sys/kernel/mm/transparent_hugepage/enabled";
    char text[128];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0) {
        return false;
    }
    text[length] = '\0';
    return strstr(text, "[never]") == NULL && strstr(text, "[deny]") == NULL;
}

static enum region_pages region_advise(const struct region *region,
                                       const struct region_config *config)
{
    if (!config->huge_try || madvise(region->base, region->size_bytes, MADV_HUGEPAGE) != 0) {
        return REGION_PAGES_SMALL;
    }
    return region_advice_counts(config->shared) ? REGION_PAGES_TRANSPARENT : REGION_PAGES_SMALL;
}

/* After this nobody can change the size or map the file for writing; our own mapping still can. */
static bool region_seal(const struct region *region)
{
    return !fault_hit("region_seal") &&
           fcntl(region->fd, F_ADD_SEALS,
                 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0;
}

static void region_drop_reserve(struct region *region, const struct region_config *config)
{
    if (region->size_bytes > config->size_bytes) {
        munmap(region->base + config->size_bytes, region->size_bytes - config->size_bytes);
        region->size_bytes = config->size_bytes;
    }
}

/* Address space costs nothing but where it is rationed. */
static size_t region_wanted_bytes(const struct region_config *config)
{
    struct rlimit space, file;
    bool is_rationed = getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur != RLIM_INFINITY ||
                       getrlimit(RLIMIT_FSIZE, &file) != 0 || file.rlim_cur != RLIM_INFINITY;
    return is_rationed || config->reserve_bytes < config->size_bytes ? config->size_bytes
                                                                     : config->reserve_bytes;
}

static enum kvasir_status region_acquire(struct region *region, const struct region_config *config,
                                         const struct region_error *error)
{
    if (config->huge_try && region_map(region, config, true)) {
        region->page_kind = REGION_PAGES_HUGE;
        region_drop_reserve(region, config);
        return KVASIR_OK;
    }
    const struct region_limits_ask ask = {
        .root = "",
        .name = config->name,
        .size_bytes = config->size_bytes,
        .is_file = config->shared,
    };
    if (!region_limits_allow(&ask, error->text, error->capacity)) {
        return KVASIR_NO_MEMORY;
    }
    bool is_mapped = region_map(region, config, false);
    if (!is_mapped && region->size_bytes > config->size_bytes) {
        region_drop_reserve(region, config);
        is_mapped = region_map(region, config, false);
    }
    if (!is_mapped) {
        int error_number = errno;
        region_explain(error, config,
                       config->shared ? "memfd cannot be mapped" : "cannot be mapped",
                       error_number);
        return error_number == ENOMEM ? KVASIR_NO_MEMORY : KVASIR_IO;
    }
    region->page_kind = region_advise(region, config);
    return KVASIR_OK;
}

size_t region_node_bytes(size_t size_bytes, uint32_t node_count)
{
    size_t part_bytes = (size_bytes + node_count - 1) / node_count;
    return (part_bytes + REGION_ALIGN_BYTES - 1) / REGION_ALIGN_BYTES * REGION_ALIGN_BYTES;
}

/* Where the kernel refuses, memory comes from the node of whoever touches it first. */
static void region_spread(const struct region *region, const struct region_config *config)
{
    const struct numa *numa = config->numa;
    if (numa == NULL || numa->node_count == 1) {
        return;
    }
    size_t part_bytes = region_node_bytes(config->size_bytes, numa->node_count);
    for (size_t offset = 0, part = 0; offset < region->size_bytes; offset += part_bytes, part++) {
        size_t left_bytes = region->size_bytes - offset;
        (void)numa_bind(numa, (uint32_t)(part % numa->node_count), region->base + offset,
                        left_bytes < part_bytes ? left_bytes : part_bytes);
    }
}

static enum kvasir_status region_finish(struct region *region, const struct region_config *config,
                                        const struct region_error *error)
{
    /* Payload in a core file helps nobody and would take the disk. */
    if (config->shared) {
        (void)madvise(region->base, region->size_bytes, MADV_DONTDUMP);
    }
    if (config->populate) {
        bool collapsed = false;
        const struct region_populate_job job = {
            .base = region->base,
            .size_bytes = config->size_bytes,
            .collapse = config->huge_try && region->page_kind == REGION_PAGES_SMALL,
            .thread_count = config->populate_threads,
            .progress = config->progress,
            .progress_argument = config->progress_argument,
            .cancelled = config->cancelled,
        };
        int rc = region_populate(&job, &collapsed);
        if (rc == ECANCELED) {
            region_explain(error, config, "was not wanted any more", rc);
            return KVASIR_CANCELLED;
        }
        if (rc != 0) {
            region_explain(error, config, "the kernel ran out of pages; lower --maxmemory", rc);
            return KVASIR_NO_MEMORY;
        }
        if (collapsed) {
            region->page_kind = REGION_PAGES_TRANSPARENT;
        }
    }
    if (config->shared && !region_seal(region)) {
        region_explain(error, config,
                       "cannot be sealed against writers (Linux 5.1 or later needed)", errno);
        return KVASIR_IO;
    }
    return KVASIR_OK;
}

enum kvasir_status region_create(const struct region_config *config, char *error,
                                 size_t error_capacity, struct region **region_p)
{
    const struct region_error where = {.text = error, .capacity = error_capacity};
    if (config->size_bytes == 0 || config->size_bytes % REGION_ALIGN_BYTES != 0) {
        (void)snprintf(error, error_capacity,
                       "%s memory of %zu bytes: the size must be a multiple of 2 MiB and not 0",
                       config->name, config->size_bytes);
        return KVASIR_INVALID;
    }
    struct region *region = fault_hit("region_create") ? NULL : malloc(sizeof(*region));
    if (region == NULL) {
        region_explain(&where, config, "no memory to describe it", ENOMEM);
        return KVASIR_NO_MEMORY;
    }
    *region = (struct region){
        .size_bytes = region_wanted_bytes(config), .fd = -1, .registered = config->registered};
    (void)snprintf(region->name, sizeof(region->name), "%s", config->name);
    enum kvasir_status status = KVASIR_NO_MEMORY;
    region->base = region_reserve(region->size_bytes);
    if (region->base == NULL) {
        region->size_bytes = config->size_bytes;
        region->base = region_reserve(region->size_bytes);
    }
    if (region->base == NULL) {
        /* Either a limit that can be named, or the machine has no such address space. */
        const struct region_limits_ask ask = {
            .root = "", .name = config->name, .size_bytes = config->size_bytes};
        if (region_limits_allow(&ask, error, error_capacity)) {
            region_explain(&where, config, "no address space", ENOMEM);
        }
    } else {
        status = region_acquire(region, config, &where);
    }
    if (status == KVASIR_OK) {
        region_spread(region, config);
        status = region_finish(region, config, &where);
    }
    if (status != KVASIR_OK) {
        region_destroy(&region);
        return status;
    }
    *region_p = region;
    return KVASIR_OK;
}

void region_destroy(struct region **region_p)
{
    struct region *region = *region_p;
    *region_p = NULL;
    if (region == NULL) {
        return;
    }
    if (region->base != NULL) {
        munmap(region->base, region->size_bytes);
    }
    if (region->fd >= 0) {
        close(region->fd);
    }
    free(region);
}

bool region_fill(const struct region *region, size_t offset_bytes, size_t length_bytes)
{
    check(offset_bytes + length_bytes <= region->size_bytes);
    const struct region_populate_job job = {
        .base = region->base + offset_bytes,
        .size_bytes = length_bytes,
        .thread_count = 1,
    };
    return !fault_hit("region_fill") && region_populate_here(&job) == 0;
}

bool region_release(const struct region *region, size_t offset_bytes, size_t length_bytes)
{
    check(offset_bytes + length_bytes <= region->size_bytes);
    int advice = region->fd >= 0 ? MADV_REMOVE : MADV_DONTNEED;
    return !region->registered && madvise(region->base + offset_bytes, length_bytes, advice) == 0;
}

bool region_can_release(const struct region *region)
{
    return region->fd < 0 && region->page_kind != REGION_PAGES_HUGE && !region->registered;
}

bool region_may_grow(const struct region *region, size_t more_bytes, char *error,
                     size_t error_capacity)
{
    const struct region_limits_ask ask = {
        .root = "",
        .name = region->name,
        .size_bytes = more_bytes,
        .is_file = region->fd >= 0,
    };
    return region_limits_allow(&ask, error, error_capacity);
}

uint8_t *region_base(const struct region *region)
{
    return region->base;
}

size_t region_size_bytes(const struct region *region)
{
    return region->size_bytes;
}

enum region_pages region_page_kind(const struct region *region)
{
    return region->page_kind;
}

int region_descriptor(const struct region *region)
{
    return region->fd;
}
