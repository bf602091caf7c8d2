#include "server/cmd_command.h"

#include "base/glob.h"
#include "proto/command_arguments.h"
#include "proto/key_flags.h"
#include "server/reply.h"

#include <string.h>

static const char *const FLAG_NAMES[] = {"write",       "readonly", "denyoom", "admin",   "pubsub",
                                         "noscript",    "fast",     "no_auth", "loading", "stale",
                                         "movablekeys", NULL,       NULL,      "no_multi"};

static bool is_top(const struct command *command)
{
    return (command->flags & COMMAND_FLAG_SUBCOMMAND) == 0;
}

static void reply_flags(struct conn *conn, const struct command *command)
{
    unsigned count = 0;
    for (unsigned i = 0; i < ARRAY_COUNT(FLAG_NAMES); i++) {
        count += FLAG_NAMES[i] != NULL && ((command->flags >> i) & 1U) != 0;
    }
    reply_set(conn, count);
    for (unsigned i = 0; i < ARRAY_COUNT(FLAG_NAMES); i++) {
        if (FLAG_NAMES[i] != NULL && ((command->flags >> i) & 1U) != 0) {
            reply_simple(conn, FLAG_NAMES[i]);
        }
    }
}

/* A list of words with blanks between, as a set of simple strings. */
static void reply_words(struct conn *conn, const char *words)
{
    unsigned count = 0;
    for (const char *at = words; *at != '\0'; at += strcspn(at, " "), at += *at == ' ') {
        count++;
    }
    reply_set(conn, count);
    for (const char *at = words; *at != '\0';) {
        size_t length = strcspn(at, " ");
        char word[32];
        size_t kept = length < sizeof(word) - 1 ? length : sizeof(word) - 1;
        memcpy(word, at, kept);
        word[kept] = '\0';
        reply_simple(conn, word);
        at += length + (at[length] == ' ' ? 1 : 0);
    }
}

static void reply_key_flags(struct conn *conn, uint32_t flags)
{
    reply_set(conn, (uint64_t)__builtin_popcount(flags));
    for (unsigned bit = 0; bit < KEY_FLAG_COUNT; bit++) {
        if ((flags >> bit & 1U) != 0) {
            reply_simple(conn, key_flag_name(bit));
        }
    }
}

/* last: relative to first, or negative and from the end. */
static void reply_key_spec(struct conn *conn, uint32_t flags, int32_t first, int32_t last,
                           int32_t step)
{
    reply_map(conn, 3);
    reply_text(conn, "flags");
    reply_key_flags(conn, flags);
    reply_text(conn, "begin_search");
    reply_map(conn, 2);
    reply_text(conn, "type");
    reply_text(conn, "index");
    reply_text(conn, "spec");
    reply_map(conn, 1);
    reply_pair_integer(conn, "index", first);
    reply_text(conn, "find_keys");
    reply_map(conn, 2);
    reply_text(conn, "type");
    reply_text(conn, "range");
    reply_text(conn, "spec");
    reply_map(conn, 3);
    reply_pair_integer(conn, "lastkey", last);
    reply_pair_integer(conn, "keystep", step);
    reply_pair_integer(conn, "limit", 0);
}

static void reply_key_specs(struct conn *conn, const struct command *command)
{
    int32_t first = command->first_key;
    int32_t last = command->last_key;
    uint32_t flags = key_flags_first(command);
    uint32_t others = key_flags_others(command);
    if (first == 0) {
        reply_set(conn, 0);
        return;
    }
    if (others == 0) {
        reply_set(conn, 1);
        reply_key_spec(conn, flags, first, last < 0 ? last : last - first, command->key_step);
        return;
    }
    reply_set(conn, 2);
    reply_key_spec(conn, flags, first, 0, 1);
    reply_key_spec(conn, others, first + 1, last < 0 ? last : last - first - 1, 1);
}

/* The fields of one command, but for its subcommands. */
static void reply_entry_head(struct conn *conn, const struct command *command)
{
    reply_array(conn, 10);
    reply_text(conn, command->name);
    reply_integer(conn, command->arity);
    reply_flags(conn, command);
    reply_integer(conn, command->first_key);
    reply_integer(conn, command->last_key);
    reply_integer(conn, command->key_step);
    reply_words(conn, command->categories);
    reply_set(conn, 0); /* tips */
    reply_key_specs(conn, command);
}

static void reply_entry(struct conn *conn, const struct command *command)
{
    uint32_t count = command_subcommand_count(command);
    reply_entry_head(conn, command);
    reply_array(conn, count);
    for (uint32_t i = 0; i < count; i++) {
        reply_entry_head(conn, command_subcommand(command, i));
        reply_array(conn, 0);
    }
}

