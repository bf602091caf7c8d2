/* Unit tests of mem/pages. */
#include "mem/pages.h"

#include "base/fault.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PAGE_BYTES (2U << 20)
#define PAGE_COUNT 8U

struct fixture {
    struct region *region; /* owned */
    struct pages *pages;   /* owned */
};

static int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    char error[256] = "";
    const struct region_config config = {
        .name = "test", .size_bytes = (size_t)PAGE_COUNT * PAGE_BYTES, .shared = false};
    assert_non_null(fixture);
    assert_int_equal(region_create(&config, error, sizeof(error), &fixture->region), KVASIR_OK);
    fixture->pages = pages_create(fixture->region, PAGE_BYTES, 64);
    assert_non_null(fixture->pages);
    *state = fixture;
    return 0;
}

static int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    fault_disarm_all();
    pages_destroy(&fixture->pages);
    region_destroy(&fixture->region);
    free(fixture);
    return 0;
}

static void test_pages_all_are_free_at_start(void **state)
{
    const struct fixture *fixture = *state;
    assert_int_equal(pages_count(fixture->pages), PAGE_COUNT);
    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
    assert_int_equal(pages_page_bytes(fixture->pages), PAGE_BYTES);
    assert_int_equal(pages_unit_bytes(fixture->pages), 64);
    assert_ptr_equal(pages_base(fixture->pages), region_base(fixture->region));
}

static void test_pages_take_hands_out_each_once(void **state)
{
    const struct fixture *fixture = *state;
    bool seen[PAGE_COUNT] = {false};
    uint32_t page = PAGES_NONE;
    for (uint32_t i = 0; i < PAGE_COUNT; i++) {
        assert_true(pages_take(fixture->pages, 0, &page));
        assert_true(page < PAGE_COUNT && !seen[page]);
        seen[page] = true;
        assert_ptr_equal(pages_address(fixture->pages, page),
                         region_base(fixture->region) + (size_t)page * PAGE_BYTES);
        memset(pages_address(fixture->pages, page), (int)page, PAGE_BYTES);
    }
    assert_false(pages_take(fixture->pages, 0, &page));
    assert_int_equal(pages_free_count(fixture->pages), 0);
}

static void test_pages_give_makes_page_free_again(void **state)
{
    const struct fixture *fixture = *state;
    uint32_t page = PAGES_NONE;
    uint32_t again = PAGES_NONE;
    assert_true(pages_take(fixture->pages, 0, &page));
    pages_find(fixture->pages, page)->next = 3;
    pages_find(fixture->pages, page)->used_granules = 7;

    pages_give(fixture->pages, page);

    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
    assert_true(pages_take(fixture->pages, 0, &again));
    assert_int_equal(pages_find(fixture->pages, again)->next, PAGES_NONE);
    assert_int_equal(pages_find(fixture->pages, again)->prev, PAGES_NONE);
    assert_int_equal(pages_find(fixture->pages, again)->used_granules, 0);
}

static void test_pages_take_failing_leaves_output_alone(void **state)
{
    const struct fixture *fixture = *state;
    uint32_t page = 42;
    fault_arm("pages_take", 1, 1);
    assert_false(pages_take(fixture->pages, 0, &page));
    assert_int_equal(page, 42);
    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
}

static void test_pages_create_without_memory_is_null(void **state)
{
    const struct fixture *fixture = *state;
    fault_arm("pages_create", 1, 1);
    assert_null(pages_create(fixture->region, PAGE_BYTES, 64));
}

static void test_pages_bookkeeping_is_under_one_percent(void **state)
{
    const struct fixture *fixture = *state;
    size_t bytes = pages_bookkeeping_bytes(fixture->pages);
    assert_true(bytes >= (size_t)PAGE_COUNT * 512);
    assert_true(bytes * 100 < (size_t)PAGE_COUNT * PAGE_BYTES);
}

