#include "proto/command_table.h"

#include "base/check.h"
#include "proto/command_absent.h"
#include "proto/command_index.h"

/* The flags as the rows write them. */
enum {
    WRITE = COMMAND_FLAG_WRITE,
    READONLY = COMMAND_FLAG_READONLY,
    DENYOOM = COMMAND_FLAG_DENYOOM,
    ADMIN = COMMAND_FLAG_ADMIN,
    NOSCRIPT = COMMAND_FLAG_NOSCRIPT,
    FAST = COMMAND_FLAG_FAST,
    NO_AUTH = COMMAND_FLAG_NO_AUTH,
    LOADING = COMMAND_FLAG_LOADING,
    STALE = COMMAND_FLAG_STALE,
    MOVABLEKEYS = COMMAND_FLAG_MOVABLEKEYS,
    CONTAINER = COMMAND_FLAG_CONTAINER,
    SUBCOMMAND = COMMAND_FLAG_SUBCOMMAND,
    BARRIER = COMMAND_FLAG_BARRIER,
    NO_MULTI = COMMAND_FLAG_NO_MULTI,
    AT_ONCE = COMMAND_FLAG_AT_ONCE,
    ACCESS = COMMAND_FLAG_ACCESS,
    PUBSUB = COMMAND_FLAG_PUBSUB,
};

static const struct command COMMANDS[COMMAND_COUNT] = {
#define COMMAND(id, ...) {COMMAND_##id, __VA_ARGS__},
#include "proto/commands.def"
#undef COMMAND
};

/* command_index.h was made for other rows when these fail: run utils/gen_commands.py. */
_Static_assert(COMMAND_COUNT == COMMAND_INDEX_COUNT, "command_index.h is stale");
_Static_assert(COMMAND_COUNT < COMMAND_INDEX_NONE, "an index entry is a byte");

/* FNV-1a over lower-case bytes. Setting bit 5 lowers letters and keeps the other characters that
 * names are made of ('.', '|', '-'); what else it makes equal the comparison tells apart. */
static uint32_t hash_bytes(uint32_t hash, struct slice text)
{
    for (size_t i = 0; i < text.length_bytes; i++) {
        hash = (hash ^ (text.data[i] | 0x20U)) * 16777619U;
    }
    return hash;
}

/* The only row that can have a name of this hash. */
static const struct command *row_of(uint32_t hash)
{
    uint8_t entry = COMMAND_INDEX[hash >> (32 - COMMAND_INDEX_BITS)];
    return entry == COMMAND_INDEX_NONE ? NULL : &COMMANDS[entry];
}

/* True when text is name, which is in lower case, whatever the case of text. */
static bool is_named(struct slice text, const char *name)
{
    for (size_t i = 0; i < text.length_bytes; i++) {
        uint8_t byte = text.data[i];
        uint8_t lower = byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
        if (name[i] == '\0' || lower != (uint8_t)name[i]) {
            return false;
        }
    }
    return name[text.length_bytes] == '\0';
}

/* The subcommand of a container, whose name's hash is given, named by text. */
static const struct command *find_subcommand(const struct command *container, uint32_t hash,
                                             struct slice text)
{
    if (text.length_bytes > COMMAND_INDEX_NAME_BYTES_MAX) {
        return NULL;
    }
    hash = hash_bytes(hash_bytes(hash, slice_of("|", 1)), text);
    const struct command *row = row_of(hash);
    size_t prefix = strlen(container->name);
    if (row == NULL || strncmp(row->name, container->name, prefix) != 0 ||
        row->name[prefix] != '|' || !is_named(text, row->name + prefix + 1)) {
        return NULL;
    }
    return row;
}

const struct command *command_find(const struct slice *args, uint32_t arg_count)
{
    if (arg_count == 0 || args[0].length_bytes > COMMAND_INDEX_NAME_BYTES_MAX) {
        return NULL;
    }
    uint32_t hash = hash_bytes(COMMAND_INDEX_SEED, args[0]);
    const struct command *command = row_of(hash);
    if (command == NULL || (command->flags & COMMAND_FLAG_SUBCOMMAND) != 0 ||
        !is_named(args[0], command->name)) {
        return NULL;
    }
    if ((command->flags & COMMAND_FLAG_CONTAINER) != 0 && arg_count > 1) {
        const struct command *subcommand = find_subcommand(command, hash, args[1]);
        return subcommand != NULL ? subcommand : command;
    }
    return command;
}

const struct command *command_find_name(struct slice name)
{
    if (name.length_bytes > COMMAND_INDEX_NAME_BYTES_MAX) {
        return NULL;
    }
    const struct command *command = row_of(hash_bytes(COMMAND_INDEX_SEED, name));
    return command != NULL && is_named(name, command->name) ? command : NULL;
}

const struct command *command_by_id(enum command_id id)
{
    check((uint32_t)id < COMMAND_COUNT);
    return &COMMANDS[id];
}

