/* Unit tests of mem/layout: pieces, walks, failures, and how well values pack. */
#include "mem/layout.h"

#include "base/fault.h"
#include "base/random.h"
#include "test_seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAGE_BYTES    (2U << 20)
#define PAGE_COUNT    32U
#define POOL_BYTES    ((size_t)PAGE_COUNT * PAGE_BYTES)
#define UNIT_BYTES    64U
#define GRANULE_BYTES (UNIT_BYTES * PAGES_GRANULE_UNITS)
#define MODEL_MAX     512U
#define VALUES_MAX    262144U

/* Never touched, so that it costs address space only. */
#define CHURN_BYTES ((size_t)1 << 30)

struct fixture {
    struct region *region; /* owned */
    struct pages *pages;   /* owned */
    struct runs *runs;     /* owned */
};

struct value {
    struct layout layout;
    size_t length_bytes;
    uint8_t pattern;
};

static int fixture_setup_with(void **state, size_t size_bytes)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    char error[256] = "";
    const struct region_config config = {.name = "test", .size_bytes = size_bytes};
    assert_non_null(fixture);
    assert_int_equal(region_create(&config, error, sizeof(error), &fixture->region), KVASIR_OK);
    fixture->pages = pages_create(fixture->region, PAGE_BYTES, UNIT_BYTES);
    assert_non_null(fixture->pages);
    fixture->runs = runs_create(fixture->pages);
    assert_non_null(fixture->runs);
    *state = fixture;
    return 0;
}

static int fixture_setup(void **state)
{
    return fixture_setup_with(state, POOL_BYTES);
}

static int fixture_setup_churn(void **state)
{
    return fixture_setup_with(state, CHURN_BYTES);
}

static int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    struct runs_stats stats;
    fault_disarm_all();
    runs_stats(fixture->runs, &stats);
    if (stats.taken_bytes > 0) {
        /* The test failed or forgot a run: say so instead of tripping over it here. */
        print_error("%llu bytes were not given back\n", (unsigned long long)stats.taken_bytes);
        return -1;
    }
    runs_destroy(&fixture->runs);
    pages_destroy(&fixture->pages);
    region_destroy(&fixture->region);
    free(fixture);
    return 0;
}

static bool layout_is_empty(const struct layout *layout)
{
    return layout->first_page == PAGES_NONE && layout->runs[0].page == PAGES_NONE &&
           layout->runs[1].page == PAGES_NONE && layout->runs[2].page == PAGES_NONE;
}

static struct layout take(const struct fixture *fixture, size_t length_bytes)
{
    struct layout layout;
    assert_int_equal(layout_take(fixture->runs, length_bytes, &layout), KVASIR_OK);
    assert_true(layout_taken_bytes(fixture->runs, &layout, length_bytes) >= length_bytes);
    return layout;
}

static uint32_t piece_count(const struct fixture *fixture, const struct layout *layout,
                            size_t length_bytes)
{
    struct layout_cursor cursor;
    uint32_t count = 0;
    layout_cursor_init(&cursor, fixture->pages, layout, length_bytes);
    for (struct iovec piece = layout_cursor_peek(&cursor); piece.iov_len > 0;
         piece = layout_cursor_peek(&cursor)) {
        count++;
        length_bytes -= piece.iov_len;
        layout_cursor_skip(&cursor, piece.iov_len);
    }
    assert_int_equal(length_bytes, 0);
    return count;
}

static void test_layout_of_nothing_takes_nothing(void **state)
{
    const struct fixture *fixture = *state;
    struct layout layout = take(fixture, 0);
    struct layout_cursor cursor;
    assert_true(layout_is_empty(&layout));
    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
    layout_cursor_init(&cursor, fixture->pages, &layout, 0);
    assert_int_equal(layout_cursor_peek(&cursor).iov_len, 0);
    layout_cursor_skip(&cursor, 0);
    layout_give(fixture->runs, 0, &layout);
}

