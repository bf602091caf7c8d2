#include "server/cmd_acl.h"

#include "acl/acl_category.h"
#include "acl/acl_password.h"
#include "base/check.h"
#include "server/access.h"
#include "server/acl_change.h"
#include "server/reply.h"
#include "server/users_file.h"

#include <sys/random.h>

#define GENPASS_BITS_MAX     4096
#define GENPASS_BITS_DEFAULT 256

static const char ERROR_NO_FILE[] =
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via "
    "the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis "
    "configuration file set) in order to store users in the Redis configuration.";
static const char ERROR_NO_MEMORY[] = "ERR out of memory for this change";

/* The words of Redis for a subcommand with too many arguments. */
static void reply_usage(struct conn *conn, const struct request *request)
{
    struct slice name = request->args[1];
    reply_errorf(conn,
                 "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try ACL HELP.",
                 reply_quoted_length(name), (const char *)name.data);
}

/* A text put together for a reply; it is freed. */
static void reply_made(struct conn *conn, struct text *text)
{
    if (text->failed) {
        reply_error(conn, ERROR_ANSWER_MEMORY);
    } else {
        reply_bulk(conn, text_slice(text));
    }
    text_fini(text);
}

/* ---- changes ---- */

static void plan_change(struct conn *conn, struct request *request, enum acl_change_kind kind)
{
    if (!acl_change_start(conn, kind, request->args + 2, request->arg_count - 2)) {
        request_refuse(request, ERROR_NO_MEMORY);
    }
}

void cmd_acl_plan_setuser(struct conn *conn, struct request *request)
{
    plan_change(conn, request, ACL_CHANGE_SET_USER);
}

void cmd_acl_plan_deluser(struct conn *conn, struct request *request)
{
    for (uint32_t i = 2; i < request->arg_count; i++) {
        if (slice_equal(request->args[i], slice_of_text("default"))) {
            request_refuse(request, "ERR The 'default' user cannot be removed");
            return;
        }
    }
    plan_change(conn, request, ACL_CHANGE_REMOVE);
}

void cmd_acl_plan_load(struct conn *conn, struct request *request)
{
    if (conn->reactor->settings.aclfile[0] == '\0') {
        request_refuse(request, ERROR_NO_FILE);
        return;
    }
    plan_change(conn, request, ACL_CHANGE_LOAD);
}

static void finish_change(struct conn *conn)
{
    if (conn->acl_change->caller_ends) {
        conn_close_soon(conn);
    }
    acl_change_destroy(&conn->acl_change);
}

static bool was_refused(struct conn *conn)
{
    const struct acl_change *change = conn->acl_change;
    if (change->refused) {
        reply_errorf(conn, "ERR %.*s", (int)change->error.length_bytes,
                     change->error.data != NULL ? change->error.data : "");
    }
    return change->refused;
}

void cmd_acl_reply_change(struct conn *conn, struct request *request)
{
    (void)request;
    if (!was_refused(conn)) {
        reply_ok(conn);
    }
    finish_change(conn);
}

void cmd_acl_reply_deluser(struct conn *conn, struct request *request)
{
    (void)request;
    if (!was_refused(conn)) {
        reply_integer(conn, conn->acl_change->count);
    }
    finish_change(conn);
}

void cmd_acl_reply_save(struct conn *conn, struct request *request)
{
    const struct reactor *reactor = conn->reactor;
    (void)request;
    if (reactor->settings.aclfile[0] == '\0') {
        reply_error(conn, ERROR_NO_FILE);
    } else if (users_file_save(&reactor->settings, reactor->acl, reactor->index)) {
        reply_ok(conn);
    } else {
        reply_error(conn, "ERR There was an error trying to save the ACLs. Please check the server "
                          "logs for more information");
    }
}

/* ---- looking ---- */

static void reply_selector(struct conn *conn, const struct acl_selector *selector)
{
    struct text text = {0};
    reply_text(conn, "commands");
    acl_selector_describe_commands(selector, &text);
    reply_made(conn, &text);
    reply_text(conn, "keys");
    acl_selector_describe_keys(selector, &text);
    reply_made(conn, &text);
    reply_text(conn, "channels");
    acl_selector_describe_channels(selector, &text);
    reply_made(conn, &text);
}

static void reply_user_flags(struct conn *conn, const struct acl_user *user)
{
    reply_set(conn, 1U + user->nopass + user->skip_sanitize);
    reply_text(conn, user->enabled ? "on" : "off");
    if (user->nopass) {
        reply_text(conn, "nopass");
    }
    if (user->skip_sanitize) {
        reply_text(conn, "skip-sanitize-payload");
    }
}

void cmd_acl_reply_getuser(struct conn *conn, struct request *request)
{
    const struct acl_user *user = acl_table_find(conn->reactor->acl, request->args[2]);
    if (user == NULL) {
        reply_null(conn);
        return;
    }
    reply_map(conn, 6);
    reply_text(conn, "flags");
    reply_user_flags(conn, user);
    reply_text(conn, "passwords");
    reply_array(conn, user->digests.count);
    for (uint32_t i = 0; i < user->digests.count; i++) {
        char hash[ACL_HASH_BYTES];
        acl_password_print(user->digests.items[i].text.data, hash);
        reply_bulk(conn, slice_of(hash, sizeof(hash)));
    }
    reply_selector(conn, &user->selectors[0]);
    reply_text(conn, "selectors");
    reply_array(conn, user->selector_count - 1);
    for (uint32_t i = 1; i < user->selector_count; i++) {
        reply_map(conn, 3);
        reply_selector(conn, &user->selectors[i]);
    }
}

