#include "client/queue_pair.h"

#include "base/check.h"
#include "client/client_impl.h"
#include "client/opening.h"
#include "client/remote_memory.h"

#include <string.h>

/* After the first failure, then twice as long each time. */
#define RETRY_MS_MIN 100U
#define RETRY_MS_MAX 10000U

static void close_link(struct queue_pair *pair)
{
    struct kvasir_client *client = pair->owner->client;
    if (pair->link != NULL) {
        remote_memory_ops(client->memory)->link_close(&pair->link);
        pair->link = NULL;
    }
    if (pair->connecting) {
        pair->connecting = false;
        client->connecting_count--;
    }
}

void queue_pair_init(struct link *link)
{
    for (uint32_t i = 0; i < RAILS_MAX; i++) {
        link->pairs[i] =
            (struct queue_pair){.state = QUEUE_PAIR_NONE, .index = (uint8_t)i, .owner = link};
    }
}

void queue_pair_break(struct queue_pair *pair, int64_t now_us)
{
    uint64_t wait_ms;
    if (pair->state == QUEUE_PAIR_NONE || pair->state == QUEUE_PAIR_DOWN) {
        return;
    }
    close_link(pair);
    wait_ms = (uint64_t)RETRY_MS_MIN << (pair->tries < 10 ? pair->tries : 10);
    pair->state = QUEUE_PAIR_DOWN;
    pair->tries++;
    pair->retry_at_us = now_us + (int64_t)(wait_ms < RETRY_MS_MAX ? wait_ms : RETRY_MS_MAX) * 1000;
}

void queue_pair_break_some(struct link *link, unsigned mask, int64_t now_us)
{
    for (uint32_t i = 0; i < RAILS_MAX; i++) {
        if ((mask >> i & 1U) != 0) {
            queue_pair_break(&link->pairs[i], now_us);
        }
    }
}

void queue_pair_failed(struct link *link, struct slice error, int64_t now_us)
{
    static const char WORD[] = " LINK ";
    const uint8_t *at = memmem(error.data, error.length_bytes, WORD, sizeof(WORD) - 1);
    size_t offset = at != NULL ? (size_t)(at - error.data) + sizeof(WORD) - 1 : error.length_bytes;
    uint32_t index = offset < error.length_bytes ? (uint32_t)error.data[offset] - '0' : RAILS_MAX;
    if (index < RAILS_MAX) {
        queue_pair_break(&link->pairs[index], now_us);
    } else {
        queue_pair_break_some(link, QUEUE_PAIRS_ALL, now_us);
    }
}

void queue_pair_reset(struct link *link)
{
    for (uint32_t i = 0; i < RAILS_MAX; i++) {
        struct queue_pair *pair = &link->pairs[i];
        close_link(pair);
        *pair = (struct queue_pair){.state = QUEUE_PAIR_NONE,
                                    .index = pair->index,
                                    .owner = link,
                                    .generation = pair->generation};
    }
}

uint64_t queue_pair_cookie(const struct queue_pair *pair)
{
    return (uintptr_t)pair;
}

void queue_pair_works(struct link *link, unsigned mask)
{
    for (uint32_t i = 0; i < RAILS_MAX; i++) {
        link->pairs[i].tries = (mask >> i & 1U) != 0 ? 0 : link->pairs[i].tries;
    }
}

static struct rail find_rail(const struct queue_pair *pair)
{
    const struct remote_memory *memory = pair->owner->client->memory;
    const struct greeting *greeting = pair->owner->greeting;
    const struct kvasir_device *own[RAILS_MAX];
    uint32_t count = remote_memory_device_count(memory);
    for (uint32_t i = 0; i < count; i++) {
        own[i] = remote_memory_device(memory, i);
    }
    return rail_choose(own, count, greeting->rdma_addresses, greeting->rdma_count, pair->index);
}

