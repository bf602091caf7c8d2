#pragma once
/* queue_pair – a link's queue pair: KV.CONNECT RDMA, and its end. The server reads and writes the client's
 * registered buffers by it; here nothing is posted. Closing it, which takes no word from the server, is
 * what makes sure that a buffer is not touched any more. Embedded in a link; one thread. */

#include "proto/link_word.h"
#include "proto/reply_reader.h"

#include <kvasir/transport.h>

#include <stdbool.h>
#include <stdint.h>

struct link;

enum queue_pair_state {
    QUEUE_PAIR_NONE,  /* not on offer */
    QUEUE_PAIR_DOWN,  /* to be made when payload wants it and retry_at_us has come */
    QUEUE_PAIR_ASKED, /* KV.CONNECT RDMA is under way; next: UP or DOWN */
    QUEUE_PAIR_UP,    /* carries payload; next: DOWN */
};

struct queue_pair {
    uint8_t state; /* enum queue_pair_state */
    bool value_next;
    bool connecting;          /* while ASKED: the server's answer is there, the device's is not */
    enum link_word word;      /* whose value comes next in the reply */
    struct kvasir_link *link; /* owned; NULL: DOWN or NONE */
    bool lends;               /* the server lends its memory on it */
    uint32_t generation;      /* grows with each one */
    uint32_t tries;           /* failures since payload last moved */
    int64_t retry_at_us;
    struct kvasir_link_address remote; /* as far as it was read */
};

/* Whether it is time to ask (again). */
static inline bool queue_pair_is_due(const struct queue_pair *pair, int64_t now_us)
{
    return pair->state == QUEUE_PAIR_DOWN && now_us >= pair->retry_at_us;
}

/* Makes it and asks the server to connect. False: it cannot be had, and the client's explanation says
 * why. */
bool queue_pair_ask(struct link *link, int64_t now_us);
/* A token of the reply. KVASIR_OK or KVASIR_PROTOCOL. */
enum kvasir_status queue_pair_token(struct link *link, const struct reply_token *token,
                                    int64_t now_us);
/* The device has connected it, or says why it cannot. */
void queue_pair_connected(struct link *link, const struct kvasir_event *event, int64_t now_us);
/* It failed, or may not be used any more: nothing of ours is touched from here on. */
void queue_pair_break(struct link *link, int64_t now_us);
/* The link goes; the next connection begins anew. */
void queue_pair_reset(struct link *link);
/* Stands for the link in the transport's events. */
uint64_t queue_pair_cookie(const struct link *link);
/* Payload moved by it. */
static inline void queue_pair_works(struct queue_pair *pair)
{
    pair->tries = 0;
}