void cmd_acl_reply_list(struct conn *conn, struct request *request)
{
    const struct acl_table *table = conn->reactor->acl;
    (void)request;
    reply_array(conn, table->count);
    for (uint32_t i = 0; i < table->count; i++) {
        struct text text = {0};
        text_add_text(&text, "user ");
        text_add(&text, acl_user_name(table->users[i]));
        text_add_text(&text, " ");
        acl_user_describe(table->users[i], &text);
        reply_made(conn, &text);
    }
}

void cmd_acl_reply_users(struct conn *conn, struct request *request)
{
    const struct acl_table *table = conn->reactor->acl;
    (void)request;
    reply_array(conn, table->count);
    for (uint32_t i = 0; i < table->count; i++) {
        reply_bulk(conn, acl_user_name(table->users[i]));
    }
}

void cmd_acl_reply_whoami(struct conn *conn, struct request *request)
{
    (void)request;
    reply_bulk(conn, acl_user_name(conn->user));
}

void cmd_acl_reply_cat(struct conn *conn, struct request *request)
{
    uint32_t bit;
    unsigned count = 0;
    if (request->arg_count > 3) {
        reply_usage(conn, request);
        return;
    }
    if (request->arg_count == 2) {
        reply_array(conn, acl_category_count());
        for (unsigned i = 0; i < acl_category_count(); i++) {
            reply_text(conn, acl_category_name(i));
        }
        return;
    }
    bit = acl_category_bit(request->args[2]);
    if (bit == 0) {
        reply_errorf(conn, "ERR Unknown category '%.*s'", reply_quoted_length(request->args[2]),
                     (const char *)request->args[2].data);
        return;
    }
    for (int id = 0; id < COMMAND_COUNT; id++) {
        count += (acl_category_bits_of(command_by_id((enum command_id)id)) & bit) != 0;
    }
    reply_array(conn, count);
    for (int id = 0; id < COMMAND_COUNT; id++) {
        const struct command *command = command_by_id((enum command_id)id);
        if ((acl_category_bits_of(command) & bit) != 0) {
            reply_text(conn, command->name);
        }
    }
}

static void reply_verdict(struct conn *conn, enum acl_verdict verdict,
                          const struct command *command, struct slice object)
{
    struct text text = {0};
    if (verdict == ACL_PERMITTED) {
        reply_ok(conn);
        return;
    }
    text_add_text(&text, verdict == ACL_DENIED_COMMAND
                             ? "This user has no permissions to run the '"
                             : "This user has no permissions to access the '");
    text_add(&text, verdict == ACL_DENIED_COMMAND ? slice_of_text(command->name) : object);
    text_add_text(&text, "' ");
    text_add_text(&text, acl_verdict_name(verdict));
    reply_made(conn, &text);
}

void cmd_acl_reply_dryrun(struct conn *conn, struct request *request)
{
    const struct acl_user *user = acl_table_find(conn->reactor->acl, request->args[2]);
    const struct slice *args = request->args + 3;
    uint32_t arg_count = request->arg_count - 3;
    const struct command *command = command_find(args, arg_count);
    uint32_t index = 0;
    enum acl_verdict verdict;
    if (user == NULL || command == NULL) {
        struct slice name = user == NULL ? request->args[2] : args[0];
        reply_errorf(conn, "ERR %s '%.*s' not found", user == NULL ? "User" : "Command",
                     reply_quoted_length(name), (const char *)name.data);
        return;
    }
    if (!command_arity_ok(command, arg_count)) {
        reply_errorf(conn, "ERR wrong number of arguments for '%s' command", command->name);
        return;
    }
    verdict = acl_user_judge(user, command, args, arg_count, &index);
    reply_verdict(conn, verdict, command, args[index]);
}

void cmd_acl_reply_genpass(struct conn *conn, struct request *request)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[GENPASS_BITS_MAX / 8];
    char text[GENPASS_BITS_MAX / 4];
    int64_t bits = GENPASS_BITS_DEFAULT;
    size_t count;
    if (request->arg_count > 3) {
        reply_usage(conn, request);
        return;
    }
    if (request->arg_count == 3 && !slice_to_i64(request->args[2], &bits)) {
        reply_error(conn, ERROR_NOT_INTEGER);
        return;
    }
    if (bits <= 0 || bits > GENPASS_BITS_MAX) {
        reply_errorf(conn,
                     "ERR ACL GENPASS argument must be the number of bits for the output password, "
                     "a positive number up to %d",
                     GENPASS_BITS_MAX);
        return;
    }
    for (size_t at = 0; at < sizeof(bytes); at += 256) {
        /* So many bytes come whole, as the kernel promises. */
        check(getrandom(bytes + at, 256, 0) == 256);
    }
    count = (size_t)(bits + 3) / 4;
    for (size_t i = 0; i < count; i++) {
        text[i] = digits[bytes[i / 2] >> (i % 2 * 4) & 15];
    }
    reply_bulk(conn, slice_of(text, count));
}

void cmd_acl_reply_help(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CAT [<category>]",
        "    The categories, or the commands of one.",
        "DELUSER <username> [<username> ...]",
        "    Delete users and close their connections.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Whether the user may run the command, which is not run.",
        "GETUSER <username>",
        "    What a user may do.",
        "GENPASS [<bits>]",
        "    A password of 256 bits, or of so many.",
        "LIST",
        "    All users in the form of rules.",
        "LOAD",
        "    Read the users from aclfile anew.",
        "LOG [<count> | RESET]",
        "    What was denied lately.",
        "SAVE",
        "    Write the users to aclfile.",
        "SETUSER <username> <attribute> [<attribute> ...]",
        "    Make or change a user.",
        "USERS",
        "    The names of all users.",
        "WHOAMI",
        "    The user of this connection.",
        "HELP",
        "    This text.",
    };
    (void)request;
    reply_lines(conn, lines, ARRAY_COUNT(lines));
}
