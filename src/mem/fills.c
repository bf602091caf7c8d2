#include "mem/fills.h"

#include "base/check.h"
#include "mem/pages_impl.h"

void fills_init(struct fills *fills, struct pages *pages)
{
    fills->pages = pages;
    uint32_t units_per_level = pages->granules_per_page * PAGES_GRANULE_UNITS / (FILLS_LEVELS - 1);
    check(units_per_level > 0 && (units_per_level & (units_per_level - 1)) == 0);
    fills->level_shift = (uint32_t)__builtin_ctz(units_per_level);
    for (uint32_t level = 0; level <= FILLS_SET_ASIDE; level++) {
        fills->first[level] = PAGES_NONE;
    }
}

static void fills_push(struct fills *fills, uint32_t page, uint32_t level)
{
    struct page *record = &fills->pages->pages[page];
    uint32_t head = fills->first[level];
    record->level = (uint8_t)level;
    record->next = head;
    record->prev = PAGES_NONE;
    if (head != PAGES_NONE) {
        fills->pages->pages[head].prev = page;
    }
    fills->first[level] = page;
}

void fills_insert(struct fills *fills, uint32_t page)
{
    fills_push(fills, page, fills_level(fills, fills->pages->pages[page].used_units));
}

void fills_remove(struct fills *fills, uint32_t page)
{
    struct page *pages = fills->pages->pages;
    struct page *record = &pages[page];
    if (record->next != PAGES_NONE) {
        pages[record->next].prev = record->prev;
    }
    if (record->prev != PAGES_NONE) {
        pages[record->prev].next = record->next;
    } else {
        check(fills->first[record->level] == page);
        fills->first[record->level] = record->next;
    }
    record->next = PAGES_NONE;
    record->prev = PAGES_NONE;
}

void fills_sink(struct fills *fills, uint32_t page)
{
    if (fills->pages->pages[page].level != FILLS_SET_ASIDE) {
        fills_remove(fills, page);
        fills_insert(fills, page);
    }
}

uint32_t fills_find_sparsest(struct fills *fills, uint32_t level_max)
{
    uint32_t stale_left = FILLS_STALE_MAX;
    uint32_t level = 0;
    while (level <= level_max && stale_left > 0) {
        uint32_t page = fills->first[level];
        if (page == PAGES_NONE) {
            level++;
        } else if (fills_level(fills, fills->pages->pages[page].used_units) == level) {
            return page;
        } else {
            fills_remove(fills, page);
            fills_insert(fills, page);
            stale_left--;
        }
    }
    return PAGES_NONE;
}

void fills_set_aside(struct fills *fills, uint32_t page)
{
    fills_push(fills, page, FILLS_SET_ASIDE);
}

void fills_look_again(struct fills *fills, uint32_t count_max)
{
    for (uint32_t count = 0; count < count_max; count++) {
        uint32_t page = fills->first[FILLS_SET_ASIDE];
        if (page == PAGES_NONE) {
            return;
        }
        fills_remove(fills, page);
        fills_insert(fills, page);
    }
}