static unsigned top_count(void)
{
    unsigned count = 0;
    for (int id = 0; id < COMMAND_COUNT; id++) {
        count += is_top(command_by_id((enum command_id)id));
    }
    return count;
}

void cmd_command_reply_all(struct conn *conn, struct request *request)
{
    (void)request;
    reply_array(conn, top_count());
    for (int id = 0; id < COMMAND_COUNT; id++) {
        const struct command *command = command_by_id((enum command_id)id);
        if (is_top(command)) {
            reply_entry(conn, command);
        }
    }
}

void cmd_command_reply_count(struct conn *conn, struct request *request)
{
    (void)request;
    reply_integer(conn, top_count());
}

void cmd_command_reply_info(struct conn *conn, struct request *request)
{
    if (request->arg_count == 2) {
        cmd_command_reply_all(conn, request);
        return;
    }
    reply_array(conn, request->arg_count - 2);
    for (uint32_t i = 2; i < request->arg_count; i++) {
        const struct command *command = command_find_name(request->args[i]);
        if (command == NULL) {
            reply_null_array(conn);
        } else {
            reply_entry(conn, command);
        }
    }
}

/* ---- LIST ---- */

enum list_filter {
    LIST_ALL,
    LIST_MODULE,
    LIST_CATEGORY,
    LIST_PATTERN
};

static bool has_category(const struct command *command, struct slice category)
{
    for (const char *at = command->categories; *at != '\0';) {
        size_t length = strcspn(at, " ");
        if (length == category.length_bytes + 1 &&
            slice_equal(slice_of(at + 1, length - 1), category)) {
            return true;
        }
        at += length + (at[length] == ' ' ? 1 : 0);
    }
    return false;
}

static bool listed(const struct command *command, enum list_filter filter, struct slice text)
{
    switch (filter) {
    case LIST_ALL:
        return true;
    case LIST_MODULE:
        return false;
    case LIST_CATEGORY:
        return has_category(command, text);
    case LIST_PATTERN:
        return glob_match(text, slice_of_text(command->name), true);
    }
    return false;
}

void cmd_command_reply_list(struct conn *conn, struct request *request)
{
    enum list_filter filter = LIST_ALL;
    struct slice text = slice_of(NULL, 0);
    unsigned count = 0;
    if (request->arg_count == 5 && slice_equal_nocase(request->args[2], "filterby")) {
        text = request->args[4];
        if (slice_equal_nocase(request->args[3], "module")) {
            filter = LIST_MODULE;
        } else if (slice_equal_nocase(request->args[3], "aclcat")) {
            filter = LIST_CATEGORY;
        } else if (slice_equal_nocase(request->args[3], "pattern")) {
            filter = LIST_PATTERN;
        } else {
            reply_error(conn, ERROR_SYNTAX);
            return;
        }
    } else if (request->arg_count != 2) {
        reply_error(conn, ERROR_SYNTAX);
        return;
    }
    for (int id = 0; id < COMMAND_COUNT; id++) {
        count += listed(command_by_id((enum command_id)id), filter, text);
    }
    reply_set(conn, count);
    for (int id = 0; id < COMMAND_COUNT; id++) {
        const struct command *command = command_by_id((enum command_id)id);
        if (listed(command, filter, text)) {
            reply_text(conn, command->name);
        }
    }
}

/* ---- DOCS ---- */

static void reply_argument(struct conn *conn, const struct command_argument *argument)
{
    bool group = argument->type == ARGUMENT_ONEOF || argument->type == ARGUMENT_BLOCK;
    reply_map(conn, 2U + (argument->key_spec >= 0) + (argument->token != NULL) +
                        (argument->flags != 0) + group);
    reply_text(conn, "name");
    reply_text(conn, argument->name);
    reply_text(conn, "type");
    reply_text(conn, command_argument_type_name(argument));
    if (argument->key_spec >= 0) {
        reply_pair_integer(conn, "key_spec_index", argument->key_spec);
    }
    if (argument->token != NULL) {
        reply_text(conn, "token");
        reply_text(conn, argument->token);
    }
    if (argument->flags != 0) {
        reply_text(conn, "flags");
        reply_set(conn, (uint64_t)__builtin_popcount(argument->flags));
        for (unsigned bit = 0; bit < ARGUMENT_FLAG_COUNT; bit++) {
            if ((argument->flags >> bit & 1U) != 0) {
                reply_simple(conn, command_argument_flag_name(bit));
            }
        }
    }
    if (group) {
        reply_text(conn, "arguments");
        reply_array(conn, argument->child_count); /* they are what is written next */
    }
}

