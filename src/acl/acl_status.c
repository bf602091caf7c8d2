#include "acl/acl_status.h"

#include "base/check.h"

const char *acl_status_text(enum acl_status status)
{
    switch (status) {
    case ACL_OK:
        return "OK";
    case ACL_SYNTAX:
        return "Syntax error";
    case ACL_UNKNOWN_NAME:
        return "Unknown command or category name in ACL";
    case ACL_AFTER_ALL_KEYS:
        return "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does "
               "not have any effect. Try 'resetkeys' to start with an empty list of patterns";
    case ACL_AFTER_ALL_CHANNELS:
        return "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and "
               "does not have any effect. Try 'resetchannels' to start with an empty list of "
               "channels";
    case ACL_NO_SUCH_PASSWORD:
        return "The password you are trying to remove from the user does not exist";
    case ACL_BAD_HASH:
        return "The password hash must be exactly 64 characters and contain only lowercase "
               "hexadecimal characters";
    case ACL_FIRST_ARG_OF_SUBCOMMAND:
        return "Allowing first-arg of a subcommand is not supported";
    case ACL_TOO_MUCH:
        return "Too many or too long rules for one user, or out of memory";
    }
    unreachable();
}

const char *acl_verdict_name(enum acl_verdict verdict)
{
    switch (verdict) {
    case ACL_PERMITTED:
        return "none";
    case ACL_DENIED_COMMAND:
        return "command";
    case ACL_DENIED_KEY:
        return "key";
    case ACL_DENIED_CHANNEL:
        return "channel";
    case ACL_DENIED_AUTH:
        return "auth";
    }
    unreachable();
}
