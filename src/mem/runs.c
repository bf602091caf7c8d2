#include "mem/runs.h"

#include "base/check.h"
#include "base/fault.h"
#include "mem/pages_impl.h"
#include "mem/poison.h"
#include "mem/runs_impl.h"

#include <stdlib.h>

/* A size gets its exact class when 256 of about 4096 takes asked for it (6 %, or 3 % for long):
 * when it is rarer, its open chunk costs more than rounding does. All heats halve every 4096. */
#define RUNS_HEAT_EXACT 256U
#define RUNS_HEAT_TAKES 4096U

static uint32_t runs_chunk_runs(uint32_t chunk_granules, uint32_t size_units)
{
    uint32_t count = chunk_granules * PAGES_GRANULE_UNITS / size_units;
    return count < RUNS_CHUNK_RUNS_MAX ? count : RUNS_CHUNK_RUNS_MAX;
}

/* True when runs of this size fill at least percent of such a chunk. */
static bool runs_chunk_fills(uint32_t chunk_granules, uint32_t size_units, uint32_t percent)
{
    uint32_t filled = runs_chunk_runs(chunk_granules, size_units) * size_units;
    return filled * 100 >= chunk_granules * PAGES_GRANULE_UNITS * percent;
}

/* The smallest chunk that is filled to percent; 0: there is none. */
static uint8_t runs_chunk_granules(uint32_t size_units, uint32_t percent)
{
    for (uint32_t granules = 1; granules <= RUNS_CHUNK_GRANULES_MAX; granules++) {
        if (runs_chunk_fills(granules, size_units, percent)) {
            return (uint8_t)granules;
        }
    }
    return 0;
}

static uint64_t runs_all_bits(uint32_t chunk_granules, uint32_t size_units)
{
    return chunk_granules == 0 ? 0
                               : ~(uint64_t)0 >> (64 - runs_chunk_runs(chunk_granules, size_units));
}

/* A class of runs of this size in such chunks, with none yet. */
static void runs_class_setup(struct run_class *class, uint32_t size_units, uint8_t chunk_granules)
{
    uint8_t small = runs_chunk_granules(size_units, 87);
    *class = (struct run_class){
        .partial = PAGES_NONE,
        .size_units = (uint16_t)size_units,
        .chunk_granules = chunk_granules,
        .chunk_granules_small = small,
        .reciprocal = ((1U << 16) + size_units - 1) / size_units,
        .all_bits = runs_all_bits(chunk_granules, size_units),
        .all_bits_small = runs_all_bits(small, size_units),
    };
}

/* The class that rounding leads to while there is no exact one. A class whose runs would fill granules
 * exactly has no chunks: such runs are whole granules. */
static uint16_t runs_regular_class(const struct runs *runs, uint32_t units)
{
    if (runs->cost_units[units] % PAGES_GRANULE_UNITS == 0) {
        return RUNS_CLASS_NONE;
    }
    uint16_t index = 0;
    while (runs->classes[index].size_units < units) {
        index++;
    }
    return index;
}

/* Classes of m << shift units, m = 9 … 16, in chunks of m granules, that is of 64 >> shift runs;
 * before them 1 … 16 units in chunks of 64 runs. So every regular class fills its chunks. */
static void runs_setup_classes(struct runs *runs)
{
    for (uint32_t index = 0; index < RUNS_REGULAR_COUNT; index++) {
        uint32_t granules = index < 16 ? index + 1 : 9 + index % 8;
        uint32_t shift = index < 16 ? 0 : (index - 16) / 8 + 1;
        runs_class_setup(&runs->classes[index], granules << shift, (uint8_t)granules);
    }
    for (uint32_t index = RUNS_REGULAR_COUNT; index < RUNS_CLASS_COUNT; index++) {
        runs->classes[index].partial = PAGES_NONE;
    }
    for (uint32_t units = 1, index = 0; units <= RUNS_UNITS_MAX; units++) {
        if (units > runs->classes[index].size_units) {
            index++;
        }
        runs->cost_units[units] = runs->classes[index].size_units;
        runs->class_of[units] = runs_regular_class(runs, units);
    }
}

struct runs *runs_create(struct pages *pages)
{
    struct runs *runs = fault_hit("runs_create") ? NULL : calloc(1, sizeof(*runs));
    if (runs == NULL) {
        return NULL;
    }
    runs->pages = pages;
    runs->heat_left = RUNS_HEAT_TAKES;
    extents_init(&runs->extents, pages);
    runs_setup_classes(runs);
    return runs;
}