static void reply_doc_head(struct conn *conn, const struct command *command, bool subcommands)
{
    uint32_t count;
    uint32_t top_count;
    const struct command_argument *arguments = command_arguments(command, &count, &top_count);
    reply_text(conn, command->name);
    reply_map(conn, 4U + (count > 0) + subcommands);
    reply_text(conn, "summary");
    reply_text(conn, command->summary);
    reply_text(conn, "since");
    reply_text(conn, command->since);
    reply_text(conn, "group");
    reply_text(conn, command->group);
    reply_text(conn, "complexity");
    reply_text(conn, command->complexity);
    if (count > 0) {
        reply_text(conn, "arguments");
        reply_array(conn, top_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        reply_argument(conn, &arguments[i]);
    }
}

static void reply_doc(struct conn *conn, const struct command *command)
{
    uint32_t count = command_subcommand_count(command);
    reply_doc_head(conn, command, count > 0);
    if (count == 0) {
        return;
    }
    reply_text(conn, "subcommands");
    reply_map(conn, count);
    for (uint32_t i = 0; i < count; i++) {
        reply_doc_head(conn, command_subcommand(command, i), false);
    }
}

void cmd_command_reply_docs(struct conn *conn, struct request *request)
{
    unsigned count = 0;
    if (request->arg_count == 2) {
        reply_map(conn, top_count());
        for (int id = 0; id < COMMAND_COUNT; id++) {
            const struct command *command = command_by_id((enum command_id)id);
            if (is_top(command)) {
                reply_doc(conn, command);
            }
        }
        return;
    }
    for (uint32_t i = 2; i < request->arg_count; i++) {
        count += command_find_name(request->args[i]) != NULL;
    }
    reply_map(conn, count);
    for (uint32_t i = 2; i < request->arg_count; i++) {
        const struct command *command = command_find_name(request->args[i]);
        if (command != NULL) {
            reply_doc(conn, command);
        }
    }
}

/* ---- GETKEYS ---- */

#define GETKEYS_MAX 256

static void reply_keys(struct conn *conn, const struct request *request, bool with_flags)
{
    const struct slice *args = request->args + 2;
    uint32_t arg_count = request->arg_count - 2;
    const struct command *command = command_find(args, arg_count);
    uint32_t indexes[GETKEYS_MAX];
    uint32_t count;
    if (command == NULL) {
        reply_error(conn, "ERR Invalid command specified");
        return;
    }
    if (command->first_key == 0) {
        reply_error(conn, "ERR The command has no key arguments");
        return;
    }
    if (!command_arity_ok(command, arg_count)) {
        reply_error(conn, "ERR Invalid number of arguments specified for command");
        return;
    }
    count = command_key_indexes(command, args, arg_count, indexes, ARRAY_COUNT(indexes));
    if (count == 0) {
        reply_error(conn, "ERR Invalid arguments specified for command");
        return;
    }
    if (count > ARRAY_COUNT(indexes)) {
        reply_errorf(conn, "ERR the command has %u keys; COMMAND GETKEYS answers up to %zu", count,
                     ARRAY_COUNT(indexes));
        return;
    }
    reply_array(conn, count);
    for (uint32_t i = 0; i < count; i++) {
        if (with_flags) {
            reply_array(conn, 2);
        }
        reply_bulk(conn, args[indexes[i]]);
        if (with_flags) {
            reply_key_flags(conn, key_flags_of(command, args, arg_count, indexes[i]));
        }
    }
}

void cmd_command_reply_getkeys(struct conn *conn, struct request *request)
{
    reply_keys(conn, request, false);
}

void cmd_command_reply_getkeysandflags(struct conn *conn, struct request *request)
{
    reply_keys(conn, request, true);
}

void cmd_command_reply_help(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    Facts about all commands.",
        "COUNT",
        "    How many commands there are.",
        "DOCS [<name> ...]",
        "    Documentation of commands.",
        "GETKEYS <full-command>",
        "    The keys of a command.",
        "GETKEYSANDFLAGS <full-command>",
        "    The same, and what is done to each.",
        "INFO [<name> ...]",
        "    Facts about commands.",
        "LIST [FILTERBY MODULE|ACLCAT|PATTERN <text>]",
        "    The names of commands.",
        "HELP",
        "    This text.",
    };
    (void)request;
    reply_lines(conn, lines, ARRAY_COUNT(lines));
}
