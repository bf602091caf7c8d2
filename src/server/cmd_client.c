#include "server/cmd_client.h"

#include "acl/acl_user.h"
#include "server/cmd_transaction.h"
#include "server/reply.h"
#include "server/request_gather.h"

#include <stdio.h>
#include <string.h>

/* Printable and without blanks, as Redis wants names: they stand in CLIENT LIST. */
static bool name_allowed(struct slice name)
{
    for (size_t i = 0; i < name.length_bytes; i++) {
        if (name.data[i] < '!' || name.data[i] > '~') {
            return false;
        }
    }
    return true;
}

static void keep_text(char *to, struct slice text)
{
    size_t length =
        text.length_bytes < CONN_NAME_BYTES - 1 ? text.length_bytes : CONN_NAME_BYTES - 1;
    memcpy(to, text.data, length);
    to[length] = '\0';
}

bool cmd_client_set_name(struct conn *conn, struct slice name)
{
    if (!name_allowed(name)) {
        reply_error(conn,
                    "ERR Client names cannot contain spaces, newlines or special characters.");
        return false;
    }
    if (name.length_bytes >= CONN_NAME_BYTES) {
        reply_errorf(conn, "ERR Client names may have up to %d bytes, not %zu", CONN_NAME_BYTES - 1,
                     name.length_bytes);
        return false;
    }
    keep_text(conn->name, name);
    return true;
}

void cmd_client_reply_id(struct conn *conn, struct request *request)
{
    (void)request;
    reply_integer(conn, (int64_t)conn->id);
}

void cmd_client_reply_getname(struct conn *conn, struct request *request)
{
    (void)request;
    if (conn->name[0] == '\0') {
        reply_null(conn);
    } else {
        reply_text(conn, conn->name);
    }
}

void cmd_client_reply_setname(struct conn *conn, struct request *request)
{
    if (cmd_client_set_name(conn, request->args[2])) {
        reply_ok(conn);
    }
}

void cmd_client_reply_setinfo(struct conn *conn, struct request *request)
{
    struct slice which = request->args[2];
    struct slice text = request->args[3];
    bool name = slice_equal_nocase(which, "lib-name");
    if (!name && !slice_equal_nocase(which, "lib-ver")) {
        reply_errorf(conn, "ERR Unrecognized option '%.*s'",
                     (int)(which.length_bytes < 64 ? which.length_bytes : 64),
                     (const char *)which.data);
    } else if (!name_allowed(text)) {
        reply_errorf(conn, "ERR %s cannot contain spaces, newlines or special characters.",
                     name ? "lib-name" : "lib-ver");
    } else {
        keep_text(name ? conn->library_name : conn->library_version, text);
        reply_ok(conn);
    }
}

/* ---- LIST, INFO ---- */

#define CLIENT_FLAGS_MAX 8

/* Redis's letters in Redis's order. */
static void write_flags(const struct conn *conn, char flags[CLIENT_FLAGS_MAX])
{
    const struct {
        bool set;
        char letter;
    } all[] = {
        {(conn->modes & CONN_MODE_MONITOR) != 0, 'O'},
        {(conn->modes & CONN_MODE_SUBSCRIBED) != 0, 'P'},
        {cmd_transaction_queued(conn) >= 0, 'x'},
        {conn->paused, 'b'},
        {conn->is_unix, 'U'},
        {conn->no_evict, 'e'},
        {conn->no_touch, 'T'},
    };
    size_t count = 0;
    _Static_assert(ARRAY_COUNT(all) < CLIENT_FLAGS_MAX, "they fit");
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (all[i].set) {
            flags[count++] = all[i].letter;
        }
    }
    if (count == 0) {
        flags[count++] = 'N';
    }
    flags[count] = '\0';
}

