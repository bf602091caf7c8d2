/* test_settings – options from text: one by one, from a file's text, from arguments; what is refused
 * and in which words. */

#include "server/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char error[512];

static enum kvasir_status set(struct settings *settings, const char *name, const char *value,
                              bool live)
{
    error[0] = '\0';
    return settings_set(settings, slice_of_text(name), slice_of_text(value), live, error,
                        sizeof(error));
}

static enum kvasir_status read_text(struct settings *settings, const char *text)
{
    /* Exactly as long as the text, so that a sanitizer sees a read or write beyond it. */
    size_t length = strlen(text);
    char *copy = malloc(length > 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    error[0] = '\0';
    enum kvasir_status status = settings_read_text(settings, copy, length, error, sizeof(error));
    free(copy);
    return status;
}

static void test_settings_defaults_hold(void **state)
{
    struct settings settings;
    (void)state;
    settings_init(&settings);
    assert_int_equal(settings.port, 6379);
    assert_int_equal(settings.maxmemory, 1ULL << 30);
    assert_string_equal(settings.maxmemory_policy, "prefix");
    assert_true(settings.populate);
    assert_int_equal(settings_verify(&settings, error, sizeof(error)), KVASIR_OK);
}

static void test_settings_default_of_every_option_can_be_set(void **state)
{
    struct settings settings;
    char value[SETTINGS_TEXT_BYTES];
    (void)state;
    settings_init(&settings);
    for (unsigned i = 0; i < settings_count(); i++) {
        const char *text = settings_value(&settings, i, value);
        assert_int_equal(set(&settings, settings_name(i), text, false), KVASIR_OK);
    }
}

static void test_settings_numbers_keep_their_bounds(void **state)
{
    struct settings settings;
    (void)state;
    settings_init(&settings);
    assert_int_equal(set(&settings, "port", "65535", false), KVASIR_OK);
    assert_int_equal(set(&settings, "PORT", "1", false), KVASIR_OK);
    assert_int_equal(settings.port, 1);
    static const char *const bad[] = {"65536", "-1",   "",    "1x",
                                      " 1",    "0x10", "1.5", "18446744073709551616"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(set(&settings, "port", bad[i], false), KVASIR_INVALID);
        assert_non_null(strstr(error, "port takes a number from 0 to 65535"));
        assert_non_null(strstr(error, bad[i]));
        assert_int_equal(settings.port, 1);
    }
}

static void test_settings_sizes_have_units(void **state)
{
    struct settings settings;
    (void)state;
    settings_init(&settings);
    assert_int_equal(set(&settings, "maxmemory", "100mb", false), KVASIR_OK);
    assert_int_equal(settings.maxmemory, 100ULL << 20);
    assert_int_equal(set(&settings, "maxmemory", "100M", false), KVASIR_OK);
    assert_int_equal(settings.maxmemory, 100000000);
    assert_int_equal(set(&settings, "maxmemory", "33554432", false), KVASIR_OK);
    assert_int_equal(set(&settings, "maxmemory", "33554431", false), KVASIR_INVALID);
    assert_int_equal(set(&settings, "maxmemory", "0", false), KVASIR_INVALID);
    assert_int_equal(set(&settings, "maxmemory", "99999999999999gb", false), KVASIR_INVALID);
    assert_int_equal(set(&settings, "metadata-memory", "0", false), KVASIR_OK);
}

static void test_settings_words_are_from_their_list(void **state)
{
    struct settings settings;
    (void)state;
    settings_init(&settings);
    assert_int_equal(set(&settings, "maxmemory-policy", "noeviction", true), KVASIR_OK);
    assert_string_equal(settings.maxmemory_policy, "noeviction");
    assert_int_equal(set(&settings, "maxmemory-policy", "no", true), KVASIR_INVALID);
    assert_int_equal(set(&settings, "maxmemory-policy", "", true), KVASIR_INVALID);
    assert_int_equal(set(&settings, "maxmemory-policy", "allkeys-lru|noeviction", true),
                     KVASIR_INVALID);
    assert_non_null(strstr(error, "allkeys-lru|noeviction"));
    assert_int_equal(set(&settings, "populate", "no", false), KVASIR_OK);
    assert_int_equal(set(&settings, "populate", "1", false), KVASIR_INVALID);
    assert_false(settings.populate);
}

static void test_settings_text_fits_or_is_refused(void **state)
{
    struct settings settings;
    char text[SETTINGS_TEXT_BYTES + 1];
    (void)state;
    settings_init(&settings);
    memset(text, 'p', sizeof(text));
    text[SETTINGS_TEXT_BYTES - 1] = '\0';
    assert_int_equal(set(&settings, "requirepass", text, true), KVASIR_OK);
    assert_string_equal(settings.requirepass, text);
    text[SETTINGS_TEXT_BYTES - 1] = 'p';
    text[SETTINGS_TEXT_BYTES] = '\0';
    assert_int_equal(set(&settings, "requirepass", text, true), KVASIR_INVALID);
    assert_int_equal(settings_set(&settings, slice_of_text("requirepass"), slice_of("a\0b", 3),
                                  true, error, sizeof(error)),
                     KVASIR_INVALID);
    assert_int_equal(set(&settings, "requirepass", "", true), KVASIR_OK);
    assert_string_equal(settings.requirepass, "");
}

static void test_settings_live_changes_are_those_marked(void **state)
{
    struct settings settings;
    (void)state;
    settings_init(&settings);
    assert_int_equal(set(&settings, "maxclients", "5", true), KVASIR_OK);
    assert_int_equal(set(&settings, "port", "5", true), KVASIR_UNSUPPORTED);
    assert_int_equal(settings.port, 6379);
    assert_int_equal(set(&settings, "nosuch", "5", true), KVASIR_NOT_FOUND);
    assert_non_null(strstr(error, "'nosuch'"));
}

static void test_settings_text_of_a_file_is_read(void **state)
{
    struct settings settings;
    (void)state;
    settings_init(&settings);
    assert_int_equal(read_text(&settings, "# comment\n\n \t port\t 7 \r\n"
                                          "requirepass \"two words\"\n"
                                          "  # indented comment\n"
                                          "unixsocket '/tmp/k # s'\nlogfile \"\"\nmaxclients 9"),
                     KVASIR_OK);
    assert_int_equal(settings.port, 7);
    assert_string_equal(settings.requirepass, "two words");
    assert_string_equal(settings.unixsocket, "/tmp/k # s");
    assert_string_equal(settings.logfile, "");
    assert_int_equal(settings.maxclients, 9);
    assert_int_equal(read_text(&settings, ""), KVASIR_OK);
    assert_int_equal(read_text(&settings, "\n"), KVASIR_OK);
}

static void test_settings_errors_of_a_file_name_the_line(void **state)
{
    struct settings settings;
    (void)state;
    settings_init(&settings);
    assert_int_equal(read_text(&settings, "port 1\nport\n"), KVASIR_INVALID);
    assert_non_null(strstr(error, "line 2: expected 'name value'"));
    assert_int_equal(read_text(&settings, "\n\nnosuch 1"), KVASIR_INVALID);
    assert_non_null(strstr(error, "line 3: there is no option 'nosuch'"));
    char nul[] = "port 1\0\n";
    assert_int_equal(settings_read_text(&settings, nul, sizeof(nul) - 1, error, sizeof(error)),
                     KVASIR_INVALID);
}

static void test_settings_files_that_cannot_be_read(void **state)
{
    struct settings settings;
    (void)state;
    settings_init(&settings);
    assert_int_equal(settings_read_file(&settings, "/nonexistent/file", error, sizeof(error)),
                     KVASIR_NOT_FOUND);
    assert_non_null(strstr(error, "/nonexistent/file"));
    assert_int_equal(settings_read_file(&settings, "/", error, sizeof(error)), KVASIR_IO);
}

static enum kvasir_status read_arguments(struct settings *settings, int argc, const char **argv)
{
    char *copies[8] = {NULL};
    enum kvasir_status status;
    assert_true(argc < 8);
    for (int i = 0; i < argc; i++) {
        copies[i] = strdup(argv[i]);
    }
    status = settings_read_arguments(settings, argc, copies, error, sizeof(error));
    for (int i = 0; i < argc; i++) {
        free(copies[i]);
    }
    return status;
}

static void test_settings_arguments_are_read(void **state)
{
    struct settings settings;
    (void)state;
    settings_init(&settings);
    const char *good[] = {"kvasir-server", "--port", "7", "--bind", "*"};
    assert_int_equal(read_arguments(&settings, 5, good), KVASIR_OK);
    assert_int_equal(settings.port, 7);
    assert_string_equal(settings.bind, "*");
    const char *joined[] = {"kvasir-server", "--port=8", "--bind", "::1", "--logfile="};
    assert_int_equal(read_arguments(&settings, 5, joined), KVASIR_OK);
    assert_int_equal(settings.port, 8);
    assert_string_equal(settings.bind, "::1");
    const char *empty[] = {"kvasir-server", "--port="};
    assert_int_equal(read_arguments(&settings, 2, empty), KVASIR_INVALID);
    const char *lacking[] = {"kvasir-server", "--port"};
    assert_int_equal(read_arguments(&settings, 2, lacking), KVASIR_INVALID);
    const char *stray[] = {"kvasir-server", "--port", "1", "stray"};
    assert_int_equal(read_arguments(&settings, 4, stray), KVASIR_INVALID);
    assert_non_null(strstr(error, "'stray'"));
}

static void test_settings_user_ids_are_numbers(void **state)
{
    static const char *const good[] = {"", "*", "0", "0,1000", "0, 4294967295"};
    static const char *const bad[] = {"bob", "0,bob", "-1", "4294967296", "*,0", "0;1"};
    struct settings settings;
    (void)state;
    settings_init(&settings);
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        assert_int_equal(set(&settings, "shm-uid", good[i], true), KVASIR_OK);
        assert_string_equal(settings.shm_uid, good[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(set(&settings, "shm-uid", bad[i], true), KVASIR_INVALID);
        assert_non_null(strstr(error, "shm-uid takes numbers"));
        assert_non_null(strstr(error, bad[i]));
        assert_string_equal(settings.shm_uid, good[ARRAY_COUNT(good) - 1]);
    }
}

static void test_settings_that_do_not_go_together(void **state)
{
    struct settings settings;
    (void)state;
    settings_init(&settings);
    settings.port = 0;
    assert_int_equal(settings_verify(&settings, error, sizeof(error)), KVASIR_INVALID);
    settings_init(&settings);
    settings.metadata_memory = settings.maxmemory;
    assert_int_equal(settings_verify(&settings, error, sizeof(error)), KVASIR_INVALID);
    settings_init(&settings);
    (void)snprintf(settings.unixsocketperm, sizeof(settings.unixsocketperm), "1000");
    assert_int_equal(settings_verify(&settings, error, sizeof(error)), KVASIR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_defaults_hold),
        cmocka_unit_test(test_settings_default_of_every_option_can_be_set),
        cmocka_unit_test(test_settings_numbers_keep_their_bounds),
        cmocka_unit_test(test_settings_sizes_have_units),
        cmocka_unit_test(test_settings_words_are_from_their_list),
        cmocka_unit_test(test_settings_text_fits_or_is_refused),
        cmocka_unit_test(test_settings_live_changes_are_those_marked),
        cmocka_unit_test(test_settings_text_of_a_file_is_read),
        cmocka_unit_test(test_settings_errors_of_a_file_name_the_line),
        cmocka_unit_test(test_settings_files_that_cannot_be_read),
        cmocka_unit_test(test_settings_arguments_are_read),
        cmocka_unit_test(test_settings_user_ids_are_numbers),
        cmocka_unit_test(test_settings_that_do_not_go_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
