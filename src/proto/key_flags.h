#pragma once
/* key_flags – what a command does to each of its keys, in the words of Redis's key specifications. Any
 * thread; owns nothing. */

#include "proto/command_table.h"

enum key_flag {
    KEY_FLAG_RW = 1 << 0, /* reads and changes the value or what is known about it */
    KEY_FLAG_RO = 1 << 1,
    KEY_FLAG_OW = 1 << 2, /* overwrites it without looking */
    KEY_FLAG_RM = 1 << 3, /* removes it without looking */
    KEY_FLAG_ACCESS = 1 << 4,
    KEY_FLAG_UPDATE = 1 << 5,
    KEY_FLAG_INSERT = 1 << 6,
    KEY_FLAG_DELETE = 1 << 7,
    KEY_FLAG_VARIABLE = 1 << 8, /* it depends on the arguments */
};
#define KEY_FLAG_COUNT 9

const char *key_flag_name(unsigned bit);

/* Of the first key; the keys behind it, 0: the same holds for them. */
uint32_t key_flags_first(const struct command *command);
uint32_t key_flags_others(const struct command *command);
/* Of the key that is args[index], once the arguments are known: without KEY_FLAG_VARIABLE. */
uint32_t key_flags_of(const struct command *command, const struct slice *args, uint32_t arg_count,
                      uint32_t index);
