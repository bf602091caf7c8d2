#pragma once
/* acl_selector – one set of permissions: which commands, on which keys, on which channels. A user has a
 * root selector, and more that stand in parentheses. Built by rules, one at a time; then read by all
 * reactors, changed by none. Embedded in a user. Owns its lists. */

#include "acl/acl_items.h"
#include "acl/acl_status.h"
#include "base/text.h"
#include "proto/command_table.h"

#define ACL_COMMAND_WORDS ((COMMAND_COUNT + 63) / 64)
/* The longest rule: a pattern, a password. */
#define ACL_RULE_BYTES_MAX (64U << 10)

struct acl_selector {
    uint64_t commands[ACL_COMMAND_WORDS]; /* a bit for each command and subcommand */
    bool all_commands;                    /* all bits are set */
    bool all_keys;
    bool all_channels;
    bool from_all;               /* the rules begin with +@all */
    struct acl_items rules;      /* on commands, behind the first: what ACL GETUSER shows */
    struct acl_items first_args; /* number: the command that is allowed with this first argument */
    struct acl_items keys;       /* patterns; number: COMMAND_ACCESS_… */
    struct acl_items channels;   /* patterns */
};

/* Permits nothing. */
void acl_selector_init(struct acl_selector *selector);
void acl_selector_fini(struct acl_selector *selector);
/* to is not initialized before. False: no memory, and to permits nothing. */
bool acl_selector_copy(struct acl_selector *to, const struct acl_selector *from);

/* Applies a rule such as +get, -@admin, ~pattern, %R~pattern, &pattern, allkeys. Anything but ACL_OK
 * leaves the selector as it was. */
enum acl_status acl_selector_apply(struct acl_selector *selector, struct slice rule);

/* Judges a request whose number of arguments is right. When a key or a channel is denied, *index_p is
 * its argument. */
enum acl_verdict acl_selector_judge(const struct acl_selector *selector,
                                    const struct command *command, const struct slice *args,
                                    uint32_t arg_count, uint32_t *index_p);
/* Whether the selector permits the command, of which nothing but the name is known. */
bool acl_selector_permits_command(const struct acl_selector *selector,
                                  const struct command *command);
/* access: COMMAND_ACCESS_… that one pattern must give; 0: any pattern will do. */
bool acl_selector_permits_key(const struct acl_selector *selector, struct slice key,
                              uint32_t access);
/* Every key there may ever be. */
bool acl_selector_permits_all_keys(const struct acl_selector *selector, uint32_t access);
/* pattern: the channel is one (PSUBSCRIBE), and must be named in the rules as it is. */
bool acl_selector_permits_channel(const struct acl_selector *selector, struct slice channel,
                                  bool pattern);

/* The parts of a description, each in the form in which rules are given. */
void acl_selector_describe_commands(const struct acl_selector *selector, struct text *text);
void acl_selector_describe_keys(const struct acl_selector *selector, struct text *text);
void acl_selector_describe_channels(const struct acl_selector *selector, struct text *text);
/* All of it: "~* &* +@all". */
void acl_selector_describe(const struct acl_selector *selector, struct text *text);
