#pragma once
/* acl_table – all users, by name. One thread makes a new table from the one before, changes it, and
 * publishes it; from then on it is only read, by any thread, until everybody has the next one. Users
 * that did not change are shared between the tables. Owns its part of the users. */

#include "acl/acl_user.h"

#define ACL_USERS_MAX 65536

struct acl_table {
    struct acl_user **users; /* owned: the array; shares the users by their table_count */
    uint32_t count;          /* in order of their names */
    uint32_t capacity;
    struct acl_items password; /* what requirepass was set to: one item, or none */
};

/* With the user default alone, who may do everything with any password. NULL: no memory. */
struct acl_table *acl_table_create(void);
/* No users, the same requirepass. NULL: no memory. */
struct acl_table *acl_table_create_empty(const struct acl_table *before);
/* The same users. NULL: no memory. */
struct acl_table *acl_table_copy(const struct acl_table *table);
void acl_table_destroy(struct acl_table **table_p);

/* NULL: there is none of that name. Borrowed as long as the table lives. */
const struct acl_user *acl_table_find(const struct acl_table *table, struct slice name);
const struct acl_user *acl_table_default(const struct acl_table *table);

/* Applies the rules to the user, who is made if there is none of the name. False: error holds Redis's
 * words, and the table is as before. */
bool acl_table_set_user(struct acl_table *table, struct slice name, const struct slice *rules,
                        uint32_t rule_count, bool all_channels, struct text *error);
/* False: there was none. The user default cannot be removed: see to that before. */
bool acl_table_remove(struct acl_table *table, struct slice name);
/* Makes the user default if there is none: with the password of requirepass, or any. False: no memory. */
bool acl_table_add_default(struct acl_table *table);
/* requirepass: the only password of the user default; empty: any. False: no memory. */
bool acl_table_require(struct acl_table *table, struct slice password);
/* The password that was last required; empty: none. */
struct slice acl_table_required(const struct acl_table *table);
