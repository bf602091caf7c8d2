#pragma once
/* command_absent – Redis commands that are not there, and what to use instead. Made by
 * utils/gen_commands.py; included by command_table.c only. */

/* clang-format off */
static const char *const ABSENT_REASONS[] = {
    "CLIENT LIST and INFO",
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
    {"acl", 6}, {"bgrewriteaof", 3}, {"bgsave", 3}, {"blmove", 8}, {"blmpop", 8}, {"blpop", 8},
    {"brpop", 8}, {"brpoplpush", 8}, {"bzmpop", 8}, {"bzpopmax", 8}, {"bzpopmin", 8},
    {"discard", 1}, {"dump", 7}, {"exec", 1}, {"failover", 3}, {"geoadd", 8}, {"geodist", 8},
    {"geohash", 8}, {"geopos", 8}, {"georadius", 8}, {"georadiusbymember", 8}, {"geosearch", 8},
    {"geosearchstore", 8}, {"hdel", 5}, {"hexists", 5}, {"hget", 5}, {"hgetall", 5}, {"hincrby", 5},
    {"hincrbyfloat", 5}, {"hkeys", 5}, {"hlen", 5}, {"hmget", 5}, {"hmset", 5}, {"hrandfield", 5},
    {"hscan", 5}, {"hset", 5}, {"hsetnx", 5}, {"hstrlen", 5}, {"hvals", 5}, {"lastsave", 3},
    {"lcs", 2}, {"lindex", 8}, {"linsert", 8}, {"llen", 8}, {"lmove", 8}, {"lmpop", 8}, {"lpop", 8},
    {"lpos", 8}, {"lpush", 8}, {"lpushx", 8}, {"lrange", 8}, {"lrem", 8}, {"lset", 8}, {"ltrim", 8},
    {"migrate", 7}, {"monitor", 0}, {"multi", 1}, {"pfadd", 8}, {"pfcount", 8}, {"pfmerge", 8},
    {"psubscribe", 4}, {"psync", 3}, {"publish", 4}, {"pubsub", 4}, {"punsubscribe", 4},
    {"replconf", 3}, {"restore", 7}, {"rpop", 8}, {"rpoplpush", 8}, {"rpush", 8}, {"rpushx", 8},
    {"sadd", 8}, {"save", 3}, {"scard", 8}, {"sdiff", 8}, {"sdiffstore", 8}, {"sinter", 8},
    {"sintercard", 8}, {"sinterstore", 8}, {"sismember", 8}, {"smembers", 8}, {"smismember", 8},
    {"smove", 8}, {"sort", 7}, {"sort_ro", 7}, {"spop", 8}, {"spublish", 4}, {"srandmember", 8},
    {"srem", 8}, {"sscan", 8}, {"ssubscribe", 4}, {"subscribe", 4}, {"sunion", 8},
    {"sunionstore", 8}, {"sunsubscribe", 4}, {"swapdb", 7}, {"sync", 3}, {"unsubscribe", 4},
    {"unwatch", 1}, {"waitaof", 3}, {"watch", 1}, {"xack", 8}, {"xadd", 8}, {"xautoclaim", 8},
    {"xclaim", 8}, {"xdel", 8}, {"xgroup", 8}, {"xinfo", 8}, {"xlen", 8}, {"xpending", 8},
    {"xrange", 8}, {"xread", 8}, {"xreadgroup", 8}, {"xrevrange", 8}, {"xsetid", 8}, {"xtrim", 8},
    {"zadd", 8}, {"zcard", 8}, {"zcount", 8}, {"zdiff", 8}, {"zdiffstore", 8}, {"zincrby", 8},
    {"zinter", 8}, {"zintercard", 8}, {"zinterstore", 8}, {"zlexcount", 8}, {"zmpop", 8},
    {"zmscore", 8}, {"zpopmax", 8}, {"zpopmin", 8}, {"zrandmember", 8}, {"zrange", 8},
    {"zrangebylex", 8}, {"zrangebyscore", 8}, {"zrangestore", 8}, {"zrank", 8}, {"zrem", 8},
    {"zremrangebylex", 8}, {"zremrangebyrank", 8}, {"zremrangebyscore", 8}, {"zrevrange", 8},
    {"zrevrangebylex", 8}, {"zrevrangebyscore", 8}, {"zrevrank", 8}, {"zscan", 8}, {"zscore", 8},
    {"zunion", 8}, {"zunionstore", 8},
};
/* clang-format on */
