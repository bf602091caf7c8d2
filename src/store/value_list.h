#pragma once
/* value_list – a list of values over their policy_next and policy_prev fields, which serve one list at
 * a time: an eviction order, or one of the shard's own lists while the value is in no policy. Borrows
 * its members. One thread. */

#include "store/value.h"

#include <stddef.h>

struct value_list {
    struct value *first; /* borrowed */
    struct value *last;  /* borrowed */
};

static inline struct value *value_list_next(const struct value *value)
{
    return value_follow(value, value->policy_next);
}

static inline struct value *value_list_prev(const struct value *value)
{
    return value_follow(value, value->policy_prev);
}

static inline void value_list_push_front(struct value_list *list, struct value *value)
{
    value->policy_prev = 0;
    value->policy_next = value_link(value, list->first);
    if (list->first != NULL) {
        list->first->policy_prev = value_link(list->first, value);
    } else {
        list->last = value;
    }
    list->first = value;
}

static inline void value_list_push_back(struct value_list *list, struct value *value)
{
    value->policy_next = 0;
    value->policy_prev = value_link(value, list->last);
    if (list->last != NULL) {
        list->last->policy_next = value_link(list->last, value);
    } else {
        list->first = value;
    }
    list->last = value;
}

/* Behind: nearer to the last. */
static inline void value_list_insert_behind(struct value_list *list, struct value *place,
                                            struct value *value)
{
    struct value *next = value_list_next(place);
    value->policy_prev = value_link(value, place);
    value->policy_next = value_link(value, next);
    place->policy_next = value_link(place, value);
    if (next != NULL) {
        next->policy_prev = value_link(next, value);
    } else {
        list->last = value;
    }
}

static inline void value_list_remove(struct value_list *list, struct value *value)
{
    struct value *next = value_list_next(value);
    struct value *prev = value_list_prev(value);
    if (prev != NULL) {
        prev->policy_next = value_link(prev, next);
    } else {
        list->first = next;
    }
    if (next != NULL) {
        next->policy_prev = value_link(next, prev);
    } else {
        list->last = prev;
    }
    value->policy_next = 0;
    value->policy_prev = 0;
}