static void test_layout_pieces_of_known_lengths(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        size_t length_bytes;
        uint32_t pieces;
        size_t taken_bytes;
    } cases[] = {
        {1, 1, UNIT_BYTES},
        {UNIT_BYTES + 1, 1, 2 * UNIT_BYTES},
        {16384, 1, 16384},
        {18000, 2, 16384 + 1664},          /* four granules and a short run */
        {147456, 1, 147456},               /* 36 granules exactly */
        {700000, 1, 700416},               /* rounding up wastes too little to be cut */
        {1572864, 1, 1572864},             /* 1.5 MiB */
        {PAGE_BYTES - 100, 1, PAGE_BYTES}, /* nearly a page */
        {PAGE_BYTES, 1, PAGE_BYTES},       /* a page */
        {PAGE_BYTES + 10, 2, PAGE_BYTES + UNIT_BYTES},
        {3 * PAGE_BYTES + 147456, 4, 3 * PAGE_BYTES + 147456},
        {4 * (size_t)PAGE_BYTES - 4096, 4, 4 * (size_t)PAGE_BYTES},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct layout layout = take(fixture, cases[i].length_bytes);
        assert_int_equal(piece_count(fixture, &layout, cases[i].length_bytes), cases[i].pieces);
        assert_int_equal(layout_taken_bytes(fixture->runs, &layout, cases[i].length_bytes),
                         cases[i].taken_bytes);
        layout_give(fixture->runs, cases[i].length_bytes, &layout);
        assert_true(layout_is_empty(&layout));
        assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
    }
}

static void test_layout_waste_is_small_from_one_granule_on(void **state)
{
    const struct fixture *fixture = *state;
    for (size_t length = GRANULE_BYTES; length < 3 * (size_t)PAGE_BYTES; length += 3331) {
        struct layout layout = take(fixture, length);
        size_t taken = layout_taken_bytes(fixture->runs, &layout, length);
        size_t allowed = length <= 4 * GRANULE_BYTES ? length / 8 + UNIT_BYTES : length / 64 + 512;
        assert_in_range(taken, length, length + allowed);
        layout_give(fixture->runs, length, &layout);
    }
}

static void test_layout_cursor_crosses_pieces(void **state)
{
    const struct fixture *fixture = *state;
    size_t tail = 18000;
    size_t length = 2 * (size_t)PAGE_BYTES + tail;
    struct layout layout = take(fixture, length);
    struct layout_cursor cursor;
    layout_cursor_init(&cursor, fixture->pages, &layout, length);

    layout_cursor_skip(&cursor, 5);
    assert_int_equal(layout_cursor_peek(&cursor).iov_len, PAGE_BYTES - 5);
    assert_ptr_equal(layout_cursor_peek(&cursor).iov_base,
                     pages_address(fixture->pages, layout.first_page) + 5);
    /* Over the second page into the run. */
    layout_cursor_skip(&cursor, 2 * (size_t)PAGE_BYTES + 1 - 5);
    assert_int_equal(layout_cursor_peek(&cursor).iov_len, tail - 1);
    assert_ptr_equal(layout_cursor_peek(&cursor).iov_base,
                     runs_address(fixture->pages, layout.runs[0]) + 1);
    layout_cursor_skip(&cursor, tail - 1);
    assert_int_equal(layout_cursor_peek(&cursor).iov_len, 0);

    layout_give(fixture->runs, length, &layout);
}

/* Leaves free: three pieces of 100 granules, none longer. */
static void test_layout_tail_is_split_when_no_piece_is_long_enough(void **state)
{
    const struct fixture *fixture = *state;
    size_t part = 100 * GRANULE_BYTES;
    struct run walls[PAGE_COUNT];
    for (uint32_t i = 0; i < PAGE_COUNT; i++) {
        size_t wall = i < 3 ? PAGE_BYTES - part : PAGE_BYTES;
        assert_int_equal(runs_take(fixture->runs, wall, &walls[i]), KVASIR_OK);
    }
    struct layout layout;
    assert_int_equal(layout_take(fixture->runs, 3 * part + 1, &layout), KVASIR_NO_MEMORY);
    assert_true(layout_is_empty(&layout));

    layout = take(fixture, 3 * part);

    assert_int_equal(piece_count(fixture, &layout, 3 * part), 3);
    layout_give(fixture->runs, 3 * part, &layout);
    layout = take(fixture, part + 1);
    assert_int_equal(piece_count(fixture, &layout, part + 1), 2);
    layout_give(fixture->runs, part + 1, &layout);
    for (uint32_t i = 0; i < PAGE_COUNT; i++) {
        runs_give(fixture->runs, &walls[i]);
    }
}

/* Pieces that do not begin where the one before ended. */
static unsigned breaks_of(const struct fixture *fixture, const struct layout *layout,
                          size_t length_bytes)
{
    struct layout_cursor cursor;
    struct iovec piece;
    const uint8_t *end = NULL;
    unsigned breaks = 0;
    layout_cursor_init(&cursor, fixture->pages, layout, length_bytes);
    while ((piece = layout_cursor_peek(&cursor)).iov_len > 0) {
        breaks += end != NULL && end != piece.iov_base;
        end = (const uint8_t *)piece.iov_base + piece.iov_len;
        layout_cursor_skip(&cursor, piece.iov_len);
    }
    return breaks;
}

