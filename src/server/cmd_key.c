#include "server/cmd_key.h"

#include "server/expiry.h"
#include "server/many_keys.h"
#include "server/reply.h"

#include <stdlib.h>

void cmd_key_plan_exists(struct conn *conn, struct request *request)
{
    uint32_t pin_ms = (uint32_t)conn->reactor->settings.exists_pin_ms;
    many_keys_plan(conn, request, OP_EXISTS, OP_READ_NO_TOUCH);
    for (uint32_t i = 0; i < request->op_count; i++) {
        struct op *op = batch_op(conn->batch, request, i);
        op->pin_kind = VALUE_PIN_SOFT;
        op->pin_ms = pin_ms;
    }
}

void cmd_key_plan_touch(struct conn *conn, struct request *request)
{
    many_keys_plan(conn, request, OP_EXISTS, 0);
}

void cmd_key_plan_del(struct conn *conn, struct request *request)
{
    many_keys_plan(conn, request, OP_REMOVE, 0);
}

void cmd_key_reply_count(struct conn *conn, struct request *request)
{
    for (uint32_t i = 0; i < request->op_count; i++) {
        request->count += batch_op(conn->batch, request, i)->status == KVASIR_OK;
    }
    if (!request->more) {
        reply_integer(conn, request->count);
    }
}

/* Looks at one key without counting as an access: TYPE, TTL and their kin. */
void cmd_key_plan_look(struct conn *conn, struct request *request)
{
    batch_add_op(conn->batch, request, OP_EXISTS, request->args[1])->flags = OP_READ_NO_TOUCH;
}

void cmd_key_reply_type(struct conn *conn, struct request *request)
{
    bool found = batch_op(conn->batch, request, 0)->status == KVASIR_OK;
    reply_simple(conn, found ? "string" : "none");
}

/* -2: no such key, -1: it never expires, else its expiry in Unix milliseconds. */
static int64_t expiry_of(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    if (op->status != KVASIR_OK) {
        return -2;
    }
    return op->expires_at_ms == 0 ? -1 : op->expires_at_ms;
}

static int64_t left_of(struct conn *conn, int64_t expires_at_ms)
{
    int64_t left = expires_at_ms - conn->reactor->now.wall_ms;
    return left > 0 ? left : 0;
}

void cmd_key_reply_ttl(struct conn *conn, struct request *request)
{
    int64_t expiry = expiry_of(conn, request);
    reply_integer(conn, expiry < 0 ? expiry : (left_of(conn, expiry) + 500) / 1000);
}

void cmd_key_reply_pttl(struct conn *conn, struct request *request)
{
    int64_t expiry = expiry_of(conn, request);
    reply_integer(conn, expiry < 0 ? expiry : left_of(conn, expiry));
}

void cmd_key_reply_expiretime(struct conn *conn, struct request *request)
{
    int64_t expiry = expiry_of(conn, request);
    reply_integer(conn, expiry < 0 ? expiry : (expiry + 500) / 1000);
}

void cmd_key_reply_pexpiretime(struct conn *conn, struct request *request)
{
    reply_integer(conn, expiry_of(conn, request));
}

