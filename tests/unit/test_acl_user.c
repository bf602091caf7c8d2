/* test_acl_user – rules to permissions and back; random rules against a model that keeps one answer for
 * each command and decides keys by trying every pattern. */

#include "acl/acl_category.h"
#include "acl/acl_password.h"
#include "acl/acl_user.h"
#include "base/glob.h"
#include "base/random.h"
#include "test_seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct acl_user *new_user(void)
{
    struct acl_user *user = acl_user_create(slice_of_text("alice"), false);
    assert_non_null(user);
    return user;
}

static enum acl_status apply(struct acl_user *user, const char *rule)
{
    /* Exactly as long as the rule, so that a sanitizer sees a read beyond it. */
    size_t length = strlen(rule);
    char *copy = malloc(length > 0 ? length : 1);
    enum acl_status status;
    assert_non_null(copy);
    memcpy(copy, rule, length);
    status = acl_user_apply(user, slice_of(copy, length), false);
    free(copy);
    return status;
}

/* Rules with blanks between; all must be taken. */
static void apply_all(struct acl_user *user, const char *rules)
{
    struct slice parts[32];
    struct text error = {0};
    uint32_t count = 0;
    for (const char *at = rules; *at != '\0';) {
        size_t length = strcspn(at, " ");
        parts[count++] = slice_of(at, length);
        at += length + (at[length] == ' ' ? 1 : 0);
    }
    if (!acl_user_apply_all(user, parts, count, false, &error)) {
        fail_msg("%s: %.*s", rules, (int)error.length_bytes, error.data);
    }
    text_fini(&error);
}

/* A request of words with blanks between. */
static enum acl_verdict judge(const struct acl_user *user, const char *request, uint32_t *index)
{
    struct slice args[16];
    uint32_t count = 0;
    const struct command *command;
    for (const char *at = request; *at != '\0';) {
        size_t length = strcspn(at, " ");
        args[count++] = slice_of(at, length);
        at += length + (at[length] == ' ' ? 1 : 0);
    }
    command = command_find(args, count);
    assert_non_null(command);
    return acl_user_judge(user, command, args, count, index);
}

static void assert_judged(const struct acl_user *user, const char *request,
                          enum acl_verdict expected)
{
    uint32_t index = 0;
    enum acl_verdict verdict = judge(user, request, &index);
    if (verdict != expected) {
        fail_msg("%s: %s, not %s", request, acl_verdict_name(verdict), acl_verdict_name(expected));
    }
}

static void assert_commands(const struct acl_user *user, const char *expected)
{
    struct text text = {0};
    acl_selector_describe_commands(&user->selectors[0], &text);
    text_add(&text, slice_of("", 1));
    assert_string_equal(text.data, expected);
    text_fini(&text);
}

static void test_acl_user_new_one_may_nothing(void **state)
{
    struct acl_user *user = new_user();
    (void)state;
    assert_judged(user, "get k", ACL_DENIED_COMMAND);
    assert_judged(user, "ping", ACL_DENIED_COMMAND);
    assert_judged(user, "auth x", ACL_PERMITTED); /* whoever he is may become another */
    assert_false(acl_user_authenticate(user, slice_of_text("")));
    acl_user_destroy(&user);
}

static void test_acl_user_whose_last_command_came_back_is_unrestricted(void **state)
{
    struct acl_user *user = new_user();
    (void)state;
    apply_all(user, "allkeys allchannels +@all -get -config|get");
    assert_false(user->unrestricted);
    apply_all(user, "+get");
    assert_false(user->unrestricted);
    apply_all(user, "+config|get");
    assert_true(user->unrestricted);
    acl_user_destroy(&user);
}

