#include "server/cmd_server.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/glob.h"
#include "base/number.h"
#include "plug/loader.h"
#include "server/acl_change.h"
#include "server/config_file.h"
#include "server/events.h"
#include "server/gather.h"
#include "server/info.h"
#include "server/key_notice.h"
#include "server/reply.h"
#include "server/request_gather.h"
#include "server/resize.h"
#include "server/tenants.h"
#include "server/tls_reload.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Why an option cannot be set; with what stands before it, it fits into a gather's argument. */
#define REASON_BYTES 352

/* ---- INFO, MEMORY ---- */

void cmd_server_plan_facts(struct conn *conn, struct request *request)
{
    request_gather_run(conn, request, info_run);
}

void cmd_server_reply_info(struct conn *conn, struct request *request)
{
    struct gather_answer text = {0};
    if (info_text(conn, request->gather, request->args + 1, request->arg_count - 1, &text)) {
        reply_verbatim(conn, slice_of(text.text, text.text_bytes));
    } else {
        reply_error(conn, ERROR_ANSWER_MEMORY);
    }
    gather_answer_free(&text);
    gather_destroy(&request->gather);
}

/* ---- CONFIG ---- */

static bool name_wanted(const struct request *request, const char *name)
{
    for (uint32_t i = 2; i < request->arg_count; i++) {
        if (glob_match(request->args[i], slice_of_text(name), true)) {
            return true;
        }
    }
    return false;
}

void cmd_server_reply_config_get(struct conn *conn, struct request *request)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < settings_count(); i++) {
        count += name_wanted(request, settings_name(i));
    }
    reply_map(conn, count);
    for (unsigned i = 0; i < settings_count(); i++) {
        char buffer[SETTINGS_TEXT_BYTES];
        if (name_wanted(request, settings_name(i))) {
            reply_text(conn, settings_name(i));
            if (strcmp(settings_name(i), "requirepass") == 0) {
                reply_bulk(conn, acl_table_required(conn->reactor->acl));
                continue;
            }
            reply_text(conn, settings_value(&conn->reactor->settings, i, buffer));
        }
    }
}

static bool is_password(const struct request *request, uint32_t index)
{
    return slice_equal_nocase(request->args[index], "requirepass");
}

/* Has the last requirepass among the pairs take effect; the batch waits for it. False: no memory. */
static bool require_password(struct conn *conn, const struct request *request)
{
    for (uint32_t i = request->arg_count - 2; i >= 2; i -= 2) {
        if (is_password(request, i)) {
            return acl_change_start(conn, ACL_CHANGE_REQUIRE, &request->args[i + 1], 1);
        }
    }
    return true;
}

/* The sentence of a refusal as Redis frames it. */
static void say_refused(struct slice name, const char *reason, char *error, size_t error_capacity)
{
    (void)snprintf(
        error, error_capacity, "CONFIG SET failed (possibly related to argument '%.*s') - %s",
        (int)(name.length_bytes < 64 ? name.length_bytes : 64), (const char *)name.data, reason);
}

/* False: error names an option that is there twice. */
static bool each_once(const struct request *request, char *error, size_t error_capacity)
{
    for (uint32_t i = 2; i < request->arg_count; i += 2) {
        struct slice name = request->args[i];
        for (uint32_t j = 2; j < i; j += 2) {
            struct slice before = request->args[j];
            if (name.length_bytes == before.length_bytes &&
                strncasecmp((const char *)name.data, (const char *)before.data,
                            name.length_bytes) == 0) {
                say_refused(name, "duplicate parameter", error, error_capacity);
                return false;
            }
        }
    }
    return true;
}

/* Applies the pairs; false: error says why not, and some may have been applied. */
static bool apply_pairs(struct settings *settings, const struct request *request, char *error,
                        size_t error_capacity)
{
    for (uint32_t i = 2; i < request->arg_count; i += 2) {
        struct slice name = request->args[i];
        char reason[REASON_BYTES];
        enum kvasir_status status;
        if (is_password(request, i)) {
            continue; /* that is the users' business: any bytes */
        }
        status = settings_set(settings, name, request->args[i + 1], true, reason, sizeof(reason));
        if (status == KVASIR_NOT_FOUND) {
            (void)snprintf(error, error_capacity,
                           "Unknown option or number of arguments for CONFIG SET - '%.*s'",
                           (int)(name.length_bytes < 64 ? name.length_bytes : 64),
                           (const char *)name.data);
            return false;
        }
        if (status != KVASIR_OK) {
            say_refused(name, reason, error, error_capacity);
            return false;
        }
    }
    return true;
}

