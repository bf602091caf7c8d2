/* test_status – every status has a name of its own. */

#include <kvasir/types.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_status_names_are_distinct(void **state)
{
    (void)state;
    for (int a = KVASIR_OVERRUN; a <= KVASIR_AGAIN; a++) {
        const char *name = kvasir_status_name((enum kvasir_status)a);
        assert_non_null(name);
        assert_string_not_equal(name, "unknown status");
        for (int b = KVASIR_OVERRUN; b < a; b++) {
            assert_string_not_equal(name, kvasir_status_name((enum kvasir_status)b));
        }
    }
}

static void test_status_of_another_version_is_unknown(void **state)
{
    (void)state;
    assert_string_equal(kvasir_status_name((enum kvasir_status)(KVASIR_OVERRUN - 1)),
                        "unknown status");
    assert_string_equal(kvasir_status_name((enum kvasir_status)(KVASIR_AGAIN + 1)),
                        "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_names_are_distinct),
        cmocka_unit_test(test_status_of_another_version_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