size_t cmd_client_describe(const struct conn *conn, char *line, size_t capacity)
{
    int64_t now_us = conn->reactor->now.mono_us;
    const uint32_t *counts = conn->subscription_counts;
    char flags[CLIENT_FLAGS_MAX];
    int written;
    write_flags(conn, flags);
    written = snprintf(
        line, capacity,
        "id=%llu addr=%s laddr=%s fd=%d name=%s age=%lld idle=%lld flags=%s db=%u sub=%u psub=%u "
        "ssub=%u multi=%d qbuf=%llu qbuf-free=%zu argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 "
        "oll=%u omem=%llu tot-mem=%llu events=%s cmd=%s user=%.*s redir=-1 resp=%d "
        "lib-name=%s lib-ver=%s tls=%s\n",
        (unsigned long long)conn->id, conn->peer, conn->local, conn->wire.descriptor, conn->name,
        (long long)((now_us - conn->created_us) / 1000000),
        (long long)((now_us - conn->active_us) / 1000000), flags, (unsigned)conn->database,
        counts[PUBSUB_CHANNEL], counts[PUBSUB_PATTERN], counts[PUBSUB_SHARD_CHANNEL],
        cmd_transaction_queued(conn),
        (unsigned long long)(input_length(&conn->input) + conn->ahead.length_bytes),
        conn->input.data != NULL ? input_room(&conn->input) : (size_t)0, conn->output.value_count,
        (unsigned long long)conn->output.pending_bytes,
        (unsigned long long)(sizeof(*conn) + conn->input.capacity_bytes + conn->tls_bytes +
                             conn->ahead.chunk_count * sizeof(struct chunk)),
        conn->writable ? "r" : "rw", conn->last_command != NULL ? conn->last_command->name : "NULL",
        (int)acl_user_name(conn->user).length_bytes, (const char *)acl_user_name(conn->user).data,
        (int)conn->resp, conn->library_name, conn->library_version,
        conn->wire.tls != NULL ? tls_version(conn->wire.tls) : "no");
    if (written < 0) {
        return 0;
    }
    return (size_t)written < capacity ? (size_t)written : capacity - 1;
}

void cmd_client_reply_info(struct conn *conn, struct request *request)
{
    char line[CMD_CLIENT_LINE_BYTES_MAX];
    size_t length;
    conn->last_command = request->command;
    length = cmd_client_describe(conn, line, sizeof(line));
    reply_verbatim(conn, slice_of(line, length));
}

/* Longer names of users cannot be asked for by CLIENT KILL. */
#define CLIENT_USER_BYTES_MAX 192
/* As many can be asked for by CLIENT LIST ID: all connections are compared with all of them. */
#define CLIENT_IDS_MAX 1024U

enum client_type {
    CLIENT_ANY,
    CLIENT_NORMAL,
    CLIENT_PUBSUB,
    CLIENT_NONE, /* master, replica: nobody is */
};

/* Which clients a LIST or KILL is about; lies in the gather's argument. */
struct client_filter {
    uint64_t id;             /* 0: any */
    const struct slice *ids; /* borrowed from the request: one of them; NULL: any */
    uint32_t id_count;
    enum client_type type;
    bool by_address, by_local, skip_me, by_user;
    uint64_t caller;
    int64_t age_min_s; /* MAXAGE; -1: any */
    char address[LISTENER_ADDRESS_BYTES];
    char local[LISTENER_ADDRESS_BYTES];
    uint16_t user_bytes;
    char user[CLIENT_USER_BYTES_MAX];
};
_Static_assert(sizeof(struct client_filter) <= GATHER_ARGUMENT_BYTES, "lies in a gather");

static struct slice filter_user(const struct client_filter *filter)
{
    return slice_of(filter->user, filter->user_bytes);
}

static bool is_one_of(const struct client_filter *filter, const struct conn *conn)
{
    for (uint32_t i = 0; i < filter->id_count; i++) {
        int64_t id;
        if (slice_to_i64(filter->ids[i], &id) && (uint64_t)id == conn->id) {
            return true;
        }
    }
    return filter->ids == NULL;
}

static bool is_of_type(const struct client_filter *filter, const struct conn *conn)
{
    bool listens = (conn->modes & CONN_MODE_SUBSCRIBED) != 0;
    return filter->type == CLIENT_ANY || filter->type == (listens ? CLIENT_PUBSUB : CLIENT_NORMAL);
}

