/* test_acl_file – users as lines of text: what was written reads back alike, and each fault is named with
 * its line. */

#include "acl/acl_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Reads a copy that is exactly as long as the text, so that a sanitizer sees a read beyond it. */
static bool read_text(struct acl_table *table, const char *text, struct text *errors)
{
    size_t length = strlen(text);
    char *copy = malloc(length > 0 ? length : 1);
    bool good;
    assert_non_null(copy);
    memcpy(copy, text, length);
    good = acl_file_read(table, slice_of(copy, length), "users.acl", false, errors);
    free(copy);
    return good;
}

static struct acl_table *table_of(const char *text)
{
    struct acl_table *table = acl_table_create_empty(NULL);
    struct text errors = {0};
    assert_non_null(table);
    if (!read_text(table, text, &errors)) {
        fail_msg("%.*s", (int)errors.length_bytes, errors.data);
    }
    assert_int_equal(errors.length_bytes, 0);
    return table;
}

static void assert_faults(const char *text, const char *expected)
{
    struct acl_table *table = acl_table_create_empty(NULL);
    struct text errors = {0};
    assert_non_null(table);
    assert_false(read_text(table, text, &errors));
    text_add(&errors, slice_of("", 1));
    assert_string_equal(errors.data, expected);
    text_fini(&errors);
    acl_table_destroy(&table);
}

static const struct acl_user *find(const struct acl_table *table, const char *name)
{
    return acl_table_find(table, slice_of_text(name));
}

static void test_acl_file_reads_lines_of_any_spacing(void **state)
{
    struct acl_table *table = table_of("\n  \r\nuser alice on\t>one  ~a*\r\n\t user bob off\n"
                                       "user carol on nopass +@all ~*");
    (void)state;
    assert_int_equal(table->count, 4);
    assert_true(acl_user_authenticate(find(table, "alice"), slice_of_text("one")));
    assert_false(find(table, "bob")->enabled);
    assert_true(find(table, "carol")->nopass);
    assert_non_null(acl_table_default(table));
    acl_table_destroy(&table);
}

static void test_acl_file_makes_a_default_only_when_none_is_named(void **state)
{
    struct acl_table *table = table_of("");
    (void)state;
    assert_true(acl_table_default(table)->nopass);
    acl_table_destroy(&table);
    table = table_of("user default on >secret ~* +@all");
    assert_int_equal(table->count, 1);
    assert_false(acl_table_default(table)->nopass);
    acl_table_destroy(&table);
}

static void test_acl_file_reads_what_it_wrote(void **state)
{
    struct acl_table *table = table_of(
        "user alice on >one >two ~a* %R~b* &c* +@all -@dangerous +config|get\n"
        "user bob off nopass resetchannels -@all +get (~x* +set) (%W~y +del)\n"
        "user default on #ab530a13e45914982b79f9b7e3fba994cfd1f3fb22f71cea1afbf02b460c6d1d "
        "~* &* +@all\n");
    struct acl_table *again;
    struct text lines = {0};
    struct text second = {0};
    (void)state;
    acl_file_write(table, &lines);
    assert_false(lines.failed);
    text_add(&lines, slice_of("", 1));
    again = table_of(lines.data);
    acl_file_write(again, &second);
    text_add(&second, slice_of("", 1));
    assert_string_equal(second.data, lines.data);
    assert_int_equal(again->count, 3);
    assert_true(acl_user_authenticate(find(again, "alice"), slice_of_text("two")));
    text_fini(&lines);
    text_fini(&second);
    acl_table_destroy(&table);
    acl_table_destroy(&again);
}

static void test_acl_file_names_every_fault_with_its_line(void **state)
{
    (void)state;
    assert_faults("user alice on\nusr bob on\n\nuser alice off\nuser dan +nosuch\nuser",
                  "users.acl:2: should start with user keyword followed by the username. "
                  "users.acl:4: Duplicate user 'alice' found. A user can only be defined once. "
                  "users.acl:5: Error in ACL SETUSER modifier '+nosuch': Unknown command or "
                  "category name in ACL. "
                  "users.acl:6: should start with user keyword followed by the username. ");
}

static void test_acl_file_refuses_what_is_no_text(void **state)
{
    static const uint8_t bytes[] = "user a\0b on\n";
    struct acl_table *table = acl_table_create_empty(NULL);
    struct text errors = {0};
    (void)state;
    assert_non_null(table);
    assert_false(acl_file_read(table, slice_of(bytes, sizeof(bytes) - 1), "f", false, &errors));
    assert_true(errors.length_bytes > 0);
    assert_null(find(table, "a"));
    text_fini(&errors);
    acl_table_destroy(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acl_file_reads_lines_of_any_spacing),
        cmocka_unit_test(test_acl_file_makes_a_default_only_when_none_is_named),
        cmocka_unit_test(test_acl_file_reads_what_it_wrote),
        cmocka_unit_test(test_acl_file_names_every_fault_with_its_line),
        cmocka_unit_test(test_acl_file_refuses_what_is_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