/* Lies in the gather's argument while all reactors are at it. */
struct config_change {
    const struct request *request;
    struct ssl_ctx_st *tls; /* shared by count; NULL: stays */
};
_Static_assert(sizeof(struct config_change) <= GATHER_ARGUMENT_BYTES, "lies in a gather");

/* Each reactor applies the pairs, not a copy of them all: two CONFIG SETs at once lose nothing, and as
 * all apply them in one order their copies stay alike. The
 * request and its arguments stay where they are until all have answered. */
static void config_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    char error[GATHER_ARGUMENT_BYTES];
    const struct config_change *change = gather->pointer;
    check(apply_pairs(&reactor->settings, change->request, error, sizeof(error)));
    if (change->tls != NULL) {
        tls_reload_apply(reactor, change->tls);
    }
    if (!events_configure(reactor)) {
        log_limited(&reactor->log_limit, LOG_WARN,
                    "no memory for events-backlog %llu: nothing is kept",
                    (unsigned long long)reactor->settings.events_backlog);
    }
    key_notice_configure(reactor);
    check(output_limits_parse(&reactor->output_limits,
                              slice_of_text(reactor->settings.output_limits)));
    reactor->command_stats->untimed = !reactor->settings.latency_tracking;
    tenants_configure(reactor);
    shard_set_policy(reactor->shard, policy_find(reactor->settings.maxmemory_policy));
    shard_set_value_max(reactor->shard, resize_value_max(reactor));
    resize_configure(reactor);
    if (index == 0) {
        log_set_level(log_level_of(reactor->settings.loglevel));
    }
}

/* Whether the request can be done, tried on a copy of the settings. False: error, of GATHER_ARGUMENT_BYTES,
 * says why not. */
static bool try_pairs(struct reactor *reactor, const struct request *request,
                      struct settings *tried, struct ssl_ctx_st **tls_p, char *error)
{
    char reason[REASON_BYTES];
    if (!each_once(request, error, GATHER_ARGUMENT_BYTES) ||
        !apply_pairs(tried, request, error, GATHER_ARGUMENT_BYTES)) {
        return false;
    }
    if (tried->maxmemory != reactor->settings.maxmemory &&
        !resize_is_allowed(reactor->server, tried->maxmemory, reason, sizeof(reason))) {
        say_refused(slice_of_text("maxmemory"), reason, error, GATHER_ARGUMENT_BYTES);
        return false;
    }
    if (!tls_reload_begin(reactor, request, tried, reason, sizeof(reason), tls_p)) {
        (void)snprintf(error, GATHER_ARGUMENT_BYTES, "CONFIG SET failed - %s", reason);
        return false;
    }
    return true;
}

static void config_done(struct reactor *reactor, struct gather *gather)
{
    struct config_change *change = gather->pointer;
    tls_reload_end(reactor, &change->tls);
}

void cmd_server_plan_config_set(struct conn *conn, struct request *request)
{
    struct settings *tried;
    struct gather *gather;
    struct config_change change = {.request = request};
    if (request->arg_count % 2 != 0) {
        request_refuse(request, "ERR wrong number of arguments for 'config|set' command");
        return;
    }
    tried = malloc(sizeof(*tried));
    gather = gather_create(conn->reactor, config_run, config_done);
    if (tried == NULL || gather == NULL) {
        free(tried);
        gather_destroy(&gather);
        request_refuse(request, ERROR_ANSWER_MEMORY);
        return;
    }
    *tried = conn->reactor->settings;
    if (try_pairs(conn->reactor, request, tried, &change.tls, (char *)gather->argument)) {
        if (!require_password(conn, request)) {
            tls_reload_end(conn->reactor, &change.tls);
            gather_destroy(&gather);
            request_refuse(request, ERROR_ANSWER_MEMORY);
        } else {
            memcpy(gather->argument, &change, sizeof(change));
            gather->pointer = gather->argument;
            gather->ordered = true;
            request->gather = gather;
            request_gather_start(conn, request);
        }
    } else {
        request->gather = gather; /* never begun: it only holds the sentence */
    }
    free(tried);
}