void runs_keep_owners(struct runs *runs, struct runs *tables)
{
    check(runs->taken_units == 0 && runs->tables == NULL);
    runs->tables = tables;
}

void runs_destroy(struct runs **runs_p)
{
    struct runs *runs = *runs_p;
    *runs_p = NULL;
    if (runs == NULL) {
        return;
    }
    check(runs->taken_units == 0 && runs->extents.page_count == 0);
    free(runs);
}

void runs_partial_insert(struct runs *runs, struct run_class *class, uint32_t chunk)
{
    struct granule *granules = runs->pages->granules;
    granules[chunk].next = class->partial;
    granules[chunk].prev = PAGES_NONE;
    if (class->partial != PAGES_NONE) {
        granules[class->partial].prev = chunk;
    }
    class->partial = chunk;
}

void runs_partial_remove(struct runs *runs, struct run_class *class, uint32_t chunk)
{
    struct granule *granules = runs->pages->granules;
    const struct granule *record = &granules[chunk];
    if (record->next != PAGES_NONE) {
        granules[record->next].prev = record->prev;
    }
    if (record->prev != PAGES_NONE) {
        granules[record->prev].next = record->next;
    } else {
        class->partial = record->next;
    }
}

static uint64_t runs_chunk_all_bits(const struct granule *record, const struct run_class *class)
{
    return record->length == class->chunk_granules ? class->all_bits : class->all_bits_small;
}

/* Room for the owners of a chunk's runs. False: there is none. */
static bool runs_owners_take(struct runs *runs, struct granule *record, uint32_t run_count)
{
    struct run table;
    if (runs->tables == NULL) {
        return true;
    }
    if (runs_take(runs->tables, run_count * sizeof(uint32_t), &table) != KVASIR_OK) {
        return false;
    }
    const struct pages *pages = runs->tables->pages;
    record->owners = (table.page << (pages->page_shift - pages->unit_shift)) + table.offset_units;
    return true;
}

static void runs_owners_give(struct runs *runs, const struct granule *record)
{
    if (runs->tables != NULL) {
        struct run table = runs_find(runs->tables, runs_owner_table(runs, record));
        runs_give(runs->tables, &table);
    }
}

ATTR_COLD static bool runs_chunk_create(struct runs *runs, struct run_class *class)
{
    uint32_t chunk = PAGES_NONE;
    if (!extents_take(&runs->extents, class->chunk_granules, &chunk) &&
        !extents_take(&runs->extents, class->chunk_granules_small, &chunk)) {
        return false;
    }
    struct granule *record = &runs->pages->granules[chunk];
    if (!runs_owners_take(runs, record, runs_chunk_runs(record->length, class->size_units))) {
        extents_give(&runs->extents, chunk);
        return false;
    }
    record->free_bits = runs_chunk_all_bits(record, class);
    record->run_class = (uint32_t)(class - runs->classes) & 0x7ffU;
    /* A run may begin in any granule and must find its chunk from there. */
    for (uint32_t index = 0; index < record->length; index++) {
        record[index].first = record->first;
        record[index].state = GRANULE_CHUNK;
    }
    class->chunk_count++;
    runs_partial_insert(runs, class, chunk);
    return true;
}

static bool runs_is_closed(const struct runs *runs, uint32_t granule)
{
    return granule >> runs->pages->granules_shift == runs->extents.closed_page;
}

/* An exact class without a chunk makes room for another. */
static void runs_exact_forget(struct runs *runs, struct run_class *class)
{
    if (class->chunk_count > 0 || class - runs->classes < RUNS_REGULAR_COUNT) {
        return;
    }
    runs->class_of[class->size_units] = runs_regular_class(runs, class->size_units);
    class->size_units = 0;
}

ATTR_COLD static void runs_chunk_destroy(struct runs *runs, struct run_class *class, uint32_t chunk)
{
    if (!runs_is_closed(runs, chunk)) {
        runs_partial_remove(runs, class, chunk);
    }
    runs_owners_give(runs, &runs->pages->granules[chunk]);
    extents_give(&runs->extents, chunk);
    class->chunk_count--;
    runs_exact_forget(runs, class);
}

/* A class for exactly this length, when a place is free and packing takes back no more than what
 * rounding would have wasted. */
