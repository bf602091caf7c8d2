#pragma once
/* info – the text of INFO: Redis's sections, fields and order first (clients find fields by their bare
 * names, first match wins), ours behind them. Used by the connection's thread, on numbers that a
 * gather brought. */

#include "base/slice.h"
#include "server/command_stats.h"
#include "server/gather.h"
#include "server/tenants.h"

#include <stdbool.h>
#include <stdint.h>

struct conn;

#define INFO_DATABASES_MAX 64

/* What one reactor tells; lies in its answer's text, and behind it its struct command_stats, its struct
 * tenants_facts, and the channels that are listened to: see info_channels.h. */
struct info_facts {
    uint64_t payload_bytes, payload_taken_bytes, metadata_bytes, payload_pages;
    uint64_t values, orphans, reserved, leases, reservations;
    uint64_t hits, misses, evicted, expired, expired_grants, denied_no_memory;
    uint64_t evicted_bytes, moved_bytes, drained_pages, copied_bytes;
    uint64_t expiring, stale_ppm; /* the latter times the former: a weighted mean */
    struct {
        uint64_t keys, expiring;
        int64_t mean_ttl_ms;
    } databases[INFO_DATABASES_MAX];
};

#define INFO_TENANTS_AT  (sizeof(struct info_facts) + sizeof(struct command_stats))
#define INFO_CHANNELS_AT (INFO_TENANTS_AT + sizeof(struct tenants_facts))

gather_run_fn info_run;

/* Sections wanted: names as in INFO; none or "default" is every section but the statistics of commands,
 * "all" and "everything" is every one. The caller frees the answer. False: no memory. */
bool info_text(struct conn *conn, const struct gather *gather, const struct slice *sections,
               uint32_t section_count, struct gather_answer *text);

/* Memory of all reactors, as INFO tells it. */
struct info_memory {
    uint64_t used_bytes, peak_bytes; /* payload, metadata, buffers, staging */
    uint64_t resident_bytes;         /* of the process */
    uint64_t live_bytes;             /* of values */
    uint64_t taken_bytes;            /* for them, with rounding */
    uint64_t metadata_bytes, buffer_bytes;
    uint64_t evicted_count, refused_count; /* values, and requests for want of memory */
    uint64_t keys[INFO_DATABASES_MAX];
};
void info_memory(struct conn *conn, const struct gather *gather, struct info_memory *memory_p);
