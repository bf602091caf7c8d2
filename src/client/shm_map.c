#include "client/shm_map.h"

#include "base/check.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The server's huge pages are huge pages here only where addresses allow: copies from 4 KiB pages
 * are a quarter slower. */
#define HUGE_PAGE_BYTES (2UL << 20)

static void *map_aligned(int fd, size_t length_bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    length_bytes = (length_bytes + page_bytes - 1) / page_bytes * page_bytes;
    uint8_t *wide = mmap(NULL, length_bytes + HUGE_PAGE_BYTES, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (wide == MAP_FAILED) {
        return MAP_FAILED;
    }
    size_t front = (HUGE_PAGE_BYTES - (uintptr_t)wide % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    void *bytes = mmap(wide + front, length_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    if (bytes == MAP_FAILED) {
        (void)munmap(wide, length_bytes + HUGE_PAGE_BYTES);
        return MAP_FAILED;
    }
    if (front > 0) {
        (void)munmap(wide, front);
    }
    (void)munmap(wide + front + length_bytes, HUGE_PAGE_BYTES - front);
    return bytes;
}

/* A mapping longer than its file would fault on access, so the announced size is compared first. */
static enum kvasir_status map_region(struct shm_map_table *table, int fd, size_t length_bytes,
                                     struct shm_map_region **region_p)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return KVASIR_IO;
    }
    if (length_bytes == 0 || (uint64_t)info.st_size < length_bytes) {
        return KVASIR_INVALID;
    }
    struct shm_map_region *free_region = NULL;
    for (size_t i = 0; i < ARRAY_COUNT(table->regions); i++) {
        struct shm_map_region *region = &table->regions[i];
        if (region->user_count == 0) {
            free_region = free_region == NULL ? region : free_region;
        } else if (region->device == info.st_dev && region->inode == info.st_ino &&
                   region->length_bytes == length_bytes) {
            region->user_count++;
            *region_p = region;
            return KVASIR_OK;
        }
    }
    if (free_region == NULL) {
        return KVASIR_BUSY;
    }
    void *bytes = map_aligned(fd, length_bytes);
    if (bytes == MAP_FAILED) {
        return KVASIR_IO;
    }
    *free_region = (struct shm_map_region){.bytes = bytes,
                                           .length_bytes = length_bytes,
                                           .device = info.st_dev,
                                           .inode = info.st_ino,
                                           .user_count = 1};
    *region_p = free_region;
    return KVASIR_OK;
}

static enum kvasir_status map_staging(int fd, size_t length_bytes, uint8_t **staging_p)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return KVASIR_IO;
    }
    if (length_bytes == 0 || (uint64_t)info.st_size < length_bytes) {
        return KVASIR_INVALID;
    }
    void *bytes = mmap(NULL, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        return KVASIR_IO;
    }
    *staging_p = bytes;
    return KVASIR_OK;
}

enum kvasir_status shm_map_open(struct shm_map *map, struct shm_map_table *table, const int fds[2],
                                size_t region_bytes, size_t staging_bytes, size_t behind_bytes)
{
    check(map->region == NULL);
    struct shm_map_region *region;
    enum kvasir_status status = map_region(table, fds[0], region_bytes, &region);
    if (status != KVASIR_OK) {
        return status;
    }
    uint8_t *staging;
    status = map_staging(fds[1], staging_bytes + behind_bytes, &staging);
    if (status != KVASIR_OK) {
        shm_map_region_put(&region);
        return status;
    }
    *map = (struct shm_map){.region = region,
                            .staging = staging,
                            .staging_bytes = staging_bytes,
                            .mapped_bytes = staging_bytes + behind_bytes};
    return KVASIR_OK;
}

void shm_map_close(struct shm_map *map)
{
    if (map->region == NULL) {
        return;
    }
    (void)munmap(map->staging, map->mapped_bytes);
    shm_map_region_put(&map->region);
    memset(map, 0, sizeof *map);
}

const uint8_t *shm_map_payload(const struct shm_map *map, uint64_t offset_bytes,
                               uint64_t length_bytes)
{
    size_t size = map->region == NULL ? 0 : map->region->length_bytes;
    if (offset_bytes > size || length_bytes > size - offset_bytes) {
        return NULL;
    }
    return map->region == NULL ? NULL : map->region->bytes + offset_bytes;
}

uint8_t *shm_map_staging(const struct shm_map *map, uint64_t offset_bytes, uint64_t length_bytes)
{
    if (map->staging == NULL || offset_bytes > map->staging_bytes ||
        length_bytes > map->staging_bytes - offset_bytes) {
        return NULL;
    }
    return map->staging + offset_bytes;
}

void shm_map_region_get(struct shm_map_region *region)
{
    check(region->user_count > 0);
    region->user_count++;
}

void shm_map_region_put(struct shm_map_region **region_p)
{
    struct shm_map_region *region = *region_p;
    *region_p = NULL;
    if (region == NULL) {
        return;
    }
    check(region->user_count > 0);
    region->user_count--;
    if (region->user_count == 0) {
        (void)munmap(region->bytes, region->length_bytes);
        memset(region, 0, sizeof *region);
    }
}
