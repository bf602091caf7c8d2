#pragma once
/* fake_impl – what the parts of the fake share: its objects and its one state. Owns all objects. */

#include "fake_verbs.h"

#include <stddef.h>
#include <stdint.h>

#define FAKE_ADAPTERS   2
#define FAKE_KEYS_MAX   8192
#define FAKE_PAIRS_MAX  1024
#define FAKE_SGES_MAX   32
#define FAKE_HELD_MAX   8192
#define FAKE_EVENTS_MAX 64
#define FAKE_GIDS       5
#define FAKE_INLINE_MAX 256

struct fake_cq {
    struct ibv_cq base;
    struct ibv_wc *entries; /* owned; a ring of base.cqe */
    unsigned *covers;       /* owned; how many work requests each entry gives back */
    unsigned first;
    unsigned count;
    bool armed;
    unsigned unacknowledged;
};

struct fake_channel {
    struct ibv_comp_channel base;
    int write_fd;
    struct fake_cq *cq; /* borrowed: the one that uses it */
};

struct fake_qp {
    struct ibv_qp base;
    struct ibv_qp_attr attributes;
    unsigned serial; /* tells it from another that had its number */
    unsigned requests_max;
    unsigned sges_max;
    unsigned inline_max;
    unsigned outstanding; /* posted, and not given back by a completion that was polled */
    unsigned uncovered;   /* executed since the last completion */
};

struct fake_mr {
    struct ibv_mr base;
    unsigned access;
    unsigned bound; /* windows */
};

struct fake_mw {
    struct ibv_mw base;
    uint32_t key; /* as the adapter knows it */
    bool bound;
    bool lies;          /* bound no more, but works */
    struct fake_qp *qp; /* borrowed: bound on it */
    struct fake_mr *mr; /* borrowed: bound to it */
    uint64_t address;
    uint64_t bytes;
    unsigned access;
};

/* A key's upper 24 bits are the place of its entry. */
struct fake_key {
    struct fake_mr *mr;
    struct fake_mw *mw;
};

struct fake_request {
    struct fake_qp *qp;
    struct ibv_send_wr wr;
    struct ibv_sge sges[FAKE_SGES_MAX];
    uint8_t inlined[FAKE_INLINE_MAX];
};

/* An asynchronous event on its way. */
struct fake_event {
    enum ibv_event_type type;
    uint32_t queue_pair; /* 0: none */
    unsigned serial;
};

struct fake_state {
    struct fake_options options;
    unsigned calls;
    unsigned fail_at;
    bool held;
    bool removed;
    bool slow; /* by fake_slow_lock */
    unsigned objects;
    char broken_rule[256]; /* the first */
    struct fake_key keys[FAKE_KEYS_MAX];
    struct fake_qp *pairs[FAKE_PAIRS_MAX]; /* the number is the place + 16 */
    struct fake_request *requests;         /* owned; held ones, in order */
    unsigned request_count;
    unsigned windows;
    unsigned serial;
    unsigned last_flags;
    int last_sges;
    int event_fds[2];
};

extern struct fake_state fake;

/* Zeroed, and not by the calloc that can be made to fail; aborts when there is none. */
void *fake_allocate(size_t bytes);
void fake_rule_broken(const char *format, ...) __attribute__((format(printf, 1, 2)));
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *entries);
/* The queue pair ends: what it holds is flushed. */
void fake_qp_fail(struct fake_qp *qp);
/* What is held of a queue pair vanishes. */
void fake_drop_requests(const struct fake_qp *qp);
bool fake_gid(unsigned adapter, unsigned index, struct ibv_gid_entry *entry);
