#pragma once
/* command_absent – Redis commands that are not there, and what to use instead. Made by
 * utils/gen_commands.py; included by command_table.c only. */

/* clang-format off */
static const char *const ABSENT_REASONS[] = {
    "CLIENT LIST and INFO",
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
    {"bgrewriteaof", 1}, {"bgsave", 1}, {"blmove", 5}, {"blmpop", 5}, {"blpop", 5}, {"brpop", 5},
    {"brpoplpush", 5}, {"bzmpop", 5}, {"bzpopmax", 5}, {"bzpopmin", 5}, {"dump", 4},
    {"failover", 1}, {"geoadd", 5}, {"geodist", 5}, {"geohash", 5}, {"geopos", 5}, {"georadius", 5},
    {"georadiusbymember", 5}, {"geosearch", 5}, {"geosearchstore", 5}, {"hdel", 3}, {"hexists", 3},
    {"hget", 3}, {"hgetall", 3}, {"hincrby", 3}, {"hincrbyfloat", 3}, {"hkeys", 3}, {"hlen", 3},
    {"hmget", 3}, {"hmset", 3}, {"hrandfield", 3}, {"hscan", 3}, {"hset", 3}, {"hsetnx", 3},
    {"hstrlen", 3}, {"hvals", 3}, {"lastsave", 1}, {"lindex", 5}, {"linsert", 5}, {"llen", 5},
    {"lmove", 5}, {"lmpop", 5}, {"lpop", 5}, {"lpos", 5}, {"lpush", 5}, {"lpushx", 5},
    {"lrange", 5}, {"lrem", 5}, {"lset", 5}, {"ltrim", 5}, {"migrate", 4}, {"monitor", 0},
    {"pfadd", 5}, {"pfcount", 5}, {"pfmerge", 5}, {"psubscribe", 2}, {"psync", 1}, {"publish", 2},
    {"pubsub", 2}, {"punsubscribe", 2}, {"replconf", 1}, {"restore", 4}, {"rpop", 5},
    {"rpoplpush", 5}, {"rpush", 5}, {"rpushx", 5}, {"sadd", 5}, {"save", 1}, {"scard", 5},
    {"sdiff", 5}, {"sdiffstore", 5}, {"sinter", 5}, {"sintercard", 5}, {"sinterstore", 5},
    {"sismember", 5}, {"smembers", 5}, {"smismember", 5}, {"smove", 5}, {"sort", 4}, {"sort_ro", 4},
    {"spop", 5}, {"spublish", 2}, {"srandmember", 5}, {"srem", 5}, {"sscan", 5}, {"ssubscribe", 2},
    {"subscribe", 2}, {"sunion", 5}, {"sunionstore", 5}, {"sunsubscribe", 2}, {"swapdb", 4},
    {"sync", 1}, {"unsubscribe", 2}, {"waitaof", 1}, {"xack", 5}, {"xadd", 5}, {"xautoclaim", 5},
    {"xclaim", 5}, {"xdel", 5}, {"xgroup", 5}, {"xinfo", 5}, {"xlen", 5}, {"xpending", 5},
    {"xrange", 5}, {"xread", 5}, {"xreadgroup", 5}, {"xrevrange", 5}, {"xsetid", 5}, {"xtrim", 5},
    {"zadd", 5}, {"zcard", 5}, {"zcount", 5}, {"zdiff", 5}, {"zdiffstore", 5}, {"zincrby", 5},
    {"zinter", 5}, {"zintercard", 5}, {"zinterstore", 5}, {"zlexcount", 5}, {"zmpop", 5},
    {"zmscore", 5}, {"zpopmax", 5}, {"zpopmin", 5}, {"zrandmember", 5}, {"zrange", 5},
    {"zrangebylex", 5}, {"zrangebyscore", 5}, {"zrangestore", 5}, {"zrank", 5}, {"zrem", 5},
    {"zremrangebylex", 5}, {"zremrangebyrank", 5}, {"zremrangebyscore", 5}, {"zrevrange", 5},
    {"zrevrangebylex", 5}, {"zrevrangebyscore", 5}, {"zrevrank", 5}, {"zscan", 5}, {"zscore", 5},
    {"zunion", 5}, {"zunionstore", 5},
};
/* clang-format on */