ATTR_COLD static void runs_exact_create(struct runs *runs, uint32_t units)
{
    uint8_t granules = runs_chunk_granules(units, 99);
    if (granules == 0) {
        granules = runs_chunk_granules(units, 97);
    }
    if (granules == 0 || runs->class_of[units] != runs_regular_class(runs, units)) {
        return;
    }
    uint32_t run_count = runs_chunk_runs(granules, units);
    uint32_t cost_64ths = granules * PAGES_GRANULE_UNITS * 64 / run_count;
    if (cost_64ths > runs->cost_units[units] * 63U) {
        return;
    }
    for (uint32_t index = RUNS_REGULAR_COUNT; index < RUNS_CLASS_COUNT; index++) {
        struct run_class *class = &runs->classes[index];
        if (class->size_units == 0) {
            runs_class_setup(class, units, granules);
            runs->class_of[units] = (uint16_t)index;
            return;
        }
    }
}

static void runs_note_heat(struct runs *runs, uint32_t units)
{
    runs->heat[units]++;
    /* Only at the moment when it grows hot: a size whose class could not be made, or went, is looked
     * at again a while later and not at every take. */
    if (runs->heat[units] == RUNS_HEAT_EXACT) {
        runs_exact_create(runs, units);
    }
    runs->heat_left--;
    if (runs->heat_left == 0) {
        runs->heat_left = RUNS_HEAT_TAKES;
        for (uint32_t index = 1; index <= RUNS_UNITS_MAX; index++) {
            runs->heat[index] /= 2;
        }
    }
}

static struct run runs_take_from_chunk(struct runs *runs, struct run_class *class)
{
    uint32_t chunk = class->partial;
    struct granule *record = &runs->pages->granules[chunk];
    uint32_t index = (uint32_t)__builtin_ctzll(record->free_bits);

    record->free_bits &= record->free_bits - 1;
    if (record->free_bits == 0) {
        runs_partial_remove(runs, class, chunk);
    }
    if (runs->tables != NULL) {
        runs_owner_table(runs, record)[index] = runs->taker;
    }
    return (struct run){
        .page = chunk >> runs->pages->granules_shift,
        .offset_units = (uint16_t)(record->first * PAGES_GRANULE_UNITS + index * class->size_units),
        .length_units = class->size_units,
    };
}

/* What was just taken. */
static struct run runs_of_granules(const struct runs *runs, uint32_t granule)
{
    struct granule *record = &runs->pages->granules[granule];
    record->owner = runs->taker;
    return (struct run){
        .page = granule >> runs->pages->granules_shift,
        .offset_units = (uint16_t)(record->first * PAGES_GRANULE_UNITS),
        .length_units = (uint16_t)(record->length * PAGES_GRANULE_UNITS),
    };
}

static bool runs_take_granules(struct runs *runs, uint32_t units, struct run *run_p)
{
    uint32_t granule = PAGES_NONE;
    uint32_t length = (units + PAGES_GRANULE_UNITS - 1) / PAGES_GRANULE_UNITS;
    if (!extents_take(&runs->extents, length, &granule)) {
        return false;
    }
    *run_p = runs_of_granules(runs, granule);
    return true;
}

/* No room for a chunk of the right class: rather than fail, waste up to half of a longer run. */
static bool runs_take_longer(struct runs *runs, uint32_t units, struct run *run_p)
{
    for (uint32_t index = 0; index < RUNS_REGULAR_COUNT; index++) {
        struct run_class *class = &runs->classes[index];
        if (class->size_units > 2 * units) {
            break;
        }
        if (class->size_units > units && class->partial != PAGES_NONE) {
            *run_p = runs_take_from_chunk(runs, class);
            return true;
        }
    }
    return units >= PAGES_GRANULE_UNITS / 2 && runs_take_granules(runs, units, run_p);
}

static bool runs_take_units(struct runs *runs, uint32_t units, struct run *run_p)
{
    if (units > RUNS_UNITS_MAX) {
        return runs_take_granules(runs, units, run_p);
    }
    runs_note_heat(runs, units);
    if (runs->class_of[units] == RUNS_CLASS_NONE) {
        return runs_take_granules(runs, units, run_p);
    }
    struct run_class *class = &runs->classes[runs->class_of[units]];
    if (class->partial == PAGES_NONE && !runs_chunk_create(runs, class)) {
        runs_exact_forget(runs, class);
        return runs_take_longer(runs, units, run_p);
    }
    *run_p = runs_take_from_chunk(runs, class);
    return true;
}

