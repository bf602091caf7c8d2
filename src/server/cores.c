#include "server/cores.h"

#include "base/log.h"
#include "server/server.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cores that the cgroup's CPU quota pays for (cgroup v2 "max 100000" or "200000 100000"); 0: no
 * quota. */
static uint32_t cores_of_quota(void)
{
    char line[64] = "";
    char *end = NULL;
    unsigned long long quota;
    unsigned long long period;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file == NULL) {
        return 0;
    }
    if (fgets(line, sizeof(line), file) == NULL) {
        line[0] = '\0';
    }
    (void)fclose(file);
    quota = strtoull(line, &end, 10);
    if (end == line) {
        return 0;
    }
    period = strtoull(end, NULL, 10);
    return period == 0 ? 0 : (uint32_t)((quota + period - 1) / period);
}

uint32_t cores_available(void)
{
    cpu_set_t allowed;
    uint32_t count = 1;
    uint32_t quota = cores_of_quota();
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
        count = (uint32_t)CPU_COUNT(&allowed);
    }
    if (quota > 0 && quota < count) {
        count = quota;
    }
    if (count > SERVER_REACTORS_MAX) {
        count = SERVER_REACTORS_MAX;
    }
    return count > 0 ? count : 1;
}

uint32_t cores_at(uint32_t index)
{
    cpu_set_t allowed;
    uint32_t seen = 0;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return 0;
    }
    for (uint32_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed) && seen++ == index) {
            return core;
        }
    }
    return 0;
}

void cores_pin(pthread_t thread, uint32_t index, uint32_t count)
{
    cpu_set_t allowed;
    cpu_set_t one;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 ||
        (uint32_t)CPU_COUNT(&allowed) < count) {
        return;
    }
    CPU_ZERO(&one);
    CPU_SET(cores_at(index), &one);
    if (pthread_setaffinity_np(thread, sizeof(one), &one) != 0) {
        log_warn("reactor %u cannot be bound to a core", index);
    }
}
