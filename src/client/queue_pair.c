#include "client/queue_pair.h"

#include "base/check.h"
#include "client/client_impl.h"
#include "client/opening.h"
#include "client/remote_memory.h"

/* After the first failure, then twice as long each time. */
#define RETRY_MS_MIN 100U
#define RETRY_MS_MAX 10000U

static void close_link(struct link *link)
{
    struct queue_pair *pair = &link->pair;
    if (pair->link != NULL) {
        remote_memory_ops(link->client->memory)->link_close(&pair->link);
        pair->link = NULL;
    }
    if (pair->connecting) {
        pair->connecting = false;
        link->client->connecting_count--;
    }
}

void queue_pair_break(struct link *link, int64_t now_us)
{
    struct queue_pair *pair = &link->pair;
    uint64_t wait_ms;
    if (pair->state == QUEUE_PAIR_NONE || pair->state == QUEUE_PAIR_DOWN) {
        return;
    }
    close_link(link);
    wait_ms = (uint64_t)RETRY_MS_MIN << (pair->tries < 10 ? pair->tries : 10);
    pair->state = QUEUE_PAIR_DOWN;
    pair->tries++;
    pair->retry_at_us = now_us + (int64_t)(wait_ms < RETRY_MS_MAX ? wait_ms : RETRY_MS_MAX) * 1000;
}

void queue_pair_reset(struct link *link)
{
    close_link(link);
    link->pair = (struct queue_pair){.state = QUEUE_PAIR_NONE, .generation = link->pair.generation};
}

uint64_t queue_pair_cookie(const struct link *link)
{
    return (uintptr_t)link;
}

bool queue_pair_ask(struct link *link, int64_t now_us)
{
    struct queue_pair *pair = &link->pair;
    struct kvasir_client *client = link->client;
    const struct remote_memory *memory = client->memory;
    const struct kvasir_options *options = &client->options;
    struct kvasir_link_options wanted = {
        .cookie = queue_pair_cookie(link),
        .mtu_bytes = options->rdma_mtu_bytes,
        .rights = KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE,
        .depth = 1,
        .jobs_max = 1,
        .traffic_class = options->rdma_traffic_class,
    };
    bool lends = options->rdma_mode == KVASIR_RDMA_CLIENT && link->greeting->rdma_lends;
    struct kvasir_link_address local;
    struct kvasir_gid gid;
    char said[KVASIR_SAID_BYTES] = "";
    check(pair->link == NULL);
    (void)rdma_move_poll(client); /* the end of the last one is told there */
    if (lends) {
        wanted.depth = 0;
        wanted.jobs_max = RDMA_MOVES_MAX;
    }
    pair->lends = lends;
    pair->generation++;
    pair->state = QUEUE_PAIR_ASKED;
    pair->value_next = false;
    pair->remote = (struct kvasir_link_address){.gid.type = KVASIR_GID_ROCE_V2};
    if (remote_memory_gid(memory, &link->greeting->rdma_address.gid, options->rdma_gid_index, &gid,
                          said) == KVASIR_OK) {
        wanted.gid_index = (int)gid.index;
        if (remote_memory_ops(memory)->link_create(remote_memory_queue(memory), &wanted,
                                                   &pair->link, &local, said) == KVASIR_OK) {
            opening_connect_rdma(link, &local, lends);
            return true;
        }
        pair->link = NULL;
    }
    client_explain_rdma(client, "no queue pair: %s", said);
    queue_pair_break(link, now_us);
    return false;
}

/* The server's address is complete. */
static void connect_pair(struct link *link, int64_t now_us)
{
    struct queue_pair *pair = &link->pair;
    char said[KVASIR_SAID_BYTES] = "";
    if (remote_memory_ops(link->client->memory)->link_connect(pair->link, &pair->remote, said) !=
        KVASIR_PENDING) {
        client_explain_rdma(link->client, "no queue pair: %s", said);
        queue_pair_break(link, now_us);
        return;
    }
    pair->connecting = true;
    link->client->connecting_count++;
}

void queue_pair_connected(struct link *link, const struct kvasir_event *event, int64_t now_us)
{
    struct queue_pair *pair = &link->pair;
    pair->connecting = false;
    link->client->connecting_count--;
    if (event->status != KVASIR_OK) {
        client_explain_rdma(link->client, "no queue pair: %s", event->reason);
        queue_pair_break(link, now_us);
        return;
    }
    pair->state = QUEUE_PAIR_UP;
    client_explain_rdma(
        link->client, "%s",
        link->client->options.rdma_mode == KVASIR_RDMA_CLIENT && !pair->lends
            ? "the server lends no memory: it has no memory windows, or rdma-windows-max is 0"
            : "");
}

enum kvasir_status queue_pair_token(struct link *link, const struct reply_token *token,
                                    int64_t now_us)
{
    struct queue_pair *pair = &link->pair;
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
        connect_pair(link, now_us);
    }
    return KVASIR_OK;
}
