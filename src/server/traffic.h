#pragma once
/* traffic – what came and went by each way into a reactor, and the section Transports of INFO, which sums
 * it up. Embedded in the reactor's metrics: counted by its thread, read by any. */

#include "base/metric.h"

#include <stdint.h>

struct info_writer;

/* What carries requests and replies, with the payload that stands in them. */
enum traffic_wire {
    TRAFFIC_TCP,
    TRAFFIC_TLS,
    TRAFFIC_UNIX,
    TRAFFIC_RINGS,
    TRAFFIC_WIRE_COUNT
};

struct wire_traffic {
    struct metric commands, bytes_in, bytes_out;
};

/* What carries payload beside them. */
enum traffic_path {
    TRAFFIC_SHM,
    TRAFFIC_RDMA,        /* driven by the server */
    TRAFFIC_RDMA_CLIENT, /* driven by the client */
    TRAFFIC_PATH_COUNT
};

struct path_traffic {
    struct metric puts, gets, in_bytes, out_bytes;
    struct metric failed; /* a client then takes another way */
};

/* Nothing but metrics, which traffic_reset sets to 0. */
struct traffic {
    struct wire_traffic wires[TRAFFIC_WIRE_COUNT];
    struct path_traffic paths[TRAFFIC_PATH_COUNT];
    struct metric work_requests, completions;
    struct metric links_opened, links_rebuilt, links_failed, links_refused;
    struct metric windows_bound, windows_revoked, windows_replaced;
    struct metric loans_expired, loans_recalled;
};

/* Over all wires. */
struct traffic_sums {
    uint64_t commands, bytes_in, bytes_out;
};

void traffic_add_up(const struct traffic *traffic, struct traffic_sums *sums);
void traffic_reset(struct traffic *traffic);

static inline void traffic_count_put(struct traffic *traffic, enum traffic_path path,
                                     uint64_t bytes)
{
    metric_add(&traffic->paths[path].puts, 1);
    metric_add(&traffic->paths[path].in_bytes, bytes);
}

static inline void traffic_count_get(struct traffic *traffic, enum traffic_path path,
                                     uint64_t bytes)
{
    metric_add(&traffic->paths[path].gets, 1);
    metric_add(&traffic->paths[path].out_bytes, bytes);
}

/* The section. */
void traffic_write(struct info_writer *writer);
