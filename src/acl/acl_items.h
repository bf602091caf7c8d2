#pragma once
/* acl_items – a short list of byte strings, each with a number: patterns, digests of passwords, rules.
 * Embedded in selectors and users; one thread at a time. Owns its strings. */

#include "base/slice.h"

/* More of one kind in one place is a mistake, or an attempt to use up memory. */
#define ACL_ITEMS_MAX 4096

struct acl_item {
    struct slice text; /* owned */
    uint32_t number;   /* the user's own: access of a pattern, command of a first argument */
};

struct acl_items {
    struct acl_item *items; /* owned */
    uint32_t count;
    uint32_t capacity;
};

/* Appends a copy. False: no memory, or ACL_ITEMS_MAX are there. */
bool acl_items_add(struct acl_items *items, struct slice text, uint32_t number);
/* Index of the first item with these bytes; count when there is none. */
uint32_t acl_items_find(const struct acl_items *items, struct slice text);
void acl_items_remove(struct acl_items *items, uint32_t index);
void acl_items_clear(struct acl_items *items);
/* to is not initialized before; on failure it is empty. False: no memory. */
bool acl_items_copy(struct acl_items *to, const struct acl_items *from);
