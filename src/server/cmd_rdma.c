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
#include <string.h>

/* Arguments of one segment of the client's memory: address, key, length. */
#define SEGMENT_ARGS 3
/* No more of an argument is sent back. */
#define QUOTED_BYTES_MAX 64

static const char ERROR_BROKEN[] =
    "IO every queue pair failed; KV.CONNECT RDMA opens others, and KV.SET and KV.GET need none";

/* ---- KV.HELLO and KV.CONNECT RDMA name value … ---- */

static bool is_offered(const struct conn *conn)
{
    const struct fabric *fabric = conn->reactor->hub.fabric;
    return fabric != NULL && fabric_find(fabric, NULL) < FABRIC_DEVICES_MAX &&
           access_permits_rdma(conn);
}

static bool offers_windows(const struct conn *conn, uint32_t device)
{
    return fabric_has_windows(conn->reactor->hub.fabric, device) &&
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

static void describe_device(struct conn *conn, uint32_t index)
{
    const struct fabric *fabric = conn->reactor->hub.fabric;
    const struct kvasir_device *device = fabric_device(fabric, index);
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
    reply_pair_integer(conn, "port", device->port);
    reply_text(conn, "gids");
    reply_gids(conn, device);
    reply_text(conn, "modes");
    reply_array(conn, offers_windows(conn, index) ? 2 : 1);
    reply_text(conn, "server");
    if (offers_windows(conn, index)) {
        reply_text(conn, "client");
    }
}

uint32_t cmd_rdma_device_count(const struct conn *conn)
{
    const struct fabric *fabric = conn->reactor->hub.fabric;
    uint32_t count = 0;
    for (uint32_t i = 0; is_offered(conn) && i < fabric->device_count; i++) {
        count += fabric_is_gone(fabric, i) ? 0 : 1;
    }
    return count;
}

void cmd_rdma_describe(struct conn *conn, uint32_t count)
{
    const struct fabric *fabric = conn->reactor->hub.fabric;
    /* Reactor 0 may learn meanwhile that one is gone: as many are told of as were announced. */
    for (uint32_t i = 0; count > 0; i++) {
        if (fabric->device_count - i <= count || !fabric_is_gone(fabric, i)) {
            describe_device(conn, i);
            count--;
        }
    }
}

static int quoted_length(struct slice text)
{
    return (int)(text.length_bytes < QUOTED_BYTES_MAX ? text.length_bytes : QUOTED_BYTES_MAX);
}

/* What is no part of the address: who drives (MODE SERVER, the default, or MODE CLIENT), the LINK, and VIA
 * which of the server's devices. KVASIR_NOT_FOUND: the name is none of these; KVASIR_INVALID: the value. */
static enum kvasir_status parse_wish(struct conn *conn, struct slice name, struct slice value,
                                     struct remote_wish *wish)
{
    char device[KVASIR_DEVICE_NAME_BYTES];
    uint64_t number;
    if (slice_equal_nocase(name, "mode")) {
        wish->lends = slice_equal_nocase(value, "client");
        return wish->lends || slice_equal_nocase(value, "server") ? KVASIR_OK : KVASIR_INVALID;
    }
    if (slice_equal_nocase(name, "link")) {
        if (!slice_to_u64(value, &number) || number >= REMOTE_LINKS_MAX) {
            return KVASIR_INVALID;
        }
        wish->link = (uint32_t)number;
        return KVASIR_OK;
    }
    if (!slice_equal_nocase(name, "via")) {
        return KVASIR_NOT_FOUND;
    }
    if (value.length_bytes >= sizeof(device)) {
        return KVASIR_INVALID;
    }
    memcpy(device, value.data, value.length_bytes);
    device[value.length_bytes] = '\0';
    wish->device = fabric_find(conn->reactor->hub.fabric, device);
    return wish->device < FABRIC_DEVICES_MAX ? KVASIR_OK : KVASIR_INVALID;
}

/* False: an error was replied. */
static bool parse_address(struct conn *conn, const struct request *request,
                          struct kvasir_link_address *address, struct remote_wish *wish)
{
    static const enum link_word needed[] = {LINK_WORD_QPN, LINK_WORD_PSN, LINK_WORD_GID,
                                            LINK_WORD_MTU, LINK_WORD_RD_ATOMIC};
    uint32_t given = 0;
    for (uint32_t i = 2; i + 1 < request->arg_count; i += 2) {
        enum link_word word = link_word_find(request->args[i]);
        struct slice value = request->args[i + 1];
        uint64_t number;
        enum kvasir_status status = parse_wish(conn, request->args[i], value, wish);
        bool set = status == KVASIR_OK;
        if (status != KVASIR_NOT_FOUND) {
            word = LINK_WORD_COUNT;
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
        given |= 1U << word; /* of what is no part of the address the bit behind them all */
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
    remote_close_unused(conn);
}

void cmd_rdma_reply_connect(struct conn *conn, struct request *request)
{
    struct kvasir_link_address client = {.gid.type = KVASIR_GID_ROCE_V2};
    char said[KVASIR_SAID_BYTES] = "";
    const struct fabric *fabric = conn->reactor->hub.fabric;
    struct remote_wish wish = {.link = 0};
    enum kvasir_status status;
    if (request->next_arg != 0) {
        reply_connected(conn);
        return;
    }
    if (fabric == NULL) {
        reply_error(conn, conn->reactor->server->rdma_refusal);
        return;
    }
    wish.device = fabric_find(fabric, NULL);
    if (!parse_address(conn, request, &client, &wish)) {
        return;
    }
    if (wish.device == FABRIC_DEVICES_MAX) {
        reply_error(conn, "CLOSED no queue pair: the device is gone");
        return;
    }
    if (wish.lends && !offers_windows(conn, wish.device)) {
        const struct kvasir_domain_facts *facts =
            fabric->ops->domain_facts(fabric->devices[wish.device].domain);
        reply_errorf(conn, "UNSUPPORTED MODE CLIENT needs memory windows: %s",
                     facts->windows ? "rdma-windows-max is 0" : facts->windows_reason);
        return;
    }
    status = remote_open(conn, &wish, &client, said);
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
        request_refuse(request, ERROR_BROKEN);
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
            !slice_to_u64(request->args[i + 1], &key) ||
            key >> REMOTE_KEY_LINK_BITS >= REMOTE_LINKS_MAX ||
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

static void reply_failed(struct conn *conn, const struct request *request)
{
    reply_errorf(conn,
                 "IO the transfer failed and the queue pair of LINK %u with it; KV.CONNECT RDMA "
                 "opens another, and KV.SET and KV.GET need none",
                 request->transfer_link);
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
        reply_failed(conn, request);
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
        reply_failed(conn, request);
    } else {
        reply_integer(conn, op->integer);
    }
}
