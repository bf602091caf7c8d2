#pragma once
/* command_absent – Redis commands that are not there, and what to use instead. Made by
 * utils/gen_commands.py; included by command_table.c only. */

/* clang-format off */
static const char *const ABSENT_REASONS[] = {
    "CLIENT LIST and INFO",
    "a pipeline without them (redis-py: pipeline(transaction=False)); SET with NX to deduplicate",
    "contents are a cache and can be computed again",
    "not there; use a message broker",
    "one key for each field, with MGET and MSET",
    "read the value and store it under the other name; a block's name is its hash",
    "values are byte strings only; keep such data in Redis",
};

static const struct {
    const char *name;
    unsigned reason;
} ABSENT[] = {
    {"bgrewriteaof", 2}, {"bgsave", 2}, {"blmove", 6}, {"blmpop", 6}, {"blpop", 6}, {"brpop", 6},
    {"brpoplpush", 6}, {"bzmpop", 6}, {"bzpopmax", 6}, {"bzpopmin", 6}, {"discard", 1}, {"dump", 5},
    {"exec", 1}, {"failover", 2}, {"geoadd", 6}, {"geodist", 6}, {"geohash", 6}, {"geopos", 6},
    {"georadius", 6}, {"georadiusbymember", 6}, {"geosearch", 6}, {"geosearchstore", 6},
    {"hdel", 4}, {"hexists", 4}, {"hget", 4}, {"hgetall", 4}, {"hincrby", 4}, {"hincrbyfloat", 4},
    {"hkeys", 4}, {"hlen", 4}, {"hmget", 4}, {"hmset", 4}, {"hrandfield", 4}, {"hscan", 4},
    {"hset", 4}, {"hsetnx", 4}, {"hstrlen", 4}, {"hvals", 4}, {"lastsave", 2}, {"lindex", 6},
    {"linsert", 6}, {"llen", 6}, {"lmove", 6}, {"lmpop", 6}, {"lpop", 6}, {"lpos", 6}, {"lpush", 6},
    {"lpushx", 6}, {"lrange", 6}, {"lrem", 6}, {"lset", 6}, {"ltrim", 6}, {"migrate", 5},
    {"monitor", 0}, {"multi", 1}, {"pfadd", 6}, {"pfcount", 6}, {"pfmerge", 6}, {"psubscribe", 3},
    {"psync", 2}, {"publish", 3}, {"pubsub", 3}, {"punsubscribe", 3}, {"replconf", 2},
    {"restore", 5}, {"rpop", 6}, {"rpoplpush", 6}, {"rpush", 6}, {"rpushx", 6}, {"sadd", 6},
    {"save", 2}, {"scard", 6}, {"sdiff", 6}, {"sdiffstore", 6}, {"sinter", 6}, {"sintercard", 6},
    {"sinterstore", 6}, {"sismember", 6}, {"smembers", 6}, {"smismember", 6}, {"smove", 6},
    {"sort", 5}, {"sort_ro", 5}, {"spop", 6}, {"spublish", 3}, {"srandmember", 6}, {"srem", 6},
    {"sscan", 6}, {"ssubscribe", 3}, {"subscribe", 3}, {"sunion", 6}, {"sunionstore", 6},
    {"sunsubscribe", 3}, {"swapdb", 5}, {"sync", 2}, {"unsubscribe", 3}, {"unwatch", 1},
    {"waitaof", 2}, {"watch", 1}, {"xack", 6}, {"xadd", 6}, {"xautoclaim", 6}, {"xclaim", 6},
    {"xdel", 6}, {"xgroup", 6}, {"xinfo", 6}, {"xlen", 6}, {"xpending", 6}, {"xrange", 6},
    {"xread", 6}, {"xreadgroup", 6}, {"xrevrange", 6}, {"xsetid", 6}, {"xtrim", 6}, {"zadd", 6},
    {"zcard", 6}, {"zcount", 6}, {"zdiff", 6}, {"zdiffstore", 6}, {"zincrby", 6}, {"zinter", 6},
    {"zintercard", 6}, {"zinterstore", 6}, {"zlexcount", 6}, {"zmpop", 6}, {"zmscore", 6},
    {"zpopmax", 6}, {"zpopmin", 6}, {"zrandmember", 6}, {"zrange", 6}, {"zrangebylex", 6},
    {"zrangebyscore", 6}, {"zrangestore", 6}, {"zrank", 6}, {"zrem", 6}, {"zremrangebylex", 6},
    {"zremrangebyrank", 6}, {"zremrangebyscore", 6}, {"zrevrange", 6}, {"zrevrangebylex", 6},
    {"zrevrangebyscore", 6}, {"zrevrank", 6}, {"zscan", 6}, {"zscore", 6}, {"zunion", 6},
    {"zunionstore", 6},
};
/* clang-format on */
