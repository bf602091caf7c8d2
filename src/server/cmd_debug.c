#include "server/cmd_debug.h"

#include "base/clock.h"
#include "net/listener.h"
#include "server/cmd_key.h"
#include "server/reply.h"
#include "server/request_gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest DEBUG SLEEP: it stops this reactor, which is what it is for. */
#define SLEEP_SECONDS_MAX 60.0

/* ---- SLEEP ---- */

static void plan_sleep(struct conn *conn, struct request *request)
{
    char text[32] = "";
    char *end = NULL;
    double seconds;
    (void)conn;
    if (request->args[2].length_bytes < sizeof(text)) {
        memcpy(text, request->args[2].data, request->args[2].length_bytes);
    }
    seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0 && seconds <= SLEEP_SECONDS_MAX)) {
        request_refuse(request, "ERR DEBUG SLEEP takes seconds from 0 to 60");
        return;
    }
    request->number = (int64_t)(seconds * 1e6);
}

static void reply_sleep(struct conn *conn, struct request *request)
{
    clock_sleep_us(request->number);
    reply_ok(conn);
}

/* ---- ERROR ---- */

static void reply_given_error(struct conn *conn, struct request *request)
{
    struct slice text = request->args[2];
    int length = reply_quoted_length(text);
    reply_errorf(conn, "%.*s", length, (const char *)text.data);
}

/* ---- SET-ACTIVE-EXPIRE ---- */

static void active_expire_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)index;
    shard_set_active_expiry(reactor->shard, gather->number != 0);
}

static void plan_active_expire(struct conn *conn, struct request *request)
{
    int64_t number;
    if (!slice_to_i64(request->args[2], &number)) {
        request_refuse(request, ERROR_NOT_INTEGER);
        return;
    }
    if (request_gather_begin(conn, request, active_expire_run) != NULL) {
        request->gather->number = number;
        request->gather->on_shards = true;
        request_gather_start(conn, request);
    }
}

static void reply_active_expire(struct conn *conn, struct request *request)
{
    gather_destroy(&request->gather);
    reply_ok(conn);
}

/* ---- OBJECT ---- */

static void plan_object(struct conn *conn, struct request *request)
{
    struct op *op = batch_add_op(conn->batch, request, OP_STAT, request->args[2]);
    op->stat_p = &conn->batch->stats[conn->batch->stat_count++];
}

/* In Redis's form, in which clients look for names. An address is nobody's business. */
static void reply_object(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    char text[192];
    if (op->status != KVASIR_OK) {
        reply_error(conn, "ERR no such key");
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "Value at:0x0 refcount:1 encoding:%s serializedlength:%llu lru:0 "
                   "lru_seconds_idle:%llu",
                   cmd_key_encoding(op->stat_p), (unsigned long long)op->stat_p->length_bytes,
                   (unsigned long long)op->stat_p->idle_s);
    reply_simple(conn, text);
}

/* ---- PROTOCOL: one reply of each kind ---- */

static void reply_three(struct conn *conn)
{
    for (int64_t i = 0; i < 3; i++) {
        reply_integer(conn, i);
    }
}

static void reply_kind_string(struct conn *conn)
{
    reply_text(conn, "Hello World");
}

static void reply_kind_integer(struct conn *conn)
{
    reply_integer(conn, 12345);
}

static void reply_kind_double(struct conn *conn)
{
    reply_double(conn, 3.141);
}

static void reply_kind_bignum(struct conn *conn)
{
    static const char number[] = "1234567999999999999999999999999999999";
    if (conn->resp == RESP_3) {
        reply_part(conn, slice_of_text("("));
        reply_part(conn, slice_of_text(number));
        reply_part(conn, slice_of_text("\r\n"));
    } else {
        reply_text(conn, number);
    }
}

static void reply_kind_array(struct conn *conn)
{
    reply_array(conn, 3);
    reply_three(conn);
}

static void reply_kind_set(struct conn *conn)
{
    reply_set(conn, 3);
    reply_three(conn);
}

static void reply_kind_map(struct conn *conn)
{
    reply_map(conn, 3);
    for (int64_t i = 0; i < 3; i++) {
        reply_integer(conn, i);
        reply_bool(conn, i == 1);
    }
}

static void reply_kind_attrib(struct conn *conn)
{
    if (conn->resp == RESP_3) {
        reply_part(conn, slice_of_text("|1\r\n"));
        reply_text(conn, "key-popularity");
        reply_array(conn, 2);
        reply_pair_integer(conn, "key:123", 90);
    }
    reply_text(conn, "Some real reply following the attribute");
}