static void test_layout_pages_that_come_back_follow_each_other_again(void **state)
{
    const struct fixture *fixture = *state;
    for (unsigned round = 0; round < 5; round++) {
        struct layout layouts[2];
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(layout_take(fixture->runs, 8 * (size_t)PAGE_BYTES, &layouts[i]),
                             KVASIR_OK);
            assert_int_equal(breaks_of(fixture, &layouts[i], 8 * (size_t)PAGE_BYTES), 0);
        }
        for (unsigned i = 0; i < 2; i++) {
            layout_give(fixture->runs, 8 * (size_t)PAGE_BYTES, &layouts[(round + i) % 2]);
        }
    }
}

static void test_layout_failing_anywhere_takes_nothing(void **state)
{
    const struct fixture *fixture = *state;
    static const char *const points[] = {"pages_take", "runs_take", "runs_take_part"};
    static const size_t lengths[] = {3 * (size_t)PAGE_BYTES + 18000, 18000};
    uint32_t failures = 0;
    for (uint32_t attempt = 0; attempt < 2 * 3 * 6; attempt++) {
        size_t length = lengths[attempt % 2];
        struct layout layout;
        fault_arm(points[attempt / 2 % 3], 1 + attempt / 6, 100);
        if (layout_take(fixture->runs, length, &layout) == KVASIR_OK) {
            layout_give(fixture->runs, length, &layout);
        } else {
            failures++;
        }
        fault_disarm_all();
        assert_true(layout_is_empty(&layout));
        assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
    }
    /* The long one: page 1, 2, 3, the page of its run, the run; the short one: its page, run 1, 2. */
    assert_int_equal(failures, 5 + 3);
}

static void test_layout_larger_than_pool_is_no_memory(void **state)
{
    const struct fixture *fixture = *state;
    struct layout layout;
    assert_int_equal(layout_take(fixture->runs, POOL_BYTES + 1, &layout), KVASIR_NO_MEMORY);
    assert_int_equal(layout_take(fixture->runs, SIZE_MAX, &layout), KVASIR_NO_MEMORY);
    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
    layout = take(fixture, POOL_BYTES);
    assert_int_equal(pages_free_count(fixture->pages), 0);
    layout_give(fixture->runs, POOL_BYTES, &layout);
}

static uint64_t log_uniform(struct random *random, uint64_t low, uint64_t high)
{
    /* 2^x for uniform x by drawing the octave and then the place in it: near enough. */
    uint64_t octaves = (uint64_t)__builtin_ctzll(high / low);
    uint64_t floor = low << random_below(random, octaves);
    return floor + random_below(random, floor) + 1;
}

static void value_fill(const struct fixture *fixture, const struct value *value)
{
    struct layout_cursor cursor;
    layout_cursor_init(&cursor, fixture->pages, &value->layout, value->length_bytes);
    for (struct iovec piece = layout_cursor_peek(&cursor); piece.iov_len > 0;
         piece = layout_cursor_peek(&cursor)) {
        memset(piece.iov_base, value->pattern, piece.iov_len);
        layout_cursor_skip(&cursor, piece.iov_len);
    }
}

static void value_verify(const struct fixture *fixture, const struct value *value)
{
    struct layout_cursor cursor;
    layout_cursor_init(&cursor, fixture->pages, &value->layout, value->length_bytes);
    for (struct iovec piece = layout_cursor_peek(&cursor); piece.iov_len > 0;
         piece = layout_cursor_peek(&cursor)) {
        const uint8_t *bytes = piece.iov_base;
        assert_int_equal(bytes[0], value->pattern);
        assert_memory_equal(bytes, bytes + 1, piece.iov_len - 1);
        layout_cursor_skip(&cursor, piece.iov_len);
    }
}