static void test_acl_user_selectors_hold_nothing_that_ends_them(void **state)
{
    static const char *const wrong[] = {"(~a))", "(~a) +get)", "(+get &b) ~c)", "(%R~))"};
    struct acl_user *user = new_user();
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(apply(user, wrong[i]), ACL_SYNTAX);
    }
    assert_int_equal(user->selector_count, 1);
    assert_int_equal(apply(user, "(~a)b +get)"), ACL_OK);
    assert_int_equal(apply(user, "~a)"), ACL_OK);
    acl_user_destroy(&user);
}

static void test_acl_user_passwords_are_any_bytes(void **state)
{
    struct acl_user *user = new_user();
    struct slice rule = slice_of(">a\0b", 4);
    (void)state;
    apply_all(user, "on >one");
    assert_int_equal(acl_user_apply(user, rule, false), ACL_OK);
    assert_true(acl_user_authenticate(user, slice_of_text("one")));
    assert_true(acl_user_authenticate(user, slice_of("a\0b", 3)));
    assert_false(acl_user_authenticate(user, slice_of("a\0c", 3)));
    assert_false(acl_user_authenticate(user, slice_of_text("a")));
    apply_all(user, "<one");
    assert_false(acl_user_authenticate(user, slice_of_text("one")));
    assert_int_equal(apply(user, "<one"), ACL_NO_SUCH_PASSWORD);
    apply_all(user, "off");
    assert_false(acl_user_authenticate(user, slice_of("a\0b", 3)));
    apply_all(user, "on nopass");
    assert_true(acl_user_authenticate(user, slice_of_text("whatever")));
    apply_all(user, "resetpass");
    assert_false(acl_user_authenticate(user, slice_of_text("whatever")));
    acl_user_destroy(&user);
}

static void test_acl_user_hashes_are_sha256(void **state)
{
    static const char hash[] = "34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6";
    struct acl_user *user = new_user();
    char rule[80];
    (void)state;
    apply_all(user, "on");
    (void)snprintf(rule, sizeof(rule), "#%s", hash);
    assert_int_equal(apply(user, rule), ACL_OK);
    assert_true(acl_user_authenticate(user, slice_of_text("passwd4")));
    rule[0] = '!';
    assert_int_equal(apply(user, rule), ACL_OK);
    assert_false(acl_user_authenticate(user, slice_of_text("passwd4")));
    rule[0] = '#';
    rule[1] = 'A';
    assert_int_equal(apply(user, rule), ACL_BAD_HASH);
    assert_int_equal(apply(user, "#1234"), ACL_BAD_HASH);
    acl_user_destroy(&user);
}

static void test_acl_user_commands_subcommands_and_first_arguments(void **state)
{
    struct acl_user *user = new_user();
    (void)state;
    apply_all(user, "~* +@all -client|kill -config +CONFIG|GET +select");
    assert_judged(user, "client id", ACL_PERMITTED);
    assert_judged(user, "client kill addr x", ACL_DENIED_COMMAND);
    assert_judged(user, "config get x", ACL_PERMITTED);
    assert_judged(user, "config set x y", ACL_DENIED_COMMAND);
    assert_commands(user, "+@all -client|kill -config +config|get");
    apply_all(user, "-@all +select|0");
    assert_judged(user, "select 0", ACL_PERMITTED);
    assert_judged(user, "select 1", ACL_DENIED_COMMAND);
    assert_commands(user, "-@all +select|0");
    apply_all(user, "-select");
    assert_judged(user, "select 0", ACL_DENIED_COMMAND);
    assert_commands(user, "-@all -select");
    assert_int_equal(apply(user, "+config|get|x"), ACL_FIRST_ARG_OF_SUBCOMMAND);
    assert_int_equal(apply(user, "+config|nothing"), ACL_UNKNOWN_NAME);
    assert_int_equal(apply(user, "-select|1"), ACL_UNKNOWN_NAME);
    assert_int_equal(apply(user, "+get|a|b"), ACL_UNKNOWN_NAME);
    assert_int_equal(apply(user, "+select|"), ACL_SYNTAX);
    assert_int_equal(apply(user, "+@nothing"), ACL_UNKNOWN_NAME);
    assert_int_equal(apply(user, "+"), ACL_UNKNOWN_NAME);
    assert_int_equal(apply(user, "sesame"), ACL_SYNTAX);
    acl_user_destroy(&user);
}

