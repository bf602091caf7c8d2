#pragma once
/* acl_user – one user: name, passwords, selectors. Built by rules; once it stands in a table that
 * reactors see it is only read. Owns all that it points to. */

#include "acl/acl_selector.h"

#define ACL_USER_NAME_BYTES_MAX 256
#define ACL_SELECTORS_MAX       64

struct acl_user {
    struct acl_items name;          /* one item */
    bool enabled;                   /* may authenticate */
    bool nopass;                    /* with any password */
    bool skip_sanitize;             /* for Redis's rules: nothing here takes serialized payloads */
    bool unrestricted;              /* may run everything on everything: nothing has to be judged */
    struct acl_items digests;       /* of passwords */
    struct acl_selector *selectors; /* owned; the first is the root */
    uint32_t selector_count;
    uint32_t table_count; /* tables that share it; used by the thread that changes tables only */
};

/* Permits nothing, is disabled and has no password, as Redis's new users; all_channels is the default
 * for channels. NULL: no memory. */
struct acl_user *acl_user_create(struct slice name, bool all_channels);
/* The same under the same name; NULL: no memory. */
struct acl_user *acl_user_copy(const struct acl_user *user);
void acl_user_destroy(struct acl_user **user_p);

static inline struct slice acl_user_name(const struct acl_user *user)
{
    return user->name.items[0].text;
}

/* One rule: on, off, >password, (selector), or what acl_selector_apply takes, for the root. Anything but
 * ACL_OK: refused, and the user is as before. */
enum acl_status acl_user_apply(struct acl_user *user, struct slice rule, bool all_channels);

/* Rules one after the other; a selector may be spread over several. False: error holds Redis's words for
 * the first that was refused, and the user is not to be used. */
bool acl_user_apply_all(struct acl_user *user, const struct slice *rules, uint32_t rule_count,
                        bool all_channels, struct text *error);

/* Whether the password is one of the user's and he is enabled. */
bool acl_user_authenticate(const struct acl_user *user, struct slice password);

/* Judges a request whose number of arguments is right. When a key or a channel is denied, *index_p is
 * its argument. */
enum acl_verdict acl_user_judge(const struct acl_user *user, const struct command *command,
                                const struct slice *args, uint32_t arg_count, uint32_t *index_p);
/* Whether some rule permits the command at all, whatever its keys. */
bool acl_user_permits_command(const struct acl_user *user, const struct command *command);
/* Whether one of his selectors permits the command together with every key there may be. */
bool acl_user_permits_all_keys(const struct acl_user *user, const struct command *command,
                               uint32_t access);
/* Whether one of his selectors permits the command together with that key. */
bool acl_user_permits_key(const struct acl_user *user, const struct command *command,
                          struct slice key, uint32_t access);
bool acl_user_permits_channel(const struct acl_user *user, struct slice channel, bool pattern);

/* Whether a name may be one: no blanks, no NULs, not empty, not too long. */
bool acl_user_name_allowed(struct slice name);
/* "on nopass sanitize-payload ~* &* +@all": what ACL LIST shows behind the name. */
void acl_user_describe(const struct acl_user *user, struct text *text);
