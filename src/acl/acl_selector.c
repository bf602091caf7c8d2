#include "acl/acl_selector.h"

#include "acl/acl_category.h"
#include "base/check.h"
#include "base/glob.h"

/* Longest name that a rule on commands can have, with its sign. */
#define RULE_NAME_BYTES_MAX 96
#define ACCESS_ALL          (COMMAND_ACCESS_READ | COMMAND_ACCESS_WRITE)

void acl_selector_init(struct acl_selector *selector)
{
    memset(selector, 0, sizeof(*selector));
}

void acl_selector_fini(struct acl_selector *selector)
{
    acl_items_clear(&selector->rules);
    acl_items_clear(&selector->first_args);
    acl_items_clear(&selector->keys);
    acl_items_clear(&selector->channels);
    acl_selector_init(selector);
}

bool acl_selector_copy(struct acl_selector *to, const struct acl_selector *from)
{
    *to = *from;
    to->rules = to->first_args = to->keys = to->channels = (struct acl_items){0};
    if (acl_items_copy(&to->rules, &from->rules) &&
        acl_items_copy(&to->first_args, &from->first_args) &&
        acl_items_copy(&to->keys, &from->keys) && acl_items_copy(&to->channels, &from->channels)) {
        return true;
    }
    acl_selector_fini(to);
    return false;
}

/* ---- commands ---- */

static bool command_bit(const struct acl_selector *selector, enum command_id id)
{
    return (selector->commands[(unsigned)id / 64] >> ((unsigned)id % 64) & 1U) != 0;
}

static bool permits_all_commands(const struct acl_selector *selector)
{
    for (int id = 0; id < COMMAND_COUNT; id++) {
        if (!command_bit(selector, (enum command_id)id)) {
            return false;
        }
    }
    return true;
}

/* One command or subcommand, whatever its first argument. True: that changed something. */
static bool set_one(struct acl_selector *selector, enum command_id id, bool allow)
{
    uint64_t bit = UINT64_C(1) << ((unsigned)id % 64);
    uint64_t *word = &selector->commands[(unsigned)id / 64];
    bool changed = ((*word & bit) != 0) != allow;
    for (uint32_t i = selector->first_args.count; i > 0; i--) {
        if (selector->first_args.items[i - 1].number == (uint32_t)id) {
            acl_items_remove(&selector->first_args, i - 1);
            changed = true;
        }
    }
    *word = allow ? *word | bit : *word & ~bit;
    selector->all_commands = allow && (selector->all_commands || permits_all_commands(selector));
    return changed;
}

/* A command with its subcommands. */
static bool set_command(struct acl_selector *selector, const struct command *command, bool allow)
{
    bool changed = set_one(selector, command->id, allow);
    for (uint32_t i = 0; i < command_subcommand_count(command); i++) {
        changed = set_one(selector, command_subcommand(command, i)->id, allow) || changed;
    }
    return changed;
}

static void set_all(struct acl_selector *selector, bool allow)
{
    acl_items_clear(&selector->rules);
    acl_items_clear(&selector->first_args);
    memset(selector->commands, allow ? 0xff : 0, sizeof(selector->commands));
    selector->all_commands = allow;
    selector->from_all = allow;
}

/* True when the older rule says nothing any more once the newer one is there: it is about the same, or
 * about a part of it. Signs do not matter. */
static bool is_superseded(struct slice older, struct slice newer)
{
    size_t length = newer.length_bytes;
    return older.length_bytes >= length &&
           memcmp(older.data + 1, newer.data + 1, length - 1) == 0 &&
           (older.length_bytes == length || (newer.data[1] != '@' && older.data[length] == '|'));
}

/* Keeps the rule for those who ask for the user's rules. */
static bool record(struct acl_selector *selector, struct slice rule)
{
    if (!acl_items_add(&selector->rules, rule, 0)) {
        return false;
    }
    for (uint32_t i = selector->rules.count - 1; i > 0; i--) {
        if (is_superseded(selector->rules.items[i - 1].text, rule)) {
            acl_items_remove(&selector->rules, i - 1);
        }
    }
    return true;
}