bool queue_pair_ask(struct queue_pair *pair, int64_t now_us)
{
    struct link *link = pair->owner;
    struct kvasir_client *client = link->client;
    const struct remote_memory *memory = client->memory;
    const struct kvasir_options *options = &client->options;
    struct kvasir_link_options wanted = {
        .cookie = queue_pair_cookie(pair),
        .mtu_bytes = options->rdma_mtu_bytes,
        .rights = KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE,
        .depth = 1,
        .jobs_max = 1,
        .traffic_class = options->rdma_traffic_class,
    };
    struct rail rail = find_rail(pair);
    const struct kvasir_link_address *server = &link->greeting->rdma_addresses[rail.server];
    struct opening_rdma opening = {.link = pair->index, .via = server->device};
    struct kvasir_gid gid;
    char said[KVASIR_SAID_BYTES] = "";
    check(pair->link == NULL);
    (void)rdma_move_poll(client); /* the end of the last one is told there */
    opening.lends =
        options->rdma_mode == KVASIR_RDMA_CLIENT && link->greeting->rdma_lends[rail.server];
    if (opening.lends) {
        wanted.depth = 0;
        wanted.jobs_max = RDMA_MOVES_MAX;
    }
    pair->lends = opening.lends;
    pair->device = rail.own;
    pair->generation++;
    pair->state = QUEUE_PAIR_ASKED;
    pair->value_next = false;
    pair->remote = (struct kvasir_link_address){.gid.type = KVASIR_GID_ROCE_V2};
    if (remote_memory_gid(memory, rail.own, &server->gid, options->rdma_gid_index, &gid, said) ==
        KVASIR_OK) {
        wanted.gid_index = (int)gid.index;
        if (remote_memory_ops(memory)->link_create(remote_memory_queue(memory, rail.own), &wanted,
                                                   &pair->link, &opening.local,
                                                   said) == KVASIR_OK) {
            opening_connect_rdma(link, &opening);
            return true;
        }
        pair->link = NULL;
    }
    client_explain_rdma(client, "no queue pair: %s", said);
    queue_pair_break(pair, now_us);
    return false;
}

bool queue_pair_ask_all(struct link *link, int64_t now_us)
{
    uint32_t count =
        rail_count(remote_memory_device_count(link->client->memory), link->greeting->rdma_count);
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        any = queue_pair_ask(&link->pairs[i], now_us) || any;
    }
    return any;
}

/* The server's address is complete. */
static void connect_pair(struct queue_pair *pair, int64_t now_us)
{
    struct link *link = pair->owner;
    char said[KVASIR_SAID_BYTES] = "";
    if (remote_memory_ops(link->client->memory)->link_connect(pair->link, &pair->remote, said) !=
        KVASIR_PENDING) {
        client_explain_rdma(link->client, "no queue pair: %s", said);
        queue_pair_break(pair, now_us);
        return;
    }
    pair->connecting = true;
    link->client->connecting_count++;
}

void queue_pair_connected(struct queue_pair *pair, const struct kvasir_event *event, int64_t now_us)
{
    struct link *link = pair->owner;
    pair->connecting = false;
    link->client->connecting_count--;
    if (event->status != KVASIR_OK) {
        client_explain_rdma(link->client, "no queue pair: %s", event->reason);
        queue_pair_break(pair, now_us);
        return;
    }
    pair->state = QUEUE_PAIR_UP;
    client_explain_rdma(
        link->client, "%s",
        link->client->options.rdma_mode == KVASIR_RDMA_CLIENT && !pair->lends
            ? "the server lends no memory: it has no memory windows, or rdma-windows-max is 0"
            : "");
}

enum kvasir_status queue_pair_token(struct queue_pair *pair, const struct reply_token *token,
                                    int64_t now_us)
{
    bool text = token->kind == REPLY_BULK || token->kind == REPLY_SIMPLE;
    if (token->kind == REPLY_BULK_HEADER || (token->depth == 0 && token->kind != REPLY_MAP)) {
        return KVASIR_PROTOCOL;
    }
    if (token->depth == 1 && !pair->value_next) {
        pair->word = text ? link_word_find(token->text) : LINK_WORD_COUNT;
        pair->value_next = true;
    } else if (token->depth == 1) {
        bool set = pair->word == LINK_WORD_COUNT; /* a name we do not know is passed over */
        pair->value_next = false;
        if (!set && link_word_is_number(pair->word)) {
            set = token->kind == REPLY_INTEGER && token->number >= 0 &&
                  link_word_set_number(&pair->remote, pair->word, (uint64_t)token->number);
        } else if (!set) {
            set = text && link_word_set_text(&pair->remote, pair->word, token->text);
        }
        if (!set) {
            return KVASIR_PROTOCOL;
        }
    }
    /* It may have been broken while the reply was on its way. */
    if (token->ends_reply && pair->state == QUEUE_PAIR_ASKED) {
        connect_pair(pair, now_us);
    }
    return KVASIR_OK;
}
