#include "mem/pages.h"

#include "base/check.h"
#include "base/fault.h"
#include "base/stack.h"
#include "mem/pages_impl.h"
#include "mem/poison.h"
#include "mem/table.h"

#include <stdlib.h>

static bool pages_power_of_two(uint32_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

static uint32_t pages_shift_of(uint32_t power_of_two)
{
    return (uint32_t)__builtin_ctz(power_of_two);
}

static size_t pages_granules_bytes(const struct pages *pages)
{
    return (size_t)pages->count * pages->granules_per_page * sizeof(*pages->granules);
}

struct pages *pages_create(struct region *region, uint32_t page_bytes, uint32_t unit_bytes)
{
    const struct pages_config config = {
        .region = region,
        .page_bytes = page_bytes,
        .unit_bytes = unit_bytes,
        .present_count = (uint32_t)(region_size_bytes(region) / page_bytes),
        .node_count = 1,
    };
    return pages_create_with(&config);
}

static bool pages_create_stacks(struct pages *pages, uint32_t present_count)
{
    pages->absent = stack_create(pages->count);
    pages->unreleased = stack_create(pages->count);
    bool is_made = pages->absent != NULL && pages->unreleased != NULL;
    for (uint32_t node = 0; node < pages->node_count; node++) {
        pages->free_pages[node] = stack_create(pages->count);
        is_made = is_made && pages->free_pages[node] != NULL;
    }
    if (!is_made) {
        return false;
    }
    /* Backwards, so that the lowest page is taken first. */
    for (uint32_t page = pages->count; page-- > 0;) {
        stack_push(page < present_count ? pages->free_pages[pages_node(pages, page)]
                                        : pages->absent,
                   page);
    }
    return true;
}

struct pages *pages_create_with(const struct pages_config *config)
{
    check(pages_power_of_two(config->page_bytes) && pages_power_of_two(config->unit_bytes));
    uint32_t granules_per_page = config->page_bytes / (config->unit_bytes * PAGES_GRANULE_UNITS);
    check(granules_per_page >= 16 && granules_per_page <= PAGES_GRANULES_MAX);
    size_t count = region_size_bytes(config->region) / config->page_bytes;
    /* Pool-wide granule numbers are 32 bits wide: 16 TiB of payload. */
    check(count > 0 && count < UINT32_MAX / granules_per_page);
    check(config->present_count <= count);
    check(config->node_count > 0 && config->node_count <= NUMA_NODES_MAX);

    struct pages *pages = fault_hit("pages_create") ? NULL : malloc(sizeof(*pages));
    if (pages == NULL) {
        return NULL;
    }
    *pages = (struct pages){
        .base = region_base(config->region),
        .region = config->region,
        .page_bytes = config->page_bytes,
        .page_shift = pages_shift_of(config->page_bytes),
        .unit_bytes = config->unit_bytes,
        .unit_shift = pages_shift_of(config->unit_bytes),
        .count = (uint32_t)count,
        .node_count = config->node_count,
        .node_pages =
            (uint32_t)(region_node_bytes((size_t)config->present_count * config->page_bytes,
                                         config->node_count) /
                       config->page_bytes),
        .granules_per_page = granules_per_page,
        .granules_shift = pages_shift_of(granules_per_page),
    };
    pages->pages = calloc(count, sizeof(*pages->pages));
    /* Each part is first touched when its page is first cut. */
    pages->granules = table_create(pages_granules_bytes(pages));
    if (!pages_create_stacks(pages, config->present_count) || pages->pages == NULL ||
        pages->granules == NULL) {
        pages_destroy(&pages);
        return NULL;
    }
    poison_set(pages->base, (size_t)config->present_count << pages->page_shift);
    return pages;
}

uint32_t pages_node(const struct pages *pages, uint32_t page)
{
    return pages->node_count == 1 ? 0 : page / pages->node_pages % pages->node_count;
}

void pages_destroy(struct pages **pages_p)
{
    struct pages *pages = *pages_p;
    *pages_p = NULL;
    if (pages == NULL) {
        return;
    }
    /* The region outlives the pool and is its owner's again. */
    poison_clear(pages->base, (size_t)pages->count << pages->page_shift);
    for (uint32_t node = 0; node < pages->node_count; node++) {
        stack_destroy(&pages->free_pages[node]);
    }
    stack_destroy(&pages->absent);
    stack_destroy(&pages->unreleased);
    void *granules = pages->granules;
    table_destroy(&granules, pages_granules_bytes(pages));
    free(pages->pages);
    free(pages);
}

/* A free page, of the node if it has one, else of the one that follows. */
static bool pages_pop(struct pages *pages, uint32_t node, uint32_t *page_p)
{
    for (uint32_t i = 0; i < pages->node_count; i++) {
        if (stack_pop(pages->free_pages[(node + i) % pages->node_count], page_p)) {
            return true;
        }
    }
    return false;
}

bool pages_take(struct pages *pages, uint32_t node, uint32_t *page_p)
{
    uint32_t page = PAGES_NONE;
    if (fault_hit("pages_take") || !pages_pop(pages, node, &page)) {
        return false;
    }
    check(page < pages->count);
    pages->pages[page] = (struct page){.next = PAGES_NONE, .prev = PAGES_NONE};
    poison_clear(pages_unit_address(pages, page, 0), pages->page_bytes);
    *page_p = page;
    return true;
}

void pages_give(struct pages *pages, uint32_t page)
{
    check(page < pages->count);
    poison_set(pages_unit_address(pages, page, 0), pages->page_bytes);
    stack_push(pages->free_pages[pages_node(pages, page)], page);
}

bool pages_retire(struct pages *pages)
{
    uint32_t page = PAGES_NONE;
    if (!pages_pop(pages, 0, &page)) {
        return false;
    }
    stack_push(pages->unreleased, page);
    return true;
}

bool pages_release(struct pages *pages)
{
    uint32_t page = PAGES_NONE;
    if (!pages_can_release(pages) || !stack_pop(pages->unreleased, &page)) {
        return false;
    }
    bool is_released =
        region_release(pages->region, (size_t)page << pages->page_shift, pages->page_bytes);
    stack_push(is_released ? pages->absent : pages->unreleased, page);
    return is_released;
}

bool pages_restore(struct pages *pages, bool fill)
{
    uint32_t page = PAGES_NONE;
    if (stack_pop(pages->unreleased, &page)) {
        stack_push(pages->free_pages[pages_node(pages, page)], page);
        return true;
    }
    if (!stack_pop(pages->absent, &page)) {
        return false;
    }
    if (fill && !region_fill(pages->region, (size_t)page << pages->page_shift, pages->page_bytes)) {
        stack_push(pages->absent, page);
        return false;
    }
    poison_set(pages_unit_address(pages, page, 0), pages->page_bytes);
    stack_push(pages->free_pages[pages_node(pages, page)], page);
    return true;
}

struct page *pages_find(const struct pages *pages, uint32_t page)
{
    check(page < pages->count);
    return &pages->pages[page];
}

uint8_t *pages_address(const struct pages *pages, uint32_t page)
{
    check(page < pages->count);
    return pages_unit_address(pages, page, 0);
}

uint8_t *pages_base(const struct pages *pages)
{
    return pages->base;
}

uint32_t pages_page_bytes(const struct pages *pages)
{
    return pages->page_bytes;
}

uint32_t pages_unit_bytes(const struct pages *pages)
{
    return pages->unit_bytes;
}

uint32_t pages_count(const struct pages *pages)
{
    return pages->count;
}

uint32_t pages_present_count(const struct pages *pages)
{
    return pages->count - stack_count(pages->absent) - stack_count(pages->unreleased);
}

uint32_t pages_unreleased_count(const struct pages *pages)
{
    return stack_count(pages->unreleased);
}

bool pages_can_release(const struct pages *pages)
{
    return region_can_release(pages->region);
}

uint32_t pages_free_count(const struct pages *pages)
{
    uint32_t free_count = 0;
    for (uint32_t node = 0; node < pages->node_count; node++) {
        free_count += stack_count(pages->free_pages[node]);
    }
    return free_count;
}

size_t pages_bookkeeping_bytes(const struct pages *pages)
{
    size_t of_granules = (size_t)pages->granules_per_page * sizeof(struct granule);
    /* Each stack holds a word a page, there is memory for it or not. */
    return sizeof(*pages) + pages->count * (2 + (size_t)pages->node_count) * sizeof(uint32_t) +
           pages_present_count(pages) * (sizeof(struct page) + of_granules);
}
