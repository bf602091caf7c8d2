#include "server/cmd_kv.h"

#include "base/check.h"
#include "server/cmd_loan.h"
#include "server/cmd_string.h"
#include "server/lend.h"
#include "server/reply.h"

#include <stdio.h>
#include <string.h>

#include <xxhash.h>

/* How long a reservation stays unless KV.RESERVE says otherwise. */
#define RESERVE_TIMEOUT_MS 30000

static const char *const CLASS_WORDS[] = {"full", "window", "state", "encoder"};
static const char *const PIN_WORDS[] = {"none", "soft", "hard"};

/* ---- options of a put ---- */

static bool parse_word(struct slice word, const char *const *words, unsigned count, uint8_t *index)
{
    for (unsigned i = 0; i < count; i++) {
        if (slice_equal_nocase(word, words[i])) {
            *index = (uint8_t)i;
            return true;
        }
    }
    return false;
}

/* Milliseconds of a pin, lease or reservation: 1 … lease-max-ms. */
bool cmd_kv_parse_ms(struct conn *conn, struct request *request, struct slice text, uint64_t *ms)
{
    if (!slice_to_u64(text, ms) || *ms == 0 || *ms > conn->reactor->settings.lease_max_ms) {
        request->refusal = REFUSAL_TIME;
        return false;
    }
    return true;
}

static bool parse_pin(struct conn *conn, struct request *request, uint32_t index, uint8_t *kind,
                      uint32_t *pin_ms)
{
    uint64_t ms;
    if (index + 1 >= request->arg_count ||
        !parse_word(request->args[index], PIN_WORDS + 1, 2, kind)) {
        request_refuse(request, "ERR a pin is SOFT or HARD and a time in milliseconds");
        return false;
    }
    (*kind)++;
    if (!cmd_kv_parse_ms(conn, request, request->args[index + 1], &ms)) {
        return false;
    }
    *pin_ms = (uint32_t)ms;
    return true;
}

static bool parse_ttl(struct conn *conn, struct request *request, struct slice text,
                      struct op_put *put)
{
    uint64_t ms;
    if (!slice_to_u64(text, &ms) || ms == 0 || ms > INT64_MAX / 2) {
        request_refuse(request, "ERR TTL takes milliseconds greater than 0");
        return false;
    }
    put->expires_at_ms = conn->reactor->now.wall_ms + (int64_t)ms;
    return true;
}

static bool parse_cost(struct request *request, struct slice text, struct op_put *put)
{
    uint64_t cost;
    if (!slice_to_u64(text, &cost) || cost == 0) {
        request_refuse(request, "ERR COST takes a number greater than 0");
        return false;
    }
    put->cost_log2 = (uint8_t)(64 - __builtin_clzll(cost));
    return true;
}

static bool parse_checksum(struct request *request, struct slice text, struct op_put *put)
{
    if (!slice_to_hex64(text, &put->checksum)) {
        request_refuse(request, "ERR CHECKSUM takes the XXH3-64 of the payload in hexadecimal");
        return false;
    }
    return true;
}

static bool parse_class(struct request *request, struct slice text, struct op_put *put)
{
    if (!parse_word(text, CLASS_WORDS, ARRAY_COUNT(CLASS_WORDS), &put->value_class)) {
        request_refuse(request, "ERR CLASS is FULL, WINDOW, STATE or ENCODER");
        return false;
    }
    return true;
}

