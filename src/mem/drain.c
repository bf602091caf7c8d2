#include "mem/drain.h"

#include "base/check.h"
#include "mem/runs_impl.h"

uint32_t drain_find_page(struct runs *runs, uint32_t level_max)
{
    return fills_find_sparsest(&runs->extents.fills, level_max);
}

uint32_t drain_closed_page(const struct runs *runs)
{
    return runs->extents.closed_page;
}

static struct run_class *drain_class_with_room(struct runs *runs, const struct granule *record)
{
    bool has_room = record->state == GRANULE_CHUNK && record->free_bits != 0;
    return has_room ? &runs->classes[record->run_class] : NULL;
}

void drain_close(struct runs *runs, uint32_t page)
{
    struct extents *extents = &runs->extents;
    uint32_t granule = page << runs->pages->granules_shift;
    uint32_t end = granule + runs->pages->granules_per_page;

    check(extents->closed_page == PAGES_NONE);
    fills_remove(&extents->fills, page);
    while (granule < end) {
        struct run_class *class = drain_class_with_room(runs, &runs->pages->granules[granule]);
        if (class != NULL) {
            runs_partial_remove(runs, class, granule);
        }
        granule += extents_close_piece(extents, granule);
    }
    extents->closed_page = page;
}

void drain_reopen(struct runs *runs)
{
    struct extents *extents = &runs->extents;
    uint32_t page = extents->closed_page;
    uint32_t granule = page << runs->pages->granules_shift;
    uint32_t end = granule + runs->pages->granules_per_page;

    check(page != PAGES_NONE);
    while (granule < end) {
        struct run_class *class = drain_class_with_room(runs, &runs->pages->granules[granule]);
        if (class != NULL) {
            runs_partial_insert(runs, class, granule);
        }
        granule += extents_reopen_piece(extents, granule);
    }
    extents->closed_page = PAGES_NONE;
    fills_set_aside(&extents->fills, page);
}

void drain_find_run(const struct runs *runs, struct run *run_p, uint32_t *owner_p)
{
    const struct pages *pages = runs->pages;
    uint32_t page = runs->extents.closed_page;
    check(page != PAGES_NONE && runs->tables != NULL);
    const struct granule *record = &pages->granules[page << pages->granules_shift];

    /* A closed page that is free all through is closed no longer, so some piece is taken. */
    while (record->state == GRANULE_FREE) {
        record += record->length;
    }
    *run_p =
        (struct run){.page = page, .offset_units = (uint16_t)(record->first * PAGES_GRANULE_UNITS)};
    if (record->state == GRANULE_TAKEN) {
        run_p->length_units = (uint16_t)(record->length * PAGES_GRANULE_UNITS);
        *owner_p = (uint32_t)record->owner;
        return;
    }
    uint32_t index = (uint32_t)__builtin_ctzll(~record->free_bits);
    run_p->length_units = runs->classes[record->run_class].size_units;
    run_p->offset_units = (uint16_t)(run_p->offset_units + index * run_p->length_units);
    *owner_p = runs_owner_table(runs, record)[index];
}

void drain_look_again(struct runs *runs, uint32_t count_max)
{
    fills_look_again(&runs->extents.fills, count_max);
}

void drain_keep_to_held(struct runs *runs, bool is_kept)
{
    runs->extents.is_kept_to_held = is_kept;
}