static void test_pages_retired_are_not_taken_and_come_back(void **state)
{
    struct fixture *fixture = *state;
    uint32_t page = PAGES_NONE;
    assert_true(pages_take(fixture->pages, 0, &page));
    memset(pages_address(fixture->pages, page), 1, PAGE_BYTES);
    pages_give(fixture->pages, page);
    for (uint32_t i = 0; i < PAGE_COUNT; i++) {
        assert_int_equal(pages_present_count(fixture->pages), PAGE_COUNT - i);
        assert_true(pages_retire(fixture->pages));
    }
    assert_false(pages_retire(fixture->pages));
    assert_int_equal(pages_unreleased_count(fixture->pages), PAGE_COUNT);
    for (uint32_t i = 0; i < PAGE_COUNT; i++) {
        assert_true(pages_release(fixture->pages));
    }
    assert_false(pages_release(fixture->pages));
    assert_int_equal(pages_present_count(fixture->pages), 0);
    assert_false(pages_take(fixture->pages, 0, &page));
    assert_int_equal(pages_count(fixture->pages), PAGE_COUNT);
    fault_arm("region_fill", 1, 1);
    assert_false(pages_restore(fixture->pages, true));
    fault_disarm_all();
    for (uint32_t i = 0; i < PAGE_COUNT; i++) {
        assert_true(pages_restore(fixture->pages, i % 2 == 0));
    }
    assert_false(pages_restore(fixture->pages, true));
    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
    assert_true(pages_take(fixture->pages, 0, &page));
    /* The kernel took the memory back, so another comes clean. */
    assert_int_equal(pages_unreleased_count(fixture->pages), 0);
    assert_int_equal(*pages_address(fixture->pages, page), 0);
    pages_give(fixture->pages, page);
}

static void test_pages_destroy_of_null_is_fine(void **state)
{
    (void)state;
    struct pages *pages = NULL;
    pages_destroy(&pages);
    assert_null(pages);
}

#define ROUNDS 20000

/* Takes up to two pages at a time, writes its mark all over the ends and finds it again. */
static void *take_and_give(void *argument)
{
    struct pages *pages = argument;
    uintptr_t mark = (uintptr_t)&pages;
    uintptr_t spoiled = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t held[2];
        uint32_t count = 0;
        while (count < 2 && pages_take(pages, 0, &held[count])) {
            memcpy(pages_address(pages, held[count]), &mark, sizeof(mark));
            pages_find(pages, held[count])->used_units = (uint32_t)mark;
            count++;
        }
        while (count-- > 0) {
            spoiled += memcmp(pages_address(pages, held[count]), &mark, sizeof(mark)) != 0;
            spoiled += pages_find(pages, held[count])->used_units != (uint32_t)mark;
            pages_give(pages, held[count]);
        }
    }
    return (void *)spoiled; /* NOLINT(performance-no-int-to-ptr): a count, not an address */
}

static void test_pages_are_shared_by_threads(void **state)
{
    const struct fixture *fixture = *state;
    pthread_t threads[5]; /* ten wishes for eight pages */
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, fixture->pages), 0);
    }
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++) {
        void *spoiled = NULL;
        assert_int_equal(pthread_join(threads[i], &spoiled), 0);
        assert_null(spoiled);
    }
    assert_int_equal(pages_free_count(fixture->pages), PAGE_COUNT);
}

#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_pages_all_are_free_at_start),
        FIXTURE_TEST(test_pages_take_hands_out_each_once),
        FIXTURE_TEST(test_pages_give_makes_page_free_again),
        FIXTURE_TEST(test_pages_take_failing_leaves_output_alone),
        FIXTURE_TEST(test_pages_create_without_memory_is_null),
        FIXTURE_TEST(test_pages_are_shared_by_threads),
        FIXTURE_TEST(test_pages_retired_are_not_taken_and_come_back),
        FIXTURE_TEST(test_pages_bookkeeping_is_under_one_percent),
        cmocka_unit_test(test_pages_destroy_of_null_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
