#include "server/cmd_swapdb.h"

#include "server/reply.h"

static bool parse(const struct conn *conn, struct request *request, int64_t numbers[2])
{
    static const char *const not_a_number[] = {"ERR invalid first DB index",
                                               "ERR invalid second DB index"};
    int64_t databases = (int64_t)conn->reactor->settings.databases;
    for (int i = 0; i < 2; i++) {
        if (!slice_to_i64(request->args[i + 1], &numbers[i])) {
            request_refuse(request, not_a_number[i]);
            return false;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (numbers[i] < 0 || numbers[i] >= databases) {
            request_refuse(request, "ERR DB index is out of range");
            return false;
        }
    }
    return true;
}

/* All shards are held. */
static void swap(struct reactor *reactor, uint8_t first, uint8_t second)
{
    struct server *server = reactor->server;
    uint8_t first_place = database_map_place(&server->databases, first);
    uint8_t second_place = database_map_place(&server->databases, second);
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        shard_swap(server->reactors[i]->shard, first_place, second_place, &reactor->now);
    }
    database_map_swap(&server->databases, first, second);
}

void cmd_swapdb_plan(struct conn *conn, struct request *request)
{
    struct reactor *reactor = conn->reactor;
    bool hold = reactor->held_shards == 0;
    int64_t numbers[2];
    if (!parse(conn, request, numbers)) {
        return;
    }
    if (hold) {
        reactor_hold_shards(reactor, UINT64_MAX >> (64 - reactor->server->reactor_count));
    }
    swap(reactor, (uint8_t)numbers[0], (uint8_t)numbers[1]);
    if (hold) {
        reactor_free_shards(reactor);
    }
}

void cmd_swapdb_reply(struct conn *conn, struct request *request)
{
    (void)request;
    reply_ok(conn);
}
