#include "proto/key_flags.h"

#include "base/check.h"

#define READ_UPDATE (KEY_FLAG_RW | KEY_FLAG_ACCESS | KEY_FLAG_UPDATE)
#define MOVED_AWAY  (KEY_FLAG_RW | KEY_FLAG_ACCESS | KEY_FLAG_DELETE)
#define OVERWRITTEN (KEY_FLAG_OW | KEY_FLAG_UPDATE)
#define INSERTED    (KEY_FLAG_OW | KEY_FLAG_INSERT)
#define READ        (KEY_FLAG_RO | KEY_FLAG_ACCESS)

/* Those that cannot be told from the command's flags. */
static const struct {
    uint16_t id;
    uint16_t first;
    uint16_t others; /* 0: as the first */
} ROWS[] = {
    {COMMAND_SET, READ_UPDATE | KEY_FLAG_VARIABLE, 0},
    {COMMAND_BITFIELD, READ_UPDATE | KEY_FLAG_VARIABLE, 0},
    {COMMAND_SETNX, INSERTED, 0},
    {COMMAND_MSETNX, INSERTED, 0},
    {COMMAND_SETEX, OVERWRITTEN, 0},
    {COMMAND_PSETEX, OVERWRITTEN, 0},
    {COMMAND_MSET, OVERWRITTEN, 0},
    {COMMAND_RESTORE, OVERWRITTEN, 0},
    {COMMAND_GETDEL, MOVED_AWAY, 0},
    {COMMAND_APPEND, KEY_FLAG_RW | KEY_FLAG_INSERT, 0},
    {COMMAND_DEL, KEY_FLAG_RM | KEY_FLAG_DELETE, 0},
    {COMMAND_UNLINK, KEY_FLAG_RM | KEY_FLAG_DELETE, 0},
    {COMMAND_BITOP, OVERWRITTEN, READ},
    {COMMAND_RENAME, MOVED_AWAY, OVERWRITTEN},
    {COMMAND_RENAMENX, MOVED_AWAY, INSERTED},
    {COMMAND_COPY, READ, OVERWRITTEN},
    {COMMAND_KV_SET, OVERWRITTEN, 0},
    {COMMAND_KV_RESERVE, OVERWRITTEN, 0},
};

const char *key_flag_name(unsigned bit)
{
    static const char *const names[KEY_FLAG_COUNT] = {
        "RW", "RO", "OW", "RM", "access", "update", "insert", "delete", "variable_flags"};
    check(bit < KEY_FLAG_COUNT);
    return names[bit];
}

static uint32_t usual(const struct command *command)
{
    uint32_t access = (command->flags & COMMAND_FLAG_ACCESS) != 0 ? KEY_FLAG_ACCESS : 0;
    if ((command->flags & COMMAND_FLAG_WRITE) != 0) {
        return KEY_FLAG_RW | KEY_FLAG_UPDATE | access;
    }
    return KEY_FLAG_RO | access;
}

uint32_t key_flags_first(const struct command *command)
{
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        if (ROWS[i].id == (uint16_t)command->id) {
            return ROWS[i].first;
        }
    }
    return usual(command);
}

uint32_t key_flags_others(const struct command *command)
{
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        if (ROWS[i].id == (uint16_t)command->id) {
            return ROWS[i].others;
        }
    }
    return 0;
}

static bool any_is(const struct slice *args, uint32_t from, uint32_t arg_count, const char *word)
{
    for (uint32_t i = from; i < arg_count; i++) {
        if (slice_equal_nocase(args[i], word)) {
            return true;
        }
    }
    return false;
}

uint32_t key_flags_of(const struct command *command, const struct slice *args, uint32_t arg_count,
                      uint32_t index)
{
    uint32_t first = key_flags_first(command);
    uint32_t others = key_flags_others(command);
    switch ((int)command->id) {
    case COMMAND_SET:
        return any_is(args, 3, arg_count, "get") ? READ_UPDATE : OVERWRITTEN;
    case COMMAND_BITFIELD:
        return any_is(args, 2, arg_count, "set") || any_is(args, 2, arg_count, "incrby")
                   ? READ_UPDATE
                   : READ;
    default:
        return others != 0 && index > (uint32_t)command->first_key ? others : first;
    }
}
