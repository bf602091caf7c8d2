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
    "redis-cli --latency, and the percentiles of bench/path",
    "values are byte strings only; keep such data in Redis",
};

static const struct {
    const char *name;
    unsigned reason;
} ABSENT[] = {
    {"acl", 7}, {"bgrewriteaof", 4}, {"bgsave", 4}, {"blmove", 10}, {"blmpop", 10}, {"blpop", 10},
    {"brpop", 10}, {"brpoplpush", 10}, {"bzmpop", 10}, {"bzpopmax", 10}, {"bzpopmin", 10},
    {"discard", 2}, {"dump", 8}, {"exec", 2}, {"failover", 4}, {"geoadd", 10}, {"geodist", 10},
    {"geohash", 10}, {"geopos", 10}, {"georadius", 10}, {"georadiusbymember", 10},
    {"geosearch", 10}, {"geosearchstore", 10}, {"hdel", 6}, {"hexists", 6}, {"hget", 6},
    {"hgetall", 6}, {"hincrby", 6}, {"hincrbyfloat", 6}, {"hkeys", 6}, {"hlen", 6}, {"hmget", 6},
    {"hmset", 6}, {"hrandfield", 6}, {"hscan", 6}, {"hset", 6}, {"hsetnx", 6}, {"hstrlen", 6},
    {"hvals", 6}, {"lastsave", 4}, {"latency", 9}, {"lcs", 3}, {"lindex", 10}, {"linsert", 10},
    {"llen", 10}, {"lmove", 10}, {"lmpop", 10}, {"lpop", 10}, {"lpos", 10}, {"lpush", 10},
    {"lpushx", 10}, {"lrange", 10}, {"lrem", 10}, {"lset", 10}, {"ltrim", 10}, {"migrate", 8},
    {"monitor", 0}, {"msetnx", 1}, {"multi", 2}, {"pfadd", 10}, {"pfcount", 10}, {"pfmerge", 10},
    {"psubscribe", 5}, {"psync", 4}, {"publish", 5}, {"pubsub", 5}, {"punsubscribe", 5},
    {"replconf", 4}, {"restore", 8}, {"rpop", 10}, {"rpoplpush", 10}, {"rpush", 10}, {"rpushx", 10},
    {"sadd", 10}, {"save", 4}, {"scard", 10}, {"sdiff", 10}, {"sdiffstore", 10}, {"sinter", 10},
    {"sintercard", 10}, {"sinterstore", 10}, {"sismember", 10}, {"slowlog", 9}, {"smembers", 10},
    {"smismember", 10}, {"smove", 10}, {"sort", 8}, {"sort_ro", 8}, {"spop", 10}, {"spublish", 5},
    {"srandmember", 10}, {"srem", 10}, {"sscan", 10}, {"ssubscribe", 5}, {"subscribe", 5},
    {"sunion", 10}, {"sunionstore", 10}, {"sunsubscribe", 5}, {"swapdb", 8}, {"sync", 4},
    {"unsubscribe", 5}, {"unwatch", 2}, {"waitaof", 4}, {"watch", 2}, {"xack", 10}, {"xadd", 10},
    {"xautoclaim", 10}, {"xclaim", 10}, {"xdel", 10}, {"xgroup", 10}, {"xinfo", 10}, {"xlen", 10},
    {"xpending", 10}, {"xrange", 10}, {"xread", 10}, {"xreadgroup", 10}, {"xrevrange", 10},
    {"xsetid", 10}, {"xtrim", 10}, {"zadd", 10}, {"zcard", 10}, {"zcount", 10}, {"zdiff", 10},
    {"zdiffstore", 10}, {"zincrby", 10}, {"zinter", 10}, {"zintercard", 10}, {"zinterstore", 10},
    {"zlexcount", 10}, {"zmpop", 10}, {"zmscore", 10}, {"zpopmax", 10}, {"zpopmin", 10},
    {"zrandmember", 10}, {"zrange", 10}, {"zrangebylex", 10}, {"zrangebyscore", 10},
    {"zrangestore", 10}, {"zrank", 10}, {"zrem", 10}, {"zremrangebylex", 10},
    {"zremrangebyrank", 10}, {"zremrangebyscore", 10}, {"zrevrange", 10}, {"zrevrangebylex", 10},
    {"zrevrangebyscore", 10}, {"zrevrank", 10}, {"zscan", 10}, {"zscore", 10}, {"zunion", 10},
    {"zunionstore", 10},
};
/* clang-format on */