static void test_acl_user_rules_shown_are_those_that_count(void **state)
{
    struct acl_user *user = new_user();
    (void)state;
    apply_all(user, "+memory|doctor");
    assert_commands(user, "-@all +memory|doctor");
    apply_all(user, "+memory");
    assert_commands(user, "-@all +memory");
    apply_all(user, "+@all +client|id");
    assert_commands(user, "+@all");
    apply_all(user, "-@string -@slow +get");
    assert_commands(user, "+@all -@string -@slow +get");
    apply_all(user, "-@string");
    assert_commands(user, "+@all -@slow +get -@string");
    apply_all(user, "+@string");
    assert_commands(user, "+@all -@slow +get +@string");
    for (unsigned i = 0; i < acl_category_count(); i++) {
        char rules[64];
        char expected[64];
        (void)snprintf(rules, sizeof(rules), "reset +@all -@%s", acl_category_name(i));
        (void)snprintf(expected, sizeof(expected), "+@all -@%s", acl_category_name(i));
        apply_all(user, rules);
        assert_commands(user, expected);
    }
    acl_user_destroy(&user);
}

static void test_acl_user_extension_commands_have_categories(void **state)
{
    struct acl_user *user = new_user();
    (void)state;
    apply_all(user, "~* +@read +kv.connect");
    assert_judged(user, "kv.get k", ACL_PERMITTED);
    assert_judged(user, "kv.lease 100 k", ACL_PERMITTED);
    assert_judged(user, "kv.set k v", ACL_DENIED_COMMAND);
    apply_all(user, "-@kv");
    assert_judged(user, "kv.get k", ACL_DENIED_COMMAND);
    assert_judged(user, "kv.connect shm", ACL_DENIED_COMMAND);
    assert_judged(user, "get k", ACL_PERMITTED);
    acl_user_destroy(&user);
}

static void test_acl_user_rdma_is_a_right_of_its_own(void **state)
{
    struct acl_user *user = new_user();
    (void)state;
    apply_all(user, "~* +@all -@rdma");
    assert_judged(user, "kv.connect rdma", ACL_DENIED_COMMAND);
    assert_judged(user, "kv.connect shm", ACL_PERMITTED);
    assert_judged(user, "kv.get k", ACL_PERMITTED);
    apply_all(user, "+@rdma");
    assert_judged(user, "kv.connect rdma", ACL_PERMITTED);
    acl_user_destroy(&user);
}

/* As in Redis: it is shown, and names none but the empty key. */
static void test_acl_user_keys_without_a_pattern_name_no_key(void **state)
{
    struct acl_user *user = new_user();
    (void)state;
    apply_all(user, "+@all %RW");
    assert_judged(user, "set x v", ACL_DENIED_KEY);
    assert_judged(user, "get x", ACL_DENIED_KEY);
    acl_user_destroy(&user);
}