/* Overlapping layouts would overwrite each other's patterns. */
static void test_layout_random_values_never_overlap(void **state)
{
    const struct fixture *fixture = *state;
    struct value *values = calloc(MODEL_MAX, sizeof(*values));
    struct random random;
    random_init(&random, test_seed());
    for (uint32_t step = 0; step < 6000; step++) {
        struct value *value = &values[random_below(&random, MODEL_MAX)];
        if (value->length_bytes > 0) {
            value_verify(fixture, value);
            layout_give(fixture->runs, value->length_bytes, &value->layout);
            value->length_bytes = 0;
            continue;
        }
        size_t length = log_uniform(&random, 16, 16U << 20);
        if (layout_take(fixture->runs, length, &value->layout) == KVASIR_OK) {
            value->length_bytes = length;
            value->pattern = (uint8_t)random_u64(&random);
            value_fill(fixture, value);
        }
    }
    for (uint32_t i = 0; i < MODEL_MAX; i++) {
        if (values[i].length_bytes > 0) {
            value_verify(fixture, &values[i]);
            layout_give(fixture->runs, values[i].length_bytes, &values[i].layout);
        }
    }
    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
    free(values);
}

/* A store that evicts its oldest value until the new one fits; only the memory of it. */
struct queue {
    struct value *values; /* owned; a ring */
    uint32_t head;
    uint32_t count;
    uint64_t live_bytes;
};

static bool queue_push(const struct fixture *fixture, struct queue *queue, size_t length_bytes)
{
    struct value value = {.length_bytes = length_bytes};
    if (layout_take(fixture->runs, length_bytes, &value.layout) != KVASIR_OK) {
        return false;
    }
    assert_true(queue->count < VALUES_MAX);
    queue->values[(queue->head + queue->count++) % VALUES_MAX] = value;
    queue->live_bytes += length_bytes;
    return true;
}

static void queue_pop(const struct fixture *fixture, struct queue *queue)
{
    struct value *value = &queue->values[queue->head % VALUES_MAX];
    layout_give(fixture->runs, value->length_bytes, &value->layout);
    queue->live_bytes -= value->length_bytes;
    queue->head = (queue->head + 1) % VALUES_MAX;
    queue->count--;
}

/* Moves a random value to the end that is evicted next, so that values leave in no order. */
static void queue_shuffle_head(struct queue *queue, struct random *random)
{
    uint32_t other = (queue->head + (uint32_t)random_below(random, queue->count)) % VALUES_MAX;
    struct value value = queue->values[queue->head];
    queue->values[queue->head] = queue->values[other];
    queue->values[other] = value;
}

struct mix {
    const char *name;
    uint64_t low, high; /* equal: always that length */
};

static size_t mix_length(const struct mix *mix, struct random *random)
{
    return mix->low == mix->high ? mix->low : log_uniform(random, mix->low, mix->high);
}

static double pool_bytes(const struct fixture *fixture)
{
    return (double)pages_count(fixture->pages) * PAGE_BYTES;
}

/* Live part of the payload memory in percent when the first value does not fit any more. */
static double fill_percent(const struct fixture *fixture, const struct mix *mix)
{
    struct queue queue = {.values = calloc(VALUES_MAX, sizeof(*queue.values))};
    struct random random;
    random_init(&random, test_seed());
    while (queue_push(fixture, &queue, mix_length(mix, &random))) {
        continue;
    }
    double percent = 100.0 * (double)queue.live_bytes / pool_bytes(fixture);
    printf("fill %-28s live %.2f%% of %u values\n", mix->name, percent, queue.count);
    while (queue.count > 0) {
        queue_pop(fixture, &queue);
    }
    free(queue.values);
    assert_int_equal(pages_free_count(fixture->pages), pages_count(fixture->pages));
    return percent;
}

/* Mean live part, in percent, over the second half of step_count puts into a full store. */
static double churn_percent(const struct fixture *fixture, const struct mix *mix,
                            uint32_t step_count, bool in_order)
{
    struct queue queue = {.values = calloc(VALUES_MAX, sizeof(*queue.values))};
    struct random random;
    double sum = 0;
    uint32_t samples = 0;
    random_init(&random, test_seed());
    for (uint32_t step = 0; step < step_count; step++) {
        size_t length = mix_length(mix, &random);
        while (!queue_push(fixture, &queue, length)) {
            if (!in_order) {
                queue_shuffle_head(&queue, &random);
            }
            queue_pop(fixture, &queue);
        }
        if (step > step_count / 2) {
            sum += (double)queue.live_bytes / pool_bytes(fixture);
            samples++;
        }
    }
    double percent = 100.0 * sum / samples;
    printf("churn %s %-24s live %.2f%% of %u values\n", in_order ? "oldest" : "random", mix->name,
           percent, queue.count);
    while (queue.count > 0) {
        queue_pop(fixture, &queue);
    }
    free(queue.values);
    assert_int_equal(pages_free_count(fixture->pages), pages_count(fixture->pages));
    return percent;
}

