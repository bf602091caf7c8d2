/* Unit tests of store/shard_recall: what is lent is called back when its key ends, and not before. */
#include "test_shard_fixture.h"

#include <stdio.h>

static int set_up(void **state)
{
    *state = fixture_create(&(struct fixture_options){0});
    return 0;
}

static int tear_down(void **state)
{
    fixture_destroy(*state);
    return 0;
}

static struct value *lend(struct fixture *fixture, const char *key, uint8_t database)
{
    struct op op = fixture_op(OP_GET, key);
    op.database = database;
    op.hash = op_hash(0, database, op.key);
    op.flags = OP_READ_LENT;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    return op.value;
}

static void set_in(struct fixture *fixture, const char *key, uint8_t database)
{
    struct op op = fixture_op(OP_SET, key);
    op.database = database;
    op.hash = op_hash(0, database, op.key);
    op.payload = slice_of_text("value");
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
}

static struct recall_list take(struct fixture *fixture)
{
    struct recall_list list = {0};
    if (shard_recalls_pending(fixture->shard)) {
        shard_recalls_take(fixture->shard, &list);
    }
    assert_false(shard_recalls_pending(fixture->shard));
    return list;
}

static void test_shard_recall_names_a_deleted_value_once(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "key", "value");
    (void)fixture_set(fixture, "other", "value");
    struct value *value = lend(fixture, "key", 0);
    struct value *other = lend(fixture, "other", 0);
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "key"), KVASIR_OK);
    struct recall_list list = take(fixture);
    assert_int_equal(list.count, 1);
    assert_true(recall_list_names(&list, 0, value));
    assert_false(recall_list_names(&list, 1, value));
    assert_false(recall_list_names(&list, 0, other));
    assert_int_equal(take(fixture).count, 0);
    shard_unpin(fixture->shard, &value);
    shard_unpin(fixture->shard, &other);
}

static void test_shard_recall_says_nothing_of_what_is_overwritten_or_not_lent(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "overwritten", "value");
    (void)fixture_set(fixture, "returned", "value");
    (void)fixture_set(fixture, "sent", "value");
    struct value *value = lend(fixture, "overwritten", 0);
    struct value *returned = lend(fixture, "returned", 0);
    shard_unpin(fixture->shard, &returned);
    struct op get = fixture_op(OP_GET, "sent");
    assert_int_equal(fixture_run(fixture, &get), KVASIR_OK);
    (void)fixture_set(fixture, "overwritten", "next");
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "returned"), KVASIR_OK);
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "sent"), KVASIR_OK);
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "overwritten"), KVASIR_OK);
    assert_int_equal(take(fixture).count, 0);
    shard_unpin(fixture->shard, &value);
    shard_unpin(fixture->shard, &get.value);
}

static void test_shard_recall_names_what_expired(void **state)
{
    struct fixture *fixture = *state;
    struct op op = fixture_op(OP_SET, "key");
    op.payload = slice_of_text("value");
    op.put.expires_at_ms = fixture->now.wall_ms + 10;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    struct value *value = lend(fixture, "key", 0);
    fixture_move(fixture, 2000);
    (void)shard_tick(fixture->shard, &fixture->now, 1000);
    struct recall_list list = take(fixture);
    assert_int_equal(list.count, 1);
    assert_true(recall_list_names(&list, 0, value));
    shard_unpin(fixture->shard, &value);
}

static void test_shard_recall_of_a_flush_names_what_was_before_it(void **state)
{
    struct fixture *fixture = *state;
    set_in(fixture, "key", 1);
    set_in(fixture, "key", 2);
    struct value *elsewhere = lend(fixture, "key", 2);
    struct value *overwritten = lend(fixture, "key", 1);
    set_in(fixture, "key", 1);
    struct value *current = lend(fixture, "key", 1);
    shard_flush(fixture->shard, 1);
    struct recall_list list = take(fixture);
    set_in(fixture, "key", 1);
    struct value *later = lend(fixture, "key", 1);
    assert_true(recall_list_names(&list, 0, overwritten));
    assert_true(recall_list_names(&list, 0, current));
    assert_false(recall_list_names(&list, 0, later));
    assert_false(recall_list_names(&list, 0, elsewhere));
    assert_false(recall_list_names(&list, 1, current));
    struct value *values[] = {elsewhere, overwritten, current, later};
    for (size_t i = 0; i < 4; i++) {
        shard_unpin(fixture->shard, &values[i]);
    }
}

static void test_shard_recall_of_a_flush_names_orphans_of_an_empty_database(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "key", "value");
    struct value *overwritten = lend(fixture, "key", 0);
    (void)fixture_set(fixture, "key", "next");
    assert_int_equal(fixture_simple(fixture, OP_REMOVE, "key"), KVASIR_OK);
    shard_flush(fixture->shard, 0);
    struct recall_list list = take(fixture);
    assert_true(recall_list_names(&list, 0, overwritten));
    (void)fixture_set(fixture, "key", "later");
    struct value *later = lend(fixture, "key", 0);
    assert_false(recall_list_names(&list, 0, later));
    shard_unpin(fixture->shard, &later);
    shard_unpin(fixture->shard, &overwritten);
}

/* Epochs go round: a database that is flushed for ever must neither hang nor find its values flushed. */
static void test_shard_recall_survives_more_flushes_than_epochs(void **state)
{
    struct fixture *fixture = *state;
    (void)fixture_set(fixture, "key", "value");
    struct value *value = lend(fixture, "key", 0);
    shard_unpin(fixture->shard, &value);
    for (int i = 0; i < 70000; i++) {
        shard_flush(fixture->shard, 0);
        (void)take(fixture);
        if (i % 1000 == 0) {
            (void)fixture_set(fixture, "key", "value");
            fixture_assert_value(fixture, "key", "value");
        }
    }
    assert_int_equal(fixture_simple(fixture, OP_EXISTS, "key"), KVASIR_NOT_FOUND);
    shard_verify(fixture->shard);
}

static void test_shard_recall_of_too_many_names_all(void **state)
{
    struct fixture *fixture = *state;
    struct value *values[RECALLS_MAX + 1];
    char key[16];
    (void)fixture_set(fixture, "other", "value");
    struct value *other = lend(fixture, "other", 0);
    for (uint32_t i = 0; i <= RECALLS_MAX; i++) {
        (void)snprintf(key, sizeof(key), "k%u", i);
        (void)fixture_set(fixture, key, "value");
        values[i] = lend(fixture, key, 0);
        assert_int_equal(fixture_simple(fixture, OP_REMOVE, key), KVASIR_OK);
    }
    struct recall_list list = take(fixture);
    assert_true(list.all);
    for (uint32_t i = 0; i <= RECALLS_MAX; i++) {
        assert_true(recall_list_names(&list, 0, values[i]));
        shard_unpin(fixture->shard, &values[i]);
    }
    assert_true(recall_list_names(&list, 0, other));
    shard_unpin(fixture->shard, &other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_shard_recall_names_a_deleted_value_once),
        TEST(test_shard_recall_says_nothing_of_what_is_overwritten_or_not_lent),
        TEST(test_shard_recall_names_what_expired),
        TEST(test_shard_recall_of_a_flush_names_what_was_before_it),
        TEST(test_shard_recall_of_a_flush_names_orphans_of_an_empty_database),
        TEST(test_shard_recall_survives_more_flushes_than_epochs),
        TEST(test_shard_recall_of_too_many_names_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
