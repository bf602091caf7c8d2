#include "store/notice.h"

#include "base/check.h"
#include "base/compiler.h"
#include "base/fault.h"

#include <stdlib.h>
#include <string.h>

#define NOTICE_CAPACITY_AT_FIRST 4096U
/* An emptied queue keeps so much for the next notices. */
#define NOTICE_CAPACITY_KEPT (64U << 10)

struct notice_head {
    uint32_t key_length_bytes;
    uint8_t kind;
    uint8_t database;
};

enum notice_class notice_class_of(enum notice_kind kind)
{
    switch (kind) {
    case NOTICE_SET:
    case NOTICE_INCRBY:
    case NOTICE_INCRBYFLOAT:
    case NOTICE_APPEND:
    case NOTICE_SETRANGE:
    case NOTICE_SETBIT:
        return NOTICE_STRING;
    case NOTICE_EXPIRE:
    case NOTICE_PERSIST:
    case NOTICE_DEL:
    case NOTICE_RENAME_FROM:
    case NOTICE_RENAME_TO:
    case NOTICE_MOVE_FROM:
    case NOTICE_MOVE_TO:
    case NOTICE_COPY_TO:
    case NOTICE_RESTORE:
        return NOTICE_GENERIC;
    case NOTICE_EXPIRED:
        return NOTICE_EXPIRY;
    case NOTICE_EVICTED:
        return NOTICE_EVICTION;
    case NOTICE_NEW:
        return NOTICE_NEW_KEY;
    case NOTICE_KEYMISS:
        return NOTICE_MISS;
    case NOTICE_KIND_COUNT:
        break;
    }
    unreachable();
}

static bool notice_grow(struct notice_queue *queue, size_t needed_bytes)
{
    size_t capacity = queue->capacity_bytes > 0 ? queue->capacity_bytes : NOTICE_CAPACITY_AT_FIRST;
    while (capacity < needed_bytes) {
        capacity *= 2;
    }
    uint8_t *bytes = capacity > NOTICE_BYTES_MAX || fault_hit("store.notices")
                         ? NULL
                         : realloc(queue->bytes, capacity);
    if (bytes == NULL) {
        return false;
    }
    queue->bytes = bytes;
    queue->capacity_bytes = capacity;
    return true;
}

void notice_add(struct notice_queue *queue, enum notice_kind kind, uint8_t database,
                struct slice key)
{
    if ((queue->classes & notice_class_of(kind)) == 0) {
        return;
    }
    struct notice_head head = {.key_length_bytes = (uint32_t)key.length_bytes,
                               .kind = (uint8_t)kind,
                               .database = database};
    size_t needed_bytes = queue->length_bytes + sizeof(head) + key.length_bytes;
    if (needed_bytes > queue->capacity_bytes && !notice_grow(queue, needed_bytes)) {
        queue->lost = true;
        return;
    }
    memcpy(queue->bytes + queue->length_bytes, &head, sizeof(head));
    if (key.length_bytes > 0) {
        memcpy(queue->bytes + queue->length_bytes + sizeof(head), key.data, key.length_bytes);
    }
    queue->length_bytes = needed_bytes;
}

bool notice_take(struct notice_queue *queue, notice_visit_fn *visit, void *argument)
{
    const uint8_t *at = queue->bytes;
    const uint8_t *end = at + queue->length_bytes;
    bool lost = queue->lost;
    while (at < end) {
        struct notice_head head;
        memcpy(&head, at, sizeof(head));
        at += sizeof(head);
        check(head.kind < NOTICE_KIND_COUNT);
        visit(argument, (enum notice_kind)head.kind, head.database,
              slice_of(at, head.key_length_bytes));
        at += head.key_length_bytes;
    }
    queue->length_bytes = 0;
    queue->lost = false;
    if (queue->capacity_bytes > NOTICE_CAPACITY_KEPT || queue->classes == 0) {
        notice_fini(queue);
    }
    return lost;
}

void notice_fini(struct notice_queue *queue)
{
    free(queue->bytes);
    queue->bytes = NULL;
    queue->length_bytes = 0;
    queue->capacity_bytes = 0;
    queue->lost = false;
}
