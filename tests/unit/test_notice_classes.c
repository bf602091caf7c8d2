/* test_notice_classes – the letters of notify-keyspace-events are read and written as Redis does it. */

#include "server/notice_classes.h"

#include "store/notice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_shown(const char *given, const char *shown)
{
    struct notice_classes classes;
    char text[64];
    assert_true(notice_classes_parse(&classes, slice_of_text(given)));
    notice_classes_format(&classes, text, sizeof(text));
    assert_string_equal(text, shown);
}

static void test_notice_classes_are_written_in_redis_order(void **state)
{
    (void)state;
    assert_shown("", "");
    assert_shown("mKnE", "nKEm");
    assert_shown("KA", "AK");
    assert_shown("gAm", "Am");
    assert_shown("Etdzhsl$gxe", "AE");
    assert_shown("$lshzxeKE", "$lshzxeKE");
}

static void test_notice_classes_unknown_letters_are_refused(void **state)
{
    struct notice_classes classes = {.letters = 1};
    (void)state;
    assert_false(notice_classes_parse(&classes, slice_of_text("KQ")));
    assert_false(notice_classes_parse(&classes, slice_of("K\0", 2)));
    assert_int_equal(classes.letters, 1);
}

static void test_notice_classes_need_a_channel_to_be_wanted(void **state)
{
    struct notice_classes classes;
    (void)state;
    assert_true(notice_classes_parse(&classes, slice_of_text("gx$")));
    assert_int_equal(notice_classes_wanted(&classes), 0);
    assert_true(notice_classes_parse(&classes, slice_of_text("Egx")));
    assert_int_equal(notice_classes_wanted(&classes), NOTICE_GENERIC | NOTICE_EXPIRY);
    assert_true(notice_classes_keyevent(&classes));
    assert_false(notice_classes_keyspace(&classes));
    assert_true(notice_classes_parse(&classes, slice_of_text("KA")));
    assert_int_equal(notice_classes_wanted(&classes),
                     NOTICE_GENERIC | NOTICE_STRING | NOTICE_EXPIRY | NOTICE_EVICTION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notice_classes_are_written_in_redis_order),
        cmocka_unit_test(test_notice_classes_unknown_letters_are_refused),
        cmocka_unit_test(test_notice_classes_need_a_channel_to_be_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
