#include "server/cmd_none.h"

#include "server/reply.h"

#include <stdio.h>

static const char ERROR_NO_SCRIPTS[] =
    "ERR no scripts or functions run here; KV.MATCH and the options of SET and KV.SET cover the "
    "usual reasons for them";

void cmd_none_reply_cluster(struct conn *conn, struct request *request)
{
    (void)request;
    reply_error(conn, "ERR This instance has cluster support disabled");
}

void cmd_none_reply_eval(struct conn *conn, struct request *request)
{
    (void)request;
    reply_error(conn, ERROR_NO_SCRIPTS);
}

void cmd_none_reply_evalsha(struct conn *conn, struct request *request)
{
    (void)request;
    reply_error(conn, "NOSCRIPT No matching script. Please use EVAL.");
}

void cmd_none_reply_fcall(struct conn *conn, struct request *request)
{
    (void)request;
    reply_error(conn, "ERR Function not found");
}

static void reply_unknown(struct conn *conn, const struct request *request, const char *container)
{
    struct slice word = request->args[1];
    int length = reply_quoted_length(word);
    reply_errorf(conn, "ERR unknown subcommand '%.*s'. Try %s HELP.", length,
                 (const char *)word.data, container);
}

void cmd_none_reply_script(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "EXISTS <sha1> [<sha1> ...]",
        "    0 for each: there are no scripts.",
        "FLUSH [ASYNC|SYNC]",
        "    OK: there are no scripts.",
        "HELP",
        "    This text.",
    };
    struct slice word = request->args[1];
    if (slice_equal_nocase(word, "flush")) {
        reply_ok(conn);
    } else if (slice_equal_nocase(word, "exists")) {
        reply_array(conn, request->arg_count - 2);
        for (uint32_t i = 2; i < request->arg_count; i++) {
            reply_integer(conn, 0);
        }
    } else if (slice_equal_nocase(word, "kill")) {
        reply_error(conn, "NOTBUSY No scripts in execution right now.");
    } else if (slice_equal_nocase(word, "load")) {
        reply_error(conn, ERROR_NO_SCRIPTS);
    } else if (slice_equal_nocase(word, "help")) {
        reply_lines(conn, lines, ARRAY_COUNT(lines));
    } else {
        reply_unknown(conn, request, "SCRIPT");
    }
}

void cmd_none_reply_function(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "FLUSH [ASYNC|SYNC]",
        "    OK: there are no functions.",
        "LIST",
        "    Nothing: there are no functions.",
        "HELP",
        "    This text.",
    };
    struct slice word = request->args[1];
    if (slice_equal_nocase(word, "flush")) {
        reply_ok(conn);
    } else if (slice_equal_nocase(word, "list")) {
        reply_array(conn, 0);
    } else if (slice_equal_nocase(word, "delete")) {
        reply_error(conn, "ERR Library not found");
    } else if (slice_equal_nocase(word, "kill")) {
        reply_error(conn, "NOTBUSY No scripts in execution right now.");
    } else if (slice_equal_nocase(word, "load") || slice_equal_nocase(word, "restore") ||
               slice_equal_nocase(word, "dump") || slice_equal_nocase(word, "stats")) {
        reply_error(conn, ERROR_NO_SCRIPTS);
    } else if (slice_equal_nocase(word, "help")) {
        reply_lines(conn, lines, ARRAY_COUNT(lines));
    } else {
        reply_unknown(conn, request, "FUNCTION");
    }
}

void cmd_none_reply_replicaof(struct conn *conn, struct request *request)
{
    if (slice_equal_nocase(request->args[1], "no") && slice_equal_nocase(request->args[2], "one")) {
        reply_ok(conn); /* it is a master already */
        return;
    }
    reply_error(conn, "ERR there is no replication: this server is always a master");
}

void cmd_none_reply_wait(struct conn *conn, struct request *request)
{
    int64_t count;
    int64_t timeout_ms;
    if (!slice_to_i64(request->args[1], &count)) {
        reply_error(conn, ERROR_NOT_INTEGER);
    } else if (!slice_to_i64(request->args[2], &timeout_ms)) {
        reply_error(conn, "ERR timeout is not an integer or out of range");
    } else if (timeout_ms < 0) {
        reply_error(conn, "ERR timeout is negative");
    } else {
        reply_integer(conn, 0);
    }
}

void cmd_none_reply_lolwut(struct conn *conn, struct request *request)
{
    static const char text[] = "  /\\  Thought and Memory fly over the world each day.\n"
                               " (oo) What they have seen once, nobody need compute again.\n"
                               "\nKvasir ver. " KVASIR_VERSION "\n";
    int64_t version;
    if (request->arg_count > 2 && slice_equal_nocase(request->args[1], "version") &&
        !slice_to_i64(request->args[2], &version)) {
        reply_error(conn, ERROR_NOT_INTEGER);
        return;
    }
    reply_verbatim(conn, slice_of_text(text));
}
