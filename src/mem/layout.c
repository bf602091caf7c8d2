#include "mem/layout.h"

#include "base/check.h"
#include "base/copy.h"
#include "mem/pages_impl.h"

/* Tails up to here are one run of a class: short values in one piece. */
#define LAYOUT_SINGLE_GRANULES 4U
/* A value is cut once more when rounding would waste more than this part of it. Each piece costs an
 * iovec in every send and receive, so it is not cut for less. */
#define LAYOUT_WASTE_DIVISOR 64U
/* A tail this near to a page takes the page: what would be left serves few and keeps the page. */
#define LAYOUT_PAGE_DIVISOR 64U

/* A part of a tail that is cut while there still are free pages is at least this long (32 KiB):
 * shorter pieces cost more in sends than they save in memory. */
#define LAYOUT_PART_GRANULES 8U

static const struct layout layout_empty = {
    .first_page = PAGES_NONE,
    .runs = {{.page = PAGES_NONE}, {.page = PAGES_NONE}, {.page = PAGES_NONE}},
};

/* What a tail is taken as: whole granules first (in one run or several), then a short run. */
struct layout_plan {
    size_t granule_bytes;
    size_t short_bytes;
};

static size_t layout_single_bytes(const struct pages *pages)
{
    return (size_t)pages->unit_bytes * PAGES_GRANULE_UNITS * LAYOUT_SINGLE_GRANULES;
}

static size_t layout_run_bytes(const struct pages *pages, struct run run)
{
    return (size_t)run.length_units << pages->unit_shift;
}

static void layout_give_pages(struct pages *pages, struct layout *layout)
{
    uint32_t page = layout->first_page;
    layout->first_page = PAGES_NONE;
    while (page != PAGES_NONE) {
        uint32_t next = pages_find(pages, page)->next;
        pages_give(pages, page);
        page = next;
    }
}

/* Pages that are given back in one order are taken in the other: each goes to that end of the chain at
 * which the chain rises, so that neighbours follow each other and are one piece to whoever reads. */
static bool layout_take_pages(const struct runs *runs, size_t count, struct layout *layout)
{
    struct pages *pages = runs_pages(runs);
    uint32_t last = PAGES_NONE;
    for (size_t index = 0; index < count; index++) {
        uint32_t page = PAGES_NONE;
        if (!pages_take(pages, runs_node(runs), &page)) {
            layout_give_pages(pages, layout);
            return false;
        }
        if (last == PAGES_NONE || page < layout->first_page) {
            pages_find(pages, page)->next = layout->first_page;
            last = last == PAGES_NONE ? page : last;
            layout->first_page = page;
        } else {
            pages_find(pages, last)->next = page;
            last = page;
        }
    }
    return true;
}

static void layout_give_runs(struct runs *runs, struct layout *layout)
{
    for (uint32_t index = 0; index < LAYOUT_RUNS_MAX && layout->runs[index].page != PAGES_NONE;
         index++) {
        runs_give(runs, &layout->runs[index]);
    }
}

/* True when runs of this length would leave much of each page unused. */
static bool layout_packs_badly(const struct pages *pages, size_t length_bytes)
{
    return pages->page_bytes % length_bytes * LAYOUT_PAGE_DIVISOR > pages->page_bytes;
}

/* The next run of a tail that may have run_max more: all that is left of it, or a part. */
static bool layout_take_next(struct runs *runs, size_t left_bytes, uint32_t run_max,
                             struct run *run_p)
{
    const struct pages *pages = runs_pages(runs);
    size_t granule_bytes = (size_t)pages->unit_bytes * PAGES_GRANULE_UNITS;

    /* Lengths that pack badly go on from page to page, as a text goes on from line to line, and so
     * leave nothing. */
    if (run_max > 1 && layout_packs_badly(pages, left_bytes) &&
        runs_take_part(runs, left_bytes, LAYOUT_PART_GRANULES * granule_bytes, run_p) ==
            KVASIR_OK) {
        return true;
    }
    return runs_take(runs, left_bytes, run_p) == KVASIR_OK ||
           (run_max > 1 && runs_take_part(runs, left_bytes, granule_bytes, run_p) == KVASIR_OK);
}

/* Whole granules in at most run_max runs from runs[0] on. */
static bool layout_take_granules(struct runs *runs, size_t granule_bytes, uint32_t run_max,
                                 struct layout *layout)
{
    size_t left_bytes = granule_bytes;
    for (uint32_t index = 0; index < run_max && left_bytes > 0; index++) {
        if (!layout_take_next(runs, left_bytes, run_max - index, &layout->runs[index])) {
            layout_give_runs(runs, layout);
            return false;
        }
        left_bytes -= layout_run_bytes(runs_pages(runs), layout->runs[index]);
    }
    return true;
}

/* The run after the last one that is taken; there is one. */
static struct run *layout_find_free_run(struct layout *layout)
{
    uint32_t index = 0;
    while (layout->runs[index].page != PAGES_NONE) {
        index++;
    }
    return &layout->runs[index];
}

