#include "server/access.h"

#include "base/check.h"
#include "base/clock.h"
#include "server/cmd_client.h"
#include "server/pubsub.h"

static void become(struct conn *conn, const struct acl_user *user)
{
    conn->user = user;
    conn->restricted = !user->unrestricted;
    conn->tenant = tenant_of_user(shard_tenants(conn->reactor->shard), acl_user_name(user));
}

void access_begin(struct conn *conn)
{
    const struct acl_user *user = acl_table_default(conn->reactor->acl);
    become(conn, user);
    conn->authenticated = user->nopass && user->enabled;
}

void access_follow_tenants(struct reactor *reactor)
{
    list_foreach (cursor, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        become(conn, conn->user);
    }
}

/* ---- what was denied ---- */

static void record(struct conn *conn, enum acl_verdict reason, struct slice object,
                   struct slice user)
{
    struct reactor *reactor = conn->reactor;
    char line[CMD_CLIENT_LINE_BYTES_MAX];
    size_t length = cmd_client_describe(conn, line, sizeof(line));
    struct acl_event event = {
        .reason = reason,
        .context = (conn->modes & CONN_MODE_MULTI) != 0 ? ACL_LOG_MULTI : ACL_LOG_TOPLEVEL,
        .wall_ms = clock_wall_us() / 1000,
        .object = object,
        .user = user,
        .client = slice_of(line, length > 0 ? length - 1 : 0), /* without its line feed */
    };
    metric_add(&reactor->metrics.acl_denied[reason], 1);
    acl_log_add(&reactor->acl_log, &event, reactor->settings.acllog_max_len);
}

/* ---- who ---- */

bool access_authenticate(struct conn *conn, struct slice name, struct slice password)
{
    const struct acl_user *user = acl_table_find(conn->reactor->acl, name);
    if (user == NULL || !acl_user_authenticate(user, password)) {
        record(conn, ACL_DENIED_AUTH, slice_of_text("AUTH"), name);
        return false;
    }
    become(conn, user);
    conn->authenticated = true;
    if (conn->staging != NULL && !access_permits_mapping(user)) {
        conn_close_soon(conn); /* what it has mapped it may not see any more */
    }
    return true;
}

/* ---- what ---- */

void access_judge(struct conn *conn, struct request *request)
{
    uint32_t index = 0;
    enum acl_verdict verdict =
        acl_user_judge(conn->user, request->command, request->args, request->arg_count, &index);
    if (verdict == ACL_PERMITTED) {
        return;
    }
    conn->last_command = request->command; /* its line in the log names what was denied */
    record(conn, verdict,
           verdict == ACL_DENIED_COMMAND ? slice_of_text(request->command->name)
                                         : request->args[index],
           acl_user_name(conn->user));
    switch (verdict) {
    case ACL_DENIED_COMMAND:
        request->refusal = REFUSAL_NOPERM_COMMAND;
        return;
    case ACL_DENIED_KEY:
        request->refusal = REFUSAL_NOPERM_KEY;
        return;
    case ACL_DENIED_CHANNEL:
        request->refusal = REFUSAL_NOPERM_CHANNEL;
        return;
    case ACL_DENIED_AUTH:
    case ACL_PERMITTED:
        break;
    }
    unreachable();
}

bool access_permits_upload(const struct conn *conn)
{
    uint32_t count = conn->reader.arg_count;
    const struct command *command = command_find(conn->args, count);
    uint32_t index = 0;
    return !conn->restricted ||
           acl_user_judge(conn->user, command, conn->args, count, &index) == ACL_PERMITTED;
}

bool access_permits_mapping(const struct acl_user *user)
{
    return acl_user_permits_all_keys(user, command_by_id(COMMAND_KV_CONNECT_SHM),
                                     COMMAND_ACCESS_READ);
}

bool access_permits_rdma(const struct conn *conn)
{
    return !conn->restricted ||
           acl_user_permits_command(conn->user, command_by_id(COMMAND_KV_CONNECT_RDMA));
}

/* ---- changes ---- */

/* Whether its user may listen to all that it listens to. */
static bool may_listen(const struct conn *conn)
{
    list_foreach (cursor, &conn->subscriptions) {
        const struct subscription *to = list_entry(cursor, struct subscription, conn_link);
        if (!acl_user_permits_channel(conn->user, to->name, to->kind == PUBSUB_PATTERN)) {
            return false;
        }
    }
    return true;
}

/* False: the connection has no business here any more. */
static bool follow(struct conn *conn, const struct acl_table *table, bool loaded)
{
    const struct acl_user *before = conn->user;
    const struct acl_user *user = acl_table_find(table, acl_user_name(before));
    bool is_default = user == acl_table_default(table);
    if (user == NULL || (loaded && !is_default)) {
        access_begin(conn);
        conn->authenticated = false;
        return false;
    }
    become(conn, user);
    if (is_default && user->nopass && user->enabled) {
        conn->authenticated = true;
    }
    if (user != before && conn->restricted && !may_listen(conn)) {
        return false;
    }
    return conn->staging == NULL || access_permits_mapping(user);
}

bool access_update(struct reactor *reactor, const struct acl_table *table, bool loaded,
                   uint64_t caller)
{
    bool caller_ends = false;
    reactor->acl = table;
    list_foreach_safe (cursor, after, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        if (follow(conn, table, loaded)) {
            continue;
        }
        if (conn->id == caller) {
            caller_ends = true;
        } else {
            conn_kill(conn);
        }
    }
    /* The dead may still have a batch under way, but nothing of theirs is judged any more. */
    list_foreach (cursor, &reactor->dead) {
        list_entry(cursor, struct conn, dead_link)->user = NULL;
    }
    return caller_ends;
}
