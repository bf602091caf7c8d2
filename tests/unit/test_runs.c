/* Unit tests of mem/runs (and of mem/extents below it). */
#include "mem/runs.h"

#include "base/fault.h"
#include "base/random.h"
#include "mem/poison.h"
#include "test_seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAGE_BYTES     (2U << 20)
#define PAGE_COUNT     16U
#define UNIT_BYTES     64U
#define GRANULE_BYTES  (UNIT_BYTES * PAGES_GRANULE_UNITS)
#define MODEL_RUNS_MAX 4096U

struct fixture {
    struct region *region; /* owned */
    struct pages *pages;   /* owned */
    struct runs *runs;     /* owned */
};

static int fixture_setup_with(void **state, uint32_t page_bytes, uint32_t unit_bytes)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    char error[256] = "";
    const struct region_config config = {.name = "test",
                                         .size_bytes = (size_t)PAGE_COUNT * PAGE_BYTES};
    assert_non_null(fixture);
    assert_int_equal(region_create(&config, error, sizeof(error), &fixture->region), KVASIR_OK);
    fixture->pages = pages_create(fixture->region, page_bytes, unit_bytes);
    assert_non_null(fixture->pages);
    fixture->runs = runs_create(fixture->pages);
    assert_non_null(fixture->runs);
    *state = fixture;
    return 0;
}

static int fixture_setup(void **state)
{
    return fixture_setup_with(state, PAGE_BYTES, UNIT_BYTES);
}

static int fixture_setup_metadata(void **state)
{
    return fixture_setup_with(state, 256U << 10, 16);
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

static size_t run_bytes(const struct fixture *fixture, struct run run)
{
    return (size_t)run.length_units * pages_unit_bytes(fixture->pages);
}

static struct run take(const struct fixture *fixture, size_t length_bytes)
{
    struct run run = {.page = PAGES_NONE};
    assert_int_equal(runs_take(fixture->runs, length_bytes, &run), KVASIR_OK);
    assert_true(run_bytes(fixture, run) >= length_bytes);
    return run;
}

static struct runs_stats stats_of(const struct fixture *fixture)
{
    struct runs_stats stats;
    runs_stats(fixture->runs, &stats);
    return stats;
}

static void test_runs_rounding_wastes_an_eighth_at_most(void **state)
{
    const struct fixture *fixture = *state;
    for (size_t length = 8 * UNIT_BYTES; length <= PAGE_BYTES; length += 61) {
        size_t rounded = runs_rounded_bytes(fixture->runs, length);
        assert_true(rounded >= length);
        /* Rounding to units comes before the class and is not its waste. */
        assert_true(rounded - length <= length / 8 + UNIT_BYTES);
    }
}

static void test_runs_take_gives_what_rounding_promised(void **state)
{
    const struct fixture *fixture = *state;
    for (size_t length = 1; length <= PAGE_BYTES; length = length * 5 / 4 + 1) {
        struct run run = take(fixture, length);
        assert_int_equal(run_bytes(fixture, run), runs_rounded_bytes(fixture->runs, length));
        runs_give(fixture->runs, &run);
    }
}

static void test_runs_long_runs_start_at_granules(void **state)
{
    const struct fixture *fixture = *state;
    struct run runs[64];
    for (uint32_t i = 0; i < 64; i++) {
        runs[i] = take(fixture, (32U << 10) + i * 1000);
        assert_int_equal((uintptr_t)runs_address(fixture->pages, runs[i]) % GRANULE_BYTES, 0);
    }
    for (uint32_t i = 0; i < 64; i++) {
        runs_give(fixture->runs, &runs[i]);
    }
}

static void test_runs_last_give_returns_page(void **state)
{
    const struct fixture *fixture = *state;
    struct run first = take(fixture, 100);
    struct run second = take(fixture, 100000);
    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT - 1);

    runs_give(fixture->runs, &first);
    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT - 1);
    runs_give(fixture->runs, &second);

    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
    assert_int_equal(first.page, PAGES_NONE);
    assert_int_equal(stats_of(fixture).taken_bytes, 0);
    assert_int_equal(stats_of(fixture).page_count, 0);
    assert_int_equal(stats_of(fixture).class_count, 0);
}

