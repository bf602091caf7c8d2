#pragma once
/* job – a request: the caller's items on their way, spread over the connections. One thread. The
 * client owns the request until it is finished and given to the caller; keys, items and buffers are
 * borrowed from the caller until then. An item is at any time in one place: queued on one link, in one
 * command in flight, or done. */

#include "base/list.h"
#include "base/slice.h"

#include <kvasir/client.h>

struct bounce;
struct event_list;

#define JOB_MAGIC 0x4b565251U
#define JOB_NONE  UINT32_MAX
/* Items of one request; a caller with more makes several requests. */
#define JOB_ITEMS_MAX (1U << 24)

/* The public calls that can be submitted, with the same numbers, and those that cannot. */
enum job_call {
    JOB_PUT = KVASIR_CALL_PUT,
    JOB_GET = KVASIR_CALL_GET,
    JOB_EXISTS = KVASIR_CALL_EXISTS,
    JOB_DELETE = KVASIR_CALL_DELETE,
    JOB_MATCH = KVASIR_CALL_MATCH,
    JOB_VIEW,
    JOB_STAT,
    JOB_EVENTS, /* one item, without a key */
};

/* What an item waits for. */
enum job_mode {
    JOB_FIRST, /* queued; the path is chosen when it is its turn */
    JOB_LEASE, /* to read the server's memory; then done, JOB_MOVING, JOB_SERVED, JOB_INLINE, or again */
    JOB_RESERVE, /* to write the server's memory; then JOB_MOVING, JOB_COMMIT, JOB_INLINE or done */
    JOB_MOVING,  /* the device reads or writes for us; then done, JOB_COMMIT or JOB_SERVED */
    JOB_COMMIT,  /* the bytes are in the server's memory; then done, JOB_SERVED or JOB_INLINE */
    JOB_SERVED,  /* by the server's queue pair, if there is one, else as JOB_INLINE */
    JOB_INLINE,  /* by the call's own command over the socket; then done */
    JOB_BOUNCING, /* its bytes are copied between a device and the host; then as before, or done */
    JOB_DONE,
};

struct job_item {
    uint64_t grant_id;    /* JOB_COMMIT: the reservation */
    size_t staging_bytes; /* taken of the link's staging memory until the commit is answered */
    uint32_t next;        /* item index in the same queue or command */
    uint16_t link;
    uint8_t mode;
    uint8_t lease_tries;
    struct bounce *bounce; /* owned; NULL: its memory is the host's */
};

struct job_queue {
    uint32_t head; /* JOB_NONE: empty */
    uint32_t tail;
};

struct kvasir_request {
    uint32_t magic;
    enum job_call call;
    struct list member;           /* of the client's active or finished requests */
    struct kvasir_client *client; /* the owner */
    struct kvasir_item *items;    /* borrowed from the caller until finished */
    size_t item_count;
    size_t left_count; /* not yet done */
    enum kvasir_status status;
    bool finished;
    bool submitted; /* handed to the caller by kvasir_submit */
    struct kvasir_put_options put;
    uint32_t pin_ms;
    size_t match_count;
    int64_t start_us;
    int64_t deadline_us;
    void *user_data;
    struct kvasir_stat *stats;  /* JOB_STAT: borrowed, one per item */
    struct kvasir_view **views; /* JOB_VIEW: borrowed, one per item */
    struct event_list *events;  /* JOB_EVENTS: borrowed */
    uint64_t since;             /* likewise: KVASIR_EVENTS_NOW, or the number of an event */
    struct job_item *work;      /* in the request's own block */
    struct job_queue *queues;   /* one per link, in the same block */
};

struct job_spec {
    enum job_call call;
    struct kvasir_item *items;
    size_t item_count;
    const struct kvasir_put_options *put;
    uint32_t pin_ms;
    uint32_t timeout_ms;
    void *user_data;
    struct kvasir_stat *stats;
    struct kvasir_view **views;
    struct event_list *events;
    uint64_t since;
};

/* Routes every item to its link and makes the request active. KVASIR_OK; KVASIR_AGAIN: too many in
 * flight; KVASIR_INVALID; KVASIR_NO_MEMORY. */
enum kvasir_status job_create(struct kvasir_client *client, const struct job_spec *spec,
                              int64_t now_us, struct kvasir_request **request_p);
/* Of a finished request. */
void job_destroy(struct kvasir_request **request_p);

struct slice job_key(const struct kvasir_item *item);
/* The payload pieces, whichever way the caller gave them. */
const struct iovec *job_own_segments(const struct kvasir_item *item, uint32_t *segment_count_p);
/* Those that its bytes are sent from and received into. */
const struct iovec *job_segments(const struct kvasir_request *request, uint32_t index,
                                 uint32_t *segment_count_p);
size_t job_payload_bytes(const struct kvasir_item *item);

/* The server answered for the item. */
void job_answer(struct kvasir_request *request, uint32_t index, enum kvasir_status status);
/* The copy that an answered item waited for is done, or the one before it was sent failed. */
void job_copied(struct kvasir_request *request, uint32_t index, enum kvasir_status status);
/* No answer will come, for the reason given. */
void job_fail(struct kvasir_request *request, uint32_t index, enum kvasir_status status);

/* Put an item into its link's queue: next in turn, or last. */
void job_requeue(struct kvasir_request *request, uint32_t index, enum job_mode mode);
uint32_t job_take(struct kvasir_request *request, uint32_t link);
/* Fails what is queued for one link. */
void job_fail_queue(struct kvasir_request *request, uint32_t link, enum kvasir_status status);
/* Fails every item that is not done; nothing of it may be in flight any more. */
void job_fail_all(struct kvasir_request *request, enum kvasir_status status);
