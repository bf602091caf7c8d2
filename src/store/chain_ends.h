#pragma once
/* chain_ends – the last block of each chain that is being put or read, by which a policy finds the block
 * that another one continues. Borrows its members; who holds them drops what leaves. One thread. */

#include "store/value.h"

#include <stddef.h>

/* Chains at the same time: more of them lose the order of their blocks. */
#define CHAIN_ENDS_MAX 8U

struct chain_end {
    struct value *value; /* borrowed; NULL: none */
    uint64_t hash;
};

struct chain_ends {
    struct chain_end ends[CHAIN_ENDS_MAX];
    uint32_t next; /* to be replaced */
};

/* The end that this value continues; NULL: none. */
static inline struct chain_end *chain_ends_find(struct chain_ends *ends, const struct value *value)
{
    for (uint32_t i = 0; (value->flags & VALUE_FLAG_PARENT) != 0 && i < CHAIN_ENDS_MAX; i++) {
        struct chain_end *end = &ends->ends[i];
        if (end->hash == value->parent_hash && end->value != NULL && end->value != value) {
            return end;
        }
    }
    return NULL;
}

/* The value takes the place of the end that it continues, or (NULL) of any. */
static inline void chain_ends_set(struct chain_ends *ends, struct chain_end *end,
                                  struct value *value)
{
    if (end == NULL) {
        end = &ends->ends[ends->next++ % CHAIN_ENDS_MAX];
    }
    *end = (struct chain_end){.value = value, .hash = value->hash};
}

static inline void chain_ends_drop(struct chain_ends *ends, const struct value *value)
{
    for (uint32_t i = 0; i < CHAIN_ENDS_MAX; i++) {
        if (ends->ends[i].value == value) {
            ends->ends[i].value = NULL;
        }
    }
}