static bool layout_take_tail(struct runs *runs, struct layout_plan plan, struct layout *layout)
{
    bool is_split = plan.short_bytes > 0;
    uint32_t run_max = is_split ? LAYOUT_RUNS_MAX - 1 : LAYOUT_RUNS_MAX;

    if (plan.granule_bytes > 0 &&
        !layout_take_granules(runs, plan.granule_bytes, run_max, layout)) {
        return false;
    }
    if (is_split && runs_take(runs, plan.short_bytes, layout_find_free_run(layout)) != KVASIR_OK) {
        layout_give_runs(runs, layout);
        return false;
    }
    return true;
}

static struct layout_plan layout_plan_tail(const struct pages *pages, size_t tail_bytes,
                                           size_t length_bytes)
{
    size_t granule_bytes = (size_t)pages->unit_bytes * PAGES_GRANULE_UNITS;
    size_t short_bytes = tail_bytes & (granule_bytes - 1);
    size_t wasted_bytes = short_bytes > 0 ? granule_bytes - short_bytes : 0;

    if (tail_bytes <= layout_single_bytes(pages)) {
        return (struct layout_plan){.short_bytes = tail_bytes};
    }
    if (wasted_bytes * LAYOUT_WASTE_DIVISOR <= length_bytes) {
        return (struct layout_plan){.granule_bytes = tail_bytes + wasted_bytes};
    }
    return (struct layout_plan){
        .granule_bytes = tail_bytes - short_bytes,
        .short_bytes = short_bytes,
    };
}

/* What a value takes besides whole pages. */
static size_t layout_tail_bytes(const struct pages *pages, size_t length_bytes)
{
    size_t page_bytes = pages->page_bytes;
    size_t tail_bytes = length_bytes & (page_bytes - 1);
    return tail_bytes > page_bytes - page_bytes / LAYOUT_PAGE_DIVISOR ? 0 : tail_bytes;
}

size_t layout_page_count(const struct pages *pages, size_t length_bytes)
{
    size_t rest_bytes = length_bytes & (pages->page_bytes - 1);
    bool is_rounded = rest_bytes > 0 && layout_tail_bytes(pages, length_bytes) == 0;
    return (length_bytes >> pages->page_shift) + is_rounded;
}

/* The tail, first in the pieces that suit it best. */
static bool layout_take_any_tail(struct runs *runs, size_t tail_bytes, size_t length_bytes,
                                 struct layout *layout)
{
    const struct pages *pages = runs_pages(runs);
    struct layout_plan plan = layout_plan_tail(pages, tail_bytes, length_bytes);
    if (layout_take_tail(runs, plan, layout)) {
        return true;
    }
    /* No room for the short run: its bytes in whole granules, unless that wastes most of one. */
    size_t granule_bytes = (size_t)pages_unit_bytes(pages) * PAGES_GRANULE_UNITS;
    size_t rounded_bytes = (tail_bytes + granule_bytes - 1) / granule_bytes * granule_bytes;
    return plan.short_bytes > 0 && tail_bytes >= granule_bytes &&
           layout_take_granules(runs, rounded_bytes, LAYOUT_RUNS_MAX, layout);
}

enum kvasir_status layout_take(struct runs *runs, size_t length_bytes, struct layout *layout_p)
{
    struct pages *pages = runs_pages(runs);
    *layout_p = layout_empty;
    if (LIKELY(length_bytes > 0 && length_bytes <= layout_single_bytes(pages)) &&
        runs_take(runs, length_bytes, &layout_p->runs[0]) == KVASIR_OK) {
        return KVASIR_OK;
    }
    size_t page_count = layout_page_count(pages, length_bytes);
    size_t tail_bytes = layout_tail_bytes(pages, length_bytes);
    /* Not one page is touched for a value that cannot fit in what is free; and the pool, which all
     * cores share, is not looked at for a short one. */
    if (page_count > 0 &&
        (page_count > pages_free_count(pages) || !layout_take_pages(runs, page_count, layout_p))) {
        return KVASIR_NO_MEMORY;
    }
    if (tail_bytes == 0) {
        return KVASIR_OK;
    }
    if (layout_take_any_tail(runs, tail_bytes, length_bytes, layout_p)) {
        return KVASIR_OK;
    }
    layout_give_pages(pages, layout_p);
    return KVASIR_NO_MEMORY;
}

void layout_give(struct runs *runs, size_t length_bytes, struct layout *layout_p)
{
    check_slow(layout_taken_bytes(runs, layout_p, length_bytes) >= length_bytes);
    (void)length_bytes;
    layout_give_runs(runs, layout_p);
    layout_give_pages(runs_pages(runs), layout_p);
}

/* One run elsewhere, of which length_bytes are in use. It does not grow, and where more of the value
 * follows it keeps its length. */
static bool layout_move_run(struct runs *runs, size_t length_bytes, struct run *run_p)
{
    const struct pages *pages = runs_pages(runs);
    struct run run;
    if (runs_take(runs, length_bytes, &run) != KVASIR_OK) {
        return false;
    }
    if (run.length_units > run_p->length_units) {
        runs_give(runs, &run);
        return false;
    }
    copy_payload(runs_address(pages, run), runs_address(pages, *run_p), length_bytes);
    runs_give(runs, run_p);
    *run_p = run;
    return true;
}