/* One option at *index, which moves to its last word. */
static bool parse_put_option(struct conn *conn, struct request *request, uint32_t *index,
                             uint32_t *flags, struct op_put *put)
{
    struct slice word = request->args[*index];
    bool more = *index + 1 < request->arg_count;
    struct slice value = more ? request->args[*index + 1] : slice_of(NULL, 0);
    if (slice_equal_nocase(word, "nx")) {
        *flags |= OP_SET_IF_ABSENT;
        return true;
    }
    (*index)++;
    if (slice_equal_nocase(word, "pin")) {
        (*index)++;
        return parse_pin(conn, request, *index - 1, &put->pin_kind, &put->pin_ms);
    }
    if (slice_equal_nocase(word, "ttl") && more) {
        return parse_ttl(conn, request, value, put);
    }
    if (slice_equal_nocase(word, "cost") && more) {
        return parse_cost(request, value, put);
    }
    if (slice_equal_nocase(word, "parent") && more) {
        put->parent_hash = op_hash(conn->reactor->settings.hash_seed, request->database, value);
        return true;
    }
    if (slice_equal_nocase(word, "checksum") && more) {
        *flags |= OP_SET_CHECKSUM;
        return parse_checksum(request, value, put);
    }
    if (slice_equal_nocase(word, "class") && more) {
        return parse_class(request, value, put);
    }
    if (slice_equal_nocase(word, "codec") && more) {
        if (slice_equal_nocase(value, "none")) {
            return true;
        }
        request_refuse(request, conn->reactor->server->codec_refusal);
        return false;
    }
    request_refuse(request, ERROR_SYNTAX);
    return false;
}

bool cmd_kv_parse_put(struct conn *conn, struct request *request, uint32_t *index, bool from,
                      uint32_t *flags, struct op_put *put, uint64_t *timeout_ms)
{
    *flags = 0;
    for (; *index < request->arg_count; (*index)++) {
        if (from && slice_equal_nocase(request->args[*index], "from")) {
            return true;
        }
        if (timeout_ms != NULL && slice_equal_nocase(request->args[*index], "timeout") &&
            *index + 1 < request->arg_count) {
            (*index)++;
            if (!cmd_kv_parse_ms(conn, request, request->args[*index], timeout_ms)) {
                return false;
            }
        } else if (!parse_put_option(conn, request, index, flags, put)) {
            return false;
        }
    }
    return true;
}

bool cmd_kv_parse_reserve(struct conn *conn, struct request *request, uint32_t *flags,
                          struct op_put *put, uint64_t *timeout_ms)
{
    uint64_t longest_ms = conn->reactor->settings.lease_max_ms;
    uint32_t index = 3;
    *timeout_ms = RESERVE_TIMEOUT_MS;
    if (!slice_to_u64(request->args[2], &put->length_bytes)) {
        request_refuse(request, "ERR the length is not a number");
        return false;
    }
    if (!cmd_kv_parse_put(conn, request, &index, false, flags, put, timeout_ms)) {
        return false;
    }
    if (*timeout_ms > longest_ms) {
        *timeout_ms = longest_ms;
    }
    return true;
}

/* ---- KV.SET ---- */

/* Whether the payload has this checksum. False: it has not, or that takes another turn (request->more). */
static bool verify_payload(struct conn *conn, struct request *request, uint64_t checksum)
{
    struct slice payload = request->args[2];
    enum kvasir_status status;
    if (conn->upload.state == UPLOAD_READY) {
        status = upload_verify(conn, checksum);
    } else {
        status = XXH3_64bits(payload.data, payload.length_bytes) == checksum ? KVASIR_OK
                                                                             : KVASIR_CORRUPT;
    }
    if (status == KVASIR_PENDING) {
        request->more = true;
        conn_yield(conn);
    } else if (status == KVASIR_CORRUPT) {
        request_refuse(request, "CORRUPT the payload does not have this CHECKSUM");
    } else if (status != KVASIR_OK) {
        request_refuse(request, ERROR_NO_CHECKSUM);
    }
    return status == KVASIR_OK;
}

void cmd_kv_plan_set(struct conn *conn, struct request *request)
{
    struct op_put put = {0};
    uint32_t index = 3;
    uint32_t flags;
    struct op *op;
    if (!cmd_kv_parse_put(conn, request, &index, false, &flags, &put, NULL)) {
        return;
    }
    if (cmd_string_drop_existing(conn)) {
        return;
    }
    if ((flags & OP_SET_CHECKSUM) != 0 && !verify_payload(conn, request, put.checksum)) {
        return;
    }
    op = cmd_string_add_put(conn, request, 2);
    if (op != NULL) {
        put.length_bytes = request->args[2].length_bytes;
        op->put = put;
        op->flags = flags;
    }
}

void cmd_kv_reply_set(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    if (conn->upload.checksum != NULL) {
        request->more = true; /* it is still being summed */
    } else if (request->op_count > 0 && op->status == KVASIR_OK) {
        reply_ok(conn);
    } else if (request->op_count == 0 || op->status == KVASIR_EXISTS) {
        reply_simple(conn, "EXISTS");
    } else {
        reply_failure(conn, request->command, op);
    }
}

