#pragma once
/* users_file – where users come from when the server starts, and the file they are kept in (aclfile).
 * Reads and writes whole files: for the start and for what operators ask for. Owns nothing. */

#include "acl/acl_file.h"
#include "server/settings.h"

/* The users to begin with: from aclfile, or from the user lines among the options, and requirepass. False:
 * errors is a sentence for the operator. */
bool users_file_start(const struct settings *settings, struct acl_table **table_p,
                      struct text *errors);
/* ACL LOAD: a table from aclfile. False: errors names each fault, in Redis's words. */
bool users_file_load(const struct settings *settings, const struct acl_table *before,
                     struct acl_table **table_p, struct text *errors);
/* ACL SAVE: writes aclfile, by way of a new file, so that no reader sees half of it. False: logged. */
bool users_file_save(const struct settings *settings, const struct acl_table *table,
                     uint32_t reactor);
