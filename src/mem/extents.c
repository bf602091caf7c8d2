#include "mem/extents.h"

#include "base/check.h"
#include "mem/poison.h"

static uint8_t *extents_address(const struct extents *extents, uint32_t granule)
{
    const struct pages *pages = extents->pages;
    return pages->base + ((size_t)granule * PAGES_GRANULE_UNITS << pages->unit_shift);
}

/* Writes the piece's ends, which is where a neighbour looks. */
static void extents_tag(struct extents *extents, uint32_t granule, uint32_t length,
                        enum granule_state state)
{
    const struct pages *pages = extents->pages;
    struct granule *first = &pages->granules[granule];
    struct granule *last = first + length - 1;

    last->length = length & 0x3ffU;
    last->first = granule & (pages->granules_per_page - 1) & 0x1ffU;
    last->state = state & 3U;
    first->length = last->length;
    first->first = last->first;
    first->state = state;
}

static void extents_bin_insert(struct extents *extents, uint32_t granule)
{
    struct granule *granules = extents->pages->granules;
    uint32_t length = granules[granule].length;
    uint32_t head = extents->bins[length];

    granules[granule].next = head;
    granules[granule].prev = PAGES_NONE;
    if (head != PAGES_NONE) {
        granules[head].prev = granule;
    }
    extents->bins[length] = granule;
    extents->bins_used[length / 64] |= (uint64_t)1 << (length % 64);
}

static void extents_bin_remove(struct extents *extents, uint32_t granule)
{
    struct granule *granules = extents->pages->granules;
    const struct granule *record = &granules[granule];

    check(record->state == GRANULE_FREE);
    if (record->next != PAGES_NONE) {
        granules[record->next].prev = record->prev;
    }
    if (record->prev != PAGES_NONE) {
        granules[record->prev].next = record->next;
        return;
    }
    uint32_t length = record->length;
    extents->bins[length] = record->next;
    if (record->next == PAGES_NONE) {
        extents->bins_used[length / 64] &= ~((uint64_t)1 << (length % 64));
    }
}

/* The shortest length from length on that has a free piece; 0: none. */
static uint32_t extents_find_length(const struct extents *extents, uint32_t length)
{
    uint32_t word = length / 64;
    uint64_t bits = extents->bins_used[word] & (~(uint64_t)0 << (length % 64));

    while (bits == 0) {
        word++;
        if (word == EXTENTS_WORDS) {
            return 0;
        }
        bits = extents->bins_used[word];
    }
    return word * 64 + (uint32_t)__builtin_ctzll(bits);
}

static uint32_t extents_find_longest(const struct extents *extents)
{
    for (uint32_t word = EXTENTS_WORDS; word-- > 0;) {
        if (extents->bins_used[word] != 0) {
            return word * 64 + 63 - (uint32_t)__builtin_clzll(extents->bins_used[word]);
        }
    }
    return 0;
}

/* Takes the front of a free piece that is in no bin; what is left of it goes into one. */
static void extents_carve(struct extents *extents, uint32_t granule, uint32_t have, uint32_t want)
{
    const struct pages *pages = extents->pages;
    extents_tag(extents, granule, want, GRANULE_TAKEN);
    if (have > want) {
        extents_tag(extents, granule + want, have - want, GRANULE_FREE);
        extents_bin_insert(extents, granule + want);
    }
    struct page *page = &pages->pages[granule >> pages->granules_shift];
    page->used_granules = (uint16_t)(page->used_granules + want);
}

void extents_init(struct extents *extents, struct pages *pages)
{
    *extents = (struct extents){.pages = pages, .closed_page = PAGES_NONE};
    fills_init(&extents->fills, pages);
    for (uint32_t length = 0; length < EXTENTS_BINS; length++) {
        extents->bins[length] = PAGES_NONE;
    }
}

bool extents_take(struct extents *extents, uint32_t length, uint32_t *granule_p)
{
    struct pages *pages = extents->pages;
    check(length > 0 && length <= pages->granules_per_page);
    uint32_t have = extents_find_length(extents, length);
    uint32_t granule = PAGES_NONE;

    if (have != 0) {
        granule = extents->bins[have];
        extents_bin_remove(extents, granule);
    } else {
        uint32_t page = PAGES_NONE;
        if (extents->is_kept_to_held || !pages_take(pages, extents->node, &page)) {
            return false;
        }
        fills_insert(&extents->fills, page);
        poison_set(pages_unit_address(pages, page, 0), pages->page_bytes);
        extents->page_count++;
        granule = page << pages->granules_shift;
        have = pages->granules_per_page;
    }
    extents_carve(extents, granule, have, length);
    *granule_p = granule;
    return true;
}

bool extents_take_part(struct extents *extents, uint32_t length, uint32_t length_min,
                       uint32_t *granule_p)
{
    uint32_t have = extents_find_length(extents, length);
    if (have == 0) {
        have = extents_find_longest(extents);
    }
    if (have == 0 || have < length_min) {
        return false;
    }
    uint32_t granule = extents->bins[have];
    extents_bin_remove(extents, granule);
    extents_carve(extents, granule, have, have < length ? have : length);
    *granule_p = granule;
    return true;
}

void extents_give(struct extents *extents, uint32_t granule)
{
    struct pages *pages = extents->pages;
    struct granule *record = &pages->granules[granule];
    uint32_t page = granule >> pages->granules_shift;
    uint32_t page_start = page << pages->granules_shift;
    uint32_t page_end = page_start + pages->granules_per_page;
    uint32_t length = record->length;
    uint32_t end = granule + length;
    bool is_closed = page == extents->closed_page; /* then no free piece is in a bin */

    check(page < pages->count && page_start + record->first == granule);
    check(record->state != GRANULE_FREE && pages->pages[page].used_granules >= length);
    poison_set(extents_address(extents, granule),
               (size_t)length * PAGES_GRANULE_UNITS << pages->unit_shift);
    pages->pages[page].used_granules = (uint16_t)(pages->pages[page].used_granules - length);
    /* So that a second give is found out even when the piece joins the one before it. */
    record->state = GRANULE_FREE;

    if (end < page_end && pages->granules[end].state == GRANULE_FREE) {
        if (!is_closed) {
            extents_bin_remove(extents, end);
        }
        end += pages->granules[end].length;
    }
    if (granule > page_start && pages->granules[granule - 1].state == GRANULE_FREE) {
        granule = page_start + pages->granules[granule - 1].first;
        if (!is_closed) {
            extents_bin_remove(extents, granule);
        }
    }
    extents_tag(extents, granule, end - granule, GRANULE_FREE);
    if (end - granule < pages->granules_per_page) {
        if (!is_closed) {
            extents_bin_insert(extents, granule);
        }
        return;
    }
    check(pages->pages[page].used_granules == 0);
    if (is_closed) {
        extents->closed_page = PAGES_NONE;
    } else {
        fills_remove(&extents->fills, page);
    }
    extents->page_count--;
    pages_give(pages, page);
}

uint32_t extents_close_piece(struct extents *extents, uint32_t granule)
{
    const struct granule *record = &extents->pages->granules[granule];
    if (record->state == GRANULE_FREE) {
        extents_bin_remove(extents, granule);
    }
    return record->length;
}

uint32_t extents_reopen_piece(struct extents *extents, uint32_t granule)
{
    const struct granule *record = &extents->pages->granules[granule];
    if (record->state == GRANULE_FREE) {
        extents_bin_insert(extents, granule);
    }
    return record->length;
}