void cmd_server_reply_config_set(struct conn *conn, struct request *request)
{
    if (request->gather->pointer == NULL) {
        reply_errorf(conn, "ERR %s", (const char *)request->gather->argument);
    } else {
        if (conn->acl_change != NULL && conn->acl_change->refused) {
            reply_error(conn, "ERR CONFIG SET failed - out of memory for requirepass");
        } else {
            reply_ok(conn);
        }
        acl_change_destroy(&conn->acl_change);
    }
    gather_destroy(&request->gather);
}

void cmd_server_reply_config_rewrite(struct conn *conn, struct request *request)
{
    const struct reactor *reactor = conn->reactor;
    const char *path = reactor->server->config_file;
    char error[256];
    (void)request;
    if (path[0] == '\0') {
        reply_error(conn, "ERR The server is running without a config file");
    } else if (config_file_rewrite(path, &reactor->settings, reactor->acl, reactor->index, error,
                                   sizeof(error))) {
        reply_ok(conn);
    } else {
        log_error("cannot rewrite %s: %s", path, error);
        reply_errorf(conn, "ERR Rewriting config file: %s", error);
    }
}

static void resetstat_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)gather;
    (void)index;
    reactor_reset_metrics(reactor);
    shard_reset_counts(reactor->shard);
}

void cmd_server_plan_resetstat(struct conn *conn, struct request *request)
{
    request_gather_run(conn, request, resetstat_run);
}

void cmd_server_reply_resetstat(struct conn *conn, struct request *request)
{
    gather_destroy(&request->gather);
    reply_ok(conn);
}

void cmd_server_reply_config_help(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern> [<pattern> ...]",
        "    Options that match, and their values.",
        "SET <option> <value> [<option> <value> ...]",
        "    Set options.",
        "RESETSTAT",
        "    Set the counters of INFO to zero.",
        "REWRITE",
        "    Bring the configuration file up to date.",
        "HELP",
        "    This text.",
    };
    (void)request;
    reply_lines(conn, lines, ARRAY_COUNT(lines));
}

/* ---- small ones ---- */

void cmd_server_reply_time(struct conn *conn, struct request *request)
{
    int64_t now_us = clock_wall_us();
    char text[24];
    (void)request;
    reply_array(conn, 2);
    reply_bulk(conn, slice_of(text, number_from_i64(text, now_us / 1000000)));
    reply_bulk(conn, slice_of(text, number_from_i64(text, now_us % 1000000)));
}

void cmd_server_reply_role(struct conn *conn, struct request *request)
{
    (void)request;
    reply_array(conn, 3);
    reply_pair_integer(conn, "master", 0);
    reply_array(conn, 0);
}

void cmd_server_reply_module_list(struct conn *conn, struct request *request)
{
    const struct loader *modules = conn->reactor->server->modules;
    (void)request;
    reply_array(conn, loader_count(modules));
    for (unsigned i = 0; i < loader_count(modules); i++) {
        struct loader_module module = loader_module(modules, i);
        reply_map(conn, 4);
        reply_text(conn, "name");
        reply_text(conn, module.name);
        reply_pair_integer(conn, "ver", module.version);
        reply_text(conn, "path");
        reply_text(conn, module.path);
        reply_text(conn, "args");
        reply_array(conn, 0);
    }
}

void cmd_server_plan_shutdown(struct conn *conn, struct request *request)
{
    (void)conn;
    for (uint32_t i = 1; i < request->arg_count; i++) {
        if (slice_equal_nocase(request->args[i], "abort")) {
            request_refuse(request, "ERR No shutdown in progress.");
        } else if (!slice_equal_nocase(request->args[i], "nosave") &&
                   !slice_equal_nocase(request->args[i], "now") &&
                   !slice_equal_nocase(request->args[i], "force")) {
            request_refuse(request, slice_equal_nocase(request->args[i], "save")
                                        ? "ERR Errors trying to SHUTDOWN: nothing is ever saved to "
                                          "disk; use NOSAVE"
                                        : ERROR_SYNTAX);
        }
    }
}

void cmd_server_reply_shutdown(struct conn *conn, struct request *request)
{
    (void)request;
    log_info("SHUTDOWN by connection %llu", (unsigned long long)conn->id);
    conn_close_soon(conn); /* as Redis: no reply, the connection ends */
    (void)kill(getpid(), SIGTERM);
}