static bool filter_matches(const struct client_filter *filter, const struct conn *conn)
{
    int64_t age_s = (conn->reactor->now.mono_us - conn->created_us) / 1000000;
    return (filter->id == 0 || conn->id == filter->id) && is_one_of(filter, conn) &&
           (!filter->by_address || strcmp(conn->peer, filter->address) == 0) &&
           (!filter->by_local || strcmp(conn->local, filter->local) == 0) &&
           is_of_type(filter, conn) &&
           (!filter->by_user || slice_equal(acl_user_name(conn->user), filter_user(filter))) &&
           !(filter->skip_me && conn->id == filter->caller) &&
           (filter->age_min_s < 0 || age_s >= filter->age_min_s);
}

static void list_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    struct client_filter filter;
    memcpy(&filter, gather->argument, sizeof(filter));
    list_foreach (cursor, &reactor->conns) {
        const struct conn *conn = list_entry(cursor, struct conn, link);
        char line[CMD_CLIENT_LINE_BYTES_MAX];
        if (filter_matches(&filter, conn) &&
            !gather_answer_add(&gather->answers[index], line,
                               cmd_client_describe(conn, line, sizeof(line)))) {
            return;
        }
    }
}

static void ask(struct conn *conn, struct request *request, gather_run_fn *run,
                const struct client_filter *filter)
{
    struct gather *gather = request_gather_begin(conn, request, run);
    if (gather != NULL) {
        memcpy(gather->argument, filter, sizeof(*filter));
        request_gather_start(conn, request);
    }
}

/* False: there is no such type. */
static bool filter_type(struct client_filter *filter, struct slice type)
{
    static const struct {
        const char *name;
        enum client_type type;
    } types[] = {{"normal", CLIENT_NORMAL},
                 {"pubsub", CLIENT_PUBSUB},
                 {"master", CLIENT_NONE},
                 {"replica", CLIENT_NONE},
                 {"slave", CLIENT_NONE}};
    for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
        if (slice_equal_nocase(type, types[i].name)) {
            filter->type = types[i].type;
            return true;
        }
    }
    return false;
}

/* The reply says what is wrong with an argument, and names it: nothing was begun. */
static void refuse_argument(struct request *request, uint32_t index, const char *format)
{
    request->next_arg = index;
    request->error = format;
}

static bool was_refused(struct conn *conn, const struct request *request)
{
    char quoted[REPLY_QUOTED_BYTES_MAX + 1];
    struct slice argument;
    if (request->gather != NULL) {
        return false;
    }
    argument = request->args[request->next_arg];
    (void)snprintf(quoted, sizeof(quoted), "%.*s", reply_quoted_length(argument),
                   (const char *)argument.data);
    reply_errorf(conn, "ERR %s '%s'", request->error, quoted);
    return true;
}

/* False: refused. */
static bool filter_ids(struct request *request, struct client_filter *filter)
{
    filter->ids = request->args + 3;
    filter->id_count = request->arg_count - 3;
    if (filter->id_count > CLIENT_IDS_MAX) {
        request_refuse(request, "ERR CLIENT LIST takes up to 1024 client IDs");
        return false;
    }
    for (uint32_t i = 0; i < filter->id_count; i++) {
        int64_t id;
        if (!slice_to_i64(filter->ids[i], &id)) {
            request_refuse(request, "ERR Invalid client ID");
            return false;
        }
    }
    return true;
}

void cmd_client_plan_list(struct conn *conn, struct request *request)
{
    struct client_filter filter = {.age_min_s = -1};
    if (request->arg_count == 4 && slice_equal_nocase(request->args[2], "type")) {
        if (!filter_type(&filter, request->args[3])) {
            refuse_argument(request, 3, "Unknown client type");
            return;
        }
    } else if (request->arg_count >= 4 && slice_equal_nocase(request->args[2], "id")) {
        if (!filter_ids(request, &filter)) {
            return;
        }
    } else if (request->arg_count != 2) {
        request_refuse(request, ERROR_SYNTAX);
        return;
    }
    conn->last_command = request->command;
    ask(conn, request, list_run, &filter);
}

