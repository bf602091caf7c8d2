/* test_log – what a line looks like, what is kept out of it, and what is dropped. */

#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEXT_BYTES_MAX 65536

struct fixture {
    char path[64];
    char text[TEXT_BYTES_MAX];
};

static int open_log(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    (void)snprintf(fixture->path, sizeof(fixture->path), "/tmp/kvasir-test-log-XXXXXX");
    int descriptor = mkstemp(fixture->path);
    if (descriptor < 0) {
        free(fixture);
        return -1;
    }
    (void)close(descriptor);
    *state = fixture;
    return log_setup(LOG_INFO, fixture->path) ? 0 : -1;
}

static int close_log(void **state)
{
    struct fixture *fixture = *state;
    bool ok = log_setup(LOG_INFO, NULL);
    (void)unlink(fixture->path);
    free(fixture);
    return ok ? 0 : -1;
}

static const char *read_log(struct fixture *fixture)
{
    FILE *file = fopen(fixture->path, "r");
    assert_non_null(file);
    size_t length_bytes = fread(fixture->text, 1, TEXT_BYTES_MAX - 1, file);
    fixture->text[length_bytes] = '\0';
    (void)fclose(file);
    return fixture->text;
}

static unsigned count_lines(const char *text)
{
    unsigned count = 0;
    for (; *text != '\0'; text++) {
        count += *text == '\n';
    }
    return count;
}

static void test_log_line_has_time_level_thread_and_message(void **state)
{
    log_set_thread_name("reactor-1-with-a-long-name");
    log_warn("port %d is busy", 6379);
    log_set_thread_name("main");
    const char *text = read_log(*state);
    static const char form[] = "0000-00-00 00:00:00.000 ";
    for (size_t i = 0; i < sizeof(form) - 1; i++) {
        if (form[i] == '0') {
            assert_true(isdigit((unsigned char)text[i]));
        } else {
            assert_int_equal(text[i], form[i]);
        }
    }
    assert_string_equal(text + sizeof(form) - 1, "W reactor-1-with- port 6379 is busy\n");
}

static void test_log_keeps_out_what_is_below_the_level(void **state)
{
    log_debug("not this");
    log_set_level(LOG_ERROR);
    log_warn("nor this");
    log_error("but this");
    log_set_level(LOG_DEBUG);
    assert_true(log_enabled(LOG_DEBUG));
    log_debug("and this");
    const char *text = read_log(*state);
    assert_null(strstr(text, "not this"));
    assert_null(strstr(text, "nor this"));
    assert_non_null(strstr(text, " E main but this\n"));
    assert_non_null(strstr(text, " D main and this\n"));
    assert_int_equal(count_lines(text), 2);
}

static void test_log_cuts_long_lines(void **state)
{
    char message[3000];
    memset(message, 'x', sizeof(message) - 1);
    message[sizeof(message) - 1] = '\0';
    log_info("%s", message);
    log_info("short");
    const char *text = read_log(*state);
    assert_int_equal(count_lines(text), 2);
    assert_int_equal(strchr(text, '\n') - text, 1023);
    assert_non_null(strstr(text, " short\n"));
}

static void test_log_masks_control_bytes(void **state)
{
    log_info("name %s", "evil\n2026-01-01 00:00:00.000 E main forged\x1b[2J\x7f");
    const char *text = read_log(*state);
    assert_int_equal(count_lines(text), 1);
    assert_non_null(strstr(text, "evil?2026"));
    assert_null(strchr(text, '\x1b'));
    assert_null(strchr(text, '\x7f'));
}

static void test_log_leaves_errno_alone(void **state)
{
    (void)state;
    errno = EMFILE;
    log_info("line");
    assert_int_equal(errno, EMFILE);
}

static void test_log_goes_on_when_the_new_file_cannot_be_opened(void **state)
{
    assert_false(log_setup(LOG_INFO, "/nonexistent/folder/log"));
    assert_int_equal(errno, ENOENT);
    log_info("still here");
    assert_non_null(strstr(read_log(*state), "still here"));
}

static void test_log_limited_drops_and_says_how_many(void **state)
{
    struct log_limit limit = {0};
    for (int i = 0; i < 25; i++) {
        log_limited(&limit, LOG_WARN, "refused %d", i);
    }
    assert_int_equal(count_lines(read_log(*state)), 10);
    assert_int_equal(limit.dropped, 15);
    /* A second later, without waiting for it. */
    limit.window_us -= 1000000;
    log_limited(&limit, LOG_WARN, "refused again");
    log_limited(&limit, LOG_WARN, "and again");
    const char *text = read_log(*state);
    assert_int_equal(count_lines(text), 12);
    assert_non_null(strstr(text, "(15 like this dropped) refused again\n"));
    assert_non_null(strstr(text, "main and again\n"));
}

static void test_log_limited_below_the_level_counts_nothing(void **state)
{
    struct log_limit limit = {0};
    log_limited(&limit, LOG_DEBUG, "quiet");
    assert_int_equal(limit.passed, 0);
    assert_int_equal(count_lines(read_log(*state)), 0);
}

static void *write_lines(void *argument)
{
    (void)argument;
    for (int i = 0; i < 200; i++) {
        log_info("abcdefghijklmnopqrstuvwxyz");
    }
    return NULL;
}

static void test_log_lines_of_two_threads_stay_whole(void **state)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, NULL), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    const char *text = read_log(*state);
    assert_int_equal(count_lines(text), 400);
    size_t line_bytes = (size_t)(strchr(text, '\n') - text) + 1;
    assert_int_equal(strlen(text), 400 * line_bytes);
    for (size_t i = 1; i <= 400; i++) {
        assert_memory_equal(text + i * line_bytes - 27, "abcdefghijklmnopqrstuvwxyz\n", 27);
    }
}

int main(void)
{
    log_set_thread_name("main");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_log_line_has_time_level_thread_and_message, open_log,
                                        close_log),
        cmocka_unit_test_setup_teardown(test_log_keeps_out_what_is_below_the_level, open_log,
                                        close_log),
        cmocka_unit_test_setup_teardown(test_log_cuts_long_lines, open_log, close_log),
        cmocka_unit_test_setup_teardown(test_log_masks_control_bytes, open_log, close_log),
        cmocka_unit_test_setup_teardown(test_log_leaves_errno_alone, open_log, close_log),
        cmocka_unit_test_setup_teardown(test_log_goes_on_when_the_new_file_cannot_be_opened,
                                        open_log, close_log),
        cmocka_unit_test_setup_teardown(test_log_limited_drops_and_says_how_many, open_log,
                                        close_log),
        cmocka_unit_test_setup_teardown(test_log_limited_below_the_level_counts_nothing, open_log,
                                        close_log),
        cmocka_unit_test_setup_teardown(test_log_lines_of_two_threads_stay_whole, open_log,
                                        close_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
