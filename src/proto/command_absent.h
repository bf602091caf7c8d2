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
    "read the value and store it under the other name; a block's name is its hash",
    "values are byte strings only; keep such data in Redis",
};

static const struct {
    const char *name;
    unsigned reason;
} ABSENT[] = {
    {"bgrewriteaof", 3}, {"bgsave", 3}, {"blmove", 7}, {"blmpop", 7}, {"blpop", 7}, {"brpop", 7},
    {"brpoplpush", 7}, {"bzmpop", 7}, {"bzpopmax", 7}, {"bzpopmin", 7}, {"discard", 1}, {"dump", 6},
    {"exec", 1}, {"failover", 3}, {"geoadd", 7}, {"geodist", 7}, {"geohash", 7}, {"geopos", 7},
    {"georadius", 7}, {"georadiusbymember", 7}, {"geosearch", 7}, {"geosearchstore", 7},
    {"hdel", 5}, {"hexists", 5}, {"hget", 5}, {"hgetall", 5}, {"hincrby", 5}, {"hincrbyfloat", 5},
    {"hkeys", 5}, {"hlen", 5}, {"hmget", 5}, {"hmset", 5}, {"hrandfield", 5}, {"hscan", 5},
    {"hset", 5}, {"hsetnx", 5}, {"hstrlen", 5}, {"hvals", 5}, {"lastsave", 3}, {"lcs", 2},
    {"lindex", 7}, {"linsert", 7}, {"llen", 7}, {"lmove", 7}, {"lmpop", 7}, {"lpop", 7},
    {"lpos", 7}, {"lpush", 7}, {"lpushx", 7}, {"lrange", 7}, {"lrem", 7}, {"lset", 7}, {"ltrim", 7},
    {"migrate", 6}, {"monitor", 0}, {"multi", 1}, {"pfadd", 7}, {"pfcount", 7}, {"pfmerge", 7},
    {"psubscribe", 4}, {"psync", 3}, {"publish", 4}, {"pubsub", 4}, {"punsubscribe", 4},
    {"replconf", 3}, {"restore", 6}, {"rpop", 7}, {"rpoplpush", 7}, {"rpush", 7}, {"rpushx", 7},
    {"sadd", 7}, {"save", 3}, {"scard", 7}, {"sdiff", 7}, {"sdiffstore", 7}, {"sinter", 7},
    {"sintercard", 7}, {"sinterstore", 7}, {"sismember", 7}, {"smembers", 7}, {"smismember", 7},
    {"smove", 7}, {"sort", 6}, {"sort_ro", 6}, {"spop", 7}, {"spublish", 4}, {"srandmember", 7},
    {"srem", 7}, {"sscan", 7}, {"ssubscribe", 4}, {"subscribe", 4}, {"sunion", 7},
    {"sunionstore", 7}, {"sunsubscribe", 4}, {"swapdb", 6}, {"sync", 3}, {"unsubscribe", 4},
    {"unwatch", 1}, {"waitaof", 3}, {"watch", 1}, {"xack", 7}, {"xadd", 7}, {"xautoclaim", 7},
    {"xclaim", 7}, {"xdel", 7}, {"xgroup", 7}, {"xinfo", 7}, {"xlen", 7}, {"xpending", 7},
    {"xrange", 7}, {"xread", 7}, {"xreadgroup", 7}, {"xrevrange", 7}, {"xsetid", 7}, {"xtrim", 7},
    {"zadd", 7}, {"zcard", 7}, {"zcount", 7}, {"zdiff", 7}, {"zdiffstore", 7}, {"zincrby", 7},
    {"zinter", 7}, {"zintercard", 7}, {"zinterstore", 7}, {"zlexcount", 7}, {"zmpop", 7},
    {"zmscore", 7}, {"zpopmax", 7}, {"zpopmin", 7}, {"zrandmember", 7}, {"zrange", 7},
    {"zrangebylex", 7}, {"zrangebyscore", 7}, {"zrangestore", 7}, {"zrank", 7}, {"zrem", 7},
    {"zremrangebylex", 7}, {"zremrangebyrank", 7}, {"zremrangebyscore", 7}, {"zrevrange", 7},
    {"zrevrangebylex", 7}, {"zrevrangebyscore", 7}, {"zrevrank", 7}, {"zscan", 7}, {"zscore", 7},
    {"zunion", 7}, {"zunionstore", 7},
};
/* clang-format on */
