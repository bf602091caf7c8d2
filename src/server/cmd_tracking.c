#include "server/cmd_tracking.h"

#include "server/reply.h"

/* The options behind ON and OFF; false: not Redis's. */
static bool options_are_known(const struct request *request)
{
    static const char *const words[] = {"bcast", "optin", "optout", "noloop"};
    for (uint32_t i = 3; i < request->arg_count; i++) {
        struct slice word = request->args[i];
        bool more = i + 1 < request->arg_count;
        bool known = false;
        if (more && (slice_equal_nocase(word, "redirect") || slice_equal_nocase(word, "prefix"))) {
            i++;
            continue;
        }
        for (size_t w = 0; w < ARRAY_COUNT(words); w++) {
            known = known || slice_equal_nocase(word, words[w]);
        }
        if (!known) {
            return false;
        }
    }
    return true;
}

void cmd_tracking_reply_tracking(struct conn *conn, struct request *request)
{
    bool off = slice_equal_nocase(request->args[2], "off");
    if (!options_are_known(request) || (!off && !slice_equal_nocase(request->args[2], "on"))) {
        reply_error(conn, ERROR_SYNTAX);
    } else if (off) {
        reply_ok(conn);
    } else {
        reply_error(conn, "ERR CLIENT TRACKING ON is not supported: no key is remembered for a "
                          "client. Subscribe to keyspace notifications instead");
    }
}

void cmd_tracking_reply_caching(struct conn *conn, struct request *request)
{
    (void)request;
    reply_error(conn, "ERR CLIENT CACHING can be called only when the client is in tracking mode "
                      "with OPTIN or OPTOUT mode enabled");
}

void cmd_tracking_reply_getredir(struct conn *conn, struct request *request)
{
    (void)request;
    reply_integer(conn, -1);
}

void cmd_tracking_reply_info(struct conn *conn, struct request *request)
{
    (void)request;
    reply_map(conn, 3);
    reply_text(conn, "flags");
    reply_set(conn, 1);
    reply_text(conn, "off");
    reply_pair_integer(conn, "redirect", -1);
    reply_text(conn, "prefixes");
    reply_array(conn, 0);
}
