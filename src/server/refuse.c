#include "server/refuse.h"

#include "base/check.h"
#include "server/reply.h"

#include <stdio.h>
#include <string.h>

static void refuse_unknown(struct conn *conn, const struct request *request)
{
    char list[REPLY_QUOTED_BYTES_MAX + 16] = "";
    const char *instead;
    size_t used = 0;
    for (uint32_t i = 1; i < request->arg_count && used < REPLY_QUOTED_BYTES_MAX; i++) {
        int room = (int)(REPLY_QUOTED_BYTES_MAX - used);
        int length = reply_quoted_length(request->args[i]);
        int written = snprintf(list + used, sizeof(list) - used, "'%.*s' ",
                               length < room ? length : room, (const char *)request->args[i].data);
        if (written < 0) {
            break;
        }
        used = strlen(list); /* an argument may hold a NUL */
    }
    instead = command_instead(request->args[0]);
    reply_errorf(conn, "ERR unknown command '%.*s', with args beginning with: %s%s%s%s",
                 reply_quoted_length(request->args[0]), (const char *)request->args[0].data, list,
                 instead != NULL ? "(absent here: " : "", instead != NULL ? instead : "",
                 instead != NULL ? ")" : "");
}

/* The container's name in capitals, as Redis shows it. */
static void capitals(const char *name, char *text, size_t capacity)
{
    size_t i = 0;
    for (; name[i] != '\0' && i + 1 < capacity; i++) {
        text[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
    }
    text[i] = '\0';
}

static void refuse_subcommand(struct conn *conn, const struct request *request)
{
    char name[64];
    capitals(request->command->name, name, sizeof(name));
    if (request->arg_count < 2) {
        reply_errorf(conn, "ERR wrong number of arguments for '%s' command",
                     request->command->name);
        return;
    }
    reply_errorf(conn, "ERR unknown subcommand '%.*s'. Try %s HELP.",
                 reply_quoted_length(request->args[1]), (const char *)request->args[1].data, name);
}

void refuse_request(struct conn *conn, const struct request *request)
{
    switch ((enum request_refusal)request->refusal) {
    case REFUSAL_TEXT:
        reply_error(conn, request->error);
        return;
    case REFUSAL_UNKNOWN_COMMAND:
        refuse_unknown(conn, request);
        return;
    case REFUSAL_UNKNOWN_SUBCOMMAND:
        refuse_subcommand(conn, request);
        return;
    case REFUSAL_ARITY:
        reply_errorf(conn, "ERR wrong number of arguments for '%s' command",
                     request->command->name);
        return;
    case REFUSAL_SUBSCRIBED:
        reply_errorf(conn,
                     "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT "
                     "/ RESET are allowed in this context",
                     request->command->name);
        return;
    case REFUSAL_MONITOR:
        reply_error(conn, "ERR Replica can't interact with the keyspace");
        return;
    case REFUSAL_NOAUTH:
        reply_error(conn, "NOAUTH Authentication required.");
        return;
    case REFUSAL_NOPERM_COMMAND:
        reply_errorf(conn, "NOPERM this user has no permissions to run the '%s' command",
                     request->command->name);
        return;
    case REFUSAL_NOPERM_KEY:
        reply_error(conn, "NOPERM this user has no permissions to access one of the keys used as "
                          "arguments");
        return;
    case REFUSAL_NOPERM_CHANNEL:
        reply_error(conn, "NOPERM this user has no permissions to access one of the channels used "
                          "as arguments");
        return;
    case REFUSAL_TIME:
        reply_errorf(conn,
                     "ERR the time in milliseconds must be from 1 to %llu, which is lease-max-ms",
                     (unsigned long long)conn->reactor->settings.lease_max_ms);
        return;
    case REFUSAL_TOO_LARGE:
        reply_too_large(conn, request->command, (uint64_t)request->number);
        return;
    case REFUSAL_UNSUPPORTED_OPTION: {
        struct slice option = request->args[request->next_arg];
        reply_errorf(conn, "ERR Unsupported option %.*s", reply_quoted_length(option),
                     (const char *)option.data);
        return;
    }
    case REFUSAL_NOT_IN_MULTI:
        reply_error(conn, "ERR Command not allowed inside a transaction");
        return;
    case REFUSAL_NO_MEMORY:
        reply_status(conn, KVASIR_NO_MEMORY);
        return;
    case REFUSAL_QUEUED:
    case REFUSAL_NONE:
        break;
    }
    unreachable();
}
