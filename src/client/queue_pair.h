#pragma once
/* queue_pair – one of a link's queue pairs, on one rail: KV.CONNECT RDMA, and its end. The server reads and writes the client's
 * registered buffers by it; here nothing is posted. Closing it, which takes no word from the server, is
 * what makes sure that a buffer is not touched any more. Embedded in a link; one thread. */

#include "proto/link_word.h"
#include "proto/reply_reader.h"

#include <kvasir/transport.h>

#include <stdbool.h>
#include <stdint.h>

struct greeting;
struct link;

/* A key of the server's, or one that it is told, has the index of its queue pair in the bits from here on. */
#define QUEUE_PAIR_KEY_BITS 32

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
    uint8_t index;            /* of the rail, and the server's name for it */
    uint32_t device;          /* of ours, once it was asked for */
    struct link *owner;       /* whose it is */
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

/* What is not there yet. */
void queue_pair_init(struct link *link);
/* Makes it and asks the server to connect. False: it cannot be had, and the client's explanation says
 * why. */
bool queue_pair_ask(struct queue_pair *pair, int64_t now_us);
/* The same for every rail to the server that was greeted; false: not one is on its way. */
bool queue_pair_ask_all(struct link *link, int64_t now_us);
/* A token of the reply. KVASIR_OK or KVASIR_PROTOCOL. */
enum kvasir_status queue_pair_token(struct queue_pair *pair, const struct reply_token *token,
                                    int64_t now_us);
/* The device has connected it, or says why it cannot. */
void queue_pair_connected(struct queue_pair *pair, const struct kvasir_event *event,
                          int64_t now_us);
/* Of all in a mask. */
#define QUEUE_PAIRS_ALL ((1U << RAILS_MAX) - 1U)
/* It failed, or may not be used any more: nothing of ours is touched from here on. */
void queue_pair_break(struct queue_pair *pair, int64_t now_us);
/* Those of the mask. */
void queue_pair_break_some(struct link *link, unsigned mask, int64_t now_us);
/* Those that an error of the server's names: "LINK n", or all. */
void queue_pair_failed(struct link *link, struct slice error, int64_t now_us);
/* The link goes; the next connection begins anew. */
void queue_pair_reset(struct link *link);
/* Stands for it in the transport's events. */
uint64_t queue_pair_cookie(const struct queue_pair *pair);
/* Payload moved by those of the mask. */
void queue_pair_works(struct link *link, unsigned mask);