static void test_acl_user_reads_and_writes_keys_apart(void **state)
{
    struct acl_user *user = new_user();
    uint32_t index = 0;
    (void)state;
    apply_all(user, "+@all %R~r:* %W~w:* ~rw:*");
    assert_judged(user, "get r:1", ACL_PERMITTED);
    assert_judged(user, "get w:1", ACL_DENIED_KEY);
    assert_judged(user, "set w:1 v", ACL_PERMITTED);
    assert_judged(user, "set w:1 v get", ACL_DENIED_KEY);
    assert_judged(user, "set rw:1 v get", ACL_PERMITTED);
    assert_judged(user, "set r:1 v", ACL_DENIED_KEY);
    assert_judged(user, "incr w:1", ACL_DENIED_KEY);
    assert_judged(user, "append w:1 v", ACL_PERMITTED);
    assert_judged(user, "exists r:1 w:1 rw:1", ACL_PERMITTED);
    assert_judged(user, "exists other", ACL_DENIED_KEY);
    assert_judged(user, "kv.lease 100 r:1 r:2", ACL_PERMITTED);
    assert_judged(user, "kv.lease 100 r:1 w:2", ACL_DENIED_KEY);
    assert_judged(user, "kv.reserve r:1 100", ACL_DENIED_KEY);
    assert_judged(user, "kv.match pin 100 r:1", ACL_PERMITTED);
    assert_judged(user, "copy r:1 w:1", ACL_PERMITTED);
    assert_judged(user, "copy w:1 r:1", ACL_DENIED_KEY);
    assert_judged(user, "bitfield r:1 get u4 0", ACL_PERMITTED);
    assert_judged(user, "bitfield r:1 get u4 0 set u4 0 1", ACL_DENIED_KEY);
    assert_judged(user, "bitfield w:1 set u4 0 1", ACL_DENIED_KEY);
    assert_int_equal(judge(user, "mget r:1 r:2 w:1", &index), ACL_DENIED_KEY);
    assert_int_equal(index, 3);
    assert_int_equal(judge(user, "mset w:1 other w:2 other r:1 other", &index), ACL_DENIED_KEY);
    assert_int_equal(index, 5);
    assert_int_equal(apply(user, "%~x"), ACL_SYNTAX);
    assert_int_equal(apply(user, "%"), ACL_SYNTAX);
    assert_int_equal(apply(user, "%RR~x"), ACL_SYNTAX);
    assert_int_equal(apply(user, "~a b"), ACL_SYNTAX);
    apply_all(user, "allkeys");
    assert_int_equal(apply(user, "~x"), ACL_AFTER_ALL_KEYS);
    apply_all(user, "resetkeys");
    assert_judged(user, "get r:1", ACL_DENIED_KEY);
    acl_user_destroy(&user);
}

static void test_acl_user_selectors_do_not_add_up(void **state)
{
    struct acl_user *user = new_user();
    uint32_t index = 0;
    (void)state;
    apply_all(user, "+mget ~key (+mget ~key ~other) ( +set %W~w* )");
    assert_int_equal(user->selector_count, 3);
    assert_judged(user, "mget key other", ACL_PERMITTED);
    assert_judged(user, "set w1 v", ACL_PERMITTED);
    assert_judged(user, "set key v", ACL_DENIED_KEY);
    assert_judged(user, "get key", ACL_DENIED_COMMAND);
    assert_int_equal(judge(user, "mget key other third", &index), ACL_DENIED_KEY);
    assert_int_equal(index, 3); /* the one that came farthest */
    assert_int_equal(apply(user, "(sesame)"), ACL_SYNTAX);
    assert_int_equal(apply(user, "()"), ACL_OK);
    assert_int_equal(apply(user, "("), ACL_SYNTAX);
    assert_int_equal(user->selector_count, 4);
    apply_all(user, "clearselectors");
    assert_judged(user, "set w1 v", ACL_DENIED_COMMAND);
    acl_user_destroy(&user);
}

static void test_acl_user_unmatched_parenthesis_is_named(void **state)
{
    struct acl_user *user = new_user();
    struct slice rules[] = {slice_of_text("on"), slice_of_text("(+get"), slice_of_text("~x")};
    struct text error = {0};
    (void)state;
    assert_false(acl_user_apply_all(user, rules, 3, false, &error));
    text_add(&error, slice_of("", 1));
    assert_string_equal(error.data, "Unmatched parenthesis in acl selector starting at '(+get'.");
    text_fini(&error);
    acl_user_destroy(&user);
}

static void test_acl_user_errors_show_no_password(void **state)
{
    struct acl_user *user = new_user();
    struct slice rules[] = {slice_of_text("<secret")};
    struct text error = {0};
    (void)state;
    assert_false(acl_user_apply_all(user, rules, 1, false, &error));
    text_add(&error, slice_of("", 1));
    assert_null(strstr(error.data, "secret"));
    assert_non_null(strstr(error.data, "does not exist"));
    text_fini(&error);
    acl_user_destroy(&user);
}

