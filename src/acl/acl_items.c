#include "acl/acl_items.h"

#include "base/check.h"
#include "base/fault.h"

#include <stdlib.h>

static bool make_room(struct acl_items *items)
{
    uint32_t capacity = items->capacity == 0 ? 4 : items->capacity * 2;
    struct acl_item *grown;
    if (items->count < items->capacity) {
        return true;
    }
    if (items->count >= ACL_ITEMS_MAX || fault_hit("acl.items")) {
        return false;
    }
    grown = realloc(items->items, capacity * sizeof(*grown));
    if (grown == NULL) {
        return false;
    }
    items->items = grown;
    items->capacity = capacity;
    return true;
}

bool acl_items_add(struct acl_items *items, struct slice text, uint32_t number)
{
    uint8_t *bytes;
    if (!make_room(items)) {
        return false;
    }
    bytes = malloc(text.length_bytes > 0 ? text.length_bytes : 1);
    if (bytes == NULL) {
        return false;
    }
    if (text.length_bytes > 0) {
        memcpy(bytes, text.data, text.length_bytes);
    }
    items->items[items->count++] =
        (struct acl_item){.text = slice_of(bytes, text.length_bytes), .number = number};
    return true;
}

uint32_t acl_items_find(const struct acl_items *items, struct slice text)
{
    uint32_t i = 0;
    while (i < items->count && !slice_equal(items->items[i].text, text)) {
        i++;
    }
    return i;
}

/* The list owns the bytes: the slice only shows them as constant. */
static void free_text(struct acl_item *item)
{
    union {
        const uint8_t *shown;
        void *owned;
    } bytes = {.shown = item->text.data};
    free(bytes.owned);
}

void acl_items_remove(struct acl_items *items, uint32_t index)
{
    check(index < items->count);
    free_text(&items->items[index]);
    items->count--;
    memmove(items->items + index, items->items + index + 1,
            (items->count - index) * sizeof(*items->items));
}

void acl_items_clear(struct acl_items *items)
{
    for (uint32_t i = 0; i < items->count; i++) {
        free_text(&items->items[i]);
    }
    free(items->items);
    *items = (struct acl_items){0};
}

bool acl_items_copy(struct acl_items *to, const struct acl_items *from)
{
    *to = (struct acl_items){0};
    for (uint32_t i = 0; i < from->count; i++) {
        if (!acl_items_add(to, from->items[i].text, from->items[i].number)) {
            acl_items_clear(to);
            return false;
        }
    }
    return true;
}
