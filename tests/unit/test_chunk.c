/* test_chunk – the pool of equal pieces: its bound, and that what was given is taken again. */

#include "net/chunk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_chunk_pool_keeps_its_bound(void **state)
{
    struct chunk_pool pool;
    struct chunk *chunks[4] = {NULL};
    (void)state;
    chunk_pool_init(&pool, 1, 3);
    for (int i = 0; i < 3; i++) {
        chunks[i] = chunk_take(&pool);
        assert_non_null(chunks[i]);
        assert_int_equal(chunks[i]->start_bytes, 0);
        assert_int_equal(chunks[i]->end_bytes, 0);
        assert_null(chunks[i]->next);
    }
    assert_null(chunk_take(&pool));
    struct chunk *second = chunks[1];
    second->end_bytes = 7;
    second->next = chunks[0];
    chunk_give(&pool, &chunks[1]);
    assert_null(chunks[1]);
    chunks[3] = chunk_take(&pool);
    assert_ptr_equal(chunks[3], second);
    assert_int_equal(second->end_bytes, 0);
    assert_null(second->next);
    for (int i = 0; i < 4; i++) {
        chunk_give(&pool, &chunks[i]);
    }
    assert_int_equal(pool.taken_count, 0);
    assert_int_equal(pool.free_count, 3);
    chunk_pool_fini(&pool);
}

static void test_chunk_pool_reserves_no_more_than_its_bound(void **state)
{
    struct chunk_pool pool;
    (void)state;
    chunk_pool_init(&pool, 10, 2);
    assert_int_equal(pool.free_count, 2);
    chunk_pool_fini(&pool);
}

static void test_chunk_beyond_the_bound_goes_back_to_the_system(void **state)
{
    struct chunk_pool pool;
    struct chunk *chunks[5] = {NULL};
    (void)state;
    chunk_pool_init(&pool, 0, 2);
    chunk_pool_allow_large(&pool, 2 * sizeof(struct chunk) + 1);
    for (int i = 0; i < 4; i++) {
        chunks[i] = chunk_take_beyond(&pool);
        assert_non_null(chunks[i]);
        assert_int_equal(chunks[i]->end_bytes, 0);
    }
    assert_int_equal(pool.taken_count, 2);
    assert_int_equal(pool.large_bytes, 2 * sizeof(struct chunk));
    assert_null(chunk_take_beyond(&pool));
    assert_null(chunk_take(&pool));
    /* In any order: first what is beyond goes, then the pool has some again. */
    chunk_give(&pool, &chunks[0]);
    chunk_give(&pool, &chunks[3]);
    assert_int_equal(pool.large_bytes, 0);
    assert_null(chunk_take(&pool));
    chunk_give(&pool, &chunks[1]);
    chunks[0] = chunk_take_beyond(&pool);
    assert_non_null(chunks[0]);
    assert_int_equal(pool.large_bytes, 0);
    chunk_give(&pool, &chunks[0]);
    chunk_give(&pool, &chunks[2]);
    assert_int_equal(pool.free_count, 2);
    chunk_pool_fini(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunk_pool_keeps_its_bound),
        cmocka_unit_test(test_chunk_pool_reserves_no_more_than_its_bound),
        cmocka_unit_test(test_chunk_beyond_the_bound_goes_back_to_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
