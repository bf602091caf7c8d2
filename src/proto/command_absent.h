#pragma once
/* command_absent – Redis commands that are not there, and what to use instead. Made by
 * utils/gen_commands.py; included by command_table.c only. */

/* clang-format off */
static const char *const ABSENT_REASONS[] = {
    "contents are a cache and can be computed again",
    "one key for each field, with MGET and MSET",
    "read the value and store it under the other name; a block's name is its hash",
    "values are byte strings only; keep such data in Redis",
};

static const struct {
    const char *name;
    unsigned reason;
} ABSENT[] = {
    {"bgrewriteaof", 0}, {"bgsave", 0}, {"blmove", 3}, {"blmpop", 3}, {"blpop", 3}, {"brpop", 3},
    {"brpoplpush", 3}, {"bzmpop", 3}, {"bzpopmax", 3}, {"bzpopmin", 3}, {"failover", 0},
    {"geoadd", 3}, {"geodist", 3}, {"geohash", 3}, {"geopos", 3}, {"georadius", 3},
    {"georadiusbymember", 3}, {"geosearch", 3}, {"geosearchstore", 3}, {"hdel", 1}, {"hexists", 1},
    {"hget", 1}, {"hgetall", 1}, {"hincrby", 1}, {"hincrbyfloat", 1}, {"hkeys", 1}, {"hlen", 1},
    {"hmget", 1}, {"hmset", 1}, {"hrandfield", 1}, {"hscan", 1}, {"hset", 1}, {"hsetnx", 1},
    {"hstrlen", 1}, {"hvals", 1}, {"lastsave", 0}, {"lindex", 3}, {"linsert", 3}, {"llen", 3},
    {"lmove", 3}, {"lmpop", 3}, {"lpop", 3}, {"lpos", 3}, {"lpush", 3}, {"lpushx", 3},
    {"lrange", 3}, {"lrem", 3}, {"lset", 3}, {"ltrim", 3}, {"migrate", 2}, {"pfadd", 3},
    {"pfcount", 3}, {"pfmerge", 3}, {"psync", 0}, {"replconf", 0}, {"rpop", 3}, {"rpoplpush", 3},
    {"rpush", 3}, {"rpushx", 3}, {"sadd", 3}, {"save", 0}, {"scard", 3}, {"sdiff", 3},
    {"sdiffstore", 3}, {"sinter", 3}, {"sintercard", 3}, {"sinterstore", 3}, {"sismember", 3},
    {"smembers", 3}, {"smismember", 3}, {"smove", 3}, {"sort", 2}, {"sort_ro", 2}, {"spop", 3},
    {"srandmember", 3}, {"srem", 3}, {"sscan", 3}, {"sunion", 3}, {"sunionstore", 3}, {"sync", 0},
    {"waitaof", 0}, {"xack", 3}, {"xadd", 3}, {"xautoclaim", 3}, {"xclaim", 3}, {"xdel", 3},
    {"xgroup", 3}, {"xinfo", 3}, {"xlen", 3}, {"xpending", 3}, {"xrange", 3}, {"xread", 3},
    {"xreadgroup", 3}, {"xrevrange", 3}, {"xsetid", 3}, {"xtrim", 3}, {"zadd", 3}, {"zcard", 3},
    {"zcount", 3}, {"zdiff", 3}, {"zdiffstore", 3}, {"zincrby", 3}, {"zinter", 3},
    {"zintercard", 3}, {"zinterstore", 3}, {"zlexcount", 3}, {"zmpop", 3}, {"zmscore", 3},
    {"zpopmax", 3}, {"zpopmin", 3}, {"zrandmember", 3}, {"zrange", 3}, {"zrangebylex", 3},
    {"zrangebyscore", 3}, {"zrangestore", 3}, {"zrank", 3}, {"zrem", 3}, {"zremrangebylex", 3},
    {"zremrangebyrank", 3}, {"zremrangebyscore", 3}, {"zrevrange", 3}, {"zrevrangebylex", 3},
    {"zrevrangebyscore", 3}, {"zrevrank", 3}, {"zscan", 3}, {"zscore", 3}, {"zunion", 3},
    {"zunionstore", 3},
};
/* clang-format on */