/* The counts of what is handed out follow each take and give; the page is held. */
static void runs_count_take(struct runs *runs, struct run run)
{
    runs->taken_units += run.length_units;
    runs->pages->pages[run.page].used_units += run.length_units;
}

static void runs_count_give(struct runs *runs, struct run run)
{
    struct fills *fills = &runs->extents.fills;
    struct page *page = &runs->pages->pages[run.page];
    runs->taken_units -= run.length_units;
    page->used_units -= run.length_units;
    if (UNLIKELY(fills_level(fills, page->used_units) < page->level) &&
        run.page != runs->extents.closed_page) {
        fills_sink(fills, run.page);
    }
}

static uint32_t runs_units(const struct runs *runs, size_t length_bytes)
{
    check(length_bytes > 0 && length_bytes <= runs->pages->page_bytes);
    return (uint32_t)((length_bytes + runs->pages->unit_bytes - 1) >> runs->pages->unit_shift);
}

enum kvasir_status runs_take(struct runs *runs, size_t length_bytes, struct run *run_p)
{
    uint32_t units = runs_units(runs, length_bytes);
    if (fault_hit("runs_take") || !runs_take_units(runs, units, run_p)) {
        return KVASIR_NO_MEMORY;
    }
    runs_count_take(runs, *run_p);
    poison_clear(pages_unit_address(runs->pages, run_p->page, run_p->offset_units), length_bytes);
    return KVASIR_OK;
}

enum kvasir_status runs_take_part(struct runs *runs, size_t length_bytes, size_t min_bytes,
                                  struct run *run_p)
{
    uint32_t granule = PAGES_NONE;
    uint32_t units = runs_units(runs, length_bytes);
    uint32_t min_units = runs_units(runs, min_bytes);
    check(units % PAGES_GRANULE_UNITS == 0 && min_units % PAGES_GRANULE_UNITS == 0);
    if (fault_hit("runs_take_part") ||
        !extents_take_part(&runs->extents, units / PAGES_GRANULE_UNITS,
                           min_units / PAGES_GRANULE_UNITS, &granule)) {
        return KVASIR_NO_MEMORY;
    }
    *run_p = runs_of_granules(runs, granule);
    runs_count_take(runs, *run_p);
    poison_clear(pages_unit_address(runs->pages, run_p->page, run_p->offset_units),
                 (size_t)run_p->length_units << runs->pages->unit_shift);
    return KVASIR_OK;
}

static void runs_give_to_chunk(struct runs *runs, struct run run, uint32_t chunk)
{
    struct granule *record = &runs->pages->granules[chunk];
    struct run_class *class = &runs->classes[record->run_class];
    uint32_t offset = run.offset_units - record->first * PAGES_GRANULE_UNITS;
    uint32_t index = runs_index_in_chunk(class, offset);
    uint64_t bit = (uint64_t)1 << index;

    check(index * class->size_units == offset && run.length_units == class->size_units);
    check((record->free_bits & bit) == 0);
    poison_set(pages_unit_address(runs->pages, run.page, run.offset_units),
               (size_t)run.length_units << runs->pages->unit_shift);
    if (record->free_bits == 0 && !runs_is_closed(runs, chunk)) {
        runs_partial_insert(runs, class, chunk);
        if (runs->tables != NULL) { /* taken next, most likely */
            __builtin_prefetch(&runs_owner_table(runs, record)[index], 1);
        }
    }
    record->free_bits |= bit;
    if (record->free_bits == runs_chunk_all_bits(record, class)) {
        runs_chunk_destroy(runs, class, chunk);
    }
}

void runs_give(struct runs *runs, struct run *run_p)
{
    struct run run = *run_p;
    const struct pages *pages = runs->pages;
    check(run.page < pages->count);
    uint32_t page_start = run.page << pages->granules_shift;
    uint32_t granule = page_start + run.offset_units / PAGES_GRANULE_UNITS;
    const struct granule *record = &pages->granules[granule];

    check(granule < page_start + pages->granules_per_page && record->state != GRANULE_FREE);
    runs_count_give(runs, run);
    if (record->state == GRANULE_CHUNK) {
        runs_give_to_chunk(runs, run, page_start + record->first);
    } else {
        check(record->length * PAGES_GRANULE_UNITS == run.length_units);
        extents_give(&runs->extents, granule);
    }
    run_p->page = PAGES_NONE;
}

