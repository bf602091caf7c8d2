#pragma once
/* acl_log – what was denied lately, newest first, for ACL LOG. Each reactor has one of its own; events
 * of a kind within a minute are counted in one entry. Bounded by number and by the length of its texts.
 * One thread; owns its entries. */

#include "acl/acl_status.h"
#include "base/list.h"
#include "base/slice.h"

#include <stdint.h>

/* Of an object or a client's line, no more is kept. */
#define ACL_LOG_TEXT_BYTES_MAX 1024
#define ACL_LOG_GROUPING_MS    60000

/* Where it happened. */
enum acl_log_context {
    ACL_LOG_TOPLEVEL,
    ACL_LOG_MULTI,
};

/* One event; the texts are the caller's. */
struct acl_event {
    enum acl_verdict reason;
    enum acl_log_context context;
    uint64_t count;
    int64_t wall_ms;
    struct slice object; /* the command, key or channel */
    struct slice user;
    struct slice client; /* its line of CLIENT LIST */
};

struct acl_log_entry {
    struct list link;
    struct acl_event event; /* its texts lie in bytes */
    uint8_t *bytes;         /* owned */
};

struct acl_log {
    struct list entries; /* owned; newest first */
    uint32_t count;
};

void acl_log_init(struct acl_log *log);
/* Records the event, if there is memory; entries beyond length_max go. */
void acl_log_add(struct acl_log *log, const struct acl_event *event, uint64_t length_max);
/* Drops the oldest beyond so many. */
void acl_log_cut(struct acl_log *log, uint64_t length_max);
/* Whether ACL LOG shows the two as one. */
bool acl_log_alike(const struct acl_event *a, const struct acl_event *b);