static void test_acl_user_channels(void **state)
{
    struct acl_user *user = new_user();
    (void)state;
    apply_all(user, "&news:* &exact");
    assert_true(acl_user_permits_channel(user, slice_of_text("news:1"), false));
    assert_false(acl_user_permits_channel(user, slice_of_text("news:1"), true));
    assert_true(acl_user_permits_channel(user, slice_of_text("news:*"), true));
    assert_false(acl_user_permits_channel(user, slice_of_text("other"), false));
    apply_all(user, "allchannels");
    assert_true(acl_user_permits_channel(user, slice_of_text("other"), false));
    assert_int_equal(apply(user, "&x"), ACL_AFTER_ALL_CHANNELS);
    apply_all(user, "resetchannels");
    assert_false(acl_user_permits_channel(user, slice_of_text("news:1"), false));
    acl_user_destroy(&user);
}

/* ---- against a model ---- */

struct model {
    bool commands[COMMAND_COUNT];
    char patterns[16][16];
    uint32_t access[16];
    uint32_t pattern_count;
    bool all_keys;
};

static bool is_part_of(const struct command *command, const struct command *whole)
{
    return command == whole || command_parent(command) == whole;
}

static void model_command(struct model *model, const struct command *named, bool allow)
{
    for (int id = 0; id < COMMAND_COUNT; id++) {
        if (is_part_of(command_by_id((enum command_id)id), named)) {
            model->commands[id] = allow;
        }
    }
}