/* ---- KV.MATCH: request->flags is the policy, count what was found so far, number the pin ---- */

enum match_policy {
    MATCH_PREFIX,
    MATCH_SUFFIX,
    MATCH_EACH
};

static bool parse_match(struct conn *conn, struct request *request)
{
    static const char *const words[] = {"prefix", "suffix", "each"};
    uint32_t i = 1;
    uint8_t policy = MATCH_PREFIX;
    uint64_t pin_ms = 0;
    while (i + 2 < request->arg_count) {
        if (slice_equal_nocase(request->args[i], "pin")) {
            if (!cmd_kv_parse_ms(conn, request, request->args[i + 1], &pin_ms)) {
                return false;
            }
        } else if (!slice_equal_nocase(request->args[i], "policy")) {
            break;
        } else if (!parse_word(request->args[i + 1], words, ARRAY_COUNT(words), &policy)) {
            request_refuse(request, "ERR POLICY is PREFIX, SUFFIX or EACH");
            return false;
        }
        i += 2;
    }
    request->flags = policy;
    request->number = (int64_t)pin_ms;
    request->next_arg = i;
    request->first_arg = i;
    return true;
}

void cmd_kv_plan_match(struct conn *conn, struct request *request)
{
    uint32_t i;
    if (request->next_arg == 0 && !parse_match(conn, request)) {
        return;
    }
    i = request->next_arg;
    request->round_arg = i;
    for (; i < request->arg_count && batch_op_room(conn->batch) > 0; i++) {
        struct op *op = batch_add_op(conn->batch, request, OP_EXISTS, request->args[i]);
        op->pin_ms = (uint32_t)request->number;
        op->pin_kind = request->number > 0 ? VALUE_PIN_SOFT : VALUE_PIN_NONE;
    }
    request->more = i < request->arg_count;
    request->next_arg = i;
}

static void match_prefix(struct conn *conn, struct request *request)
{
    for (uint32_t i = 0; i < request->op_count; i++) {
        if (batch_op(conn->batch, request, i)->status != KVASIR_OK) {
            request->more = false;
            return;
        }
        request->count++;
    }
}

static void match_suffix(struct conn *conn, struct request *request)
{
    for (uint32_t i = 0; i < request->op_count; i++) {
        if (batch_op(conn->batch, request, i)->status == KVASIR_OK) {
            request->count = request->round_arg + i - request->first_arg + 1;
        }
    }
}

static void match_each(struct conn *conn, struct request *request)
{
    if (request->round_arg == request->first_arg) {
        reply_array(conn, request->arg_count - request->first_arg);
    }
    for (uint32_t i = 0; i < request->op_count; i++) {
        reply_integer(conn, batch_op(conn->batch, request, i)->status == KVASIR_OK ? 1 : 0);
    }
}

void cmd_kv_reply_match(struct conn *conn, struct request *request)
{
    switch ((enum match_policy)request->flags) {
    case MATCH_PREFIX:
        match_prefix(conn, request);
        break;
    case MATCH_SUFFIX:
        match_suffix(conn, request);
        break;
    case MATCH_EACH:
        match_each(conn, request);
        return;
    }
    if (!request->more) {
        reply_integer(conn, request->count);
    }
}

/* ---- KV.LEASE: request->number is the time; KV.RELEASE ---- */

static void own_plan_lease(struct conn *conn, struct request *request)
{
    uint32_t i = request->next_arg != 0 ? request->next_arg : 2;
    uint64_t ms;
    if (request->next_arg == 0) {
        if (!cmd_kv_parse_ms(conn, request, request->args[1], &ms)) {
            return;
        }
        request->number = (int64_t)ms; /* lease-max-ms may change before the next round */
    }
    request->round_arg = i;
    for (; i < request->arg_count && batch_op_room(conn->batch) > 0; i++) {
        struct op *op = batch_add_op(conn->batch, request, OP_LEASE, request->args[i]);
        op->deadline_us = conn->reactor->now.mono_us + request->number * 1000;
        conn->grant_shards |= UINT64_C(1) << conn->batch->ops[conn->batch->op_count - 1].shard;
    }
    request->more = i < request->arg_count;
    request->next_arg = i;
}

