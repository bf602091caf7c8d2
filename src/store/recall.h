#pragma once
/* recall – which values' keys died while they were lent (OP_READ_LENT): what a shard tells those who lend,
 * so that they take the bytes back at once. Plain data, bounded: what does not fit becomes "all of the
 * shard's", and one loan too many taken back is no harm. */

#include "store/value.h"

#include <stdbool.h>
#include <stdint.h>

#define RECALLS_MAX 60U

struct recall {
    const struct value
        *value; /* never looked into; NULL: all of the database sealed before epoch */
    uint32_t shard;
    uint16_t epoch;
    uint8_t database;
};

struct recall_list {
    uint32_t count;
    bool all; /* more than fit: every value that was lent */
    struct recall recalls[RECALLS_MAX];
};

static inline void recall_list_add(struct recall_list *list, struct recall recall)
{
    if (list->count < RECALLS_MAX) {
        list->recalls[list->count++] = recall;
    } else {
        list->all = true;
    }
}

/* Whether the value, of that shard and with a pin of the caller's, is to be taken back. */
static inline bool recall_list_names(const struct recall_list *list, uint32_t shard,
                                     const struct value *value)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct recall *recall = &list->recalls[i];
        bool flushed = recall->value == NULL && recall->database == value->database &&
                       (int16_t)(uint16_t)(value->epoch - recall->epoch) < 0;
        if (recall->shard == shard && (recall->value == value || flushed)) {
            return true;
        }
    }
    return list->all;
}
