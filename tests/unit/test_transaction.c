#include "server/transaction.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BYTES_MAX 65536U

static void make_pool(struct chunk_pool *pool)
{
    chunk_pool_init(pool, 0, 4);
    chunk_pool_allow_large(pool, BYTES_MAX);
}

static void test_transaction_keeps_commands_in_order(void **state)
{
    struct chunk_pool pool;
    struct transaction *transaction;
    char text[] = "one";
    (void)state;
    make_pool(&pool);
    transaction = transaction_create(&pool);
    for (int i = 0; i < 100; i++) {
        struct slice args[2] = {slice_of(text, 3), slice_of(NULL, 0)};
        args[0].length_bytes = (size_t)(i % 4);
        assert_int_equal(
            transaction_add(transaction, command_by_id(COMMAND_GET), args, 2, BYTES_MAX),
            KVASIR_OK);
    }
    memset(text, 'x', sizeof(text)); /* the queue has copies */
    assert_int_equal(transaction->queued_count, 100);
    const struct queued *queued = transaction->first;
    for (size_t i = 0; i < 100; i++, queued = queued->next) {
        assert_int_equal(queued->arg_count, 2);
        assert_int_equal(queued->args[0].length_bytes, i % 4);
        assert_memory_equal(queued->args[0].data, "one", i % 4);
        assert_int_equal(queued->args[1].length_bytes, 0);
    }
    assert_null(queued);
    transaction_destroy(&transaction);
    assert_int_equal(pool.large_bytes, 0);
    chunk_pool_fini(&pool);
}

static void test_transaction_refuses_what_is_over_the_limit(void **state)
{
    static uint8_t payload[2 * BYTES_MAX];
    struct slice small = slice_of_text("ping");
    struct slice large = slice_of(payload, sizeof(payload));
    const struct command *ping = command_by_id(COMMAND_PING);
    struct chunk_pool pool;
    struct transaction *transaction;
    (void)state;
    make_pool(&pool);
    transaction = transaction_create(&pool);
    assert_int_equal(transaction_add(transaction, ping, &small, 1, BYTES_MAX), KVASIR_OK);
    assert_int_equal(transaction_add(transaction, ping, &large, 1, BYTES_MAX), KVASIR_TOO_LARGE);
    assert_int_equal(transaction_add(transaction, ping, &large, 1, UINT64_MAX), KVASIR_NO_MEMORY);
    assert_int_equal(transaction->queued_count, 1);
    transaction_close(transaction);
    assert_int_equal(pool.large_bytes, 0);
    assert_null(transaction->first);
    transaction_destroy(&transaction);
    chunk_pool_fini(&pool);
}

static void test_transaction_knows_what_it_watches(void **state)
{
    struct chunk_pool pool;
    struct transaction *transaction;
    struct slice key = slice_of_text("key");
    (void)state;
    make_pool(&pool);
    transaction = transaction_create(&pool);
    const struct transaction_watch *added =
        transaction_watch_add(transaction, 1, 2, key, 3, BYTES_MAX);
    assert_non_null(added);
    assert_ptr_equal(added->watch.owner, transaction);
    assert_null(transaction_watch_add(transaction, 1, 2, key, 3, transaction->watched_bytes));
    transaction_close(transaction);
    assert_int_equal(transaction->watch_count, 1);
    transaction_watch_drop(transaction);
    assert_null(transaction->watches);
    assert_int_equal(pool.large_bytes, 0);
    transaction_destroy(&transaction);
    chunk_pool_fini(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transaction_keeps_commands_in_order),
        cmocka_unit_test(test_transaction_refuses_what_is_over_the_limit),
        cmocka_unit_test(test_transaction_knows_what_it_watches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
