/* hiredis_sync – the C client of Redis, blocking, against a server: replies of both protocols, a
 * pipeline, a large value, errors, a Unix socket. Arguments: port and socket path. One thread. */

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG_BYTES (8UL << 20)
#define PIPELINED 2000

static void require(int truth, const char *what)
{
    if (!truth) {
        (void)fprintf(stderr, "hiredis_sync: failed: %s\n", what);
        exit(1);
    }
}

/* One command, whose reply must be of the type; the caller frees it. */
static redisReply *ask(redisContext *context, int type, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(context, format, arguments);
    va_end(arguments);
    require(reply != NULL, context->errstr);
    if (reply->type != type) {
        (void)fprintf(stderr, "%s: type %d: %s\n", format, reply->type,
                      reply->str != NULL ? reply->str : "");
    }
    require(reply->type == type, format);
    return reply;
}

static void test_strings(redisContext *context)
{
    freeReplyObject(ask(context, REDIS_REPLY_STATUS, "SET %s %s", "hi:a", "value"));
    redisReply *reply = ask(context, REDIS_REPLY_STRING, "GET hi:a");
    require(reply->len == 5 && memcmp(reply->str, "value", 5) == 0, "GET gives the value");
    freeReplyObject(reply);
    freeReplyObject(ask(context, REDIS_REPLY_NIL, "GET hi:absent"));
    reply = ask(context, REDIS_REPLY_INTEGER, "STRLEN hi:a");
    require(reply->integer == 5, "STRLEN");
    freeReplyObject(reply);
    reply = ask(context, REDIS_REPLY_ERROR, "INCR hi:a");
    require(strncmp(reply->str, "ERR value is not an integer", 27) == 0, "INCR of text");
    freeReplyObject(reply);
    reply = ask(context, REDIS_REPLY_ARRAY, "MGET hi:a hi:absent");
    require(reply->elements == 2 && reply->element[1]->type == REDIS_REPLY_NIL, "MGET");
    freeReplyObject(reply);
}

static void test_big_value(redisContext *context)
{
    char *big = malloc(BIG_BYTES);
    require(big != NULL, "memory");
    for (size_t i = 0; i < BIG_BYTES; i++) {
        big[i] = (char)(i * 2654435761UL >> 13);
    }
    freeReplyObject(ask(context, REDIS_REPLY_STATUS, "SET hi:big %b", big, (size_t)BIG_BYTES));
    redisReply *reply = ask(context, REDIS_REPLY_STRING, "GET hi:big");
    require(reply->len == BIG_BYTES && memcmp(reply->str, big, BIG_BYTES) == 0, "big value");
    freeReplyObject(reply);
    free(big);
}

static void test_pipeline(redisContext *context)
{
    for (int i = 0; i < PIPELINED; i++) {
        require(redisAppendCommand(context, "SET hi:p:%d %d", i, i) == REDIS_OK, "append");
        require(redisAppendCommand(context, "GET hi:p:%d", i) == REDIS_OK, "append");
    }
    for (int i = 0; i < 2 * PIPELINED; i++) {
        void *reply = NULL;
        require(redisGetReply(context, &reply) == REDIS_OK, context->errstr);
        const redisReply *got = reply;
        require(got->type == (i % 2 == 0 ? REDIS_REPLY_STATUS : REDIS_REPLY_STRING), "type");
        require(i % 2 == 0 || strtol(got->str, NULL, 10) == i / 2, "replies in order");
        freeReplyObject(reply);
    }
}

/* Older libraries know the second protocol only. */
static void test_resp3(redisContext *context)
{
#ifdef REDIS_REPLY_MAP
    redisReply *reply = ask(context, REDIS_REPLY_MAP, "HELLO 3");
    require(reply->elements >= 12, "HELLO's map");
    freeReplyObject(reply);
    freeReplyObject(ask(context, REDIS_REPLY_NIL, "GET hi:absent"));
    freeReplyObject(ask(context, REDIS_REPLY_VERB, "INFO server"));
    freeReplyObject(ask(context, REDIS_REPLY_MAP, "CONFIG GET port"));
    freeReplyObject(ask(context, REDIS_REPLY_MAP, "HELLO 3"));
#else
    freeReplyObject(ask(context, REDIS_REPLY_ARRAY, "HELLO 2"));
    freeReplyObject(ask(context, REDIS_REPLY_STRING, "INFO server"));
#endif
}

static void run(redisContext *context)
{
    require(context != NULL && context->err == 0, "connection");
    test_strings(context);
    test_big_value(context);
    test_pipeline(context);
    test_resp3(context);
    test_strings(context);
    redisFree(context);
}

int main(int argc, char **argv)
{
    require(argc == 3, "usage: hiredis_sync PORT SOCKET");
    run(redisConnect("127.0.0.1", (int)strtol(argv[1], NULL, 10)));
    run(redisConnectUnix(argv[2]));
    (void)printf("hiredis_sync: ok\n");
    return 0;
}
