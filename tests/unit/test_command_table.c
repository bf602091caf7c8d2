/* Unit tests of proto/command_table. */
#include "proto/command_table.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define ARGS_MAX 16U

struct words {
    struct slice args[ARGS_MAX];
    uint32_t count;
};

/* Splits at blanks; borrows from text. */
static struct words words_of(const char *text)
{
    struct words words = {.count = 0};
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        assert_true(words.count < ARGS_MAX);
        words.args[words.count++] = slice_of(text, length);
        text += length;
        text += strspn(text, " ");
    }
    return words;
}

static const struct command *find(const char *text)
{
    struct words words = words_of(text);
    return command_find(words.args, words.count);
}

static void assert_keys(const char *text, const char *expected)
{
    struct words words = words_of(text);
    const struct command *command = command_find(words.args, words.count);
    assert_non_null(command);
    uint32_t indexes[ARGS_MAX];
    uint32_t count = command_key_indexes(command, words.args, words.count, indexes, ARGS_MAX);
    struct words keys = words_of(expected);
    assert_int_equal(count, keys.count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(slice_equal(words.args[indexes[i]], keys.args[i]));
    }
}

static void test_command_table_finds_every_row_in_any_case(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < COMMAND_COUNT; id++) {
        const struct command *command = command_by_id((enum command_id)id);
        assert_int_equal(command->id, id);
        char name[32];
        size_t length = strlen(command->name);
        assert_true(length < sizeof(name));
        for (size_t i = 0; i < length; i++) {
            int byte = (unsigned char)command->name[i];
            name[i] = (char)(i % 2 == 0 ? toupper(byte) : byte);
        }
        assert_ptr_equal(command_find_name(slice_of(name, length)), command);
        struct slice args[2] = {slice_of(name, length), slice_of_text("")};
        uint32_t count = 1;
        char *bar = memchr(name, '|', length);
        if (bar != NULL) {
            args[0] = slice_of(name, (size_t)(bar - name));
            args[1] = slice_of(bar + 1, length - (size_t)(bar - name) - 1);
            count = 2;
        }
        assert_ptr_equal(command_find(args, count), command);
    }
}

static void test_command_table_refuses_what_only_resembles_a_name(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "ge",          "gett",         "g",
        "gE\x94",      "get|",         "config|get",
        "kv\x0ematch", "kvmatch",      "KV.MATCHES",
        "client|id",   "\x07\x05\x14", "averyveryverylongcommandname"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        assert_null(find(texts[i]));
    }
    struct slice empty = slice_of_text("");
    assert_null(command_find(&empty, 1));
    assert_null(command_find(NULL, 0));
    struct slice with_nul = slice_of("get\0", 4);
    assert_null(command_find(&with_nul, 1));
    assert_null(command_find_name(slice_of_text("config get")));
}

static void test_command_table_gives_the_container_for_an_unknown_subcommand(void **state)
{
    (void)state;
    assert_int_equal(find("CONFIG")->id, COMMAND_CONFIG);
    assert_int_equal(find("config nosuch x")->id, COMMAND_CONFIG);
    assert_int_equal(find("config |get")->id, COMMAND_CONFIG);
    assert_int_equal(find("config averyveryverylongsubcommand")->id, COMMAND_CONFIG);
    assert_int_equal(find("CoNfIg gEt x")->id, COMMAND_CONFIG_GET);
    assert_int_equal(find("client no-evict on")->id, COMMAND_CLIENT_NO_EVICT);
    struct slice args[2] = {slice_of_text("client"), slice_of_text("")};
    assert_int_equal(command_find(args, 2)->id, COMMAND_CLIENT);
    /* Only containers have subcommands. */
    assert_int_equal(find("get get")->id, COMMAND_GET);
}

static void test_command_table_knows_the_container_of_a_subcommand(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < COMMAND_COUNT; id++) {
        const struct command *command = command_by_id((enum command_id)id);
        const struct command *parent = command_parent(command);
        if (strchr(command->name, '|') == NULL) {
            assert_null(parent);
            continue;
        }
        assert_non_null(parent);
        assert_true((parent->flags & COMMAND_FLAG_CONTAINER) != 0);
        assert_true((command->flags & COMMAND_FLAG_SUBCOMMAND) != 0);
        assert_memory_equal(parent->name, command->name, strlen(parent->name));
    }
}

static void test_command_table_lists_the_subcommands_of_a_container(void **state)
{
    (void)state;
    uint32_t listed = 0;
    uint32_t there = 0;
    for (uint32_t id = 0; id < COMMAND_COUNT; id++) {
        const struct command *command = command_by_id((enum command_id)id);
        uint32_t count = command_subcommand_count(command);
        assert_int_equal(count > 0, (command->flags & COMMAND_FLAG_CONTAINER) != 0);
        for (uint32_t i = 0; i < count; i++) {
            assert_ptr_equal(command_parent(command_subcommand(command, i)), command);
        }
        listed += count;
        there += strchr(command->name, '|') != NULL;
    }
    assert_int_equal(listed, there);
}

