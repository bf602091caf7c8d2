#include "proto/command_arguments.h"

#include "base/check.h"

#include <stddef.h>

/* The flags as the rows name them. */
enum {
    OPTIONAL = ARGUMENT_OPTIONAL,
    MULTIPLE = ARGUMENT_MULTIPLE,
    MULTIPLE_TOKEN = ARGUMENT_MULTIPLE_TOKEN
};

static const struct command_argument ARGUMENTS[] = {
#define ARGUMENT(name, token, type, flags, key_spec, child_count) \
    {name, token, ARGUMENT_##type, flags, key_spec, child_count},
#define COMMAND(first, count, top_count)
#include "proto/command_arguments.def"
#undef ARGUMENT
#undef COMMAND
};

static const struct {
    uint16_t first;
    uint16_t count; /* with children */
    uint16_t top_count;
} SPANS[] = {
#define ARGUMENT(name, token, type, flags, key_spec, child_count)
#define COMMAND(first, count, top_count) {first, count, top_count},
#include "proto/command_arguments.def"
#undef ARGUMENT
#undef COMMAND
};
_Static_assert(ARRAY_COUNT(SPANS) == COMMAND_COUNT, "command_arguments.def is stale");

const char *command_argument_type_name(const struct command_argument *argument)
{
    switch ((enum argument_type)argument->type) {
    case ARGUMENT_STRING:
        return "string";
    case ARGUMENT_INTEGER:
        return "integer";
    case ARGUMENT_KEY:
        return "key";
    case ARGUMENT_PATTERN:
        return "pattern";
    case ARGUMENT_UNIX_TIME:
        return "unix-time";
    case ARGUMENT_PURE_TOKEN:
        return "pure-token";
    case ARGUMENT_ONEOF:
        return "oneof";
    case ARGUMENT_BLOCK:
        return "block";
    }
    unreachable();
}

const char *command_argument_flag_name(unsigned bit)
{
    static const char *const names[ARGUMENT_FLAG_COUNT] = {"optional", "multiple",
                                                           "multiple_token"};
    check(bit < ARGUMENT_FLAG_COUNT);
    return names[bit];
}

const struct command_argument *command_arguments(const struct command *command, uint32_t *count_p,
                                                 uint32_t *top_count_p)
{
    *count_p = SPANS[command->id].count;
    *top_count_p = SPANS[command->id].top_count;
    return ARGUMENTS + SPANS[command->id].first;
}
