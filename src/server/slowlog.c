#include "server/slowlog.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char REDACTED[] = "(redacted)";

void slowlog_init(struct slowlog *log, uint32_t index, uint32_t stride)
{
    *log = (struct slowlog){.index = index, .stride = stride};
}

void slowlog_trim(struct slowlog *log, uint32_t max_count)
{
    while (log->count > max_count) {
        free(log->entries[log->first]);
        log->entries[log->first] = NULL;
        log->first = (log->first + 1) % log->capacity;
        log->count--;
    }
}

void slowlog_clear(struct slowlog *log)
{
    slowlog_trim(log, 0);
}

void slowlog_fini(struct slowlog *log)
{
    slowlog_clear(log);
    free(log->entries);
    log->entries = NULL;
    log->capacity = 0;
}

/* A ring of another size, with the entries that there are. False: no memory. */
static bool resize(struct slowlog *log, uint32_t capacity)
{
    struct slowlog_entry **entries;
    if (log->capacity == capacity) {
        return true;
    }
    check(capacity > log->count || log->count == 0);
    entries = calloc(capacity, sizeof(struct slowlog_entry *));
    if (entries == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < log->count; i++) {
        entries[i] = log->entries[(log->first + i) % log->capacity];
    }
    free(log->entries);
    log->entries = entries;
    log->capacity = capacity;
    log->first = 0;
    return true;
}

/* What is kept of argument i, in at most SLOWLOG_ARG_BYTES and a remark. */
static size_t keep_argument(char text[SLOWLOG_ARG_BYTES + 48], const struct slice *args,
                            uint32_t arg_count, uint32_t i, uint32_t hidden)
{
    size_t length = args[i].length_bytes;
    if (i >= hidden) {
        memcpy(text, REDACTED, sizeof(REDACTED) - 1);
        return sizeof(REDACTED) - 1;
    }
    if (i == SLOWLOG_ARGS_MAX - 1 && arg_count > SLOWLOG_ARGS_MAX) {
        return (size_t)snprintf(text, SLOWLOG_ARG_BYTES, "... (%u more arguments)",
                                arg_count - SLOWLOG_ARGS_MAX + 1);
    }
    if (args[i].data == NULL && length > 0) { /* a payload that went straight into its value */
        return (size_t)snprintf(text, SLOWLOG_ARG_BYTES, "... (%zu more bytes)", length);
    }
    if (length > SLOWLOG_ARG_BYTES) {
        memcpy(text, args[i].data, SLOWLOG_ARG_BYTES);
        return SLOWLOG_ARG_BYTES + (size_t)snprintf(text + SLOWLOG_ARG_BYTES, 48,
                                                    "... (%zu more bytes)",
                                                    length - SLOWLOG_ARG_BYTES);
    }
    if (length > 0) {
        memcpy(text, args[i].data, length);
    }
    return length;
}

static struct slowlog_entry *make_entry(const struct slice *args, uint32_t arg_count,
                                        uint32_t hidden)
{
    char kept[SLOWLOG_ARG_BYTES + 48];
    uint32_t count = arg_count < SLOWLOG_ARGS_MAX ? arg_count : SLOWLOG_ARGS_MAX;
    uint32_t used = 0;
    struct slowlog_entry *entry = calloc(1, sizeof(*entry) + count * (4 + sizeof(kept)));
    struct slowlog_entry *shrunk;
    if (entry == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t length = (uint32_t)keep_argument(kept, args, arg_count, i, hidden);
        memcpy(entry->text + used, &length, 4);
        memcpy(entry->text + used + 4, kept, length);
        used += 4 + length;
    }
    entry->arg_count = count;
    entry->text_bytes = used;
    shrunk = realloc(entry, sizeof(*entry) + used);
    return shrunk != NULL ? shrunk : entry;
}

void slowlog_add(struct slowlog *log, const struct slowlog_facts *facts, const struct slice *args,
                 uint32_t arg_count, uint32_t hidden, uint32_t max_count)
{
    struct slowlog_entry *entry;
    if (max_count == 0) {
        slowlog_clear(log);
        return;
    }
    slowlog_trim(log, max_count - 1);
    entry = make_entry(args, arg_count, hidden);
    if (entry == NULL || !resize(log, max_count)) {
        free(entry);
        return;
    }
    entry->id = log->index + log->made * log->stride;
    entry->time_us = facts->time_us;
    entry->duration_us = facts->duration_us;
    (void)snprintf(entry->peer, sizeof(entry->peer), "%s", facts->peer);
    (void)snprintf(entry->name, sizeof(entry->name), "%s", facts->name);
    log->made++;
    log->entries[(log->first + log->count) % log->capacity] = entry;
    log->count++;
}

const struct slowlog_entry *slowlog_at(const struct slowlog *log, uint32_t back)
{
    if (back >= log->count) {
        return NULL;
    }
    return log->entries[(log->first + log->count - 1 - back) % log->capacity];
}

size_t slowlog_entry_bytes(const struct slowlog_entry *entry)
{
    return sizeof(*entry) + entry->text_bytes;
}
