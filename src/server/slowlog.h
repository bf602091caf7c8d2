#pragma once
/* slowlog – the requests of one reactor that took longer than slowlog-log-slower-than, the latest
 * slowlog-max-len of them. One thread; others get copies by a gather. Embedded in the reactor; owns
 * its entries.
 *
 * As in Redis an entry keeps 32 arguments of 128 bytes at most, and says how much more there was. */

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define SLOWLOG_ARGS_MAX   32
#define SLOWLOG_ARG_BYTES  128
#define SLOWLOG_NAME_BYTES 64

struct slowlog_entry {
    uint64_t id;
    int64_t time_us; /* Unix time */
    int64_t duration_us;
    char peer[SLOWLOG_NAME_BYTES];
    char name[SLOWLOG_NAME_BYTES];
    uint32_t arg_count;
    uint32_t text_bytes;
    uint8_t text[]; /* per argument: length (4 bytes, native order), bytes */
};

struct slowlog {
    struct slowlog_entry **entries; /* owned ring of owned entries */
    uint32_t capacity;
    uint32_t first;
    uint32_t count;
    uint64_t made;          /* entries ever */
    uint32_t index, stride; /* ids are index + made * stride: none is used twice in the process */
};

/* What an entry says besides its arguments. */
struct slowlog_facts {
    int64_t time_us;
    int64_t duration_us;
    const char *peer;
    const char *name;
};

void slowlog_init(struct slowlog *log, uint32_t index, uint32_t stride);
/* hidden: from this argument on only "(redacted)" is kept; arg_count or more: nothing is hidden. An
 * entry for which there is no memory is left out. */
void slowlog_add(struct slowlog *log, const struct slowlog_facts *facts, const struct slice *args,
                 uint32_t arg_count, uint32_t hidden, uint32_t max_count);
void slowlog_trim(struct slowlog *log, uint32_t max_count);
void slowlog_clear(struct slowlog *log);
void slowlog_fini(struct slowlog *log);
/* The entry that is so many behind the latest; NULL: there are not so many. */
const struct slowlog_entry *slowlog_at(const struct slowlog *log, uint32_t back);
size_t slowlog_entry_bytes(const struct slowlog_entry *entry);