void cmd_client_reply_list(struct conn *conn, struct request *request)
{
    const struct gather *gather = request->gather;
    size_t bytes = 0;
    if (was_refused(conn, request)) {
        return;
    }
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        bytes += gather->answers[i].text_bytes;
    }
    if (gather->failed || !reply_fits(conn, bytes)) {
        reply_error(conn, ERROR_ANSWER_MEMORY);
    } else {
        reply_verbatim_begin(conn, bytes);
        for (uint32_t i = 0; i < gather->reactor_count; i++) {
            reply_part(conn, slice_of(gather->answers[i].text, gather->answers[i].text_bytes));
        }
        reply_verbatim_end(conn);
    }
    gather_destroy(&request->gather);
}

/* ---- KILL ---- */

static void kill_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    struct client_filter filter;
    memcpy(&filter, gather->argument, sizeof(filter));
    list_foreach_safe (cursor, after, &reactor->conns) {
        struct conn *conn = list_entry(cursor, struct conn, link);
        if (!filter_matches(&filter, conn)) {
            continue;
        }
        gather->answers[index].number++;
        if (conn->id == filter.caller) {
            gather->answers[index].self = true; /* it still has to be told */
        } else {
            conn_kill(conn);
        }
    }
}

static bool parse_yes_no(struct slice word, bool *yes)
{
    *yes = slice_equal_nocase(word, "yes");
    return *yes || slice_equal_nocase(word, "no");
}

static bool filter_address(struct slice address, bool *by, char text[LISTENER_ADDRESS_BYTES])
{
    *by = true;
    if (address.length_bytes < LISTENER_ADDRESS_BYTES) {
        memcpy(text, address.data, address.length_bytes);
    } /* a longer one is nobody's, as the empty one is */
    return true;
}

/* False: refused. */
static bool filter_by_user(const struct conn *conn, struct request *request, uint32_t i,
                           struct client_filter *filter)
{
    struct slice name = request->args[i];
    if (acl_table_find(conn->reactor->acl, name) == NULL) {
        refuse_argument(request, i, "No such user");
        return false;
    }
    if (name.length_bytes > sizeof(filter->user)) {
        request_refuse(request, "ERR CLIENT KILL USER takes names of up to 192 bytes");
        return false;
    }
    filter->by_user = true;
    filter->user_bytes = (uint16_t)name.length_bytes;
    memcpy(filter->user, name.data, name.length_bytes);
    return true;
}

/* One pair of the new form; false: refused. */
static bool parse_kill_pair(const struct conn *conn, struct request *request, uint32_t i,
                            struct client_filter *filter)
{
    struct slice word = request->args[i];
    struct slice value = request->args[i + 1];
    int64_t number;
    if (slice_equal_nocase(word, "id")) {
        if (!slice_to_i64(value, &number) || number <= 0) {
            request_refuse(request, "ERR client-id should be greater than 0");
            return false;
        }
        filter->id = (uint64_t)number;
        return true;
    }
    if (slice_equal_nocase(word, "addr")) {
        return filter_address(value, &filter->by_address, filter->address);
    }
    if (slice_equal_nocase(word, "laddr")) {
        return filter_address(value, &filter->by_local, filter->local);
    }
    if (slice_equal_nocase(word, "type")) {
        if (!filter_type(filter, value)) {
            refuse_argument(request, i + 1, "Unknown client type");
            return false;
        }
        return true;
    }
    if (slice_equal_nocase(word, "user")) {
        return filter_by_user(conn, request, i + 1, filter);
    }
    if (slice_equal_nocase(word, "maxage") && slice_to_i64(value, &number) && number > 0) {
        filter->age_min_s = number;
        return true;
    }
    if (!slice_equal_nocase(word, "skipme") || !parse_yes_no(value, &filter->skip_me)) {
        request_refuse(request, ERROR_SYNTAX);
        return false;
    }
    return true;
}

