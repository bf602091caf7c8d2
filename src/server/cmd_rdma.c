#include "server/cmd_rdma.h"

#include "base/check.h"
#include "proto/link_word.h"
#include "proto/status_code.h"
#include "server/access.h"
#include "server/cmd_kv.h"
#include "server/cmd_string.h"
#include "server/remote.h"
#include "server/reply.h"
#include "server/transaction.h"
#include "server/transfer.h"
#include "server/upload.h"

#include <stdio.h>

/* Arguments of one segment of the client's memory: address, key, length. */
#define SEGMENT_ARGS 3
/* No more of an argument is sent back. */
#define QUOTED_BYTES_MAX 64

static const char ERROR_FAILED[] =
    "IO the transfer failed and the queue pair with it; KV.CONNECT RDMA opens another, and KV.SET and "
    "KV.GET need none";

/* ---- KV.HELLO and KV.CONNECT RDMA name value … ---- */

bool cmd_rdma_is_offered(const struct conn *conn)
{
    const struct fabric *fabric = conn->reactor->hub.fabric;
    return fabric != NULL && !fabric_is_gone(fabric) && access_permits_rdma(conn);
}

static bool offers_windows(const struct conn *conn)
{
    const struct fabric *fabric = conn->reactor->hub.fabric;
    return fabric->ops->domain_facts(fabric->domain)->windows &&
           conn->reactor->settings.rdma_windows_max > 0;
}

static void reply_address(struct conn *conn, const struct kvasir_link_address *address,
                          enum link_word first)
{
    char text[KVASIR_DEVICE_NAME_BYTES];
    for (unsigned word = first; word < LINK_WORD_COUNT; word++) {
        reply_text(conn, link_word_name((enum link_word)word));
        if (link_word_is_number((enum link_word)word)) {
            reply_integer(conn, (int64_t)link_word_number(address, (enum link_word)word));
        } else {
            link_word_text(address, (enum link_word)word, text);
            reply_text(conn, text);
        }
    }
}

/* All GIDs, each in the form "index type address": a client chooses its own by them. */
static void reply_gids(struct conn *conn, const struct kvasir_device *device)
{
    unsigned count = device->gid_count < KVASIR_GIDS_MAX ? device->gid_count : KVASIR_GIDS_MAX;
    reply_array(conn, count);
    for (unsigned i = 0; i < count; i++) {
        const struct kvasir_link_address address = {.gid = device->gids[i]};
        char gid[LINK_WORD_GID_BYTES];
        char type[KVASIR_DEVICE_NAME_BYTES];
        char text[sizeof(gid) + sizeof(type) + 16];
        link_word_format_gid(&device->gids[i], gid);
        link_word_text(&address, LINK_WORD_GID_TYPE, type);
        (void)snprintf(text, sizeof(text), "%u %s %s", device->gids[i].index, type, gid);
        reply_text(conn, text);
    }
}

void cmd_rdma_describe(struct conn *conn)
{
    const struct fabric *fabric = conn->reactor->hub.fabric;
    const struct kvasir_device *device = fabric_device(fabric);
    struct kvasir_link_address address = {
        .layer = device->layer,
        .lid = device->lid,
        .mtu_bytes = fabric->mtu_bytes != 0 && fabric->mtu_bytes < device->mtu_bytes
                         ? fabric->mtu_bytes
                         : device->mtu_bytes,
        .rd_atomic = device->rd_atomic,
    };
    char said[KVASIR_SAID_BYTES];
    (void)snprintf(address.device, sizeof(address.device), "%s", device->name);
    (void)fabric->ops->choose_gid(fabric->state, device, fabric->gid_index, NULL, &address.gid,
                                  said);
    reply_map(conn, 4 + LINK_WORD_COUNT);
    reply_text(conn, "name");
    reply_text(conn, "rdma");
    reply_address(conn, &address, LINK_WORD_DEVICE);
    reply_text(conn, "port");
    reply_integer(conn, device->port);
    reply_text(conn, "gids");
    reply_gids(conn, device);
    reply_text(conn, "modes");
    reply_array(conn, offers_windows(conn) ? 2 : 1);
    reply_text(conn, "server");
    if (offers_windows(conn)) {
        reply_text(conn, "client");
    }
}

static int quoted_length(struct slice text)
{
    return (int)(text.length_bytes < QUOTED_BYTES_MAX ? text.length_bytes : QUOTED_BYTES_MAX);
}

/* Who drives: MODE SERVER, the default, or MODE CLIENT. False: it is neither. */
static bool parse_mode(struct slice word, bool *lends)
{
    *lends = slice_equal_nocase(word, "client");
    return *lends || slice_equal_nocase(word, "server");
}

