/* hiredis_async – the C client of Redis on libevent against a server: many requests under way on
 * several connections, replies in order, a clean disconnection; then messages to a connection that
 * listens. Argument: port. One thread. */

#include <event2/event.h>
#include <hiredis/adapters/libevent.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define CONNECTIONS 8
#define REQUESTS    500
#define MESSAGES    100
#define LIMIT_S     60

struct client {
    redisAsyncContext *context; /* freed by hiredis when it disconnects */
    int number;
    int answered;
    int disconnected;
};

static void require(int truth, const char *what)
{
    if (!truth) {
        (void)fprintf(stderr, "hiredis_async: failed: %s\n", what);
        exit(1);
    }
}

static void get_done(redisAsyncContext *context, void *reply, void *argument)
{
    struct client *client = context->data;
    const redisReply *got = reply;
    require(got != NULL && got->type == REDIS_REPLY_STRING, "a string comes back");
    require((intptr_t)argument == client->answered, "replies in order");
    require(strtol(got->str, NULL, 10) == client->number * REQUESTS + client->answered,
            "the value set");
    client->answered++;
    if (client->answered == REQUESTS) {
        redisAsyncDisconnect(context);
    }
}

static void disconnected(const redisAsyncContext *context, int status)
{
    struct client *client = context->data;
    require(status == REDIS_OK, "a clean disconnection");
    client->disconnected = 1;
}

static void too_late(evutil_socket_t fd, short events, void *argument)
{
    (void)fd;
    (void)events;
    (void)argument;
    require(0, "all answered in time");
}

static void begin(struct client *client, struct event_base *base, int port, int number)
{
    *client = (struct client){.number = number};
    client->context = redisAsyncConnect("127.0.0.1", port);
    require(client->context != NULL && client->context->err == 0, "connection");
    client->context->data = client;
    require(redisLibeventAttach(client->context, base) == REDIS_OK, "attached");
    redisAsyncSetDisconnectCallback(client->context, disconnected);
    for (int i = 0; i < REQUESTS; i++) {
        int value = number * REQUESTS + i;
        require(redisAsyncCommand(client->context, NULL, NULL, "SET async:%d:%d %d", number, i,
                                  value) == REDIS_OK,
                "SET");
        require(redisAsyncCommand(client->context, get_done, (void *)(intptr_t)i, "GET async:%d:%d",
                                  number, i) == REDIS_OK,
                "GET");
    }
}

/* Who listens, and who speaks once the other is heard to listen. */
struct talk {
    redisAsyncContext *listener, *speaker; /* freed by hiredis when they disconnect */
    int heard;
    int ended;
};

static void talk_ended(const redisAsyncContext *context, int status)
{
    struct talk *talk = context->data;
    require(status == REDIS_OK, "a clean end of messages");
    talk->ended++;
}

static void message_came(redisAsyncContext *context, void *reply, void *argument)
{
    struct talk *talk = argument;
    const redisReply *got = reply;
    if (got == NULL || strcmp(got->element[0]->str, "unsubscribe") == 0) {
        return;
    }
    require(got->type == REDIS_REPLY_ARRAY && got->elements == 3, "three words");
    require(strcmp(got->element[1]->str, "async:news") == 0, "its channel");
    if (strcmp(got->element[0]->str, "subscribe") == 0) {
        for (int i = 0; i < MESSAGES; i++) {
            require(redisAsyncCommand(talk->speaker, NULL, NULL, "PUBLISH async:news %d", i) ==
                        REDIS_OK,
                    "PUBLISH");
        }
        return;
    }
    require(strtol(got->element[2]->str, NULL, 10) == talk->heard, "messages in order");
    talk->heard++;
    if (talk->heard == MESSAGES) {
        redisAsyncDisconnect(talk->speaker);
        redisAsyncDisconnect(context);
    }
}

static redisAsyncContext *talk_connect(struct talk *talk, struct event_base *base, int port)
{
    redisAsyncContext *context = redisAsyncConnect("127.0.0.1", port);
    require(context != NULL && context->err == 0, "connection");
    context->data = talk;
    require(redisLibeventAttach(context, base) == REDIS_OK, "attached");
    redisAsyncSetDisconnectCallback(context, talk_ended);
    return context;
}

static void test_messages(struct event_base *base, int port)
{
    struct talk talk = {.heard = 0};
    talk.listener = talk_connect(&talk, base, port);
    talk.speaker = talk_connect(&talk, base, port);
    require(redisAsyncCommand(talk.listener, message_came, &talk, "SUBSCRIBE async:news") ==
                REDIS_OK,
            "SUBSCRIBE");
    while (talk.ended < 2) {
        require(event_base_loop(base, EVLOOP_ONCE) == 0, "event loop");
    }
    require(talk.heard == MESSAGES, "every message heard");
}

int main(int argc, char **argv)
{
    require(argc == 2, "usage: hiredis_async PORT");
    struct event_base *base = event_base_new();
    require(base != NULL, "event base");
    struct timeval limit = {.tv_sec = LIMIT_S};
    struct event *timer = event_new(base, -1, 0, too_late, NULL);
    require(timer != NULL && event_add(timer, &limit) == 0, "timer");
    static struct client clients[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        begin(&clients[i], base, (int)strtol(argv[1], NULL, 10), i);
    }
    int left = CONNECTIONS;
    while (left > 0) {
        require(event_base_loop(base, EVLOOP_ONCE) == 0, "event loop");
        left = 0;
        for (int i = 0; i < CONNECTIONS; i++) {
            left += clients[i].disconnected == 0;
        }
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        require(clients[i].answered == REQUESTS, "every request answered");
    }
    test_messages(base, (int)strtol(argv[1], NULL, 10));
    event_free(timer);
    event_base_free(base);
    (void)printf("hiredis_async: ok\n");
    return 0;
}