void cmd_client_plan_kill(struct conn *conn, struct request *request)
{
    struct client_filter filter = {.caller = conn->id, .age_min_s = -1};
    if (request->arg_count == 3) { /* the old form: an address, and the caller may be meant */
        struct slice address = request->args[2];
        (void)filter_address(address, &filter.by_address, filter.address);
        request->flags = 1;
    } else {
        filter.skip_me = true;
        if (request->arg_count % 2 != 0) {
            request_refuse(request, ERROR_SYNTAX);
            return;
        }
        for (uint32_t i = 2; i < request->arg_count; i += 2) {
            if (!parse_kill_pair(conn, request, i, &filter)) {
                return;
            }
        }
    }
    ask(conn, request, kill_run, &filter);
}

void cmd_client_reply_kill(struct conn *conn, struct request *request)
{
    struct gather *gather = request->gather;
    int64_t count = 0;
    bool self = false;
    if (was_refused(conn, request)) {
        return;
    }
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        count += gather->answers[i].number;
        self = self || gather->answers[i].self;
    }
    if (request->flags == 0) {
        reply_integer(conn, count);
    } else if (count == 0) {
        reply_error(conn, "ERR No such client");
    } else {
        reply_ok(conn);
    }
    gather_destroy(&request->gather);
    if (self) {
        conn_close_soon(conn);
    }
}

/* ---- switches ---- */

static bool parse_on_off(struct slice word, bool *on)
{
    *on = slice_equal_nocase(word, "on");
    return *on || slice_equal_nocase(word, "off");
}

static void reply_switch(struct conn *conn, struct request *request, bool *flag)
{
    if (parse_on_off(request->args[2], flag)) {
        reply_ok(conn);
    } else {
        reply_error(conn, ERROR_SYNTAX);
    }
}

void cmd_client_reply_no_evict(struct conn *conn, struct request *request)
{
    reply_switch(conn, request, &conn->no_evict);
}

void cmd_client_reply_no_touch(struct conn *conn, struct request *request)
{
    reply_switch(conn, request, &conn->no_touch);
}

void cmd_client_reply_reply(struct conn *conn, struct request *request)
{
    struct slice word = request->args[2];
    if (slice_equal_nocase(word, "on")) {
        conn->reply_off = false;
        conn->muted = false;
        reply_ok(conn);
    } else if (slice_equal_nocase(word, "off")) {
        conn->reply_off = true;
    } else if (slice_equal_nocase(word, "skip")) {
        conn->skip_armed = !conn->reply_off;
    } else {
        reply_error(conn, ERROR_SYNTAX);
    }
}

void cmd_client_reply_help(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CACHING yes|no",
        "    Refused: tracking is always off.",
        "GETNAME",
        "    The name of this connection.",
        "GETREDIR",
        "    -1: tracking is always off.",
        "ID",
        "    The number of this connection.",
        "INFO",
        "    Facts about this connection.",
        "KILL <ip:port>",
        "    Close the connection of that address.",
        "KILL <option> <value> [<option> <value> ...]",
        "    Close connections by ADDR, LADDR, TYPE, USER, ID, MAXAGE; SKIPME yes|no.",
        "LIST [TYPE normal|master|replica|pubsub | ID <id> [<id> ...]]",
        "    Facts about all connections.",
        "NO-EVICT on|off",
        "    Accepted; connections are never evicted.",
        "NO-TOUCH on|off",
        "    Whether reads count as accesses.",
        "PAUSE <timeout> [WRITE|ALL]",
        "    Begin no requests, or none that write, for so many milliseconds.",
        "REPLY on|off|skip",
        "    Whether replies are sent.",
        "SETINFO LIB-NAME|LIB-VER <text>",
        "    What client library this is.",
        "SETNAME <name>",
        "    Name this connection.",
        "TRACKING on|off [<option> ...]",
        "    on is refused.",
        "TRACKINGINFO",
        "    Says that tracking is off.",
        "UNBLOCK <id> [TIMEOUT|ERROR]",
        "    0: no command blocks.",
        "UNPAUSE",
        "    End PAUSE.",
        "HELP",
        "    This text.",
    };
    (void)request;
    reply_lines(conn, lines, ARRAY_COUNT(lines));
}