/* Pieces that lie next to each other are told as one. */
static unsigned walk_pieces(struct conn *conn, const struct value *value, bool write)
{
    const struct pages *payload = conn->reactor->server->payload;
    struct layout_cursor cursor;
    uint64_t start = 0;
    uint64_t length = 0;
    unsigned count = 0;
    layout_cursor_init(&cursor, payload, &value->layout, value->length_bytes);
    for (;;) {
        struct iovec piece = layout_cursor_peek(&cursor);
        uint64_t at =
            piece.iov_len > 0 ? (uint64_t)((uint8_t *)piece.iov_base - pages_base(payload)) : 0;
        if (length > 0 && (piece.iov_len == 0 || at != start + length)) {
            count++;
            if (write) {
                reply_integer(conn, (int64_t)start);
                reply_integer(conn, (int64_t)length);
            }
            length = 0;
        }
        if (piece.iov_len == 0) {
            return count;
        }
        start = length == 0 ? at : start;
        length += piece.iov_len;
        layout_cursor_skip(&cursor, piece.iov_len);
    }
}

static void reply_hash(struct conn *conn, bool valid, uint64_t hash)
{
    char text[20];
    if (!valid) {
        reply_null(conn);
        return;
    }
    (void)snprintf(text, sizeof(text), "%016llx", (unsigned long long)hash);
    reply_text(conn, text);
}

void cmd_kv_reply_checksum(struct conn *conn, const struct value *value)
{
    reply_hash(conn, (value->flags & VALUE_FLAG_CHECKSUM) != 0, value->checksum);
}

static void reply_lease(struct conn *conn, const struct op *op)
{
    const struct value *value = op->value;
    conn->reactor->leased_bytes += value->length_bytes;
    traffic_count_get(&conn->reactor->metrics.traffic, TRAFFIC_SHM, value->length_bytes);
    reply_array(conn, 4);
    reply_integer(conn, (int64_t)op->grant_id);
    reply_integer(conn, (int64_t)value->length_bytes);
    cmd_kv_reply_checksum(conn, value);
    reply_array(conn, 2 * (uint64_t)walk_pieces(conn, value, false));
    (void)walk_pieces(conn, value, true);
}

static void own_reply_lease(struct conn *conn, struct request *request)
{
    if (request->round_arg == 2) {
        reply_array(conn, request->arg_count - 2);
    }
    for (uint32_t i = 0; i < request->op_count; i++) {
        const struct op *op = batch_op(conn->batch, request, i);
        if (op->status == KVASIR_OK) {
            reply_lease(conn, op);
        } else if (op->status == KVASIR_NOT_FOUND) {
            reply_null(conn);
        } else {
            metric_add(&conn->reactor->metrics.traffic.paths[TRAFFIC_SHM].failed, 1);
            reply_status(conn, op->status);
        }
    }
}

static void own_plan_release(struct conn *conn, struct request *request)
{
    uint32_t i = request->next_arg != 0 ? request->next_arg : 1;
    for (; i < request->arg_count && batch_op_room(conn->batch) > 0; i++) {
        uint64_t id;
        if (!slice_to_u64(request->args[i], &id)) {
            request_refuse(request, "ERR a lease id is a number");
            return;
        }
        if (shard_of_grant(id) < conn->reactor->server->reactor_count) {
            batch_add_op_at(conn->batch, request, OP_RELEASE, shard_of_grant(id))->grant_id = id;
        }
    }
    request->more = i < request->arg_count;
    request->next_arg = i;
}

static void own_reply_release(struct conn *conn, struct request *request)
{
    for (uint32_t i = 0; i < request->op_count; i++) {
        request->count += batch_op(conn->batch, request, i)->status == KVASIR_OK;
    }
    if (!request->more) {
        reply_integer(conn, request->count);
    }
}

/* On a connection with windows these are about loans. */
void cmd_kv_plan_lease(struct conn *conn, struct request *request)
{
    if (UNLIKELY(lend_is_on(conn))) {
        cmd_loan_plan_lease(conn, request);
    } else {
        own_plan_lease(conn, request);
    }
}