const char *command_instead(struct slice name)
{
    for (size_t i = 0; i < ARRAY_COUNT(ABSENT); i++) {
        if (is_named(name, ABSENT[i].name)) {
            return ABSENT_REASONS[ABSENT[i].reason];
        }
    }
    return NULL;
}

bool command_arity_ok(const struct command *command, uint32_t arg_count)
{
    int64_t count = arg_count;
    return command->arity >= 0 ? count == command->arity : count >= -command->arity;
}

bool command_writes(const struct command *command)
{
    return (command->flags & COMMAND_FLAG_WRITE) != 0 || command->id == COMMAND_PUBLISH ||
           command->id == COMMAND_SPUBLISH;
}

const struct command *command_parent(const struct command *command)
{
    if ((command->flags & COMMAND_FLAG_SUBCOMMAND) == 0) {
        return NULL;
    }
    while ((command->flags & COMMAND_FLAG_CONTAINER) == 0) {
        check(command->id > 0);
        command = command_by_id((enum command_id)(command->id - 1));
    }
    return command;
}

uint32_t command_subcommand_count(const struct command *command)
{
    uint32_t count = 0;
    if ((command->flags & COMMAND_FLAG_CONTAINER) == 0) {
        return 0;
    }
    for (uint32_t id = command->id + 1U;
         id < COMMAND_COUNT && (COMMANDS[id].flags & COMMAND_FLAG_SUBCOMMAND) != 0; id++) {
        count++;
    }
    return count;
}

const struct command *command_subcommand(const struct command *container, uint32_t index)
{
    const struct command *command = command_by_id((enum command_id)(container->id + 1U + index));
    check((command->flags & COMMAND_FLAG_SUBCOMMAND) != 0);
    return command;
}

/* KV.MATCH: leading PIN and POLICY are options, each with its value, as long as a key is left for
 * behind them. */
static uint32_t match_first_key(const struct slice *args, uint32_t arg_count)
{
    uint32_t at = 1;
    while (arg_count - at > 2 && (is_named(args[at], "pin") || is_named(args[at], "policy"))) {
        at += 2;
    }
    return at;
}

bool command_find_keys(const struct command *command, const struct slice *args, uint32_t arg_count,
                       struct command_keys *keys_p)
{
    if (command->first_key == 0 || arg_count == 0) {
        return false;
    }
    check(command->first_key > 0 && command->key_step > 0);
    uint32_t first = (uint32_t)command->first_key;
    if (command->id == COMMAND_KV_MATCH) {
        first = match_first_key(args, arg_count);
    }
    int64_t last = command->last_key;
    if (last < 0) {
        last += arg_count;
    }
    if (last >= arg_count) {
        last = (int64_t)arg_count - 1;
    }
    if (last < first) {
        return false;
    }
    *keys_p = (struct command_keys){
        .first = first, .last = (uint32_t)last, .step = (uint32_t)command->key_step};
    return true;
}

uint32_t command_key_access(const struct command *command, const struct slice *args,
                            uint32_t arg_count, uint32_t index)
{
    uint32_t access = 0;
    /* The ones whose keys are not all used alike: read from one, write to the other. */
    if (command->id == COMMAND_COPY) {
        return index == 1 ? COMMAND_ACCESS_READ : COMMAND_ACCESS_WRITE;
    }
    if (command->id == COMMAND_BITOP) {
        return index == 2 ? COMMAND_ACCESS_WRITE : COMMAND_ACCESS_READ;
    }
    if ((command->id == COMMAND_RENAME || command->id == COMMAND_RENAMENX) && index == 2) {
        return COMMAND_ACCESS_WRITE;
    }
    if ((command->flags & COMMAND_FLAG_ACCESS) != 0) {
        access |= COMMAND_ACCESS_READ;
    }
    if (command->id == COMMAND_BITFIELD) {
        for (uint32_t i = 2; i < arg_count; i++) {
            if (is_named(args[i], "set") || is_named(args[i], "incrby")) {
                access |= COMMAND_ACCESS_WRITE;
            }
        }
        return access;
    }
    if ((command->flags & COMMAND_FLAG_WRITE) != 0) {
        access |= COMMAND_ACCESS_WRITE;
    }
    for (uint32_t i = 3; command->id == COMMAND_SET && i < arg_count; i++) {
        if (is_named(args[i], "get")) {
            access |= COMMAND_ACCESS_READ;
        }
    }
    return access;
}

uint32_t command_key_indexes(const struct command *command, const struct slice *args,
                             uint32_t arg_count, uint32_t *indexes, uint32_t capacity)
{
    struct command_keys keys;
    uint32_t count = 0;
    if (!command_find_keys(command, args, arg_count, &keys)) {
        return 0;
    }
    for (uint32_t at = keys.first; at <= keys.last; at += keys.step) {
        if (count < capacity) {
            indexes[count] = at;
        }
        count++;
    }
    return count;
}
