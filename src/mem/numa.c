#include "mem/numa.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in linux/mempolicy.h, which is not installed everywhere. */
#define NUMA_MPOL_PREFERRED 1
/* Ids beyond are not bound to; the mask of a system call is this long. */
#define NUMA_IDS_MAX 1024U
#define NUMA_WORD    (8U * sizeof(unsigned long))

/* The text of a file below root, "" when it cannot be read. */
static void numa_read_file(const struct numa *numa, const char *path, char *text, size_t capacity)
{
    char full_path[256];
    text[0] = '\0';
    (void)snprintf(full_path, sizeof(full_path), "%s%s", numa->root, path);
    FILE *file = fopen(full_path, "re");
    if (file == NULL) {
        return;
    }
    if (fgets(text, (int)capacity, file) == NULL) {
        text[0] = '\0';
    }
    (void)fclose(file);
}

/* The next range of a list such as "0-3,8". False: there is none. */
static bool numa_next_range(const char **list_p, uint32_t *from_p, uint32_t *to_p)
{
    char *end = NULL;
    unsigned long from = strtoul(*list_p, &end, 10);
    if (end == *list_p) {
        return false;
    }
    unsigned long to = from;
    if (*end == '-') {
        const char *start = end + 1;
        to = strtoul(start, &end, 10);
        if (end == start) {
            return false;
        }
    }
    *list_p = *end == ',' ? end + 1 : end;
    *from_p = from < UINT32_MAX ? (uint32_t)from : UINT32_MAX;
    *to_p = to < UINT32_MAX ? (uint32_t)to : UINT32_MAX;
    return true;
}

void numa_read(struct numa *numa, const char *root)
{
    char text[1024];
    *numa = (struct numa){0};
    (void)snprintf(numa->root, sizeof(numa->root), "%s", root);
    numa_read_file(numa, "/sys/devices/system/node/has_memory", text, sizeof(text));
    const char *list = text;
    uint32_t from, to;
    while (numa_next_range(&list, &from, &to)) {
        for (uint32_t id = from; id <= to && id < NUMA_IDS_MAX; id++) {
            if (numa->node_count < NUMA_NODES_MAX) {
                numa->ids[numa->node_count++] = id;
            }
        }
    }
    if (numa->node_count == 0) {
        numa->node_count = 1;
    }
}

uint32_t numa_find_core(const struct numa *numa, uint32_t core)
{
    for (uint32_t node = 0; node < numa->node_count; node++) {
        char path[80];
        char text[2048];
        uint32_t from, to;
        (void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist",
                       numa->ids[node]);
        numa_read_file(numa, path, text, sizeof(text));
        const char *list = text;
        while (numa_next_range(&list, &from, &to)) {
            if (core >= from && core <= to) {
                return node;
            }
        }
    }
    return 0;
}

bool numa_bind(const struct numa *numa, uint32_t node, void *start, size_t length_bytes)
{
    unsigned long mask[NUMA_IDS_MAX / NUMA_WORD] = {0};
    check(node < numa->node_count);
    uint32_t id = numa->ids[node];
    mask[id / NUMA_WORD] = 1UL << id % NUMA_WORD;
    /* The kernel takes one bit less than it is told. */
    return syscall(SYS_mbind, start, length_bytes, NUMA_MPOL_PREFERRED, mask, NUMA_IDS_MAX + 1,
                   0) == 0;
}