static void test_runs_neighbours_join_in_any_order(void **state)
{
    const struct fixture *fixture = *state;
    static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (uint32_t order = 0; order < 6; order++) {
        struct run keep = take(fixture, PAGE_BYTES / 4);
        struct run parts[3];
        for (uint32_t i = 0; i < 3; i++) {
            parts[i] = take(fixture, PAGE_BYTES / 4);
        }
        for (uint32_t i = 0; i < 3; i++) {
            runs_give(fixture->runs, &parts[orders[order][i]]);
        }
        struct run joined = take(fixture, 3 * (PAGE_BYTES / 4));
        assert_int_equal(joined.page, keep.page);
        runs_give(fixture->runs, &joined);
        runs_give(fixture->runs, &keep);
    }
}

static void test_runs_best_fit_is_preferred(void **state)
{
    const struct fixture *fixture = *state;
    struct run wide = take(fixture, 300 * GRANULE_BYTES);
    struct run wall = take(fixture, 10 * GRANULE_BYTES);
    struct run narrow = take(fixture, 20 * GRANULE_BYTES);
    struct run rest = take(fixture, 182 * GRANULE_BYTES);
    uint32_t narrow_offset = narrow.offset_units;
    runs_give(fixture->runs, &wide);
    runs_give(fixture->runs, &narrow);

    struct run fitting = take(fixture, 18 * GRANULE_BYTES);

    assert_int_equal(fitting.offset_units, narrow_offset);
    runs_give(fixture->runs, &fitting);
    runs_give(fixture->runs, &wall);
    runs_give(fixture->runs, &rest);
}

static void test_runs_full_pool_is_no_memory(void **state)
{
    const struct fixture *fixture = *state;
    struct run runs[PAGE_COUNT];
    struct run extra = {.page = 77};
    for (uint32_t i = 0; i < PAGE_COUNT; i++) {
        runs[i] = take(fixture, PAGE_BYTES);
    }
    assert_int_equal(runs_take(fixture->runs, 1, &extra), KVASIR_NO_MEMORY);
    assert_int_equal(runs_take(fixture->runs, PAGE_BYTES, &extra), KVASIR_NO_MEMORY);
    assert_int_equal(runs_take_part(fixture->runs, GRANULE_BYTES, GRANULE_BYTES, &extra),
                     KVASIR_NO_MEMORY);
    assert_int_equal(extra.page, 77);
    for (uint32_t i = 0; i < PAGE_COUNT; i++) {
        runs_give(fixture->runs, &runs[i]);
    }
}

static void test_runs_take_part_is_the_longest_piece(void **state)
{
    const struct fixture *fixture = *state;
    struct run runs[PAGE_COUNT];
    struct run part = {.page = PAGES_NONE};
    for (uint32_t i = 0; i < PAGE_COUNT; i++) {
        runs[i] = take(fixture, PAGE_BYTES - (i + 1) * GRANULE_BYTES);
    }
    assert_int_equal(runs_take_part(fixture->runs, 100 * GRANULE_BYTES, 17 * GRANULE_BYTES, &part),
                     KVASIR_NO_MEMORY);
    assert_int_equal(runs_take_part(fixture->runs, 100 * GRANULE_BYTES, 16 * GRANULE_BYTES, &part),
                     KVASIR_OK);
    assert_int_equal(run_bytes(fixture, part), PAGE_COUNT * GRANULE_BYTES);
    runs_give(fixture->runs, &part);
    assert_int_equal(runs_take_part(fixture->runs, 3 * GRANULE_BYTES, GRANULE_BYTES, &part),
                     KVASIR_OK);
    assert_int_equal(run_bytes(fixture, part), 3 * GRANULE_BYTES);
    runs_give(fixture->runs, &part);
    for (uint32_t i = 0; i < PAGE_COUNT; i++) {
        runs_give(fixture->runs, &runs[i]);
    }
}

static void test_runs_without_page_fail_and_recover(void **state)
{
    const struct fixture *fixture = *state;
    struct run run = {.page = 77};
    fault_arm("pages_take", 1, 2);
    assert_int_equal(runs_take(fixture->runs, 100000, &run), KVASIR_NO_MEMORY);
    fault_disarm_all();
    fault_arm("runs_take", 1, 1);
    assert_int_equal(runs_take(fixture->runs, 100, &run), KVASIR_NO_MEMORY);
    assert_int_equal(run.page, 77);
    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);

    run = take(fixture, 100);
    runs_give(fixture->runs, &run);
}

static void test_runs_create_without_memory_is_null(void **state)
{
    const struct fixture *fixture = *state;
    fault_arm("runs_create", 1, 1);
    assert_null(runs_create(fixture->pages));
}

