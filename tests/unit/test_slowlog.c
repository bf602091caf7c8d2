/* test_slowlog – what is kept of slow requests, and how much. */

#include "server/slowlog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct slowlog_facts FACTS = {
    .time_us = 5, .duration_us = 7, .peer = "127.0.0.1:1", .name = "me"};

static void add(struct slowlog *log, uint32_t max_count)
{
    const struct slice args[] = {slice_of_text("GET"), slice_of_text("a")};
    slowlog_add(log, &FACTS, args, 2, 2, max_count);
}

/* The text of argument i; the buffer is the caller's. */
static const char *argument(const struct slowlog_entry *entry, uint32_t i, char text[256])
{
    const uint8_t *at = entry->text;
    uint32_t length;
    for (;; i--) {
        memcpy(&length, at, sizeof(length));
        if (i == 0) {
            break;
        }
        at += sizeof(length) + length;
    }
    (void)snprintf(text, 256, "%.*s", (int)length, (const char *)at + sizeof(length));
    return text;
}

static void test_slowlog_keeps_the_latest(void **state)
{
    struct slowlog log;
    (void)state;
    slowlog_init(&log, 1, 4);
    for (int i = 0; i < 10; i++) {
        add(&log, 3);
    }
    assert_int_equal(log.count, 3);
    assert_int_equal(slowlog_at(&log, 0)->id, 1 + 9 * 4);
    assert_int_equal(slowlog_at(&log, 2)->id, 1 + 7 * 4);
    assert_null(slowlog_at(&log, 3));
    assert_int_equal(slowlog_at(&log, 0)->duration_us, 7);
    assert_string_equal(slowlog_at(&log, 0)->name, "me");
    slowlog_clear(&log);
    assert_null(slowlog_at(&log, 0));
    slowlog_fini(&log);
}

static void test_slowlog_length_may_change(void **state)
{
    struct slowlog log;
    (void)state;
    slowlog_init(&log, 0, 1);
    for (int i = 0; i < 5; i++) {
        add(&log, 4);
    }
    add(&log, 8);
    assert_int_equal(log.count, 5);
    assert_int_equal(slowlog_at(&log, 4)->id, 1);
    add(&log, 2);
    assert_int_equal(log.count, 2);
    assert_int_equal(slowlog_at(&log, 0)->id, 6);
    add(&log, 0);
    assert_int_equal(log.count, 0);
    slowlog_fini(&log);
}

static void test_slowlog_cuts_long_requests(void **state)
{
    struct slowlog log;
    struct slice args[40];
    char long_text[200];
    char text[256];
    (void)state;
    memset(long_text, 'A', sizeof(long_text));
    for (int i = 0; i < 40; i++) {
        args[i] = slice_of_text("x");
    }
    args[1] = slice_of(long_text, sizeof(long_text));
    slowlog_init(&log, 0, 1);
    slowlog_add(&log, &FACTS, args, 40, 40, 10);
    const struct slowlog_entry *entry = slowlog_at(&log, 0);
    assert_int_equal(entry->arg_count, 32);
    assert_string_equal(argument(entry, 31, text), "... (9 more arguments)");
    assert_string_equal(argument(entry, 1, text) + 128, "... (72 more bytes)");
    slowlog_fini(&log);
}

static void test_slowlog_knows_the_length_of_a_payload_that_went_by(void **state)
{
    struct slowlog log;
    const struct slice args[] = {slice_of_text("SET"), slice_of_text("k"), {NULL, 1U << 20}};
    char text[256];
    (void)state;
    slowlog_init(&log, 0, 1);
    slowlog_add(&log, &FACTS, args, 3, 3, 10);
    assert_string_equal(argument(slowlog_at(&log, 0), 2, text), "... (1048576 more bytes)");
    slowlog_fini(&log);
}

static void test_slowlog_hides_secrets(void **state)
{
    struct slowlog log;
    const struct slice args[] = {slice_of_text("AUTH"), slice_of_text("u"), slice_of_text("pw")};
    char text[256];
    (void)state;
    slowlog_init(&log, 0, 1);
    slowlog_add(&log, &FACTS, args, 3, 1, 10);
    assert_string_equal(argument(slowlog_at(&log, 0), 0, text), "AUTH");
    assert_string_equal(argument(slowlog_at(&log, 0), 1, text), "(redacted)");
    assert_string_equal(argument(slowlog_at(&log, 0), 2, text), "(redacted)");
    slowlog_fini(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slowlog_keeps_the_latest),
        cmocka_unit_test(test_slowlog_length_may_change),
        cmocka_unit_test(test_slowlog_cuts_long_requests),
        cmocka_unit_test(test_slowlog_knows_the_length_of_a_payload_that_went_by),
        cmocka_unit_test(test_slowlog_hides_secrets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
