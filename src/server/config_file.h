#pragma once
/* config_file – CONFIG REWRITE: the file that the server was started with, brought up to date. Comments,
 * order, and lines whose option has not changed stay as they are; the first line of an option that did
 * change gets the new value; what differs from its default and has no line comes at the end. Owns
 * nothing. */

#include "acl/acl_table.h"
#include "server/settings.h"

/* The new text of a file. False: it cannot be written as lines; error says what. */
ATTR_MUST_USE bool config_file_renew(struct slice before, const struct settings *settings,
                                     const struct acl_table *users, struct text *after, char *error,
                                     size_t error_capacity);
/* Reads, renews and replaces the file. number: the caller's own among those that may do so at the same
 * time. False: error says why, and the file is as it was. */
ATTR_MUST_USE bool config_file_rewrite(const char *path, const struct settings *settings,
                                       const struct acl_table *users, unsigned number, char *error,
                                       size_t error_capacity);
