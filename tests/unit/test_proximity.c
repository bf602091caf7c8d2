/* Unit tests of client/proximity, on a made-up machine and on this one. */
#include "client/proximity.h"

#include "base/compiler.h"
#include "test_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define NODES "/sys/devices/system/node"

/* Node 1 is not there: the columns are 0, 2, 3 and 4. Node 3 has no table, that of node 4 is short. */
static const struct tree_entry machine[] = {
    {"/sys", NULL},
    {"/sys/devices", NULL},
    {"/sys/devices/system", NULL},
    {NODES, NULL},
    {NODES "/node0", NULL},
    {NODES "/node2", NULL},
    {NODES "/node3", NULL},
    {NODES "/node4", NULL},
    {NODES "/node0/distance", "10 12 32 255\n"},
    {NODES "/node2/distance", "12 10 22 24\n"},
    {NODES "/node4/distance", "32 x\n"},
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

static void test_proximity_is_what_the_table_of_the_node_says(void **state)
{
    const char *root = *state;
    assert_int_equal(proximity_distance(root, 0, 2), 12);
    assert_int_equal(proximity_distance(root, 0, 3), 32);
    assert_int_equal(proximity_distance(root, 2, 0), 12);
    assert_int_equal(proximity_distance(root, 2, 4), 24);
    assert_int_equal(proximity_distance(root, 4, 0), 32);
}

static void test_proximity_of_a_node_to_itself_or_to_nobody_knows_where_is_local(void **state)
{
    assert_int_equal(proximity_distance(*state, 3, 3), PROXIMITY_LOCAL);
    assert_int_equal(proximity_distance("/nowhere", 7, 7), PROXIMITY_LOCAL);
    assert_int_equal(proximity_distance(*state, -1, 2), PROXIMITY_LOCAL);
    assert_int_equal(proximity_distance(*state, 2, -1), PROXIMITY_LOCAL);
}

static void test_proximity_that_cannot_be_read_is_far(void **state)
{
    const char *root = *state;
    assert_int_equal(proximity_distance(root, 0, 4), PROXIMITY_FAR); /* not reached */
    assert_int_equal(proximity_distance(root, 0, 1), PROXIMITY_FAR); /* no such node */
    assert_int_equal(proximity_distance(root, 1, 0), PROXIMITY_FAR);
    assert_int_equal(proximity_distance(root, 3, 0), PROXIMITY_FAR); /* no table */
    assert_int_equal(proximity_distance(root, 4, 2), PROXIMITY_FAR); /* no number */
    assert_int_equal(proximity_distance(root, 4, 3), PROXIMITY_FAR); /* nor behind it */
    assert_int_equal(proximity_distance("/nowhere", 0, 2), PROXIMITY_FAR);
}

static void test_proximity_finds_the_node_of_memory_that_is_there(void **state)
{
    (void)state;
    size_t bytes = 1U << 20;
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    memset(memory, 1, bytes);
    int node = proximity_node(memory, bytes);
    char path[64];
    if (node >= 0) { /* a kernel without NUMA tells nothing */
        (void)snprintf(path, sizeof(path), NODES "/node%d", node);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(proximity_node(memory + 5000, 1), node);
    }
    assert_int_equal(proximity_node(memory, 0), -1);
    assert_int_equal(munmap(memory, bytes), 0);
    assert_int_equal(proximity_node(memory, bytes), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_proximity_is_what_the_table_of_the_node_says,
                                        root_setup, root_teardown),
        cmocka_unit_test_setup_teardown(
            test_proximity_of_a_node_to_itself_or_to_nobody_knows_where_is_local, root_setup,
            root_teardown),
        cmocka_unit_test_setup_teardown(test_proximity_that_cannot_be_read_is_far, root_setup,
                                        root_teardown),
        cmocka_unit_test(test_proximity_finds_the_node_of_memory_that_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