void cmd_kv_reply_lease(struct conn *conn, struct request *request)
{
    if (UNLIKELY(lend_is_on(conn))) {
        cmd_loan_reply_lease(conn, request);
    } else {
        own_reply_lease(conn, request);
    }
}

void cmd_kv_plan_release(struct conn *conn, struct request *request)
{
    if (UNLIKELY(lend_is_on(conn))) {
        cmd_loan_plan_release(conn, request);
    } else {
        own_plan_release(conn, request);
    }
}

void cmd_kv_reply_release(struct conn *conn, struct request *request)
{
    if (UNLIKELY(lend_is_on(conn))) {
        cmd_loan_reply_release(conn, request);
    } else {
        own_reply_release(conn, request);
    }
}

/* ---- KV.PIN, KV.UNPIN, KV.STAT ---- */

void cmd_kv_plan_pin(struct conn *conn, struct request *request)
{
    uint8_t kind;
    uint32_t pin_ms;
    struct op *op;
    if (parse_pin(conn, request, 2, &kind, &pin_ms)) {
        op = batch_add_op(conn->batch, request, OP_PIN, request->args[1]);
        op->pin_kind = kind;
        op->pin_ms = pin_ms;
    }
}

void cmd_kv_reply_pin(struct conn *conn, struct request *request)
{
    enum kvasir_status status = batch_op(conn->batch, request, 0)->status;
    if (status == KVASIR_BUSY) {
        reply_status(conn, status);
        return;
    }
    reply_integer(conn, status == KVASIR_OK ? 1 : 0);
}

void cmd_kv_plan_unpin(struct conn *conn, struct request *request)
{
    uint32_t i = request->next_arg != 0 ? request->next_arg : 1;
    for (; i < request->arg_count && batch_op_room(conn->batch) > 0; i++) {
        (void)batch_add_op(conn->batch, request, OP_UNPIN, request->args[i]);
    }
    request->more = i < request->arg_count;
    request->next_arg = i;
}

void cmd_kv_plan_stat(struct conn *conn, struct request *request)
{
    struct op *op = batch_add_op(conn->batch, request, OP_STAT, request->args[1]);
    op->stat_p = &conn->batch->stats[conn->batch->stat_count++];
}

void cmd_kv_reply_stat(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    const struct op_stat *stat = op->stat_p;
    int64_t ttl_ms = -1;
    if (op->status != KVASIR_OK) {
        reply_null(conn);
        return;
    }
    if (stat->expires_at_ms != 0) {
        ttl_ms = stat->expires_at_ms - conn->reactor->now.wall_ms;
        ttl_ms = ttl_ms > 0 ? ttl_ms : 0;
    }
    reply_map(conn, 15);
    reply_pair_integer(conn, "length", (int64_t)stat->length_bytes);
    reply_pair_integer(conn, "stored", (int64_t)stat->stored_bytes);
    reply_pair_text(conn, "codec", "none");
    reply_text(conn, "checksum");
    reply_hash(conn, (stat->flags & VALUE_FLAG_CHECKSUM) != 0, stat->checksum);
    reply_pair_text(conn, "class", CLASS_WORDS[stat->value_class & 3]);
    reply_pair_integer(conn, "ttl_ms", ttl_ms);
    reply_pair_text(conn, "pin", PIN_WORDS[stat->pin_left_ms > 0 ? stat->pin_kind : 0]);
    reply_pair_integer(conn, "pin_ms", stat->pin_left_ms);
    reply_pair_integer(conn, "leases", stat->leases);
    reply_pair_text(conn, "tier", "dram");
    reply_pair_integer(conn, "hits", stat->hits);
    reply_pair_integer(conn, "generation", stat->generation);
    reply_pair_integer(conn, "parent", (stat->flags & VALUE_FLAG_PARENT) != 0);
    reply_pair_text(conn, "state", "sealed");
    reply_text(conn, "tenant");
    if (stat->tenant != 0) {
        reply_text(conn, shard_tenants(conn->reactor->shard)->rows[stat->tenant].name);
    } else {
        reply_null(conn);
    }
}