/* False: an error was replied. */
static bool parse_address(struct conn *conn, const struct request *request,
                          struct kvasir_link_address *address, bool *lends)
{
    static const enum link_word needed[] = {LINK_WORD_QPN, LINK_WORD_PSN, LINK_WORD_GID,
                                            LINK_WORD_MTU, LINK_WORD_RD_ATOMIC};
    uint32_t given = 0;
    for (uint32_t i = 2; i + 1 < request->arg_count; i += 2) {
        enum link_word word = link_word_find(request->args[i]);
        struct slice value = request->args[i + 1];
        uint64_t number;
        bool set = false;
        if (slice_equal_nocase(request->args[i], "mode")) {
            set = parse_mode(value, lends);
        } else if (word < LINK_WORD_COUNT && link_word_is_number(word)) {
            set = slice_to_u64(value, &number) && link_word_set_number(address, word, number);
        } else if (word < LINK_WORD_COUNT) {
            set = link_word_set_text(address, word, value);
        }
        if (!set) {
            reply_errorf(conn, "ERR KV.CONNECT RDMA does not take '%.*s' '%.*s'",
                         quoted_length(request->args[i]), (const char *)request->args[i].data,
                         quoted_length(value), (const char *)value.data);
            return false;
        }
        given |= 1U << word; /* of MODE the bit behind them all */
    }
    for (size_t i = 0; i < ARRAY_COUNT(needed); i++) {
        if ((given >> needed[i] & 1U) == 0) {
            reply_errorf(conn, "ERR KV.CONNECT RDMA needs %s", link_word_name(needed[i]));
            return false;
        }
    }
    if (request->arg_count % 2 != 0) {
        reply_error(conn, ERROR_SYNTAX);
        return false;
    }
    return true;
}

/* Two rounds: the first begins to connect, the second, next_arg is not 0, waits for that and answers. */
void cmd_rdma_plan_connect(struct conn *conn, struct request *request)
{
    if (request->next_arg != 0 && conn->remote != NULL) {
        remote_await(conn);
    }
}

static void reply_connected(struct conn *conn)
{
    const struct remote *remote = conn->remote;
    if (remote->connect_status == KVASIR_OK) {
        reply_map(conn, LINK_WORD_COUNT);
        reply_address(conn, &remote->local, LINK_WORD_DEVICE);
        return;
    }
    reply_errorf(conn, "%s no queue pair: %s", status_code_word(remote->connect_status),
                 remote->said);
    remote_close(conn);
}

void cmd_rdma_reply_connect(struct conn *conn, struct request *request)
{
    struct kvasir_link_address client = {.gid.type = KVASIR_GID_ROCE_V2};
    char said[KVASIR_SAID_BYTES] = "";
    const struct fabric *fabric = conn->reactor->hub.fabric;
    bool lends = false;
    enum kvasir_status status;
    if (request->next_arg != 0) {
        reply_connected(conn);
        return;
    }
    if (fabric == NULL) {
        reply_error(conn, conn->reactor->server->rdma_refusal);
        return;
    }
    if (!parse_address(conn, request, &client, &lends)) {
        return;
    }
    if (lends && !offers_windows(conn)) {
        reply_errorf(conn, "UNSUPPORTED MODE CLIENT needs memory windows: %s",
                     fabric->ops->domain_facts(fabric->domain)->windows
                         ? "rdma-windows-max is 0"
                         : fabric->ops->domain_facts(fabric->domain)->windows_reason);
        return;
    }
    status = remote_open(conn, &client, lends, said);
    if (status != KVASIR_OK) {
        reply_errorf(conn, "%s no queue pair: %s", status_code_word(status), said);
        return;
    }
    request->next_arg = request->arg_count;
    request->more = true;
}

/* ---- what both have in common ---- */

/* Whether payload may move by the queue pair at all; false: refused. */
static bool may_transfer(struct conn *conn, struct request *request)
{
    if (conn->transaction != NULL && request == &conn->transaction->current) {
        request_refuse(request, "ERR KV.PUT and KV.GET INTO are not allowed inside a transaction");
    } else if (!access_permits_rdma(conn)) {
        request_refuse(request, "NOPERM this user has no right to RDMA (+@rdma)");
    } else if (conn->remote == NULL) {
        request_refuse(request,
                       "UNSUPPORTED the connection has no queue pair: KV.CONNECT RDMA comes first");
    } else if (remote_is_broken(conn->remote)) {
        request_refuse(request, ERROR_FAILED);
    } else {
        return true;
    }
    return false;
}

