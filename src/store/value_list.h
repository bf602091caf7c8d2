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

static inline void value_list_push_front(struct value_list *list, struct value *value)
{
    value->policy_prev = NULL;
    value->policy_next = list->first;
    if (list->first != NULL) {
        list->first->policy_prev = value;
    } else {
        list->last = value;
    }
    list->first = value;
}

static inline void value_list_push_back(struct value_list *list, struct value *value)
{
    value->policy_next = NULL;
    value->policy_prev = list->last;
    if (list->last != NULL) {
        list->last->policy_next = value;
    } else {
        list->first = value;
    }
    list->last = value;
}

static inline void value_list_remove(struct value_list *list, struct value *value)
{
    if (value->policy_prev != NULL) {
        value->policy_prev->policy_next = value->policy_next;
    } else {
        list->first = value->policy_next;
    }
    if (value->policy_next != NULL) {
        value->policy_next->policy_prev = value->policy_prev;
    } else {
        list->last = value->policy_prev;
    }
    value->policy_next = NULL;
    value->policy_prev = NULL;
}