/* sign and name as one rule, the name in lower case. */
static struct slice rule_text(char text[RULE_NAME_BYTES_MAX], uint8_t sign, struct slice name)
{
    check(name.length_bytes + 1 <= RULE_NAME_BYTES_MAX);
    text[0] = (char)sign;
    for (size_t i = 0; i < name.length_bytes; i++) {
        uint8_t byte = name.data[i];
        text[i + 1] = (char)(byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte);
    }
    return slice_of(text, name.length_bytes + 1);
}

static enum acl_status apply_category(struct acl_selector *selector, struct slice rule)
{
    struct slice name = slice_of(rule.data + 2, rule.length_bytes - 2);
    char text[RULE_NAME_BYTES_MAX];
    uint32_t bit = acl_category_bit(name);
    if (bit == 0) {
        return ACL_UNKNOWN_NAME;
    }
    name = slice_of(rule.data + 1, rule.length_bytes - 1);
    if (!record(selector, rule_text(text, rule.data[0], name))) {
        return ACL_TOO_MUCH;
    }
    for (int id = 0; id < COMMAND_COUNT; id++) {
        const struct command *command = command_by_id((enum command_id)id);
        if ((acl_category_bits_of(command) & bit) != 0) {
            (void)set_command(selector, command, rule.data[0] == '+');
        }
    }
    return ACL_OK;
}

static enum acl_status apply_command(struct acl_selector *selector, uint8_t sign,
                                     const struct command *command)
{
    char text[RULE_NAME_BYTES_MAX];
    /* Recorded first, since that may fail; a rule that changes nothing is dropped again. */
    struct slice rule = rule_text(text, sign, slice_of_text(command->name));
    struct acl_items before = {0};
    if (!acl_items_copy(&before, &selector->rules) || !record(selector, rule)) {
        acl_items_clear(&before);
        return ACL_TOO_MUCH;
    }
    if (set_command(selector, command, sign == '+')) {
        acl_items_clear(&before);
    } else {
        acl_items_clear(&selector->rules);
        selector->rules = before;
    }
    return ACL_OK;
}

static bool has_blank(struct slice text)
{
    for (size_t i = 0; i < text.length_bytes; i++) {
        uint8_t byte = text.data[i];
        if (byte == ' ' || byte == '\0' || (byte >= '\t' && byte <= '\r')) {
            return true;
        }
    }
    return false;
}

static bool first_arg_permitted(const struct acl_selector *selector, enum command_id id,
                                struct slice arg)
{
    for (uint32_t i = 0; i < selector->first_args.count; i++) {
        const struct acl_item *item = &selector->first_args.items[i];
        if (item->number == (uint32_t)id && item->text.length_bytes == arg.length_bytes &&
            (arg.length_bytes == 0 || strncasecmp((const char *)item->text.data,
                                                  (const char *)arg.data, arg.length_bytes) == 0)) {
            return true;
        }
    }
    return false;
}

/* +command|first-argument of a command without subcommands. */
static enum acl_status apply_first_arg(struct acl_selector *selector, const struct command *command,
                                       struct slice arg)
{
    char text[RULE_NAME_BYTES_MAX];
    char name[RULE_NAME_BYTES_MAX - 1];
    size_t prefix = strlen(command->name);
    if (arg.length_bytes == 0 || has_blank(arg)) {
        return ACL_SYNTAX;
    }
    if (prefix + 1 + arg.length_bytes > sizeof(name)) {
        return ACL_TOO_MUCH;
    }
    if (first_arg_permitted(selector, command->id, arg)) {
        return ACL_OK;
    }
    memcpy(name, command->name, prefix);
    name[prefix] = '|';
    memcpy(name + prefix + 1, arg.data, arg.length_bytes);
    if (!acl_items_add(&selector->first_args, arg, (uint32_t)command->id)) {
        return ACL_TOO_MUCH;
    }
    if (!record(selector, rule_text(text, '+', slice_of(name, prefix + 1 + arg.length_bytes)))) {
        acl_items_remove(&selector->first_args, selector->first_args.count - 1);
        return ACL_TOO_MUCH;
    }
    return ACL_OK;
}

