#include "acl/acl_user.h"

#include "acl/acl_password.h"
#include "base/check.h"
#include "base/fault.h"

#include <stdlib.h>

static void judge_anew(struct acl_user *user)
{
    const struct acl_selector *root = &user->selectors[0];
    user->unrestricted = root->all_commands && root->all_keys && root->all_channels;
}

struct acl_user *acl_user_create(struct slice name, bool all_channels)
{
    struct acl_user *user = fault_hit("acl.user") ? NULL : calloc(1, sizeof(*user));
    if (user == NULL) {
        return NULL;
    }
    user->selectors = calloc(1, sizeof(*user->selectors));
    if (user->selectors == NULL || !acl_items_add(&user->name, name, 0)) {
        acl_user_destroy(&user);
        return NULL;
    }
    user->selector_count = 1;
    acl_selector_init(&user->selectors[0]);
    user->selectors[0].all_channels = all_channels;
    return user;
}

struct acl_user *acl_user_copy(const struct acl_user *user)
{
    struct acl_user *copy = acl_user_create(acl_user_name(user), false);
    struct acl_selector *selectors;
    if (copy == NULL) {
        return NULL;
    }
    selectors = calloc(user->selector_count, sizeof(*selectors));
    if (selectors == NULL || !acl_items_copy(&copy->digests, &user->digests)) {
        free(selectors);
        acl_user_destroy(&copy);
        return NULL;
    }
    free(copy->selectors);
    copy->selectors = selectors;
    copy->enabled = user->enabled;
    copy->nopass = user->nopass;
    copy->skip_sanitize = user->skip_sanitize;
    copy->unrestricted = user->unrestricted;
    copy->selector_count = 0;
    for (uint32_t i = 0; i < user->selector_count; i++) {
        if (!acl_selector_copy(&copy->selectors[i], &user->selectors[i])) {
            acl_user_destroy(&copy);
            return NULL;
        }
        copy->selector_count++;
    }
    return copy;
}

void acl_user_destroy(struct acl_user **user_p)
{
    struct acl_user *user = *user_p;
    if (user == NULL) {
        return;
    }
    check(user->table_count == 0);
    for (uint32_t i = 0; i < user->selector_count; i++) {
        acl_selector_fini(&user->selectors[i]);
    }
    free(user->selectors);
    acl_items_clear(&user->digests);
    acl_items_clear(&user->name);
    free(user);
    *user_p = NULL;
}

/* ---- rules ---- */

static enum acl_status add_password(struct acl_user *user, const uint8_t *digest)
{
    struct slice bytes = slice_of(digest, ACL_DIGEST_BYTES);
    if (acl_items_find(&user->digests, bytes) == user->digests.count &&
        !acl_items_add(&user->digests, bytes, 0)) {
        return ACL_TOO_MUCH;
    }
    user->nopass = false;
    return ACL_OK;
}

/* >password, <password, #hash, !hash */
static enum acl_status apply_password(struct acl_user *user, struct slice rule)
{
    struct slice rest = slice_of(rule.data + 1, rule.length_bytes - 1);
    bool hashed = rule.data[0] == '#' || rule.data[0] == '!';
    uint8_t digest[ACL_DIGEST_BYTES];
    uint32_t index;
    if (!hashed) {
        acl_password_digest(rest, digest);
    } else if (!acl_password_parse(rest, digest)) {
        return ACL_BAD_HASH;
    }
    if (rule.data[0] == '>' || rule.data[0] == '#') {
        return add_password(user, digest);
    }
    index = acl_items_find(&user->digests, slice_of(digest, ACL_DIGEST_BYTES));
    if (index == user->digests.count) {
        return ACL_NO_SUCH_PASSWORD;
    }
    acl_items_remove(&user->digests, index);
    return ACL_OK;
}

/* What stands in the parentheses of a selector, applied word by word. No word may end with a parenthesis:
 * where the user is written into a line it would be taken for the selector's end. */
static enum acl_status fill_selector(struct acl_selector *selector, struct slice inside)
{
    size_t at = 0;
    while (at < inside.length_bytes) {
        size_t start = at;
        while (at < inside.length_bytes && inside.data[at] != ' ') {
            at++;
        }
        if (at > start && inside.data[at - 1] == ')') {
            return ACL_SYNTAX;
        }
        if (at > start) {
            enum acl_status status =
                acl_selector_apply(selector, slice_of(inside.data + start, at - start));
            if (status != ACL_OK) {
                return status;
            }
        }
        at++;
    }
    return ACL_OK;
}

