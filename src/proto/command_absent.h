#pragma once
/* command_absent – Redis commands that are not there, and what to use instead. Made by
 * utils/gen_commands.py; included by command_table.c only. */

/* clang-format off */
static const char *const ABSENT_REASONS[] = {
    "CLIENT LIST and INFO",
    "contents are a cache and can be computed again",
    "one key for each field, with MGET and MSET",
    "read the value and store it under the other name; a block's name is its hash",
    "values are byte strings only; keep such data in Redis",
};

static const struct {
    const char *name;
    unsigned reason;
} ABSENT[] = {
    {"bgrewriteaof", 1}, {"bgsave", 1}, {"blmove", 4}, {"blmpop", 4}, {"blpop", 4}, {"brpop", 4},
    {"brpoplpush", 4}, {"bzmpop", 4}, {"bzpopmax", 4}, {"bzpopmin", 4}, {"dump", 3},
    {"failover", 1}, {"geoadd", 4}, {"geodist", 4}, {"geohash", 4}, {"geopos", 4}, {"georadius", 4},
    {"georadiusbymember", 4}, {"geosearch", 4}, {"geosearchstore", 4}, {"hdel", 2}, {"hexists", 2},
    {"hget", 2}, {"hgetall", 2}, {"hincrby", 2}, {"hincrbyfloat", 2}, {"hkeys", 2}, {"hlen", 2},
    {"hmget", 2}, {"hmset", 2}, {"hrandfield", 2}, {"hscan", 2}, {"hset", 2}, {"hsetnx", 2},
    {"hstrlen", 2}, {"hvals", 2}, {"lastsave", 1}, {"lindex", 4}, {"linsert", 4}, {"llen", 4},
    {"lmove", 4}, {"lmpop", 4}, {"lpop", 4}, {"lpos", 4}, {"lpush", 4}, {"lpushx", 4},
    {"lrange", 4}, {"lrem", 4}, {"lset", 4}, {"ltrim", 4}, {"migrate", 3}, {"monitor", 0},
    {"pfadd", 4}, {"pfcount", 4}, {"pfmerge", 4}, {"psync", 1}, {"replconf", 1}, {"restore", 3},
    {"rpop", 4}, {"rpoplpush", 4}, {"rpush", 4}, {"rpushx", 4}, {"sadd", 4}, {"save", 1},
    {"scard", 4}, {"sdiff", 4}, {"sdiffstore", 4}, {"sinter", 4}, {"sintercard", 4},
    {"sinterstore", 4}, {"sismember", 4}, {"smembers", 4}, {"smismember", 4}, {"smove", 4},
    {"sort", 3}, {"sort_ro", 3}, {"spop", 4}, {"srandmember", 4}, {"srem", 4}, {"sscan", 4},
    {"sunion", 4}, {"sunionstore", 4}, {"swapdb", 3}, {"sync", 1}, {"waitaof", 1}, {"xack", 4},
    {"xadd", 4}, {"xautoclaim", 4}, {"xclaim", 4}, {"xdel", 4}, {"xgroup", 4}, {"xinfo", 4},
    {"xlen", 4}, {"xpending", 4}, {"xrange", 4}, {"xread", 4}, {"xreadgroup", 4}, {"xrevrange", 4},
    {"xsetid", 4}, {"xtrim", 4}, {"zadd", 4}, {"zcard", 4}, {"zcount", 4}, {"zdiff", 4},
    {"zdiffstore", 4}, {"zincrby", 4}, {"zinter", 4}, {"zintercard", 4}, {"zinterstore", 4},
    {"zlexcount", 4}, {"zmpop", 4}, {"zmscore", 4}, {"zpopmax", 4}, {"zpopmin", 4},
    {"zrandmember", 4}, {"zrange", 4}, {"zrangebylex", 4}, {"zrangebyscore", 4}, {"zrangestore", 4},
    {"zrank", 4}, {"zrem", 4}, {"zremrangebylex", 4}, {"zremrangebyrank", 4},
    {"zremrangebyscore", 4}, {"zrevrange", 4}, {"zrevrangebylex", 4}, {"zrevrangebyscore", 4},
    {"zrevrank", 4}, {"zscan", 4}, {"zscore", 4}, {"zunion", 4}, {"zunionstore", 4},
};
/* clang-format on */