static const struct mix SMALL_MIX = {"1 KiB to 256 KiB", 1024, 256U << 10};
static const struct mix WIDE_MIX = {"1 KiB to 64 MiB", 1024, 64U << 20};
static const struct mix BLOCK_MIX = {"64 KiB to 8 MiB", 64U << 10, 8U << 20};
static const struct mix ONE_BLOCK = {"147456", 147456, 147456};
static const struct mix HALF_PAGES = {"1.5 MiB", 3U << 19, 3U << 19};
static const struct mix ODD_BLOCK = {"9301", 9301, 9301};
static const struct mix SEVEN_SIXTEENTHS = {"917504", 917504, 917504};
static const struct mix NEAR_PAGE = {"1950000", 1950000, 1950000};

static void test_layout_fills_pool_with_mixed_values(void **state)
{
    assert_true(fill_percent(*state, &SMALL_MIX) >= 94.0);
    (void)fill_percent(*state, &WIDE_MIX);
}

static void test_layout_fills_pool_with_one_size(void **state)
{
    assert_true(fill_percent(*state, &ONE_BLOCK) >= 97.0);
    assert_true(fill_percent(*state, &HALF_PAGES) >= 97.0);
    assert_true(fill_percent(*state, &ODD_BLOCK) >= 97.0);
    assert_true(fill_percent(*state, &NEAR_PAGE) >= 97.0);
    assert_true(fill_percent(*state, &SEVEN_SIXTEENTHS) >= 97.0);
}

/* No length of an engine's blocks is a bad one. */
static void test_layout_fills_large_pool_with_any_one_size(void **state)
{
    for (uint64_t length = 17000; length < 3 * (uint64_t)PAGE_BYTES; length += length / 10) {
        const struct mix mix = {"of one size", length, length};
        double percent = fill_percent(*state, &mix);
        if (percent < 97.0) {
            fail_msg("values of %llu bytes fill only %.2f%%", (unsigned long long)length, percent);
        }
    }
}

static void test_layout_churn_keeps_pool_full(void **state)
{
    assert_true(churn_percent(*state, &SMALL_MIX, 200000, true) >= 97.5);
    assert_true(churn_percent(*state, &SMALL_MIX, 200000, false) >= 97.0);
    assert_true(churn_percent(*state, &BLOCK_MIX, 20000, true) >= 96.0);
    assert_true(churn_percent(*state, &BLOCK_MIX, 20000, false) >= 96.0);
    assert_true(churn_percent(*state, &ONE_BLOCK, 20000, true) >= 97.0);
    assert_true(churn_percent(*state, &ONE_BLOCK, 20000, false) >= 97.0);
    assert_true(churn_percent(*state, &HALF_PAGES, 20000, false) >= 97.0);
    assert_true(churn_percent(*state, &NEAR_PAGE, 20000, false) >= 97.0);
    assert_true(churn_percent(*state, &SEVEN_SIXTEENTHS, 20000, false) >= 97.0);
    assert_true(churn_percent(*state, &ODD_BLOCK, 300000, false) >= 97.0);
    /* Values of up to 64 MiB leave half of that free on the average, whatever the layout. */
    assert_true(churn_percent(*state, &WIDE_MIX, 20000, true) >= 95.0);
    assert_true(churn_percent(*state, &WIDE_MIX, 20000, false) >= 95.0);
}

#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_layout_of_nothing_takes_nothing),
        FIXTURE_TEST(test_layout_pieces_of_known_lengths),
        FIXTURE_TEST(test_layout_waste_is_small_from_one_granule_on),
        FIXTURE_TEST(test_layout_cursor_crosses_pieces),
        FIXTURE_TEST(test_layout_tail_is_split_when_no_piece_is_long_enough),
        FIXTURE_TEST(test_layout_pages_that_come_back_follow_each_other_again),
        FIXTURE_TEST(test_layout_failing_anywhere_takes_nothing),
        FIXTURE_TEST(test_layout_larger_than_pool_is_no_memory),
        FIXTURE_TEST(test_layout_random_values_never_overlap),
        FIXTURE_TEST(test_layout_fills_pool_with_mixed_values),
        FIXTURE_TEST(test_layout_fills_pool_with_one_size),
        cmocka_unit_test_setup_teardown(test_layout_fills_large_pool_with_any_one_size,
                                        fixture_setup_churn, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_layout_churn_keeps_pool_full, fixture_setup_churn,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
