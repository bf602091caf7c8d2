#pragma once
/* command_table – what every command is: generated from commands.def, one row a command or
 * subcommand. Look-up is case-insensitive and takes one comparison. Any thread; owns nothing. */

#include "base/compiler.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* One enumerator a row of commands.def: COMMAND_GET, COMMAND_CONFIG, COMMAND_CONFIG_GET,
 * COMMAND_KV_MATCH (blanks, '.', '|' and '-' become '_'). */
enum command_id {
#define COMMAND(id, ...) COMMAND_##id,
#include "proto/commands.def"
#undef COMMAND
    COMMAND_COUNT
};

/* Flags as COMMAND reports them, and ours (from COMMAND_FLAG_BARRIER on). */
enum command_flag {
    COMMAND_FLAG_WRITE = 1 << 0,
    COMMAND_FLAG_READONLY = 1 << 1,
    COMMAND_FLAG_DENYOOM = 1 << 2,
    COMMAND_FLAG_ADMIN = 1 << 3,
    COMMAND_FLAG_PUBSUB = 1 << 4,
    COMMAND_FLAG_NOSCRIPT = 1 << 5,
    COMMAND_FLAG_FAST = 1 << 6,
    COMMAND_FLAG_NO_AUTH = 1 << 7,
    COMMAND_FLAG_LOADING = 1 << 8,
    COMMAND_FLAG_STALE = 1 << 9,
    COMMAND_FLAG_MOVABLEKEYS = 1 << 10,
    COMMAND_FLAG_CONTAINER = 1 << 11, /* has subcommands; args[1] names one */
    COMMAND_FLAG_SUBCOMMAND = 1 << 12,
    COMMAND_FLAG_NO_MULTI = 1 << 13, /* not between MULTI and EXEC */
    /* Not reported: how the server runs it. */
    COMMAND_FLAG_AT_ONCE = 1 << 15, /* runs between MULTI and EXEC: it is not queued */
    COMMAND_FLAG_BARRIER = 1 << 16, /* runs alone: all before it are done, none behind has begun */
    COMMAND_FLAG_ACCESS = 1 << 20,  /* its reply tells what is in the values of its keys */
};

struct command {
    enum command_id id;
    const char *name; /* lower case; a subcommand's is "config|get" */
    int32_t arity;    /* as COMMAND: negative means "at least"; counts the name(s) */
    uint32_t flags;
    int32_t first_key; /* 0: none */
    int32_t last_key;  /* negative: from the end */
    int32_t key_step;
    const char *group;      /* "string", "generic", "connection", "server", "kvcache" */
    const char *categories; /* ACL categories, "@read @string @fast" */
    const char *since;      /* Redis version, or Kvasir's for extensions */
    const char *complexity;
    const char *summary;  /* one sentence */
    const char *syntax;   /* "GET key" */
    const char *compares; /* "same", "differs: how", or "extension" */
};

/* The command named by args[0], and for containers by args[1]. NULL: there is none; for a container
 * with an unknown subcommand the container itself. */
const struct command *command_find(const struct slice *args, uint32_t arg_count);
/* By its name as in COMMAND INFO ("get", "config|get"). NULL: none. */
const struct command *command_find_name(struct slice name);
const struct command *command_by_id(enum command_id id);
/* What to use instead of a command of Redis that is not there; NULL: it is none of those. */
const char *command_instead(struct slice name);
bool command_arity_ok(const struct command *command, uint32_t arg_count);

/* Whether it changes keys, or sends messages: what CLIENT PAUSE WRITE holds back. */
bool command_writes(const struct command *command);

/* The container of a subcommand, NULL for others. */
const struct command *command_parent(const struct command *command);
/* How many subcommands it has, and the one at an index below that. */
uint32_t command_subcommand_count(const struct command *command);
const struct command *command_subcommand(const struct command *container, uint32_t index);

/* Which arguments are keys: first, first + step, … up to last. */
struct command_keys {
    uint32_t first;
    uint32_t last;
    uint32_t step;
};

/* False: the request has no keys. Commands with movable keys are parsed (KV.MATCH). */
bool command_find_keys(const struct command *command, const struct slice *args, uint32_t arg_count,
                       struct command_keys *keys_p);

/* What a request does to its key at args[index]: tells what is in the value, changes or deletes it,
 * both, or neither (EXISTS). */
enum command_access {
    COMMAND_ACCESS_READ = 1 << 0,
    COMMAND_ACCESS_WRITE = 1 << 1,
};
uint32_t command_key_access(const struct command *command, const struct slice *args,
                            uint32_t arg_count, uint32_t index);

/* The indexes of the keys among args, at most capacity of them; commands with movable keys are
 * parsed (KV.MATCH, KV.LEASE, …). Returns the count (may exceed capacity). */
uint32_t command_key_indexes(const struct command *command, const struct slice *args,
                             uint32_t arg_count, uint32_t *indexes, uint32_t capacity);
