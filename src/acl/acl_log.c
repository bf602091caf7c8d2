#include "acl/acl_log.h"

#include "base/fault.h"

#include <stdlib.h>

/* How many entries are looked at for one of the kind. */
#define LOOK_BACK_MAX 10

void acl_log_init(struct acl_log *log)
{
    list_init(&log->entries);
    log->count = 0;
}

bool acl_log_alike(const struct acl_event *a, const struct acl_event *b)
{
    int64_t apart_ms = a->wall_ms < b->wall_ms ? b->wall_ms - a->wall_ms : a->wall_ms - b->wall_ms;
    return a->reason == b->reason && a->context == b->context && apart_ms <= ACL_LOG_GROUPING_MS &&
           slice_equal(a->object, b->object) && slice_equal(a->user, b->user);
}

static struct slice keep(uint8_t **to, struct slice text)
{
    struct slice kept = slice_of(*to, text.length_bytes);
    if (text.length_bytes > 0) {
        memcpy(*to, text.data, text.length_bytes);
    }
    *to += text.length_bytes;
    return kept;
}

/* A copy of the event; NULL: no memory. */
static struct acl_log_entry *make_entry(const struct acl_event *event)
{
    struct acl_log_entry *entry = fault_hit("acl.log") ? NULL : calloc(1, sizeof(*entry));
    size_t length =
        event->object.length_bytes + event->user.length_bytes + event->client.length_bytes;
    uint8_t *at;
    if (entry == NULL) {
        return NULL;
    }
    entry->bytes = malloc(length > 0 ? length : 1);
    if (entry->bytes == NULL) {
        free(entry);
        return NULL;
    }
    at = entry->bytes;
    entry->event = *event;
    entry->event.object = keep(&at, event->object);
    entry->event.user = keep(&at, event->user);
    entry->event.client = keep(&at, event->client);
    list_init(&entry->link);
    return entry;
}

static void drop(struct acl_log *log, struct acl_log_entry *entry)
{
    list_remove(&entry->link);
    free(entry->bytes);
    free(entry);
    log->count--;
}

static struct slice shorten(struct slice text)
{
    return slice_of(text.data, text.length_bytes < ACL_LOG_TEXT_BYTES_MAX ? text.length_bytes
                                                                          : ACL_LOG_TEXT_BYTES_MAX);
}

void acl_log_cut(struct acl_log *log, uint64_t length_max)
{
    while (log->count > length_max) {
        drop(log, list_entry(log->entries.prev, struct acl_log_entry, link));
    }
}

void acl_log_add(struct acl_log *log, const struct acl_event *event, uint64_t length_max)
{
    struct acl_event wanted = *event;
    struct acl_log_entry *before = NULL;
    struct acl_log_entry *entry;
    unsigned looked = 0;
    wanted.object = shorten(event->object);
    wanted.user = shorten(event->user);
    wanted.client = shorten(event->client);
    list_foreach (cursor, &log->entries) {
        struct acl_log_entry *candidate = list_entry(cursor, struct acl_log_entry, link);
        if (acl_log_alike(&candidate->event, &wanted)) {
            before = candidate;
            break;
        }
        looked++;
        if (looked == LOOK_BACK_MAX) {
            break;
        }
    }
    wanted.count = 1 + (before != NULL ? before->event.count : 0);
    entry = make_entry(&wanted);
    if (entry == NULL) {
        return;
    }
    if (before != NULL) {
        drop(log, before);
    }
    list_push_front(&log->entries, &entry->link);
    log->count++;
    acl_log_cut(log, length_max);
}