/* + or - with the name of a command, a subcommand, or a command and its first argument. */
static enum acl_status apply_name(struct acl_selector *selector, struct slice rule)
{
    struct slice name = slice_of(rule.data + 1, rule.length_bytes - 1);
    const struct command *command = command_find_name(name);
    const uint8_t *bar;
    if (command != NULL) {
        return apply_command(selector, rule.data[0], command);
    }
    bar = name.length_bytes > 0 ? memrchr(name.data, '|', name.length_bytes) : NULL;
    if (rule.data[0] == '-' || bar == NULL) {
        return ACL_UNKNOWN_NAME;
    }
    command = command_find_name(slice_of(name.data, (size_t)(bar - name.data)));
    if (command == NULL) {
        return ACL_UNKNOWN_NAME;
    }
    if ((command->flags & COMMAND_FLAG_SUBCOMMAND) != 0) {
        return ACL_FIRST_ARG_OF_SUBCOMMAND;
    }
    if (bar + 1 == name.data + name.length_bytes) {
        return ACL_SYNTAX;
    }
    if ((command->flags & COMMAND_FLAG_CONTAINER) != 0) {
        return ACL_UNKNOWN_NAME;
    }
    return apply_first_arg(selector, command,
                           slice_of(bar + 1, name.length_bytes - (size_t)(bar + 1 - name.data)));
}

/* ---- keys and channels ---- */

/* ~pattern, or %, R or W or both, ~pattern or nothing; false: neither. */
static bool parse_key_rule(struct slice rule, struct slice *pattern, uint32_t *access)
{
    size_t at = 1;
    *access = rule.data[0] == '~' ? ACCESS_ALL : 0;
    while (rule.data[0] == '%' && at < rule.length_bytes && rule.data[at] != '~') {
        uint8_t letter = rule.data[at] & 0xdfU;
        uint32_t bit = letter == 'R' ? COMMAND_ACCESS_READ : COMMAND_ACCESS_WRITE;
        if ((letter != 'R' && letter != 'W') || (*access & bit) != 0) {
            return false;
        }
        *access |= bit;
        at++;
    }
    if (rule.data[0] == '%') {
        if (*access == 0) {
            return false;
        }
        at += at < rule.length_bytes; /* its '~'; as in Redis no pattern behind it names no key */
    }
    *pattern = slice_of(rule.data + at, rule.length_bytes - at);
    return !has_blank(*pattern);
}

static enum acl_status apply_keys(struct acl_selector *selector, struct slice rule)
{
    struct slice pattern;
    uint32_t access;
    uint32_t index;
    if (selector->all_keys) {
        return ACL_AFTER_ALL_KEYS;
    }
    if (!parse_key_rule(rule, &pattern, &access)) {
        return ACL_SYNTAX;
    }
    index = acl_items_find(&selector->keys, pattern);
    if (index < selector->keys.count) {
        access |= selector->keys.items[index].number;
    }
    if (access == ACCESS_ALL && slice_equal(pattern, slice_of("*", 1))) {
        /* Given in two halves it is allkeys, too: it is shown as ~*, behind which no pattern may come. */
        acl_items_clear(&selector->keys);
        selector->all_keys = true;
        return ACL_OK;
    }
    if (index < selector->keys.count) {
        selector->keys.items[index].number |= access;
        return ACL_OK;
    }
    return acl_items_add(&selector->keys, pattern, access) ? ACL_OK : ACL_TOO_MUCH;
}