/* 1040 bytes are 17 units, whose regular class has 18: 1/17 is wasted. */
static void test_runs_exact_class_comes_and_goes(void **state)
{
    const struct fixture *fixture = *state;
    enum {
        LENGTH = 17 * UNIT_BYTES,
        COUNT = 600
    };
    struct run runs[COUNT];
    assert_int_equal(runs_rounded_bytes(fixture->runs, LENGTH), 18 * UNIT_BYTES);

    for (uint32_t i = 0; i < COUNT; i++) {
        runs[i] = take(fixture, LENGTH);
    }
    assert_int_equal(stats_of(fixture).exact_count, 1);
    assert_int_equal(runs_rounded_bytes(fixture->runs, LENGTH), LENGTH);
    assert_int_equal(run_bytes(fixture, runs[0]), 18 * UNIT_BYTES);
    assert_int_equal(run_bytes(fixture, runs[COUNT - 1]), LENGTH);

    for (uint32_t i = 0; i < COUNT; i++) {
        runs_give(fixture->runs, &runs[i]);
    }
    assert_int_equal(stats_of(fixture).exact_count, 0);
    assert_int_equal(runs_rounded_bytes(fixture->runs, LENGTH), 18 * UNIT_BYTES);
    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
}

static void test_runs_exact_class_is_not_made_for_rare_sizes(void **state)
{
    const struct fixture *fixture = *state;
    struct random random;
    random_init(&random, test_seed());
    for (uint32_t i = 0; i < 100000; i++) {
        struct run run = take(fixture, 1 + random_below(&random, 32U << 10));
        runs_give(fixture->runs, &run);
    }
    struct run runs[512];
    for (uint32_t i = 0; i < 512; i++) {
        runs[i] = take(fixture, (i + 1) * UNIT_BYTES);
    }
    assert_int_equal(stats_of(fixture).exact_count, 0);
    for (uint32_t i = 0; i < 512; i++) {
        runs_give(fixture->runs, &runs[i]);
    }
}

static void test_runs_exact_classes_are_bounded(void **state)
{
    const struct fixture *fixture = *state;
    enum {
        SIZES = 60
    };
    struct run keep[SIZES];
    for (uint32_t size = 0; size < SIZES; size++) {
        size_t length = (17 + 2 * size) * UNIT_BYTES;
        keep[size] = take(fixture, length);
        for (uint32_t i = 0; i < 600; i++) {
            struct run before = keep[size];
            keep[size] = take(fixture, length);
            runs_give(fixture->runs, &before);
        }
    }
    assert_int_equal(stats_of(fixture).exact_count, 32);
    for (uint32_t size = 0; size < SIZES; size++) {
        runs_give(fixture->runs, &keep[size]);
    }
    assert_int_equal(stats_of(fixture).exact_count, 0);
}

static void test_runs_find_knows_the_run_of_an_address(void **state)
{
    const struct fixture *fixture = *state;
    static const uint32_t lengths[] = {16, 100, 1000, 1500, 5000, 20000, 100000, 4096};
    struct run runs[8];
    for (uint32_t i = 0; i < 8; i++) {
        struct run before = take(fixture, lengths[i]);
        runs[i] = take(fixture, lengths[i]);
        runs_give(fixture->runs, &before);
    }
    for (uint32_t i = 0; i < 8; i++) {
        struct run found = runs_find(fixture->runs, runs_address(fixture->pages, runs[i]));
        assert_memory_equal(&found, &runs[i], sizeof(found));
        runs_give(fixture->runs, &found);
    }
    assert_int_equal(stats_of(fixture).taken_bytes, 0);
}

#ifdef POISON_ACTIVE
static void test_runs_given_back_are_poisoned(void **state)
{
    const struct fixture *fixture = *state;
    static const size_t lengths[] = {100, 5000, 100000};
    struct run keep = take(fixture, 64);
    for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
        struct run run = take(fixture, lengths[i]);
        uint8_t *bytes = runs_address(fixture->pages, run);
        assert_null(__asan_region_is_poisoned(bytes, lengths[i]));
        assert_int_equal(__asan_address_is_poisoned(bytes + lengths[i]), 1);
        runs_give(fixture->runs, &run);
        assert_int_equal(__asan_address_is_poisoned(bytes), 1);
        assert_int_equal(__asan_address_is_poisoned(bytes + lengths[i] - 1), 1);
    }
    assert_int_equal(__asan_address_is_poisoned(pages_address(fixture->pages, PAGE_COUNT - 1)), 1);
    runs_give(fixture->runs, &keep);
}
#endif

