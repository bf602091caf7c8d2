#pragma once
/* acl_status – why a rule is refused, and how a request is judged; the words are Redis's. Any thread;
 * owns nothing. */

/* Of a rule. */
enum acl_status {
    ACL_OK,
    ACL_SYNTAX,
    ACL_UNKNOWN_NAME,
    ACL_AFTER_ALL_KEYS,
    ACL_AFTER_ALL_CHANNELS,
    ACL_NO_SUCH_PASSWORD,
    ACL_BAD_HASH,
    ACL_FIRST_ARG_OF_SUBCOMMAND,
    ACL_TOO_MUCH,
};

const char *acl_status_text(enum acl_status status);

/* Of a request. In the order of how far it came: the farthest of several selectors is reported. */
enum acl_verdict {
    ACL_PERMITTED,
    ACL_DENIED_COMMAND,
    ACL_DENIED_KEY,
    ACL_DENIED_CHANNEL,
    ACL_DENIED_AUTH, /* a password was wrong; of ACL LOG only */
};

/* "command", "key", "channel", "auth": the reason in ACL LOG. */
const char *acl_verdict_name(enum acl_verdict verdict);
