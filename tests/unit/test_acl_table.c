/* test_acl_table – all users by name: kept in order, shared between tables, unchanged by what is refused. */

#include "acl/acl_table.h"

#include "base/fault.h"
#include "base/random.h"
#include "test_seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NAMES 64U

/* Rules with blanks between. */
static bool set_user(struct acl_table *table, const char *name, const char *rules,
                     struct text *error)
{
    struct slice parts[8];
    uint32_t count = 0;
    for (const char *at = rules; *at != '\0';) {
        size_t length = strcspn(at, " ");
        parts[count++] = slice_of(at, length);
        at += length + (at[length] == ' ');
    }
    return acl_table_set_user(table, slice_of_text(name), parts, count, false, error);
}

static void set(struct acl_table *table, const char *name, const char *rules)
{
    struct text error = {0};
    assert_true(set_user(table, name, rules, &error));
    assert_int_equal(error.length_bytes, 0);
    text_fini(&error);
}

static const struct acl_user *find(const struct acl_table *table, const char *name)
{
    return acl_table_find(table, slice_of_text(name));
}

static struct acl_table *new_table(void)
{
    struct acl_table *table = acl_table_create();
    assert_non_null(table);
    return table;
}

static void test_acl_table_begins_with_a_default_who_may_all(void **state)
{
    struct acl_table *table = new_table();
    const struct acl_user *user = acl_table_default(table);
    (void)state;
    assert_int_equal(table->count, 1);
    assert_true(user->enabled && user->nopass && user->unrestricted);
    assert_true(acl_user_authenticate(user, slice_of_text("anything")));
    assert_int_equal(acl_table_required(table).length_bytes, 0);
    acl_table_destroy(&table);
    assert_null(table);
    acl_table_destroy(&table);
}

static void test_acl_table_finds_whoever_was_set_and_not_removed(void **state)
{
    struct acl_table *table = new_table();
    bool there[NAMES] = {false};
    struct random random;
    (void)state;
    random_init(&random, test_seed());
    for (int step = 0; step < 3000; step++) {
        uint32_t index = (uint32_t)random_below(&random, NAMES);
        char name[16];
        (void)snprintf(name, sizeof(name), "user%u", index);
        if (random_below(&random, 2) == 0) {
            set(table, name, "on");
            there[index] = true;
        } else {
            assert_int_equal(acl_table_remove(table, slice_of_text(name)), there[index]);
            there[index] = false;
        }
    }
    uint32_t count = 1;
    for (uint32_t i = 0; i < NAMES; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "user%u", i);
        assert_int_equal(find(table, name) != NULL, there[i]);
        count += there[i];
    }
    assert_int_equal(table->count, count);
    for (uint32_t i = 1; i < table->count; i++) {
        struct slice before = acl_user_name(table->users[i - 1]);
        struct slice name = acl_user_name(table->users[i]);
        size_t shorter =
            before.length_bytes < name.length_bytes ? before.length_bytes : name.length_bytes;
        int order = memcmp(before.data, name.data, shorter);
        assert_true(order < 0 || (order == 0 && before.length_bytes < name.length_bytes));
    }
    acl_table_destroy(&table);
}

static void test_acl_table_copies_share_what_does_not_change(void **state)
{
    struct acl_table *table = new_table();
    struct acl_table *copy;
    (void)state;
    set(table, "alice", "on >one");
    set(table, "bob", "on >two");
    copy = acl_table_copy(table);
    assert_non_null(copy);
    assert_ptr_equal(find(copy, "alice"), find(table, "alice"));
    set(copy, "alice", "off");
    assert_true(acl_table_remove(copy, slice_of_text("bob")));
    assert_true(find(table, "alice")->enabled);
    assert_false(find(copy, "alice")->enabled);
    assert_non_null(find(table, "bob"));
    acl_table_destroy(&table);
    assert_true(acl_user_authenticate(find(copy, "alice"), slice_of_text("one")) == false);
    assert_null(find(copy, "bob"));
    assert_non_null(acl_table_default(copy));
    acl_table_destroy(&copy);
}

