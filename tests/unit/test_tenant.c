/* test_tenant – the text of the option, and which values are whose. */

#include "store/tenant.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct tenant_table table;
static char error[256];

static bool parse(const char *text)
{
    error[0] = '\0';
    return tenant_table_parse(&table, slice_of_text(text), error, sizeof(error));
}

static void test_tenant_text_comes_back_in_one_form(void **state)
{
    char text[TENANTS_TEXT_BYTES];
    (void)state;
    assert_true(
        parse(" chat prefix chat: GUARANTEE 1gb burst 2gb;;search  user bob burst 1000 ; "));
    tenant_table_format(&table, text, sizeof(text));
    assert_string_equal(text, "chat prefix chat: guarantee 1gb burst 2gb; "
                              "search user bob guarantee 0 burst 1000");
    struct tenant_table again;
    assert_true(tenant_table_parse(&again, slice_of_text(text), error, sizeof(error)));
    assert_memory_equal(&again, &table, sizeof(table));
    assert_true(parse(""));
    assert_int_equal(table.count, 0);
    assert_true(parse(" ; "));
    assert_int_equal(table.count, 0);
}

static void test_tenant_bad_text_is_refused_with_its_reason(void **state)
{
    static const char *const bad[][2] = {
        {"a", "after the name comes prefix or user"},
        {"a prefix", "1 to 47 bytes"},
        {"a suffix x", "after the name comes prefix or user"},
        {"a,b prefix x", "a tenant's name has 1 to 23 letters"},
        {"name-that-is-much-too-long prefix x", "a tenant's name has"},
        {"a prefix 012345678901234567890123456789012345678901234567", "1 to 47 bytes"},
        {"a prefix x quota 3", "not 'quota'"},
        {"a prefix x burst", "burst takes a size such as 4gb, not ''"},
        {"a prefix x guarantee many", "not 'many'"},
        {"a prefix x guarantee 2gb burst 1gb", "is less than guarantee"},
        {"a prefix x; a prefix y", "the same name"},
        {"a prefix x; b prefix x", "the same prefix"},
        {"a user x; b user x", "the same user"},
    };
    (void)state;
    assert_true(parse("kept prefix kept:"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(parse(bad[i][0]));
        if (strstr(error, bad[i][1]) == NULL) {
            fail_msg("'%s' gave: %s", bad[i][0], error);
        }
        assert_string_equal(table.rows[1].name, "kept");
    }
}

static void test_tenant_there_may_be_31(void **state)
{
    char text[TENANTS_TEXT_BYTES] = "";
    (void)state;
    for (unsigned i = 0; i < TENANTS_MAX - 1; i++) {
        size_t length = strlen(text);
        (void)snprintf(text + length, sizeof(text) - length, "t%u prefix p%u:;", i, i);
    }
    assert_true(parse(text));
    assert_int_equal(table.count, TENANTS_MAX);
    size_t end = strlen(text);
    (void)snprintf(text + end, sizeof(text) - end, "more prefix more:");
    assert_false(parse(text));
    assert_non_null(strstr(error, "there may be 31 tenants, and more is one more"));
}

static void test_tenant_longest_prefix_wins(void **state)
{
    (void)state;
    assert_true(parse("a prefix a:; ab prefix a:b:; u user bob"));
    assert_int_equal(tenant_of_key(&table, slice_of_text("a:1")), 1);
    assert_int_equal(tenant_of_key(&table, slice_of_text("a:b:1")), 2);
    assert_int_equal(tenant_of_key(&table, slice_of_text("b:1")), 0);
    assert_int_equal(tenant_of_key(&table, slice_of_text("a")), 0);
    assert_int_equal(tenant_of_key(&table, slice_of_text("bob")), 0);
    assert_int_equal(tenant_of_user(&table, slice_of_text("bob")), 3);
    assert_int_equal(tenant_of_user(&table, slice_of_text("a:")), 0);
    assert_int_equal(tenant_of_user(&table, slice_of_text("bobby")), 0);
}

static void test_tenant_rows_stay_by_name(void **state)
{
    (void)state;
    assert_true(parse("a prefix a:; b prefix b:; c prefix c:"));
    struct tenant_table former = table;
    assert_true(parse("d prefix d:; c prefix c: burst 5; e prefix e:"));
    tenant_table_align(&table, &former);
    assert_string_equal(table.rows[1].name, "d");
    assert_string_equal(table.rows[2].name, "e");
    assert_string_equal(table.rows[3].name, "c");
    assert_int_equal(table.count, 4);
    assert_false(tenant_table_matches_alike(&table, &former));
    assert_true(parse("b prefix b:"));
    tenant_table_align(&table, &former);
    assert_int_equal(table.count, 3);
    assert_int_equal(tenant_of_key(&table, slice_of_text("b:1")), 2);
    assert_int_equal(tenant_of_key(&table, slice_of_text("")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tenant_text_comes_back_in_one_form),
        cmocka_unit_test(test_tenant_bad_text_is_refused_with_its_reason),
        cmocka_unit_test(test_tenant_there_may_be_31),
        cmocka_unit_test(test_tenant_longest_prefix_wins),
        cmocka_unit_test(test_tenant_rows_stay_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
