#pragma once
/* acl_file – users as text: lines of "user NAME rule …", in a file of their own or among the options.
 * Works on text in memory: who calls it reads and writes the file. Owns nothing. */

#include "acl/acl_table.h"

/* A file of users is written by the server: more than this is none. */
#define ACL_FILE_BYTES_MAX (16U << 20)

/* Reads the lines into a table that has no users before; at the end makes the user default if no line
 * did. False: errors names place and reason of each fault, and the table is not to be used. place: the
 * name of the file. */
bool acl_file_read(struct acl_table *table, struct slice lines, const char *place,
                   bool all_channels, struct text *errors);
/* One line of that form for each user. */
void acl_file_write(const struct acl_table *table, struct text *lines);