/* The client's memory: address, key and length, again and again; false: refused. */
static bool parse_segments(struct request *request, uint32_t first, uint64_t *total_bytes)
{
    uint32_t words = first < request->arg_count ? request->arg_count - first : 0;
    *total_bytes = 0;
    if (words == 0 || words % SEGMENT_ARGS != 0) {
        request_refuse(request, "ERR memory is told by address, key and length of each segment");
        return false;
    }
    for (uint32_t i = first; i < request->arg_count; i += SEGMENT_ARGS) {
        uint64_t address;
        uint64_t key;
        uint64_t length;
        if (!slice_to_u64(request->args[i], &address) ||
            !slice_to_u64(request->args[i + 1], &key) || key > UINT32_MAX ||
            !slice_to_u64(request->args[i + 2], &length) || length > UINT64_MAX - address ||
            length > (uint64_t)INT64_MAX - *total_bytes) {
            request_refuse(request,
                           "ERR a segment's address, key or length is no number, or out of range");
            return false;
        }
        *total_bytes += length;
    }
    return true;
}

/* ---- KV.PUT key length [options] FROM address key length … ---- */

void cmd_rdma_plan_put(struct conn *conn, struct request *request)
{
    struct op_put put = {0};
    uint32_t index = 3;
    uint32_t flags;
    uint64_t offered;
    struct op *op;
    if (!may_transfer(conn, request)) {
        return;
    }
    if (!slice_to_u64(request->args[2], &put.length_bytes)) {
        request_refuse(request, "ERR the length is not a number");
        return;
    }
    if (!cmd_kv_parse_put(conn, request, &index, true, &flags, &put, NULL)) {
        return;
    }
    if (index == request->arg_count) {
        request_refuse(request, "ERR KV.PUT takes its payload FROM the client's memory");
        return;
    }
    if (!parse_segments(request, index + 1, &offered)) {
        return;
    }
    if (offered != put.length_bytes) {
        request_refuse(request, "ERR the segments are not as long together as the value");
        return;
    }
    if (!upload_claims_fit(conn->reactor->server, put.length_bytes)) {
        request_refuse(request,
                       "BUSY puts under way hold half of the memory; KV.SET waits for them");
        return;
    }
    op = batch_add_op(conn->batch, request, OP_RESERVE, request->args[1]);
    op->put = put;
    op->flags = flags;
    transfer_note(conn, request, TRANSFER_IN, index + 1, put.length_bytes);
}

void cmd_rdma_reply_put(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    if (op->status != KVASIR_OK && op->status != KVASIR_EXISTS) {
        reply_status(conn, op->status);
    } else if (op->status == KVASIR_EXISTS) {
        reply_simple(conn, "EXISTS");
    } else if (request->transfer_result == KVASIR_CORRUPT) {
        reply_error(conn, "CORRUPT the payload does not have this CHECKSUM");
    } else if (request->transfer_result == KVASIR_NO_MEMORY) {
        reply_status(conn, KVASIR_NO_MEMORY);
    } else if (request->transfer_result != KVASIR_OK) {
        reply_error(conn, ERROR_FAILED);
    } else {
        reply_ok(conn);
    }
}

/* ---- KV.GET key [INTO address key length …] ---- */

void cmd_rdma_plan_get(struct conn *conn, struct request *request)
{
    uint64_t room;
    if (LIKELY(request->arg_count == 2)) {
        cmd_string_plan_get(conn, request);
        return;
    }
    if (!slice_equal_nocase(request->args[2], "into")) {
        request_refuse(request, ERROR_SYNTAX);
        return;
    }
    if (may_transfer(conn, request) && parse_segments(request, 3, &room)) {
        cmd_string_plan_get(conn, request);
        transfer_note(conn, request, TRANSFER_OUT, 3, room);
    }
}

/* The value's length; nothing has moved when that is more than there was room for. */
void cmd_rdma_reply_get(struct conn *conn, struct request *request)
{
    const struct op *op;
    if (LIKELY(request->arg_count == 2)) {
        cmd_string_reply_get(conn, request);
        return;
    }
    op = batch_op(conn->batch, request, 0);
    if (op->status == KVASIR_NOT_FOUND) {
        reply_null(conn);
    } else if (op->status != KVASIR_OK) {
        reply_status(conn, op->status);
    } else if (request->transfer_result != KVASIR_OK) {
        reply_error(conn, ERROR_FAILED);
    } else {
        reply_integer(conn, op->integer);
    }
}
