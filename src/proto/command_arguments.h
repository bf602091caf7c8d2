#pragma once
/* command_arguments – the arguments of commands as COMMAND DOCS tells them: taken from the syntax in
 * commands.def by utils/gen_commands.py. Any thread; owns nothing. */

#include "proto/command_table.h"

enum argument_type {
    ARGUMENT_STRING,
    ARGUMENT_INTEGER,
    ARGUMENT_KEY,
    ARGUMENT_PATTERN,
    ARGUMENT_UNIX_TIME,
    ARGUMENT_PURE_TOKEN, /* the token alone */
    ARGUMENT_ONEOF,      /* of its children */
    ARGUMENT_BLOCK,      /* its children, one after the other */
};

enum argument_flag {
    ARGUMENT_OPTIONAL = 1 << 0,
    ARGUMENT_MULTIPLE = 1 << 1,
    ARGUMENT_MULTIPLE_TOKEN = 1 << 2,
};
#define ARGUMENT_FLAG_COUNT 3

struct command_argument {
    const char *name;
    const char *token; /* NULL: none */
    uint8_t type;      /* enum argument_type */
    uint8_t flags;     /* bits of enum argument_flag */
    int8_t key_spec;   /* index of the key specification; -1: it is no key */
    uint8_t child_count;
};

const char *command_argument_type_name(const struct command_argument *argument);
const char *command_argument_flag_name(unsigned bit);

/* All arguments of a command, each before its children. *top_count_p: how many are no children. */
const struct command_argument *command_arguments(const struct command *command, uint32_t *count_p,
                                                 uint32_t *top_count_p);
