#pragma once
/* metric – a counter written by one thread and read by any: relaxed, never torn, never a locked
 * instruction. Embedded by its owner. */

#include <stdint.h>

struct metric {
    _Atomic uint64_t value;
};

/* Owner only. */
void metric_add(struct metric *metric, uint64_t amount);
void metric_sub(struct metric *metric, uint64_t amount);
void metric_set(struct metric *metric, uint64_t value);
void metric_max(struct metric *metric, uint64_t value);

/* Any thread. */
uint64_t metric_get(const struct metric *metric);