static enum acl_status apply_channels(struct acl_selector *selector, struct slice rule)
{
    struct slice pattern = slice_of(rule.data + 1, rule.length_bytes - 1);
    if (selector->all_channels) {
        return ACL_AFTER_ALL_CHANNELS;
    }
    if (has_blank(pattern)) {
        return ACL_SYNTAX;
    }
    if (acl_items_find(&selector->channels, pattern) < selector->channels.count) {
        return ACL_OK;
    }
    return acl_items_add(&selector->channels, pattern, 0) ? ACL_OK : ACL_TOO_MUCH;
}

/* Rules that are whole words. False: it is none. */
static bool apply_word(struct acl_selector *selector, struct slice rule)
{
    if (slice_equal_nocase(rule, "allkeys") || slice_equal_nocase(rule, "~*") ||
        slice_equal_nocase(rule, "resetkeys")) {
        acl_items_clear(&selector->keys);
        selector->all_keys = !slice_equal_nocase(rule, "resetkeys");
    } else if (slice_equal_nocase(rule, "allchannels") || slice_equal_nocase(rule, "&*") ||
               slice_equal_nocase(rule, "resetchannels")) {
        acl_items_clear(&selector->channels);
        selector->all_channels = !slice_equal_nocase(rule, "resetchannels");
    } else if (slice_equal_nocase(rule, "allcommands") || slice_equal_nocase(rule, "+@all")) {
        set_all(selector, true);
    } else if (slice_equal_nocase(rule, "nocommands") || slice_equal_nocase(rule, "-@all")) {
        set_all(selector, false);
    } else {
        return false;
    }
    return true;
}

enum acl_status acl_selector_apply(struct acl_selector *selector, struct slice rule)
{
    if (rule.length_bytes > ACL_RULE_BYTES_MAX) {
        return ACL_TOO_MUCH;
    }
    if (apply_word(selector, rule)) {
        return ACL_OK;
    }
    if (rule.length_bytes == 0) {
        return ACL_SYNTAX;
    }
    switch (rule.data[0]) {
    case '~':
    case '%':
        return apply_keys(selector, rule);
    case '&':
        return apply_channels(selector, rule);
    case '+':
    case '-':
        return rule.length_bytes > 1 && rule.data[1] == '@' ? apply_category(selector, rule)
                                                            : apply_name(selector, rule);
    default:
        return ACL_SYNTAX;
    }
}

/* ---- judging ---- */

bool acl_selector_permits_command(const struct acl_selector *selector,
                                  const struct command *command)
{
    return selector->all_commands || (command->flags & COMMAND_FLAG_NO_AUTH) != 0 ||
           command_bit(selector, command->id);
}

bool acl_selector_permits_key(const struct acl_selector *selector, struct slice key,
                              uint32_t access)
{
    if (selector->all_keys) {
        return true;
    }
    for (uint32_t i = 0; i < selector->keys.count; i++) {
        const struct acl_item *item = &selector->keys.items[i];
        if ((item->number & access) == access && glob_match(item->text, key, false)) {
            return true;
        }
    }
    return false;
}

bool acl_selector_permits_all_keys(const struct acl_selector *selector, uint32_t access)
{
    uint32_t index = acl_items_find(&selector->keys, slice_of("*", 1));
    return selector->all_keys || (index < selector->keys.count &&
                                  (selector->keys.items[index].number & access) == access);
}

bool acl_selector_permits_channel(const struct acl_selector *selector, struct slice channel,
                                  bool pattern)
{
    if (selector->all_channels) {
        return true;
    }
    for (uint32_t i = 0; i < selector->channels.count; i++) {
        struct slice text = selector->channels.items[i].text;
        if (pattern ? slice_equal(text, channel) : glob_match(text, channel, false)) {
            return true;
        }
    }
    return false;
}

static enum acl_verdict judge_keys(const struct acl_selector *selector,
                                   const struct command *command, const struct slice *args,
                                   uint32_t arg_count, uint32_t *index_p)
{
    struct command_keys keys;
    if (selector->all_keys || !command_find_keys(command, args, arg_count, &keys)) {
        return ACL_PERMITTED;
    }
    for (uint32_t at = keys.first; at <= keys.last; at += keys.step) {
        uint32_t access = command_key_access(command, args, arg_count, at);
        if (!acl_selector_permits_key(selector, args[at], access)) {
            *index_p = at;
            return ACL_DENIED_KEY;
        }
    }
    return ACL_PERMITTED;
}

