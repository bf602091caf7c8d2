#pragma once
/* metric – a counter written by one thread and read by any: relaxed, never torn, never a locked
 * instruction. Embedded by its owner. Inline, because counters sit on the data path. */

#include <stdatomic.h>
#include <stdint.h>

struct metric {
    _Atomic uint64_t value;
};

/* Any thread. */
static inline uint64_t metric_get(const struct metric *metric)
{
    return atomic_load_explicit(&metric->value, memory_order_relaxed);
}

/* Owner only, as all below: a load and a store, not a read-modify-write. */
static inline void metric_set(struct metric *metric, uint64_t value)
{
    atomic_store_explicit(&metric->value, value, memory_order_relaxed);
}

static inline void metric_add(struct metric *metric, uint64_t amount)
{
    metric_set(metric, metric_get(metric) + amount);
}

static inline void metric_sub(struct metric *metric, uint64_t amount)
{
    metric_set(metric, metric_get(metric) - amount);
}

static inline void metric_max(struct metric *metric, uint64_t value)
{
    if (value > metric_get(metric)) {
        metric_set(metric, value);
    }
}
