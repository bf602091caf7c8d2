/* Unit tests of mem/numa, on a made-up machine and on this one, and of pages on several nodes. */
#include "mem/numa.h"

#include "mem/pages.h"
#include "test_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct tree_entry machine[] = {
    {"/sys", NULL},
    {"/sys/devices", NULL},
    {"/sys/devices/system", NULL},
    {"/sys/devices/system/node", NULL},
    {"/sys/devices/system/node/node0", NULL},
    {"/sys/devices/system/node/node2", NULL},
    {"/sys/devices/system/node/node3", NULL},
    {"/sys/devices/system/node/has_memory", "0,2-3\n"},
    {"/sys/devices/system/node/node0/cpulist", "0-3,16-19\n"},
    {"/sys/devices/system/node/node2/cpulist", "4-7\n"},
    {"/sys/devices/system/node/node3/cpulist", "8\n"},
};

static int root_setup(void **state)
{
    *state = tree_make(machine, ARRAY_COUNT(machine));
    return 0;
}

static int root_teardown(void **state)
{
    tree_remove(*state, machine, ARRAY_COUNT(machine));
    return 0;
}

static void test_numa_cores_belong_to_the_nodes_that_name_them(void **state)
{
    struct numa numa;
    numa_read(&numa, *state);
    assert_int_equal(numa.node_count, 3);
    assert_int_equal(numa.ids[1], 2);
    assert_int_equal(numa_find_core(&numa, 2), 0);
    assert_int_equal(numa_find_core(&numa, 17), 0);
    assert_int_equal(numa_find_core(&numa, 7), 1);
    assert_int_equal(numa_find_core(&numa, 8), 2);
    /* On a node without memory, or on none: the first. */
    assert_int_equal(numa_find_core(&numa, 99), 0);
}

static void test_numa_without_sys_there_is_one_node(void **state)
{
    (void)state;
    struct numa numa;
    numa_read(&numa, "/nowhere");
    assert_int_equal(numa.node_count, 1);
    assert_int_equal(numa_find_core(&numa, 5), 0);
}

static void test_numa_this_machine_takes_the_binding_of_its_node(void **state)
{
    (void)state;
    struct numa numa;
    numa_read(&numa, "");
    size_t length_bytes = 1U << 20;
    void *memory = aligned_alloc(1U << 16, length_bytes);
    assert_non_null(memory);
    /* A container may forbid it, and then nothing is bound; memory works in either case. */
    bool is_bound = numa_bind(&numa, 0, memory, length_bytes);
    printf("mbind is %s here\n", is_bound ? "allowed" : "refused");
    memset(memory, 1, length_bytes);
    free(memory);
}

#define PAGE_BYTES (2U << 20)
#define PAGE_COUNT 64U

static void test_numa_pages_are_taken_from_the_own_node_first(void **state)
{
    (void)state;
    struct region *region = NULL;
    char error[256] = "";
    const struct region_config config = {.name = "test",
                                         .size_bytes = (size_t)PAGE_COUNT * PAGE_BYTES};
    assert_int_equal(region_create(&config, error, sizeof(error), &region), KVASIR_OK);
    const struct pages_config pages_config = {
        .region = region,
        .page_bytes = PAGE_BYTES,
        .unit_bytes = 64,
        .present_count = PAGE_COUNT / 2,
        .node_count = 4,
    };
    struct pages *pages = pages_create_with(&pages_config);
    assert_non_null(pages);
    uint32_t per_node = PAGE_COUNT / 2 / 4;
    uint32_t taken[PAGE_COUNT];
    for (uint32_t i = 0; i < per_node; i++) {
        assert_true(pages_take(pages, 2, &taken[i]));
        assert_int_equal(pages_node(pages, taken[i]), 2);
    }
    /* None left of its own: the next node's. */
    assert_true(pages_take(pages, 2, &taken[per_node]));
    assert_int_equal(pages_node(pages, taken[per_node]), 3);
    assert_int_equal(pages_free_count(pages), PAGE_COUNT / 2 - per_node - 1);
    pages_give(pages, taken[0]);
    assert_true(pages_take(pages, 2, &taken[0]));
    assert_int_equal(pages_node(pages, taken[0]), 2);
    /* What comes later is spread in the same way. */
    uint32_t counts[4] = {0};
    for (uint32_t i = 0; i < PAGE_COUNT / 2; i++) {
        assert_true(pages_restore(pages, false));
    }
    for (uint32_t page = 0; page < PAGE_COUNT; page++) {
        counts[pages_node(pages, page)]++;
    }
    for (uint32_t node = 0; node < 4; node++) {
        assert_int_equal(counts[node], PAGE_COUNT / 4);
    }
    for (uint32_t i = 0; i <= per_node; i++) {
        pages_give(pages, taken[i]);
    }
    assert_int_equal(pages_free_count(pages), PAGE_COUNT);
    pages_destroy(&pages);
    region_destroy(&region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_numa_cores_belong_to_the_nodes_that_name_them,
                                        root_setup, root_teardown),
        cmocka_unit_test(test_numa_without_sys_there_is_one_node),
        cmocka_unit_test(test_numa_this_machine_takes_the_binding_of_its_node),
        cmocka_unit_test(test_numa_pages_are_taken_from_the_own_node_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
