#include "mem/region_limits.h"

#include "base/number.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define REGION_LIMITS_FILE_BYTES_MAX 8192U
/* Version 1 of control groups says "no limit" with a number near 2^63. */
#define REGION_LIMITS_UNLIMITED ((uint64_t)1 << 62)

/* One question's state, on the heap because of its size. */
struct limits {
    const struct region_limits_ask *ask; /* borrowed */
    char *error;                         /* borrowed */
    size_t error_capacity;
    char text[REGION_LIMITS_FILE_BYTES_MAX]; /* of the file read last */
    char full_path[2 * PATH_MAX];
    char path[PATH_MAX + 64]; /* of a file of one group */
    char directory[PATH_MAX]; /* of one group */
};

/* A limit, who set it, and what of it is in use. */
struct limit {
    const char *what;  /* "cgroup limit", "process limit", … */
    const char *where; /* the file or the name to look at */
    uint64_t limit_bytes;
    uint64_t used_bytes;
    const char *fix; /* besides "lower --maxmemory" */
};

/* A whole small file into limits->text; false when it cannot be read. */
static bool limits_read(struct limits *limits, const char *path)
{
    int length =
        snprintf(limits->full_path, sizeof(limits->full_path), "%s%s", limits->ask->root, path);
    if (length < 0 || (size_t)length >= sizeof(limits->full_path)) {
        return false;
    }
    int fd = open(limits->full_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t done = 0;
    ssize_t got = 1;
    while (got > 0 && done + 1 < sizeof(limits->text)) {
        got = read(fd, limits->text + done, sizeof(limits->text) - 1 - done);
        done += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    limits->text[done] = '\0';
    return got >= 0;
}

/* A file of limits->directory, likewise. Leaves its name in limits->path. */
static bool limits_read_of_group(struct limits *limits, const char *name)
{
    int length = snprintf(limits->path, sizeof(limits->path), "%s/%s", limits->directory, name);
    return length > 0 && (size_t)length < sizeof(limits->path) && limits_read(limits, limits->path);
}

/* The number behind a name at the start of a line; 0 when there is none. */
static uint64_t limits_find_number(const char *text, const char *name)
{
    size_t name_length = strlen(name);
    for (const char *line = text; line != NULL;) {
        if (strncmp(line, name, name_length) == 0) {
            return strtoull(line + name_length, NULL, 10);
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return 0;
}

static bool limits_fit(struct limits *limits, const struct limit *limit)
{
    uint64_t limit_bytes = limit->limit_bytes;
    uint64_t used_bytes = limit->used_bytes < limit_bytes ? limit->used_bytes : limit_bytes;
    if (limits->ask->size_bytes <= limit_bytes - used_bytes) {
        return true;
    }
    char size[32], limited[32], used[32];
    number_format_bytes(size, sizeof(size), limits->ask->size_bytes);
    number_format_bytes(limited, sizeof(limited), limit_bytes);
    number_format_bytes(used, sizeof(used), limit->used_bytes);
    (void)snprintf(
        limits->error, limits->error_capacity,
        "%s memory of %s does not fit: the %s %s is %s with %s in use; lower --maxmemory or %s",
        limits->ask->name, size, limit->what, limit->where, limited, used, limit->fix);
    return false;
}

/* The group of limits->directory. Cached file pages count as used there but give way. */
static bool limits_check_group(struct limits *limits, bool is_v2)
{
    uint64_t cached_bytes = 0;
    if (limits_read_of_group(limits, "memory.stat")) {
        const char *idle_name = is_v2 ? "inactive_file " : "total_inactive_file ";
        const char *warm_name = is_v2 ? "active_file " : "total_active_file ";
        cached_bytes = limits_find_number(limits->text, idle_name) +
                       limits_find_number(limits->text, warm_name);
    }
    uint64_t used_bytes = 0;
    if (limits_read_of_group(limits, is_v2 ? "memory.current" : "memory.usage_in_bytes")) {
        used_bytes = strtoull(limits->text, NULL, 10);
    }
    if (!limits_read_of_group(limits, is_v2 ? "memory.max" : "memory.limit_in_bytes") ||
        limits->text[0] < '0' || limits->text[0] > '9') {
        return true; /* "max", or the root group, which has no such file */
    }
    struct limit limit = {
        .what = "cgroup limit",
        .where = limits->path,
        .limit_bytes = strtoull(limits->text, NULL, 10),
        .used_bytes = used_bytes > cached_bytes ? used_bytes - cached_bytes : 0,
        .fix = "raise the limit",
    };
    return limit.limit_bytes >= REGION_LIMITS_UNLIMITED || limits_fit(limits, &limit);
}

/* The process's group and all above it, any of which may be the tightest. */
static bool limits_check_group_tree(struct limits *limits, const char *group, bool is_v2)
{
    const char *mount = is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const char *below = strcmp(group, "/") == 0 ? "" : group;
    int length = snprintf(limits->directory, sizeof(limits->directory), "%s%s", mount, below);
    if (length < 0 || (size_t)length >= sizeof(limits->directory)) {
        return true;
    }
    while (strlen(limits->directory) > strlen(mount)) {
        if (!limits_check_group(limits, is_v2)) {
            return false;
        }
        *strrchr(limits->directory, '/') = '\0';
    }
    return limits_check_group(limits, is_v2);
}

/* The path in a line of /proc/self/cgroup that says where memory is accounted, which is "0::/group"
 * in version 2 and "4:memory:/group" in version 1; NULL for any other line. Cuts the line up. */
static const char *limits_find_group(char *line, bool *is_v2_p)
{
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL || group[1] != '/') {
        return NULL;
    }
    *group = '\0';
    *is_v2_p = controllers[1] == '\0';
    return *is_v2_p || strcmp(controllers + 1, "memory") == 0 ? group + 1 : NULL;
}

static bool limits_check_groups(struct limits *limits)
{
    if (!limits_read(limits, "/proc/self/cgroup")) {
        return true;
    }
    /* The text is needed for other files while the lines are walked. */
    char *lines = strdup(limits->text);
    char *rest = NULL;
    bool allowed = true;
    for (char *line = lines != NULL ? strtok_r(lines, "\n", &rest) : NULL; line != NULL && allowed;
         line = strtok_r(NULL, "\n", &rest)) {
        bool is_v2 = false;
        const char *group = limits_find_group(line, &is_v2);
        allowed = group == NULL || limits_check_group_tree(limits, group, is_v2);
    }
    free(lines);
    return allowed;
}

static bool limits_check_machine(struct limits *limits)
{
    if (!limits_read(limits, "/proc/meminfo")) {
        return true;
    }
    uint64_t total_bytes = limits_find_number(limits->text, "MemTotal:") << 10;
    uint64_t available_bytes = limits_find_number(limits->text, "MemAvailable:") << 10;
    if (total_bytes == 0 || available_bytes == 0) {
        return true;
    }
    struct limit limit = {
        .what = "machine's memory",
        .where = "(MemTotal in /proc/meminfo)",
        .limit_bytes = total_bytes,
        .used_bytes = total_bytes > available_bytes ? total_bytes - available_bytes : 0,
        .fix = "free some memory",
    };
    return limits_fit(limits, &limit);
}

static bool limits_check_address_space(struct limits *limits)
{
    struct rlimit rlimit;
    if (getrlimit(RLIMIT_AS, &rlimit) != 0 || rlimit.rlim_cur == RLIM_INFINITY) {
        return true;
    }
    uint64_t pages = 0;
    if (limits_read(limits, "/proc/self/statm")) {
        pages = strtoull(limits->text, NULL, 10);
    }
    struct limit limit = {
        .what = "limit on address space",
        .where = "RLIMIT_AS (ulimit -v)",
        .limit_bytes = rlimit.rlim_cur,
        .used_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE),
        .fix = "raise the limit",
    };
    return limits_fit(limits, &limit);
}

static bool limits_check_file_size(struct limits *limits)
{
    struct rlimit rlimit;
    if (!limits->ask->is_file || getrlimit(RLIMIT_FSIZE, &rlimit) != 0 ||
        rlimit.rlim_cur == RLIM_INFINITY) {
        return true;
    }
    struct limit limit = {
        .what = "limit on file size",
        .where = "RLIMIT_FSIZE (ulimit -f)",
        .limit_bytes = rlimit.rlim_cur,
        .fix = "raise the limit",
    };
    return limits_fit(limits, &limit);
}

bool region_limits_allow(const struct region_limits_ask *ask, char *error, size_t error_capacity)
{
    struct limits *limits = malloc(sizeof(*limits));
    if (limits == NULL) {
        (void)snprintf(error, error_capacity, "%s memory: no memory to look at the limits",
                       ask->name);
        return false;
    }
    limits->ask = ask;
    limits->error = error;
    limits->error_capacity = error_capacity;
    bool allowed = limits_check_address_space(limits) && limits_check_file_size(limits) &&
                   limits_check_groups(limits) && limits_check_machine(limits);
    free(limits);
    return allowed;
}
