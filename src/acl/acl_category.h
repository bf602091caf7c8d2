#pragma once
/* acl_category – the groups of commands that rules name with '@': which there are, and in which a
 * command is. Redis's, in Redis's order, and @kv for the extension commands. Any thread; owns nothing. */

#include "base/slice.h"
#include "proto/command_table.h"

unsigned acl_category_count(void);
/* Without the '@'. */
const char *acl_category_name(unsigned index);
/* The bit of a category (1 << its index), in any case of letters; 0: there is none of that name. */
uint32_t acl_category_bit(struct slice name);
/* The bits of all categories of the command. */
uint32_t acl_category_bits_of(const struct command *command);
