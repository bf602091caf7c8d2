/* Unit tests of store/meta and store/op. */
#include "store/meta.h"

#include "base/fault.h"
#include "store/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define PAGE_BYTES (128U << 10)

struct fixture {
    struct region *region; /* owned */
    struct pages *pages;   /* owned */
    struct meta meta;
};

static int fixture_setup(void **state)
{
    static struct fixture fixture;
    char error[256] = "";
    const struct region_config config = {.name = "test", .size_bytes = 2U << 20};
    assert_int_equal(region_create(&config, error, sizeof(error), &fixture.region), KVASIR_OK);
    fixture.pages = pages_create(fixture.region, PAGE_BYTES, 16);
    assert_non_null(fixture.pages);
    assert_true(meta_init(&fixture.meta, fixture.pages));
    *state = &fixture;
    return 0;
}

static int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(meta_taken_bytes(&fixture->meta), 0);
    assert_int_equal(meta_page_count(&fixture->meta), 0);
    meta_fini(&fixture->meta);
    pages_destroy(&fixture->pages);
    region_destroy(&fixture->region);
    return 0;
}

static void test_meta_keeps_the_key_behind_the_value(void **state)
{
    struct fixture *fixture = *state;
    struct value *first = meta_take(&fixture->meta, slice_of_text("first key"));
    struct value *second = meta_take(&fixture->meta, slice_of(NULL, 0));
    assert_true(slice_equal(value_key(first), slice_of_text("first key")));
    assert_int_equal(value_key(second).length_bytes, 0);
    assert_int_equal(first->pins, 0);
    assert_int_equal(meta_taken_bytes(&fixture->meta), 128 + 112);
    meta_give(&fixture->meta, &first);
    assert_null(first);
    assert_int_equal(meta_taken_bytes(&fixture->meta), 112);
    meta_give(&fixture->meta, &second);
}

static void test_meta_gives_back_values_of_every_key_length(void **state)
{
    struct fixture *fixture = *state;
    static const uint8_t bytes[VALUE_KEY_BYTES_MAX];
    struct value *values[20];
    size_t lengths[20] = {0, 1, 8, 9, 100, 1000, 10000, 64999, 65000};
    for (unsigned i = 0; i < 9; i++) {
        values[i] = meta_take(&fixture->meta, slice_of(bytes, lengths[i]));
        assert_non_null(values[i]);
    }
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(values[i]->key_length_bytes, lengths[i]);
        meta_give(&fixture->meta, &values[i]);
    }
}

static void test_meta_without_memory_says_so(void **state)
{
    struct fixture *fixture = *state;
    struct meta other;
    fault_arm("store.meta", 1, 1);
    assert_null(meta_take(&fixture->meta, slice_of_text("key")));
    fault_disarm_all();
    fault_arm("store.meta_init", 1, 1);
    assert_false(meta_init(&other, fixture->pages));
    fault_disarm_all();
}

static void test_meta_op_hash_depends_on_the_database(void **state)
{
    (void)state;
    struct slice key = slice_of_text("key");
    assert_true(op_hash(0, 0, key) == op_hash(0, 0, key));
    assert_true(op_hash(0, 0, key) != op_hash(0, 1, key));
    assert_true(op_hash(0, 0, key) != op_hash(7, 0, key));
    assert_true(op_hash(0, 0, slice_of(NULL, 0)) == op_hash(0, 0, slice_of("x", 0)));
    /* XXH3-64 of no bytes, seed 0: other programs compute the same. */
    assert_true(op_hash(0, 0, slice_of(NULL, 0)) == 0x2d06800538d394c2U);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_meta_keeps_the_key_behind_the_value),
        TEST(test_meta_gives_back_values_of_every_key_length),
        TEST(test_meta_without_memory_says_so),
        cmocka_unit_test(test_meta_op_hash_depends_on_the_database),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