static void test_acl_table_is_as_before_when_a_rule_is_refused(void **state)
{
    struct acl_table *table = new_table();
    struct text error = {0};
    const struct acl_user *before;
    (void)state;
    set(table, "alice", "on >one ~a*");
    before = find(table, "alice");
    assert_false(set_user(table, "alice", "off +nosuchcommand", &error));
    assert_true(error.length_bytes > 0);
    assert_ptr_equal(find(table, "alice"), before);
    assert_true(before->enabled);
    text_fini(&error);
    assert_false(set_user(table, "carol", "on %Q~x", &error));
    assert_null(find(table, "carol"));
    text_fini(&error);
    acl_table_destroy(&table);
}

static void test_acl_table_refuses_names_that_cannot_be_written(void **state)
{
    struct acl_table *table = new_table();
    char longest[ACL_USER_NAME_BYTES_MAX + 1];
    const struct slice wrong[] = {
        slice_of_text("a b"), slice_of("a\0b", 3),   slice_of_text("a\nb"),
        slice_of(NULL, 0),    slice_of_text("a\tb"), slice_of(longest, sizeof(longest)),
    };
    (void)state;
    memset(longest, 'x', sizeof(longest));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct text error = {0};
        assert_false(acl_table_set_user(table, wrong[i], NULL, 0, false, &error));
        assert_true(error.length_bytes > 0);
        text_fini(&error);
    }
    assert_int_equal(table->count, 1);
    struct text error = {0};
    assert_true(acl_table_set_user(table, slice_of(longest, ACL_USER_NAME_BYTES_MAX), NULL, 0,
                                   false, &error));
    acl_table_destroy(&table);
}

static void test_acl_table_required_password_is_the_only_one(void **state)
{
    struct acl_table *table = new_table();
    struct acl_table *next;
    struct slice binary = slice_of("p\0q", 3);
    (void)state;
    set(table, "default", "resetpass >old resetkeys ~x");
    assert_true(acl_table_require(table, binary));
    assert_true(acl_user_authenticate(acl_table_default(table), binary));
    assert_false(acl_user_authenticate(acl_table_default(table), slice_of_text("old")));
    assert_false(acl_user_authenticate(acl_table_default(table), slice_of_text("p")));
    assert_false(acl_table_default(table)->nopass);
    assert_true(slice_equal(acl_table_required(table), binary));
    /* A table that is read anew keeps it, for the default that it gets. */
    next = acl_table_create_empty(table);
    assert_non_null(next);
    assert_int_equal(next->count, 0);
    assert_true(acl_table_add_default(next));
    assert_true(acl_user_authenticate(acl_table_default(next), binary));
    assert_false(acl_user_authenticate(acl_table_default(next), slice_of_text("")));
    assert_true(acl_table_add_default(next));
    assert_int_equal(next->count, 1);
    acl_table_destroy(&next);
    assert_true(acl_table_require(table, slice_of(NULL, 0)));
    assert_true(acl_table_default(table)->nopass);
    assert_int_equal(acl_table_required(table).length_bytes, 0);
    acl_table_destroy(&table);
}

static void test_acl_table_without_memory_is_as_before(void **state)
{
    struct acl_table *table;
    struct text error = {0};
    (void)state;
    fault_arm("acl.table", 1, 1);
    assert_null(acl_table_create());
    fault_disarm_all();
    fault_arm("acl.table", 2, 1);
    assert_null(acl_table_create());
    fault_disarm_all();
    table = new_table();
    for (char name[] = "a"; table->count < table->capacity; name[0]++) {
        set(table, name, "on");
    }
    fault_arm("acl.table", 1, 2);
    assert_null(acl_table_copy(table));
    assert_false(set_user(table, "z", "on", &error));
    assert_true(error.length_bytes > 0);
    fault_disarm_all();
    text_fini(&error);
    assert_null(find(table, "z"));
    assert_int_equal(table->count, table->capacity);
    acl_table_destroy(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acl_table_begins_with_a_default_who_may_all),
        cmocka_unit_test(test_acl_table_finds_whoever_was_set_and_not_removed),
        cmocka_unit_test(test_acl_table_copies_share_what_does_not_change),
        cmocka_unit_test(test_acl_table_is_as_before_when_a_rule_is_refused),
        cmocka_unit_test(test_acl_table_refuses_names_that_cannot_be_written),
        cmocka_unit_test(test_acl_table_required_password_is_the_only_one),
        cmocka_unit_test(test_acl_table_without_memory_is_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