static bool parse_rule(struct request *request, uint8_t *rule)
{
    static const char *const words[] = {"", "nx", "xx", "gt", "lt"};
    bool seen[ARRAY_COUNT(words)] = {false};
    *rule = OP_EXPIRE_ALWAYS;
    for (uint32_t i = 3; i < request->arg_count; i++) {
        uint8_t found = 0;
        for (uint8_t w = 1; w < ARRAY_COUNT(words); w++) {
            if (slice_equal_nocase(request->args[i], words[w])) {
                found = w;
            }
        }
        if (found == 0) {
            request->refusal = REFUSAL_UNSUPPORTED_OPTION;
            request->next_arg = i;
            return false;
        }
        seen[found] = true;
        *rule = *rule == OP_EXPIRE_ALWAYS || *rule == OP_EXPIRE_XX ? found : *rule;
    }
    if (seen[OP_EXPIRE_XX] && seen[OP_EXPIRE_LT]) {
        *rule = OP_EXPIRE_XX_LT;
    }
    if (seen[OP_EXPIRE_NX] && (seen[OP_EXPIRE_XX] || seen[OP_EXPIRE_GT] || seen[OP_EXPIRE_LT])) {
        request_refuse(request,
                       "ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (seen[OP_EXPIRE_GT] && seen[OP_EXPIRE_LT]) {
        request_refuse(request, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

static void plan_expire(struct conn *conn, struct request *request, enum expiry_unit unit,
                        const char *invalid)
{
    int64_t expires_at_ms;
    uint8_t rule;
    enum expiry_result result;
    struct op *op;
    if (!parse_rule(request, &rule)) {
        return;
    }
    result = expiry_parse(request->args[2], unit, false, &conn->reactor->now, &expires_at_ms);
    if (result != EXPIRY_OK) {
        request_refuse(request, result == EXPIRY_NOT_INTEGER ? ERROR_NOT_INTEGER : invalid);
        return;
    }
    op = batch_add_op(conn->batch, request, OP_EXPIRE, request->args[1]);
    op->expires_at_ms = expires_at_ms;
    op->expire_rule = rule;
}

void cmd_key_plan_expire(struct conn *conn, struct request *request)
{
    plan_expire(conn, request, EXPIRY_SECONDS, "ERR invalid expire time in 'expire' command");
}

void cmd_key_plan_pexpire(struct conn *conn, struct request *request)
{
    plan_expire(conn, request, EXPIRY_MILLISECONDS, "ERR invalid expire time in 'pexpire' command");
}

void cmd_key_plan_expireat(struct conn *conn, struct request *request)
{
    plan_expire(conn, request, EXPIRY_AT_SECONDS, "ERR invalid expire time in 'expireat' command");
}

void cmd_key_plan_pexpireat(struct conn *conn, struct request *request)
{
    plan_expire(conn, request, EXPIRY_AT_MILLISECONDS,
                "ERR invalid expire time in 'pexpireat' command");
}

void cmd_key_plan_persist(struct conn *conn, struct request *request)
{
    (void)batch_add_op(conn->batch, request, OP_PERSIST, request->args[1]);
}

void cmd_key_reply_done(struct conn *conn, struct request *request)
{
    reply_integer(conn, batch_op(conn->batch, request, 0)->status == KVASIR_OK ? 1 : 0);
}

/* ---- OBJECT, MEMORY USAGE ---- */

void cmd_key_plan_object(struct conn *conn, struct request *request)
{
    struct op *op = batch_add_op(conn->batch, request, OP_STAT, request->args[2]);
    op->stat_p = &conn->batch->stats[conn->batch->stat_count++];
}

/* The stat of the key; NULL (and a null reply) when there is none. */
static const struct op_stat *stat_of(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    if (op->status != KVASIR_OK) {
        reply_null(conn);
        return NULL;
    }
    return op->stat_p;
}

const char *cmd_key_encoding(const struct op_stat *stat)
{
    if (stat->is_integer) {
        return "int";
    }
    return stat->length_bytes <= 44 ? "embstr" : "raw";
}

void cmd_key_reply_encoding(struct conn *conn, struct request *request)
{
    const struct op_stat *stat = stat_of(conn, request);
    if (stat != NULL) {
        reply_text(conn, cmd_key_encoding(stat));
    }
}

void cmd_key_reply_freq(struct conn *conn, struct request *request)
{
    const struct op_stat *stat = stat_of(conn, request);
    if (stat != NULL) {
        reply_integer(conn, stat->frequency);
    }
}

void cmd_key_reply_idletime(struct conn *conn, struct request *request)
{
    const struct op_stat *stat = stat_of(conn, request);
    if (stat != NULL) {
        reply_integer(conn, stat->idle_s);
    }
}

void cmd_key_reply_refcount(struct conn *conn, struct request *request)
{
    if (stat_of(conn, request) != NULL) {
        reply_integer(conn, 1);
    }
}

void cmd_key_reply_object_help(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "OBJECT <subcommand> <key>. Subcommands are:",
        "ENCODING <key>",
        "    \"int\" for an integer, else \"embstr\" or \"raw\", by length.",
        "FREQ <key>",
        "    How often the key was read, up to 255; with maxmemory-policy allkeys-lfu or",
        "    volatile-lfu the logarithmic counter of Redis.",
        "IDLETIME <key>",
        "    Seconds since the key was last read.",
        "REFCOUNT <key>",
        "    Always 1.",
        "HELP",
        "    This text.",
    };
    (void)request;
    reply_lines(conn, lines, ARRAY_COUNT(lines));
}

void cmd_key_plan_memory_usage(struct conn *conn, struct request *request)
{
    for (uint32_t i = 3; i < request->arg_count; i += 2) {
        int64_t samples = 0;
        bool has_number = i + 1 < request->arg_count;
        if (!has_number || !slice_equal_nocase(request->args[i], "samples")) {
            request_refuse(request, ERROR_SYNTAX);
            return;
        }
        if (!slice_to_i64(request->args[i + 1], &samples)) {
            request_refuse(request, ERROR_NOT_INTEGER);
            return;
        }
        if (samples < 0) {
            request_refuse(request, ERROR_SYNTAX);
            return;
        }
    }
    cmd_key_plan_object(conn, request);
}

void cmd_key_reply_memory_usage(struct conn *conn, struct request *request)
{
    const struct op_stat *stat = stat_of(conn, request);
    if (stat != NULL) {
        reply_integer(
            conn, (int64_t)(stat->stored_bytes + request->args[2].length_bytes + value_bytes(0)));
    }
}