static void test_command_table_checks_arity(void **state)
{
    (void)state;
    const struct command *get = find("get");
    assert_false(command_arity_ok(get, 1));
    assert_true(command_arity_ok(get, 2));
    assert_false(command_arity_ok(get, 3));
    const struct command *set = find("set");
    assert_false(command_arity_ok(set, 2));
    assert_true(command_arity_ok(set, 3));
    assert_true(command_arity_ok(set, UINT32_MAX));
}

static void test_command_table_finds_keys(void **state)
{
    (void)state;
    assert_keys("PING", "");
    assert_keys("GET k", "k");
    assert_keys("SET k v EX 10", "k");
    assert_keys("MSET a 1 b 2", "a b");
    assert_keys("MSET a 1 b", "a b");
    assert_keys("DEL a b c", "a b c");
    assert_keys("MEMORY USAGE k SAMPLES 5", "k");
    assert_keys("OBJECT FREQ k", "k");
    assert_keys("OBJECT HELP", "");
    assert_keys("KV.SET k v PARENT p", "k");
    assert_keys("KV.RESERVE k 100 NX", "k");
    assert_keys("KV.LEASE 1000 a b", "a b");
    assert_keys("KV.LEASE 1000", "");
    assert_keys("KV.UNPIN a b", "a b");
    assert_keys("KV.PIN a SOFT 5", "a");
    assert_keys("KV.RELEASE 1 2", "");
    assert_keys("KV.COMMIT 1", "");
    assert_keys("GET", "");
}

static void test_command_table_finds_keys_behind_options_of_match(void **state)
{
    (void)state;
    assert_keys("KV.MATCH a b c", "a b c");
    assert_keys("KV.MATCH PIN 500 a b", "a b");
    assert_keys("kv.match policy each a b", "a b");
    assert_keys("KV.MATCH PIN 500 POLICY SUFFIX a b PIN", "a b PIN");
    assert_keys("KV.MATCH POLICY EACH PIN 1 a", "a");
    assert_keys("KV.MATCH PIN 500", "PIN 500");
    assert_keys("KV.MATCH PIN", "PIN");
    assert_keys("KV.MATCH PIN 1 POLICY", "POLICY");
    assert_keys("KV.MATCH", "");
}

static void test_command_table_counts_keys_beyond_the_room_given(void **state)
{
    (void)state;
    struct words words = words_of("DEL a b c");
    uint32_t indexes[2] = {0, 77};

    uint32_t count = command_key_indexes(find("DEL"), words.args, words.count, indexes, 1);

    assert_int_equal(count, 3);
    assert_int_equal(indexes[0], 1);
    assert_int_equal(indexes[1], 77);
}

static void test_command_table_marks_what_runs_alone(void **state)
{
    (void)state;
    static const char *const alone[] = {
        "auth x",      "hello",     "select 0",    "config get x",   "quit",     "reset",
        "client list", "flushall",  "dbsize",      "scan 0",         "info",     "memory stats",
        "keys *",      "randomkey", "kv.commit 1", "kv.connect shm", "kv.abort", "kv.reserve k 1"};
    static const char *const free_running[] = {
        "ping",       "echo x",       "time",         "command docs", "get k", "mset a b",
        "kv.match k", "kv.lease 1 k", "kv.release 1", "kv.pin k",     "role",  "object help"};
    for (size_t i = 0; i < ARRAY_COUNT(alone); i++) {
        assert_true((find(alone[i])->flags & COMMAND_FLAG_BARRIER) != 0);
    }
    for (size_t i = 0; i < ARRAY_COUNT(free_running); i++) {
        assert_false((find(free_running[i])->flags & COMMAND_FLAG_BARRIER) != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command_table_finds_every_row_in_any_case),
        cmocka_unit_test(test_command_table_refuses_what_only_resembles_a_name),
        cmocka_unit_test(test_command_table_gives_the_container_for_an_unknown_subcommand),
        cmocka_unit_test(test_command_table_knows_the_container_of_a_subcommand),
        cmocka_unit_test(test_command_table_lists_the_subcommands_of_a_container),
        cmocka_unit_test(test_command_table_checks_arity),
        cmocka_unit_test(test_command_table_finds_keys),
        cmocka_unit_test(test_command_table_finds_keys_behind_options_of_match),
        cmocka_unit_test(test_command_table_counts_keys_beyond_the_room_given),
        cmocka_unit_test(test_command_table_marks_what_runs_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
