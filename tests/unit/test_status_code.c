/* Unit tests of proto/status_code. */
#include "proto/status_code.h"

#include "base/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_status_code_words_are_read_back(void **state)
{
    (void)state;
    static const struct {
        enum kvasir_status status;
        const char *word;
    } rows[] = {
        {KVASIR_NO_MEMORY, "OOM"},      {KVASIR_TOO_LARGE, "TOOLARGE"},
        {KVASIR_DENIED, "DENIED"},      {KVASIR_UNSUPPORTED, "UNSUPPORTED"},
        {KVASIR_NOT_FOUND, "NOTFOUND"}, {KVASIR_EXISTS, "EXISTS"},
        {KVASIR_CORRUPT, "CORRUPT"},    {KVASIR_EXPIRED, "EXPIRED"},
        {KVASIR_BUSY, "BUSY"},          {KVASIR_IO, "IO"},
        {KVASIR_INVALID, "ERR"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_string_equal(status_code_word(rows[i].status), rows[i].word);
        assert_int_equal(status_code_parse(slice_of_text(rows[i].word)), rows[i].status);
    }
}

static void test_status_code_word_is_err_for_what_has_none(void **state)
{
    (void)state;
    assert_string_equal(status_code_word(KVASIR_TIMEOUT), "ERR");
    assert_string_equal(status_code_word(KVASIR_PROTOCOL), "ERR");
    assert_string_equal(status_code_word(KVASIR_OK), "ERR");
}

static void test_status_code_parse_looks_at_the_first_word_only(void **state)
{
    (void)state;
    assert_int_equal(status_code_parse(slice_of_text("OOM command not allowed when used memory")),
                     KVASIR_NO_MEMORY);
    assert_int_equal(status_code_parse(slice_of_text("ERR OOM")), KVASIR_INVALID);
    assert_int_equal(status_code_parse(slice_of_text("OOMS x")), KVASIR_INVALID);
    assert_int_equal(status_code_parse(slice_of_text("OO")), KVASIR_INVALID);
    assert_int_equal(status_code_parse(slice_of_text("oom x")), KVASIR_INVALID);
    assert_int_equal(status_code_parse(slice_of(NULL, 0)), KVASIR_INVALID);
}

static void test_status_code_parse_knows_the_words_of_redis(void **state)
{
    (void)state;
    assert_int_equal(status_code_parse(slice_of_text("NOAUTH Authentication required.")),
                     KVASIR_DENIED);
    assert_int_equal(status_code_parse(slice_of_text("WRONGPASS invalid")), KVASIR_DENIED);
    assert_int_equal(status_code_parse(slice_of_text("NOPERM this user")), KVASIR_DENIED);
    assert_int_equal(status_code_parse(slice_of_text("LOADING the dataset")), KVASIR_BUSY);
    assert_int_equal(status_code_parse(slice_of_text("TRYAGAIN later")), KVASIR_BUSY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_code_words_are_read_back),
        cmocka_unit_test(test_status_code_word_is_err_for_what_has_none),
        cmocka_unit_test(test_status_code_parse_looks_at_the_first_word_only),
        cmocka_unit_test(test_status_code_parse_knows_the_words_of_redis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
