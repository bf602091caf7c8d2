/* fuzz_acl – any bytes as the rules of a user (first byte even) or as lines of a users' file (odd): taken,
 * or refused with a sentence and without a trace; and what is shown of users, read again, gives users who
 * may do the same. Rules stand one a line, so that each may hold any other byte. */

#include "acl/acl_file.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>

/* More rules than this only take time. */
#define RULES_MAX 64U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes);

/* ---- what users may do ---- */

/* Some of each kind: no key, one, several, of both accesses, channels, a subcommand, an extension. */
static const char *const REQUESTS[] = {
    "ping",          "get k",       "set a 1",       "mset a 1 b 2",  "config get port",
    "acl whoami",    "publish c x", "subscribe c d", "psubscribe c*", "kv.match k:0 k:1",
    "getdel secret", "copy a b",    "client list",   "keys *",        "flushall",
    "kv.set k v",    "strlen a",    "bitop not a b", "spublish c x",  "lcs a b",
};

static enum acl_verdict judge(const struct acl_user *user, const char *request, uint32_t *index)
{
    struct slice args[8];
    uint32_t count = 0;
    const struct command *command;
    for (const char *at = request; *at != '\0';) {
        size_t length = strcspn(at, " ");
        args[count++] = slice_of(at, length);
        at += length + (at[length] == ' ');
    }
    command = command_find(args, count);
    check(command != NULL && command_arity_ok(command, count));
    return acl_user_judge(user, command, args, count, index);
}

static void check_alike(const struct acl_user *user, const struct acl_user *other)
{
    check(user->enabled == other->enabled && user->nopass == other->nopass);
    check(user->unrestricted == other->unrestricted);
    check(user->selector_count == other->selector_count);
    for (size_t i = 0; i < sizeof(REQUESTS) / sizeof(REQUESTS[0]); i++) {
        uint32_t index = 0;
        uint32_t other_index = 0;
        enum acl_verdict verdict = judge(user, REQUESTS[i], &index);
        check(judge(other, REQUESTS[i], &other_index) == verdict && index == other_index);
        check(verdict == ACL_PERMITTED || !user->unrestricted);
    }
}

static void check_tables_alike(const struct acl_table *table, const struct acl_table *other)
{
    check(table->count == other->count);
    for (uint32_t i = 0; i < table->count; i++) {
        check(slice_equal(acl_user_name(table->users[i]), acl_user_name(other->users[i])));
        check_alike(table->users[i], other->users[i]);
    }
}

/* ---- there and back ---- */

static struct acl_table *empty_table(void)
{
    struct acl_table *table = acl_table_create_empty(NULL);
    check(table != NULL);
    return table;
}

/* Reads back what is shown of the table; the caller destroys it. */
static struct acl_table *read_back(const struct acl_table *table, struct text *lines)
{
    struct acl_table *again = empty_table();
    struct text errors = {0};
    acl_file_write(table, lines);
    check(!lines->failed);
    check(acl_file_read(again, text_slice(lines), "again", false, &errors));
    check(errors.length_bytes == 0);
    check_tables_alike(table, again);
    return again;
}

/* Reading drops rules that change nothing where they stand: once that is done the text stays the same. */
static void check_round_trip(const struct acl_table *table)
{
    struct text first = {0};
    struct text second = {0};
    struct text third = {0};
    struct acl_table *once = read_back(table, &first);
    struct acl_table *twice = read_back(once, &second);
    struct acl_table *thrice = read_back(twice, &third);
    check(slice_equal(text_slice(&second), text_slice(&third)));
    text_fini(&first);
    text_fini(&second);
    text_fini(&third);
    acl_table_destroy(&once);
    acl_table_destroy(&twice);
    acl_table_destroy(&thrice);
}

static void try_file(struct slice lines)
{
    struct acl_table *table = empty_table();
    struct text errors = {0};
    bool good = acl_file_read(table, lines, "users", false, &errors);
    check(good == (errors.length_bytes == 0));
    if (good) {
        check_round_trip(table);
    }
    text_fini(&errors);
    acl_table_destroy(&table);
}

/* ---- rules ---- */

static void describe(const struct acl_table *table, struct text *lines)
{
    acl_file_write(table, lines);
    check(!lines->failed);
}

/* One rule of ACL SETUSER; one that is refused leaves no trace. */
static void try_rule(struct acl_table *table, struct slice rule)
{
    struct text before = {0};
    struct text after = {0};
    struct text error = {0};
    bool done;
    describe(table, &before);
    done = acl_table_set_user(table, slice_of_text("eve"), &rule, 1, false, &error);
    check(done == (error.length_bytes == 0));
    describe(table, &after);
    check(done || slice_equal(text_slice(&before), text_slice(&after)));
    text_fini(&before);
    text_fini(&after);
    text_fini(&error);
}

static void try_rules(struct slice text)
{
    struct acl_table *table = acl_table_create();
    struct acl_table *before;
    struct slice rules[RULES_MAX];
    uint32_t count = 0;
    check(table != NULL);
    while (text.length_bytes > 0 && count < RULES_MAX) {
        const uint8_t *end = memchr(text.data, '\n', text.length_bytes);
        size_t length = end != NULL ? (size_t)(end - text.data) : text.length_bytes;
        size_t past = length + (end != NULL);
        rules[count++] = slice_of(text.data, length);
        text = slice_of(text.data + past, text.length_bytes - past);
    }
    for (uint32_t i = 0; i < count; i++) {
        try_rule(table, rules[i]);
    }
    check_round_trip(table);
    /* All at once, with selectors spread over several; a table that others still use does not change. */
    before = acl_table_copy(table);
    check(before != NULL);
    struct text error = {0};
    struct text old = {0};
    struct text kept = {0};
    describe(before, &old);
    bool done = acl_table_set_user(table, slice_of_text("eve"), rules, count, true, &error);
    check(done == (error.length_bytes == 0));
    describe(before, &kept);
    check(slice_equal(text_slice(&old), text_slice(&kept)));
    check_round_trip(table);
    text_fini(&error);
    text_fini(&old);
    text_fini(&kept);
    acl_table_destroy(&before);
    acl_table_destroy(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes)
{
    if (length_bytes == 0) {
        return 0;
    }
    /* Exactly as long as the input, so that a read beyond it shows. */
    uint8_t *copy = malloc(length_bytes);
    check(copy != NULL);
    memcpy(copy, data, length_bytes);
    if (copy[0] % 2 == 0) {
        try_rules(slice_of(copy + 1, length_bytes - 1));
    } else {
        try_file(slice_of(copy + 1, length_bytes - 1));
    }
    free(copy);
    return 0;
}