/* The record of the granule in which an address lies. */
static const struct granule *runs_granule_at(const struct pages *pages, const void *address)
{
    size_t offset = (size_t)((const uint8_t *)address - pages->base);
    return &pages->granules[(offset >> pages->unit_shift) / PAGES_GRANULE_UNITS];
}

void runs_prefetch(const struct runs *runs, const void *address)
{
    const struct granule *record = runs_granule_at(runs->pages, address);
    __builtin_prefetch(record);
    __builtin_prefetch((const uint8_t *)(record + 1) - 1); /* it may cross into a second line */
}

struct run runs_find(const struct runs *runs, const void *address)
{
    const struct pages *pages = runs->pages;
    size_t offset = (size_t)((const uint8_t *)address - pages->base);
    uint32_t page = (uint32_t)(offset >> pages->page_shift);
    uint32_t units = (uint32_t)((offset & (pages->page_bytes - 1)) >> pages->unit_shift);
    check(page < pages->count);
    const struct granule *record = runs_granule_at(pages, address);
    struct run run = {.page = page, .offset_units = (uint16_t)units};

    if (record->state == GRANULE_CHUNK) {
        record -= units / PAGES_GRANULE_UNITS - record->first;
        run.length_units = runs->classes[record->run_class].size_units;
    } else {
        check(record->state == GRANULE_TAKEN);
        run.length_units = (uint16_t)(record->length * PAGES_GRANULE_UNITS);
    }
    return run;
}

/* The record of the piece that a run is, or of the chunk that it is in; *index_p: which run of it. */
static struct granule *runs_find_record(const struct runs *runs, struct run run, uint32_t *index_p)
{
    const struct pages *pages = runs->pages;
    uint32_t index = run.offset_units / PAGES_GRANULE_UNITS;
    struct granule *record = &pages->granules[(run.page << pages->granules_shift) + index];
    *index_p = 0;
    if (record->state == GRANULE_CHUNK) {
        uint32_t first = record->first;
        record -= index - first;
        *index_p = runs_index_in_chunk(&runs->classes[record->run_class],
                                       run.offset_units - first * PAGES_GRANULE_UNITS);
    }
    return record;
}

void runs_set_taker(struct runs *runs, uint32_t owner)
{
    runs->taker = owner;
}

uint32_t runs_owner(const struct runs *runs, struct run run)
{
    uint32_t index;
    check(runs->tables != NULL);
    const struct granule *record = runs_find_record(runs, run, &index);
    return record->state == GRANULE_CHUNK ? runs_owner_table(runs, record)[index]
                                          : (uint32_t)record->owner;
}

size_t runs_rounded_bytes(const struct runs *runs, size_t length_bytes)
{
    uint32_t units = runs_units(runs, length_bytes);
    if (units <= RUNS_UNITS_MAX && runs->class_of[units] != RUNS_CLASS_NONE) {
        units = runs->classes[runs->class_of[units]].size_units;
    } else {
        units = (units + PAGES_GRANULE_UNITS - 1) / PAGES_GRANULE_UNITS * PAGES_GRANULE_UNITS;
    }
    return (size_t)units << runs->pages->unit_shift;
}

void runs_set_node(struct runs *runs, uint32_t node)
{
    runs->extents.node = node;
}

uint32_t runs_node(const struct runs *runs)
{
    return runs->extents.node;
}

struct pages *runs_pages(const struct runs *runs)
{
    return runs->pages;
}

uint64_t runs_slack_bytes(const struct runs *runs)
{
    const struct pages *pages = runs->pages;
    return ((uint64_t)runs->extents.page_count << pages->page_shift) -
           (runs->taken_units << pages->unit_shift);
}

void runs_stats(const struct runs *runs, struct runs_stats *stats_p)
{
    *stats_p = (struct runs_stats){
        .taken_bytes = runs->taken_units << runs->pages->unit_shift,
        .page_count = runs->extents.page_count,
        .slack_bytes = runs_slack_bytes(runs),
    };
    for (uint32_t index = 0; index < RUNS_CLASS_COUNT; index++) {
        if (runs->classes[index].chunk_count > 0) {
            stats_p->class_count++;
            stats_p->exact_count += index >= RUNS_REGULAR_COUNT;
        }
    }
}
