#pragma once
/* command_absent – Redis commands that are not there, and what to use instead. Made by
 * utils/gen_commands.py; included by command_table.c only. */

/* clang-format off */
static const char *const ABSENT_REASONS[] = {
    "CLIENT LIST and INFO",
    "SET with NX for each key; no step spans several keys",
    "a pipeline without them (redis-py: pipeline(transaction=False)); SET with NX to deduplicate",
    "compare in the client",
    "contents are a cache and can be computed again",
    "not there; use a message broker",
    "one key for each field, with MGET and MSET",
    "one password by AUTH",
    "read the value and store it under the other name; a block's name is its hash",
    "values are byte strings only; keep such data in Redis",
};

static const struct {
    const char *name;
    unsigned reason;
} ABSENT[] = {
    {"acl", 7}, {"bgrewriteaof", 4}, {"bgsave", 4}, {"blmove", 9}, {"blmpop", 9}, {"blpop", 9},
    {"brpop", 9}, {"brpoplpush", 9}, {"bzmpop", 9}, {"bzpopmax", 9}, {"bzpopmin", 9},
    {"discard", 2}, {"dump", 8}, {"exec", 2}, {"failover", 4}, {"geoadd", 9}, {"geodist", 9},
    {"geohash", 9}, {"geopos", 9}, {"georadius", 9}, {"georadiusbymember", 9}, {"geosearch", 9},
    {"geosearchstore", 9}, {"hdel", 6}, {"hexists", 6}, {"hget", 6}, {"hgetall", 6}, {"hincrby", 6},
    {"hincrbyfloat", 6}, {"hkeys", 6}, {"hlen", 6}, {"hmget", 6}, {"hmset", 6}, {"hrandfield", 6},
    {"hscan", 6}, {"hset", 6}, {"hsetnx", 6}, {"hstrlen", 6}, {"hvals", 6}, {"lastsave", 4},
    {"lcs", 3}, {"lindex", 9}, {"linsert", 9}, {"llen", 9}, {"lmove", 9}, {"lmpop", 9}, {"lpop", 9},
    {"lpos", 9}, {"lpush", 9}, {"lpushx", 9}, {"lrange", 9}, {"lrem", 9}, {"lset", 9}, {"ltrim", 9},
    {"migrate", 8}, {"monitor", 0}, {"msetnx", 1}, {"multi", 2}, {"pfadd", 9}, {"pfcount", 9},
    {"pfmerge", 9}, {"psubscribe", 5}, {"psync", 4}, {"publish", 5}, {"pubsub", 5},
    {"punsubscribe", 5}, {"replconf", 4}, {"restore", 8}, {"rpop", 9}, {"rpoplpush", 9},
    {"rpush", 9}, {"rpushx", 9}, {"sadd", 9}, {"save", 4}, {"scard", 9}, {"sdiff", 9},
    {"sdiffstore", 9}, {"sinter", 9}, {"sintercard", 9}, {"sinterstore", 9}, {"sismember", 9},
    {"smembers", 9}, {"smismember", 9}, {"smove", 9}, {"sort", 8}, {"sort_ro", 8}, {"spop", 9},
    {"spublish", 5}, {"srandmember", 9}, {"srem", 9}, {"sscan", 9}, {"ssubscribe", 5},
    {"subscribe", 5}, {"sunion", 9}, {"sunionstore", 9}, {"sunsubscribe", 5}, {"swapdb", 8},
    {"sync", 4}, {"unsubscribe", 5}, {"unwatch", 2}, {"waitaof", 4}, {"watch", 2}, {"xack", 9},
    {"xadd", 9}, {"xautoclaim", 9}, {"xclaim", 9}, {"xdel", 9}, {"xgroup", 9}, {"xinfo", 9},
    {"xlen", 9}, {"xpending", 9}, {"xrange", 9}, {"xread", 9}, {"xreadgroup", 9}, {"xrevrange", 9},
    {"xsetid", 9}, {"xtrim", 9}, {"zadd", 9}, {"zcard", 9}, {"zcount", 9}, {"zdiff", 9},
    {"zdiffstore", 9}, {"zincrby", 9}, {"zinter", 9}, {"zintercard", 9}, {"zinterstore", 9},
    {"zlexcount", 9}, {"zmpop", 9}, {"zmscore", 9}, {"zpopmax", 9}, {"zpopmin", 9},
    {"zrandmember", 9}, {"zrange", 9}, {"zrangebylex", 9}, {"zrangebyscore", 9}, {"zrangestore", 9},
    {"zrank", 9}, {"zrem", 9}, {"zremrangebylex", 9}, {"zremrangebyrank", 9},
    {"zremrangebyscore", 9}, {"zrevrange", 9}, {"zrevrangebylex", 9}, {"zrevrangebyscore", 9},
    {"zrevrank", 9}, {"zscan", 9}, {"zscore", 9}, {"zunion", 9}, {"zunionstore", 9},
};
/* clang-format on */