/* As a word among the categories of the row, not by the unit's own bits. */
static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strstr(words, word); at != NULL; at = strstr(at + 1, word)) {
        if (at[-1] == '@' && (at[length] == ' ' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static void model_category(struct model *model, const char *name, bool allow)
{
    for (int id = 0; id < COMMAND_COUNT; id++) {
        if (has_word(command_by_id((enum command_id)id)->categories, name)) {
            model_command(model, command_by_id((enum command_id)id), allow);
        }
    }
}

static bool model_key(const struct model *model, const char *key, uint32_t access)
{
    bool found = model->all_keys;
    for (uint32_t i = 0; i < model->pattern_count; i++) {
        found = found || ((model->access[i] & access) == access &&
                          glob_match(slice_of_text(model->patterns[i]), slice_of_text(key), false));
    }
    return found;
}

/* A pattern twice has the access of both. */
static void model_pattern(struct model *model, const char *pattern, uint32_t access)
{
    uint32_t at = 0;
    while (at < model->pattern_count && strcmp(model->patterns[at], pattern) != 0) {
        at++;
    }
    if (at == model->pattern_count) {
        (void)snprintf(model->patterns[at], 16, "%s", pattern);
        model->access[at] = 0;
        model->pattern_count++;
    }
    model->access[at] |= access;
    if (strcmp(pattern, "*") == 0 && model->access[at] == 3) {
        model->pattern_count = 0;
        model->all_keys = true;
    }
}

static void random_rule(struct random *random, struct acl_user *user, struct model *model)
{
    static const char *const patterns[] = {"a*", "*b", "a?c", "[ab]c", "*"};
    static const char *const signs[] = {"", "%R~", "%W~", "~"};
    bool allow = random_below(random, 2) == 0;
    char rule[96];
    uint64_t what = random_below(random, 20);
    if (what < 10) {
        const struct command *command =
            command_by_id((enum command_id)random_below(random, COMMAND_COUNT));
        (void)snprintf(rule, sizeof(rule), "%c%s", allow ? '+' : '-', command->name);
        model_command(model, command, allow);
    } else if (what < 15) {
        const char *name = acl_category_name((unsigned)random_below(random, acl_category_count()));
        (void)snprintf(rule, sizeof(rule), "%c@%s", allow ? '+' : '-', name);
        model_category(model, name, allow);
    } else if (what < 16) {
        (void)snprintf(rule, sizeof(rule), "%c@all", allow ? '+' : '-');
        memset(model->commands, allow, sizeof(model->commands));
    } else if (what < 17) {
        (void)snprintf(rule, sizeof(rule), "%s", allow ? "resetkeys" : "allkeys");
        model->pattern_count = 0;
        model->all_keys = !allow;
    } else if (!model->all_keys) {
        const char *pattern = patterns[random_below(random, 5)];
        uint32_t access = 1 + (uint32_t)random_below(random, 3);
        (void)snprintf(rule, sizeof(rule), "%s%s", signs[access], pattern);
        model_pattern(model, pattern, access);
    } else {
        return;
    }
    assert_int_equal(apply(user, rule), ACL_OK);
}

static void assert_like_model(const struct acl_user *user, const struct model *model)
{
    static const char *const keys[] = {"a", "b", "abc", "bc", "axc", "z", ""};
    for (int id = 0; id < COMMAND_COUNT; id++) {
        const struct command *command = command_by_id((enum command_id)id);
        bool permitted = acl_selector_permits_command(&user->selectors[0], command);
        if (permitted != (model->commands[id] || (command->flags & COMMAND_FLAG_NO_AUTH) != 0)) {
            fail_msg("%s", command->name);
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        for (uint32_t access = 0; access <= 3; access++) {
            assert_int_equal(
                acl_selector_permits_key(&user->selectors[0], slice_of_text(keys[i]), access),
                model_key(model, keys[i], access));
        }
    }
}

/* What is shown, read by a new user, gives the same. */
static void assert_shown_is_enough(const struct acl_user *user, const struct model *model)
{
    struct acl_user *other = new_user();
    struct text text = {0};
    acl_user_describe(user, &text);
    assert_false(text.failed);
    for (size_t at = 0; at < text.length_bytes;) {
        size_t start = at;
        while (at < text.length_bytes && text.data[at] != ' ') {
            at++;
        }
        assert_int_equal(acl_user_apply(other, slice_of(text.data + start, at - start), false),
                         ACL_OK);
        at++;
    }
    assert_like_model(other, model);
    text_fini(&text);
    acl_user_destroy(&other);
}

static void test_acl_user_random_rules_match_a_model(void **state)
{
    struct random random;
    (void)state;
    random_init(&random, test_seed());
    for (int round = 0; round < 200; round++) {
        struct acl_user *user = new_user();
        struct model model = {0};
        for (int i = 0; i < 30; i++) {
            random_rule(&random, user, &model);
        }
        assert_like_model(user, &model);
        assert_shown_is_enough(user, &model);
        acl_user_destroy(&user);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acl_user_new_one_may_nothing),
        cmocka_unit_test(test_acl_user_whose_last_command_came_back_is_unrestricted),
        cmocka_unit_test(test_acl_user_selectors_hold_nothing_that_ends_them),
        cmocka_unit_test(test_acl_user_passwords_are_any_bytes),
        cmocka_unit_test(test_acl_user_hashes_are_sha256),
        cmocka_unit_test(test_acl_user_commands_subcommands_and_first_arguments),
        cmocka_unit_test(test_acl_user_rules_shown_are_those_that_count),
        cmocka_unit_test(test_acl_user_extension_commands_have_categories),
        cmocka_unit_test(test_acl_user_rdma_is_a_right_of_its_own),
        cmocka_unit_test(test_acl_user_keys_without_a_pattern_name_no_key),
        cmocka_unit_test(test_acl_user_reads_and_writes_keys_apart),
        cmocka_unit_test(test_acl_user_selectors_do_not_add_up),
        cmocka_unit_test(test_acl_user_unmatched_parenthesis_is_named),
        cmocka_unit_test(test_acl_user_errors_show_no_password),
        cmocka_unit_test(test_acl_user_channels),
        cmocka_unit_test(test_acl_user_random_rules_match_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
