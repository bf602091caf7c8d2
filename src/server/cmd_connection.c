#include "server/cmd_connection.h"

#include "server/access.h"
#include "server/cmd_client.h"
#include "server/cmd_pubsub.h"
#include "server/cmd_server.h"
#include "server/cmd_transaction.h"
#include "server/events.h"
#include "server/monitor.h"
#include "server/reply.h"

#include <string.h>

void cmd_connection_reply_ping(struct conn *conn, struct request *request)
{
    if (request->arg_count > 2) {
        reply_error(conn, "ERR wrong number of arguments for 'ping' command");
    } else if ((conn->modes & CONN_MODE_SUBSCRIBED) != 0 && conn->resp == RESP_2) {
        reply_array(conn, 2);
        reply_text(conn, "pong");
        reply_bulk(conn, request->arg_count == 2 ? request->args[1] : slice_of("", 0));
    } else if (request->arg_count == 2) {
        reply_bulk(conn, request->args[1]);
    } else {
        reply_simple(conn, "PONG");
    }
}

void cmd_connection_reply_echo(struct conn *conn, struct request *request)
{
    reply_bulk(conn, request->args[1]);
}

/* False: refused, and the reply is written. */
static bool authenticate(struct conn *conn, struct slice user, struct slice password)
{
    if (access_authenticate(conn, user, password)) {
        return true;
    }
    reply_error(conn, "WRONGPASS invalid username-password pair or user is disabled.");
    return false;
}

void cmd_connection_reply_auth(struct conn *conn, struct request *request)
{
    if (request->arg_count > 3) {
        reply_error(conn, ERROR_SYNTAX);
        return;
    }
    if (request->arg_count == 2 && acl_table_default(conn->reactor->acl)->nopass) {
        reply_error(conn, "ERR AUTH <password> called without any password configured for the "
                          "default user. Are you sure your configuration is correct?");
        return;
    }
    if (authenticate(conn, request->arg_count == 3 ? request->args[1] : slice_of_text("default"),
                     request->args[request->arg_count - 1])) {
        reply_ok(conn);
    }
}

void cmd_connection_reply_select(struct conn *conn, struct request *request)
{
    int64_t database;
    if (!slice_to_i64(request->args[1], &database)) {
        reply_error(conn, ERROR_NOT_INTEGER);
    } else if (database < 0 || database >= (int64_t)conn->reactor->settings.databases) {
        reply_error(conn, "ERR DB index is out of range");
    } else {
        conn->database = (uint8_t)database;
        reply_ok(conn);
    }
}

void cmd_connection_reply_quit(struct conn *conn, struct request *request)
{
    (void)request;
    reply_ok(conn);
    conn_close_soon(conn);
}

void cmd_connection_reply_reset(struct conn *conn, struct request *request)
{
    (void)request;
    cmd_transaction_end(conn);
    cmd_pubsub_end(conn);
    monitor_end(conn);
    (void)events_unlisten(conn);
    conn->resp = RESP_2;
    conn->database = 0;
    conn->name[0] = '\0';
    conn->reply_off = false;
    conn->reply_skip = false;
    conn->no_evict = false;
    conn->no_touch = false;
    access_begin(conn);
    reply_simple(conn, "RESET");
}

/* What HELLO asks for, before any of it is done. */
struct hello {
    int64_t version; /* 0: as it is */
    bool auth;
    struct slice user;
    struct slice password;
    bool named;
    struct slice name;
};

static bool parse_hello(struct conn *conn, const struct request *request, struct hello *hello)
{
    uint32_t i = 1;
    if (i < request->arg_count) {
        if (!slice_to_i64(request->args[i], &hello->version)) {
            reply_error(conn, "ERR Protocol version is not an integer or out of range");
            return false;
        }
        if (hello->version != RESP_2 && hello->version != RESP_3) {
            reply_error(conn, "NOPROTO unsupported protocol version");
            return false;
        }
        i++;
    }
    while (i < request->arg_count) {
        uint32_t left = request->arg_count - i;
        if (slice_equal_nocase(request->args[i], "auth") && left >= 3) {
            hello->auth = true;
            hello->user = request->args[i + 1];
            hello->password = request->args[i + 2];
            i += 3;
        } else if (slice_equal_nocase(request->args[i], "setname") && left >= 2) {
            hello->named = true;
            hello->name = request->args[i + 1];
            i += 2;
        } else {
            reply_errorf(conn, "ERR Syntax error in HELLO option '%.*s'",
                         reply_quoted_length(request->args[i]),
                         (const char *)request->args[i].data);
            return false;
        }
    }
    return true;
}

static void reply_greeting(struct conn *conn, struct request *request)
{
    reply_map(conn, 7);
    reply_text(conn, "server");
    reply_text(conn, "redis");
    reply_text(conn, "version");
    reply_text(conn, SERVER_REDIS_VERSION);
    reply_pair_integer(conn, "proto", conn->resp);
    reply_pair_integer(conn, "id", (int64_t)conn->id);
    reply_text(conn, "mode");
    reply_text(conn, "standalone");
    reply_text(conn, "role");
    reply_text(conn, "master");
    reply_text(conn, "modules");
    cmd_server_reply_module_list(conn, request);
}

void cmd_connection_reply_hello(struct conn *conn, struct request *request)
{
    struct hello hello = {0};
    if (!parse_hello(conn, request, &hello)) {
        return;
    }
    if (hello.auth && !authenticate(conn, hello.user, hello.password)) {
        return;
    }
    if (!conn->authenticated) {
        reply_error(conn,
                    "NOAUTH HELLO must be called with the client already authenticated, "
                    "otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
                    "authenticate the client and select the RESP protocol version at the same "
                    "time");
        return;
    }
    if (hello.named && !cmd_client_set_name(conn, hello.name)) {
        return;
    }
    if (hello.version != 0) {
        conn->resp = (enum resp_version)hello.version;
    }
    reply_greeting(conn, request);
}