static enum acl_status add_selector(struct acl_user *user, struct slice rule, bool all_channels)
{
    struct acl_selector selector;
    struct acl_selector *grown;
    enum acl_status status;
    if (user->selector_count >= ACL_SELECTORS_MAX || rule.length_bytes > ACL_RULE_BYTES_MAX) {
        return ACL_TOO_MUCH;
    }
    acl_selector_init(&selector);
    selector.all_channels = all_channels;
    status = fill_selector(&selector, slice_of(rule.data + 1, rule.length_bytes - 2));
    if (status != ACL_OK) {
        acl_selector_fini(&selector);
        return status;
    }
    grown = realloc(user->selectors, (user->selector_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        acl_selector_fini(&selector);
        return ACL_TOO_MUCH;
    }
    user->selectors = grown;
    user->selectors[user->selector_count++] = selector;
    return ACL_OK;
}

static void clear_selectors(struct acl_user *user)
{
    while (user->selector_count > 1) {
        user->selector_count--;
        acl_selector_fini(&user->selectors[user->selector_count]);
    }
}

static void reset(struct acl_user *user, bool all_channels)
{
    clear_selectors(user);
    acl_selector_fini(&user->selectors[0]);
    user->selectors[0].all_channels = all_channels;
    acl_items_clear(&user->digests);
    user->enabled = false;
    user->nopass = false;
    user->skip_sanitize = false;
}

/* Rules about the user himself, of one word. False: it is none. */
static bool apply_word(struct acl_user *user, struct slice rule, bool all_channels)
{
    if (slice_equal_nocase(rule, "on") || slice_equal_nocase(rule, "off")) {
        user->enabled = slice_equal_nocase(rule, "on");
    } else if (slice_equal_nocase(rule, "nopass") || slice_equal_nocase(rule, "resetpass")) {
        acl_items_clear(&user->digests);
        user->nopass = slice_equal_nocase(rule, "nopass");
    } else if (slice_equal_nocase(rule, "sanitize-payload") ||
               slice_equal_nocase(rule, "skip-sanitize-payload")) {
        user->skip_sanitize = slice_equal_nocase(rule, "skip-sanitize-payload");
    } else if (slice_equal_nocase(rule, "clearselectors")) {
        clear_selectors(user);
    } else if (slice_equal_nocase(rule, "reset")) {
        reset(user, all_channels);
    } else {
        return false;
    }
    return true;
}

enum acl_status acl_user_apply(struct acl_user *user, struct slice rule, bool all_channels)
{
    enum acl_status status = ACL_OK;
    if (rule.length_bytes == 0) {
        return ACL_OK;
    }
    if (apply_word(user, rule, all_channels)) {
        judge_anew(user);
        return ACL_OK;
    }
    switch (rule.data[0]) {
    case '>':
    case '<':
    case '#':
    case '!':
        return apply_password(user, rule);
    case '(':
        if (rule.length_bytes > 1 && rule.data[rule.length_bytes - 1] == ')') {
            return add_selector(user, rule, all_channels);
        }
        return ACL_SYNTAX;
    default:
        status = acl_selector_apply(&user->selectors[0], rule);
        judge_anew(user);
        return status;
    }
}

static bool opens(struct slice rule)
{
    return rule.length_bytes > 0 && rule.data[0] == '(' &&
           (rule.length_bytes == 1 || rule.data[rule.length_bytes - 1] != ')');
}

static bool closes(struct slice rule)
{
    return rule.length_bytes > 0 && rule.data[rule.length_bytes - 1] == ')';
}

/* Passwords stay out of errors, which end in logs. */
static void add_rule_name(struct text *error, struct slice rule)
{
    bool secret = rule.data[0] == '>' || rule.data[0] == '<';
    size_t shown = rule.length_bytes < 128 ? rule.length_bytes : 128;
    if (memchr(rule.data, '\0', shown) != NULL) {
        shown = (size_t)((const uint8_t *)memchr(rule.data, '\0', shown) - rule.data);
    }
    text_add(error, slice_of(rule.data, secret ? 1 : shown));
}

static bool apply_or_say(struct acl_user *user, struct slice rule, bool all_channels,
                         struct text *error)
{
    enum acl_status status = acl_user_apply(user, rule, all_channels);
    if (status == ACL_OK) {
        return true;
    }
    text_add_text(error, "Error in ACL SETUSER modifier '");
    add_rule_name(error, rule);
    text_add_text(error, "': ");
    text_add_text(error, acl_status_text(status));
    return false;
}

/* A selector that is spread over several rules, from rules[*at_p] on; *at_p moves to its last. */
static bool apply_spread(struct acl_user *user, const struct slice *rules, uint32_t rule_count,
                         uint32_t *at_p, bool all_channels, struct text *error)
{
    struct text whole = {0};
    uint32_t first = *at_p;
    uint32_t at = first;
    bool done;
    text_add(&whole, rules[at]);
    do {
        at++;
        if (at == rule_count) {
            text_fini(&whole);
            text_add_text(error, "Unmatched parenthesis in acl selector starting at '");
            add_rule_name(error, rules[first]);
            text_add_text(error, "'.");
            return false;
        }
        text_add_text(&whole, " ");
        text_add(&whole, rules[at]);
    } while (!closes(rules[at]));
    *at_p = at;
    if (whole.failed) {
        text_fini(&whole);
        text_add_text(error, acl_status_text(ACL_TOO_MUCH));
        return false;
    }
    done = apply_or_say(user, text_slice(&whole), all_channels, error);
    text_fini(&whole);
    return done;
}

bool acl_user_apply_all(struct acl_user *user, const struct slice *rules, uint32_t rule_count,
                        bool all_channels, struct text *error)
{
    for (uint32_t at = 0; at < rule_count; at++) {
        bool done = opens(rules[at])
                        ? apply_spread(user, rules, rule_count, &at, all_channels, error)
                        : apply_or_say(user, rules[at], all_channels, error);
        if (!done) {
            return false;
        }
    }
    return true;
}

/* ---- judging ---- */

bool acl_user_authenticate(const struct acl_user *user, struct slice password)
{
    uint8_t digest[ACL_DIGEST_BYTES];
    bool right = false;
    if (!user->enabled || user->nopass) {
        return user->enabled;
    }
    acl_password_digest(password, digest);
    for (uint32_t i = 0; i < user->digests.count; i++) {
        right = acl_password_equal(digest, user->digests.items[i].text.data) || right;
    }
    return right;
}

enum acl_verdict acl_user_judge(const struct acl_user *user, const struct command *command,
                                const struct slice *args, uint32_t arg_count, uint32_t *index_p)
{
    enum acl_verdict worst = ACL_DENIED_COMMAND;
    uint32_t farthest = 0;
    if (user->unrestricted) {
        return ACL_PERMITTED;
    }
    for (uint32_t i = 0; i < user->selector_count; i++) {
        uint32_t index = 0;
        enum acl_verdict verdict =
            acl_selector_judge(&user->selectors[i], command, args, arg_count, &index);
        if (verdict == ACL_PERMITTED) {
            return ACL_PERMITTED;
        }
        if (verdict > worst || (verdict == worst && index > farthest)) {
            worst = verdict;
            farthest = index;
        }
    }
    *index_p = farthest;
    return worst;
}

bool acl_user_permits_command(const struct acl_user *user, const struct command *command)
{
    for (uint32_t i = 0; i < user->selector_count; i++) {
        if (acl_selector_permits_command(&user->selectors[i], command)) {
            return true;
        }
    }
    return false;
}

bool acl_user_permits_all_keys(const struct acl_user *user, const struct command *command,
                               uint32_t access)
{
    for (uint32_t i = 0; i < user->selector_count; i++) {
        const struct acl_selector *selector = &user->selectors[i];
        if (acl_selector_permits_command(selector, command) &&
            acl_selector_permits_all_keys(selector, access)) {
            return true;
        }
    }
    return false;
}

bool acl_user_permits_key(const struct acl_user *user, const struct command *command,
                          struct slice key, uint32_t access)
{
    for (uint32_t i = 0; i < user->selector_count; i++) {
        const struct acl_selector *selector = &user->selectors[i];
        if (acl_selector_permits_command(selector, command) &&
            acl_selector_permits_key(selector, key, access)) {
            return true;
        }
    }
    return false;
}

bool acl_user_permits_channel(const struct acl_user *user, struct slice channel, bool pattern)
{
    for (uint32_t i = 0; i < user->selector_count; i++) {
        if (acl_selector_permits_channel(&user->selectors[i], channel, pattern)) {
            return true;
        }
    }
    return false;
}

/* ---- describing ---- */

bool acl_user_name_allowed(struct slice name)
{
    for (size_t i = 0; i < name.length_bytes; i++) {
        uint8_t byte = name.data[i];
        if (byte == ' ' || byte == '\0' || (byte >= '\t' && byte <= '\r')) {
            return false;
        }
    }
    return name.length_bytes > 0 && name.length_bytes <= ACL_USER_NAME_BYTES_MAX;
}

void acl_user_describe(const struct acl_user *user, struct text *text)
{
    text_add_text(text, user->enabled ? "on " : "off ");
    text_add_text(text, user->nopass ? "nopass " : "");
    text_add_text(text, user->skip_sanitize ? "skip-sanitize-payload " : "");
    for (uint32_t i = 0; i < user->digests.count; i++) {
        char hash[ACL_HASH_BYTES];
        acl_password_print(user->digests.items[i].text.data, hash);
        text_add_text(text, "#");
        text_add(text, slice_of(hash, sizeof(hash)));
        text_add_text(text, " ");
    }
    for (uint32_t i = 0; i < user->selector_count; i++) {
        text_add_text(text, i > 0 ? " (" : "");
        acl_selector_describe(&user->selectors[i], text);
        text_add_text(text, i > 0 ? ")" : "");
    }
}