static void reply_kind_push(struct conn *conn)
{
    if (conn->resp != RESP_3) {
        reply_error(conn, "ERR RESP2 is not supported by this command");
        return;
    }
    reply_push(conn, 2);
    reply_pair_integer(conn, "server-cpu-usage", 42);
    reply_text(conn, "Some real reply following the push reply");
}

static void reply_kind_true(struct conn *conn)
{
    reply_bool(conn, true);
}

static void reply_kind_false(struct conn *conn)
{
    reply_bool(conn, false);
}

static void reply_kind_verbatim(struct conn *conn)
{
    reply_verbatim(conn, slice_of_text("This is a verbatim\nstring"));
}

static void reply_protocol(struct conn *conn, struct request *request)
{
    static const struct {
        const char *name;
        void (*reply)(struct conn *conn);
    } kinds[] = {
        {"string", reply_kind_string},
        {"integer", reply_kind_integer},
        {"double", reply_kind_double},
        {"bignum", reply_kind_bignum},
        {"null", reply_null},
        {"array", reply_kind_array},
        {"set", reply_kind_set},
        {"map", reply_kind_map},
        {"attrib", reply_kind_attrib},
        {"push", reply_kind_push},
        {"verbatim", reply_kind_verbatim},
        {"true", reply_kind_true},
        {"false", reply_kind_false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (slice_equal_nocase(request->args[2], kinds[i].name)) {
            kinds[i].reply(conn);
            return;
        }
    }
    reply_error(conn, "ERR Wrong protocol type name. Please use one of the following: "
                      "string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|"
                      "false");
}

/* ---- all of them ---- */

static void reply_help(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ERROR <text>",
        "    An error reply of this text, of which 128 bytes are used.",
        "OBJECT <key>",
        "    How a key's value is kept.",
        "PROTOCOL <type>",
        "    A reply of the type: string, integer, double, bignum, null, array, set, map, attrib,",
        "    push, verbatim, true, false.",
        "SET-ACTIVE-EXPIRE <0|1>",
        "    Whether expired keys are removed before somebody asks for them.",
        "SLEEP <seconds>",
        "    Stop this connection's reactor for so long.",
        "HELP",
        "    This text.",
    };
    (void)request;
    reply_lines(conn, lines, ARRAY_COUNT(lines));
}

struct subcommand {
    const char *name;
    uint32_t arg_count;
    handler_plan_fn *plan; /* NULL: there is nothing to plan */
    handler_reply_fn *reply;
};

static const struct subcommand *find(const struct request *request)
{
    static const struct subcommand subcommands[] = {
        {"error", 3, NULL, reply_given_error},
        {"help", 2, NULL, reply_help},
        {"object", 3, plan_object, reply_object},
        {"protocol", 3, NULL, reply_protocol},
        {"set-active-expire", 3, plan_active_expire, reply_active_expire},
        {"sleep", 3, plan_sleep, reply_sleep},
    };
    for (size_t i = 0; i < ARRAY_COUNT(subcommands); i++) {
        if (request->arg_count == subcommands[i].arg_count &&
            slice_equal_nocase(request->args[1], subcommands[i].name)) {
            return &subcommands[i];
        }
    }
    return NULL;
}

static bool allowed(const struct conn *conn)
{
    const char *who = conn->reactor->settings.enable_debug_command;
    return strcmp(who, "yes") == 0 ||
           (strcmp(who, "local") == 0 && listener_peer_is_local(conn->wire.descriptor));
}

void cmd_debug_plan(struct conn *conn, struct request *request)
{
    const struct subcommand *subcommand = find(request);
    if (!allowed(conn)) {
        request_refuse(
            request, "ERR DEBUG command not allowed. If the enable-debug-command option is set to "
                     "\"local\", you can run it from a local connection, otherwise you need to set "
                     "this option in the configuration file, and then restart the server.");
    } else if (subcommand != NULL && subcommand->plan != NULL) {
        subcommand->plan(conn, request);
    }
}

void cmd_debug_reply(struct conn *conn, struct request *request)
{
    const struct subcommand *subcommand = find(request);
    if (subcommand != NULL) {
        subcommand->reply(conn, request);
        return;
    }
    struct slice word = request->args[1];
    int length = reply_quoted_length(word);
    reply_errorf(conn,
                 "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try DEBUG HELP.",
                 length, (const char *)word.data);
}
