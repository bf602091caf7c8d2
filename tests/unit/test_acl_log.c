/* test_acl_log – what was denied: newest first, alike within a minute counted once, bounded. */

#include "acl/acl_log.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define WALL_MS  1700000000000
#define NO_LIMIT 1000U

static struct acl_event event_of(const char *object, const char *user, int64_t after_ms)
{
    return (struct acl_event){.reason = ACL_DENIED_KEY,
                              .context = ACL_LOG_TOPLEVEL,
                              .wall_ms = WALL_MS + after_ms,
                              .object = slice_of_text(object),
                              .user = slice_of_text(user),
                              .client = slice_of_text("id=1")};
}

static void add(struct acl_log *log, const char *object, int64_t after_ms)
{
    struct acl_event event = event_of(object, "eve", after_ms);
    acl_log_add(log, &event, NO_LIMIT);
}

/* The entry that is so many places from the newest; there must be one. */
static struct acl_event entry_at(const struct acl_log *log, unsigned place)
{
    struct acl_event found = {0};
    bool there = false;
    list_foreach (cursor, &log->entries) {
        if (place == 0) {
            found = list_entry(cursor, struct acl_log_entry, link)->event;
            there = true;
            break;
        }
        place--;
    }
    assert_true(there);
    return found;
}

static void assert_object(const struct acl_log *log, unsigned place, const char *object,
                          uint64_t count)
{
    struct acl_event event = entry_at(log, place);
    assert_true(slice_equal(event.object, slice_of_text(object)));
    assert_int_equal(event.count, count);
}

static void test_acl_log_keeps_copies_newest_first(void **state)
{
    struct acl_log log;
    char object[] = "one";
    struct acl_event event = event_of(object, "eve", 0);
    (void)state;
    acl_log_init(&log);
    acl_log_add(&log, &event, NO_LIMIT);
    memcpy(object, "xxx", 3);
    add(&log, "two", 10);
    assert_int_equal(log.count, 2);
    assert_object(&log, 0, "two", 1);
    assert_object(&log, 1, "one", 1);
    assert_true(slice_equal(entry_at(&log, 1).user, slice_of_text("eve")));
    assert_true(slice_equal(entry_at(&log, 1).client, slice_of_text("id=1")));
    acl_log_cut(&log, 0);
    assert_int_equal(log.count, 0);
    assert_true(list_empty(&log.entries));
}

static void test_acl_log_counts_what_is_alike_within_a_minute(void **state)
{
    struct acl_log log;
    (void)state;
    acl_log_init(&log);
    add(&log, "k", 0);
    add(&log, "other", 1);
    add(&log, "k", ACL_LOG_GROUPING_MS);
    assert_int_equal(log.count, 2);
    assert_object(&log, 0, "k", 2);
    assert_int_equal(entry_at(&log, 0).wall_ms, WALL_MS + ACL_LOG_GROUPING_MS);
    add(&log, "k", 2 * ACL_LOG_GROUPING_MS + 1);
    assert_int_equal(log.count, 3);
    assert_object(&log, 0, "k", 1);
    assert_object(&log, 1, "k", 2);
    acl_log_cut(&log, 0);
}

static void test_acl_log_tells_what_differs_apart(void **state)
{
    struct acl_event event = event_of("k", "eve", 0);
    struct acl_event other = event;
    (void)state;
    assert_true(acl_log_alike(&event, &other));
    other.client = slice_of_text("id=2");
    other.count = 7;
    other.wall_ms -= ACL_LOG_GROUPING_MS;
    assert_true(acl_log_alike(&event, &other));
    other.wall_ms--;
    assert_false(acl_log_alike(&event, &other));
    other = event;
    other.reason = ACL_DENIED_COMMAND;
    assert_false(acl_log_alike(&event, &other));
    other = event;
    other.context = ACL_LOG_MULTI;
    assert_false(acl_log_alike(&event, &other));
    other = event;
    other.user = slice_of_text("ev");
    assert_false(acl_log_alike(&event, &other));
    other = event;
    other.object = slice_of(NULL, 0);
    assert_false(acl_log_alike(&event, &other));
}

/* A flood of different events must not make each new one dear. */
static void test_acl_log_looks_back_only_so_far(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    struct acl_log log;
    (void)state;
    acl_log_init(&log);
    add(&log, "k", 0);
    for (int i = 0; i < 9; i++) {
        add(&log, names[i], 0);
    }
    add(&log, "k", 0);
    assert_object(&log, 0, "k", 2);
    for (int i = 0; i < 10; i++) {
        add(&log, names[i], 0);
    }
    add(&log, "k", 0);
    assert_object(&log, 0, "k", 1);
    acl_log_cut(&log, 0);
}

static void test_acl_log_is_bounded(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static char text[3 * ACL_LOG_TEXT_BYTES_MAX];
    struct acl_log log;
    struct acl_event event = event_of("k", "eve", 0);
    (void)state;
    acl_log_init(&log);
    for (int i = 0; i < 4; i++) {
        struct acl_event one = event_of(names[i], "eve", i);
        acl_log_add(&log, &one, 2);
    }
    assert_int_equal(log.count, 2);
    assert_object(&log, 0, "d", 1);
    assert_object(&log, 1, "c", 1);
    memset(text, 'x', sizeof(text));
    event.object = slice_of(text, sizeof(text));
    event.client = slice_of(text, sizeof(text));
    acl_log_add(&log, &event, 2);
    assert_int_equal(entry_at(&log, 0).object.length_bytes, ACL_LOG_TEXT_BYTES_MAX);
    assert_int_equal(entry_at(&log, 0).client.length_bytes, ACL_LOG_TEXT_BYTES_MAX);
    acl_log_add(&log, &event, 0);
    assert_int_equal(log.count, 0);
}

static void test_acl_log_without_memory_keeps_what_it_has(void **state)
{
    struct acl_log log;
    (void)state;
    acl_log_init(&log);
    add(&log, "k", 0);
    fault_arm("acl.log", 1, 2);
    add(&log, "k", 1);
    add(&log, "new", 1);
    fault_disarm_all();
    assert_int_equal(log.count, 1);
    assert_object(&log, 0, "k", 1);
    acl_log_cut(&log, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acl_log_keeps_copies_newest_first),
        cmocka_unit_test(test_acl_log_counts_what_is_alike_within_a_minute),
        cmocka_unit_test(test_acl_log_tells_what_differs_apart),
        cmocka_unit_test(test_acl_log_looks_back_only_so_far),
        cmocka_unit_test(test_acl_log_is_bounded),
        cmocka_unit_test(test_acl_log_without_memory_keeps_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