static void layout_copy(struct layout_cursor *to, struct layout_cursor *from)
{
    while (from->left_bytes > 0) {
        struct iovec target = layout_cursor_peek(to);
        struct iovec source = layout_cursor_peek(from);
        size_t step_bytes = target.iov_len < source.iov_len ? target.iov_len : source.iov_len;
        copy_payload(target.iov_base, source.iov_base, step_bytes);
        layout_cursor_skip(to, step_bytes);
        layout_cursor_skip(from, step_bytes);
    }
}

/* The whole tail elsewhere, cut anew. */
static bool layout_move_tail(struct runs *runs, size_t length_bytes, struct layout *layout)
{
    const struct pages *pages = runs_pages(runs);
    size_t tail_bytes = layout_tail_bytes(pages, length_bytes);
    struct layout old = *layout;
    struct layout new = layout_empty;
    struct layout_cursor to, from;
    old.first_page = PAGES_NONE;
    if (!layout_take_any_tail(runs, tail_bytes, length_bytes, &new)) {
        return false;
    }
    layout_cursor_init(&to, pages, &new, tail_bytes);
    layout_cursor_init(&from, pages, &old, tail_bytes);
    layout_copy(&to, &from);
    layout_give_runs(runs, &old);
    new.first_page = layout->first_page;
    *layout = new;
    return true;
}

bool layout_move(struct runs *runs, size_t length_bytes, struct layout *layout, struct run run,
                 uint32_t owner)
{
    const struct pages *pages = runs_pages(runs);
    size_t left_bytes = layout_tail_bytes(pages, length_bytes);
    runs_set_taker(runs, owner);
    for (uint32_t index = 0; index < LAYOUT_RUNS_MAX; index++) {
        struct run *own = &layout->runs[index];
        size_t run_bytes = layout_run_bytes(pages, *own);
        size_t used_bytes = run_bytes < left_bytes ? run_bytes : left_bytes;
        if (own->page == run.page && own->offset_units == run.offset_units) {
            return layout_move_run(runs, used_bytes, own) ||
                   layout_move_tail(runs, length_bytes, layout);
        }
        left_bytes -= used_bytes;
    }
    unreachable();
}

void layout_cursor_init(struct layout_cursor *cursor, const struct pages *pages,
                        const struct layout *layout, size_t length_bytes)
{
    *cursor = (struct layout_cursor){
        .pages = pages,
        .layout = *layout,
        .left_bytes = length_bytes,
        .page = layout->first_page,
    };
}

/* Bytes of the current piece from its start on; the value may end before. */
static size_t layout_cursor_piece_bytes(const struct layout_cursor *cursor)
{
    if (cursor->page != PAGES_NONE) {
        return cursor->pages->page_bytes;
    }
    check(cursor->run_index < LAYOUT_RUNS_MAX);
    struct run run = cursor->layout.runs[cursor->run_index];
    check(run.page != PAGES_NONE);
    return layout_run_bytes(cursor->pages, run);
}

struct iovec layout_cursor_peek(const struct layout_cursor *cursor)
{
    if (cursor->left_bytes == 0) {
        return (struct iovec){.iov_base = NULL, .iov_len = 0};
    }
    size_t length_bytes = layout_cursor_piece_bytes(cursor) - cursor->skip_bytes;
    uint8_t *start = cursor->page != PAGES_NONE
                         ? pages_address(cursor->pages, cursor->page)
                         : runs_address(cursor->pages, cursor->layout.runs[cursor->run_index]);
    return (struct iovec){
        .iov_base = start + cursor->skip_bytes,
        .iov_len = length_bytes < cursor->left_bytes ? length_bytes : cursor->left_bytes,
    };
}

void layout_cursor_skip(struct layout_cursor *cursor, size_t length_bytes)
{
    check(length_bytes <= cursor->left_bytes);
    cursor->left_bytes -= length_bytes;
    cursor->skip_bytes += length_bytes;
    while (cursor->left_bytes > 0) {
        size_t piece_bytes = layout_cursor_piece_bytes(cursor);
        if (cursor->skip_bytes < piece_bytes) {
            return;
        }
        cursor->skip_bytes -= piece_bytes;
        if (cursor->page != PAGES_NONE) {
            cursor->page = pages_find(cursor->pages, cursor->page)->next;
        } else {
            cursor->run_index++;
        }
    }
}

size_t layout_taken_bytes(const struct runs *runs, const struct layout *layout, size_t length_bytes)
{
    const struct pages *pages = runs_pages(runs);
    size_t taken_bytes = 0;
    (void)length_bytes;

    for (uint32_t page = layout->first_page; page != PAGES_NONE;
         page = pages_find(pages, page)->next) {
        taken_bytes += pages->page_bytes;
    }
    for (uint32_t index = 0; index < LAYOUT_RUNS_MAX; index++) {
        if (layout->runs[index].page != PAGES_NONE) {
            taken_bytes += layout_run_bytes(pages, layout->runs[index]);
        }
    }
    return taken_bytes;
}