/* The channels among the arguments of a command: PUBLISH has one, SUBSCRIBE and its kin have nothing
 * else. To leave a channel, or to ask about one, needs no permission. */
static enum acl_verdict judge_channels(const struct acl_selector *selector,
                                       const struct command *command, const struct slice *args,
                                       uint32_t arg_count, uint32_t *index_p)
{
    bool pattern = strcmp(command->name, "psubscribe") == 0;
    uint32_t end = 1;
    if (selector->all_channels || (command->flags & COMMAND_FLAG_PUBSUB) == 0) {
        return ACL_PERMITTED;
    }
    if (pattern || strcmp(command->name, "subscribe") == 0 ||
        strcmp(command->name, "ssubscribe") == 0) {
        end = arg_count;
    } else if (strcmp(command->name, "publish") == 0 || strcmp(command->name, "spublish") == 0) {
        end = 2;
    }
    for (uint32_t at = 1; at < end; at++) {
        if (!acl_selector_permits_channel(selector, args[at], pattern)) {
            *index_p = at;
            return ACL_DENIED_CHANNEL;
        }
    }
    return ACL_PERMITTED;
}

enum acl_verdict acl_selector_judge(const struct acl_selector *selector,
                                    const struct command *command, const struct slice *args,
                                    uint32_t arg_count, uint32_t *index_p)
{
    enum acl_verdict verdict;
    if (!acl_selector_permits_command(selector, command) &&
        !(arg_count > 1 && first_arg_permitted(selector, command->id, args[1]))) {
        return ACL_DENIED_COMMAND;
    }
    verdict = judge_keys(selector, command, args, arg_count, index_p);
    if (verdict != ACL_PERMITTED) {
        return verdict;
    }
    return judge_channels(selector, command, args, arg_count, index_p);
}

/* ---- describing ---- */

void acl_selector_describe_commands(const struct acl_selector *selector, struct text *text)
{
    text_add_text(text, selector->from_all ? "+@all" : "-@all");
    for (uint32_t i = 0; i < selector->rules.count; i++) {
        text_add_text(text, " ");
        text_add(text, selector->rules.items[i].text);
    }
}

void acl_selector_describe_keys(const struct acl_selector *selector, struct text *text)
{
    static const char *const signs[] = {"", "%R~", "%W~", "~"};
    _Static_assert(COMMAND_ACCESS_READ == 1 && COMMAND_ACCESS_WRITE == 2, "signs follow them");
    if (selector->all_keys) {
        text_add_text(text, "~*");
    }
    for (uint32_t i = 0; i < selector->keys.count; i++) {
        const struct acl_item *item = &selector->keys.items[i];
        text_add_text(text, i > 0 ? " " : "");
        text_add_text(text, signs[item->number & ACCESS_ALL]);
        text_add(text, item->text);
    }
}

void acl_selector_describe_channels(const struct acl_selector *selector, struct text *text)
{
    if (selector->all_channels) {
        text_add_text(text, "&*");
    }
    for (uint32_t i = 0; i < selector->channels.count; i++) {
        text_add_text(text, i > 0 ? " &" : "&");
        text_add(text, selector->channels.items[i].text);
    }
}

void acl_selector_describe(const struct acl_selector *selector, struct text *text)
{
    acl_selector_describe_keys(selector, text);
    text_add_text(text, selector->all_keys || selector->keys.count > 0 ? " " : "");
    text_add_text(text, selector->all_channels ? "" : "resetchannels ");
    acl_selector_describe_channels(selector, text);
    text_add_text(text, selector->all_channels || selector->channels.count > 0 ? " " : "");
    acl_selector_describe_commands(selector, text);
}