struct model_run {
    struct run run;
    size_t length_bytes;
    uint8_t pattern;
};

static void model_take(const struct fixture *fixture, struct model_run *slot, struct random *random)
{
    /* Log-uniform over the whole range of lengths. */
    uint64_t top = 1ULL << random_below(random, 21);
    size_t length = 1 + random_below(random, top);
    if (length > pages_page_bytes(fixture->pages)) {
        length = pages_page_bytes(fixture->pages);
    }
    struct run run = {.page = PAGES_NONE};
    if (runs_take(fixture->runs, length, &run) != KVASIR_OK) {
        return;
    }
    *slot = (struct model_run){
        .run = run, .length_bytes = length, .pattern = (uint8_t)random_u64(random)};
    memset(runs_address(fixture->pages, run), slot->pattern, length);
}

static void model_give(const struct fixture *fixture, struct model_run *slot)
{
    const uint8_t *bytes = runs_address(fixture->pages, slot->run);
    for (size_t i = 0; i < slot->length_bytes; i++) {
        if (bytes[i] != slot->pattern) {
            fail_msg("byte %zu of a run of %zu was overwritten", i, slot->length_bytes);
        }
    }
    runs_give(fixture->runs, &slot->run);
}

/* Overlapping runs would overwrite each other's patterns. */
static void test_runs_random_takes_never_overlap(void **state)
{
    const struct fixture *fixture = *state;
    struct model_run *slots = calloc(MODEL_RUNS_MAX, sizeof(*slots));
    struct random random;
    random_init(&random, test_seed());
    for (uint32_t i = 0; i < MODEL_RUNS_MAX; i++) {
        slots[i].run.page = PAGES_NONE;
    }
    for (uint32_t step = 0; step < 60000; step++) {
        struct model_run *slot = &slots[random_below(&random, MODEL_RUNS_MAX)];
        if (slot->run.page == PAGES_NONE) {
            model_take(fixture, slot, &random);
        } else {
            model_give(fixture, slot);
        }
    }
    uint64_t taken_bytes = 0;
    for (uint32_t i = 0; i < MODEL_RUNS_MAX; i++) {
        taken_bytes += slots[i].run.page != PAGES_NONE ? run_bytes(fixture, slots[i].run) : 0;
    }
    assert_int_equal(stats_of(fixture).taken_bytes, taken_bytes);
    for (uint32_t i = 0; i < MODEL_RUNS_MAX; i++) {
        if (slots[i].run.page != PAGES_NONE) {
            model_give(fixture, &slots[i]);
        }
    }
    assert_int_equal(pages_free_count(fixture->pages), pages_count(fixture->pages));
    free(slots);
}

#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define METADATA_TEST(name)                                                            \
    {                                                                                  \
#name " (metadata pool)", name, fixture_setup_metadata, fixture_teardown, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_runs_rounding_wastes_an_eighth_at_most),
        FIXTURE_TEST(test_runs_take_gives_what_rounding_promised),
        FIXTURE_TEST(test_runs_long_runs_start_at_granules),
        FIXTURE_TEST(test_runs_last_give_returns_page),
        FIXTURE_TEST(test_runs_neighbours_join_in_any_order),
        FIXTURE_TEST(test_runs_best_fit_is_preferred),
        FIXTURE_TEST(test_runs_full_pool_is_no_memory),
        FIXTURE_TEST(test_runs_take_part_is_the_longest_piece),
        FIXTURE_TEST(test_runs_without_page_fail_and_recover),
        FIXTURE_TEST(test_runs_create_without_memory_is_null),
        FIXTURE_TEST(test_runs_exact_class_comes_and_goes),
        FIXTURE_TEST(test_runs_exact_class_is_not_made_for_rare_sizes),
        FIXTURE_TEST(test_runs_exact_classes_are_bounded),
        FIXTURE_TEST(test_runs_find_knows_the_run_of_an_address),
#ifdef POISON_ACTIVE
        FIXTURE_TEST(test_runs_given_back_are_poisoned),
#endif
        FIXTURE_TEST(test_runs_random_takes_never_overlap),
        METADATA_TEST(test_runs_random_takes_never_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
