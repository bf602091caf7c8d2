#pragma once
/* reactor – one thread with its loop, its connections and its shard of the keys. The structure is
 * open to the server layer: every unit of it works on the reactor it is handed. On another it does
 * nothing but a burst of ops through its shard's gate (reactor_shard_borrow), read its counters and
 * what never changes, and send it mail. Owns its loop, listeners, connections, shard and pools. */

#include "acl/acl_log.h"
#include "acl/acl_table.h"
#include "base/clock.h"
#include "base/gate.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/random.h"
#include "net/chunk.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/mailbox.h"
#include "net/tls.h"
#include "server/command_stats.h"
#include "server/feed.h"
#include "server/hub.h"
#include "server/latency.h"
#include "server/notice_classes.h"
#include "server/output_limit.h"
#include "server/pause.h"
#include "server/pubsub.h"
#include "server/server.h"
#include "server/settings.h"
#include "server/slowlog.h"
#include "server/traffic.h"
#include "store/shard.h"

#include <pthread.h>

struct batch;
struct conn;

#define REACTOR_MAGIC 0x52454143U

/* For each address of bind the common port, the own one and that for TLS; and two Unix sockets. */
#define REACTOR_LISTENERS_MAX (3 * LISTENER_BIND_MAX + 2)
/* Connections whose requests come through memory: each is looked at in every turn. */
#define REACTOR_RINGS_MAX 64U

/* What main writes to a reactor's control descriptor (an eventfd, so orders add up): finish what is
 * under way; close all connections; leave the loop, now that nobody has work for anybody. */
#define REACTOR_ORDER_DRAIN 1ULL
#define REACTOR_ORDER_CLOSE (1ULL << 10)
#define REACTOR_ORDER_LEAVE (1ULL << 20)

struct conn;
struct reactor;
struct request;

/* Rates are means over so many samples, one each 100 ms: as in Redis. */
#define REACTOR_RATE_SAMPLES 16U

struct rate_sample {
    int64_t mono_us; /* 0: none taken yet */
    uint64_t commands, bytes_in, bytes_out;
};

struct loop_listener {
    struct reactor *reactor; /* borrowed */
    struct loop_watch *watch;
    int descriptor; /* -1: none */
    bool tls;
};

/* Kinds of mail. A request goes to a reactor, its answer comes back as the same object. */
enum reactor_mail {
    MAIL_OPS,       /* struct batch_part: execute the ops */
    MAIL_OPS_DONE,  /* the same, executed */
    MAIL_PINS,      /* struct pin_mail: give these pins back */
    MAIL_PINS_DONE, /* the same, emptied */
    MAIL_TASK,      /* struct gather_task: run it */
    MAIL_TASK_DONE,
    MAIL_ACL, /* struct acl_change: to reactor 0, which makes it */
    MAIL_ACL_DONE,
};

/* What a reactor counts; summed over reactors when somebody asks. */
struct reactor_metrics {
    struct metric connections_now, connections_total, connections_rejected;
    struct traffic traffic;
    struct metric upload_bytes;
    struct metric uploads_short_bytes, uploads_long_bytes; /* declared by uploads under way */
    struct metric uploads_waiting;
    struct metric output_limit_closed, timeout_closed, protocol_errors;
    struct metric hops, borrows, turns, shm_clients, staging_bytes;
    struct metric acl_denied[ACL_DENIED_AUTH + 1]; /* by enum acl_verdict */
    struct metric tls_clients, tls_bytes, tls_handshakes, tls_handshake_failures;
    struct metric rdma_clients, rdma_lent_bytes, rdma_windows, rdma_windows_free;
    struct metric paused_clients;
    struct metric chunks_taken, retries_for_pages;
    struct metric commands_rate, bytes_in_rate, bytes_out_rate; /* a second, of late */
    struct metric used_bytes;         /* in regions: payload, metadata, staging */
    struct metric grants_bytes;       /* of metadata: tables of leases and reservations */
    struct metric heap_bytes;         /* of the process, as the first reactor last saw it */
    struct metric used_peak_bytes;    /* of all reactors, as the first one sees it */
    struct metric long_request_bytes; /* in memory of their own: what came, what is kept */
    struct metric input_bytes_max, output_bytes_max; /* of any client, when it was last looked */
    struct metric conns_waiting; /* likewise: they wait for a batch or for memory */
    struct metric expire_us,
        expire_cut_short; /* time of the background work; how often it was all */
    struct metric exceeded_us,
        exceeded_now_us; /* payload is more than maxmemory allows: see resize */
    struct metric pages_balanced, mean_age_s; /* see balance.h */
    struct metric events_bytes;               /* see events.h */
};

struct reactor {
    uint32_t magic;
    uint32_t index;
    struct server *server;       /* borrowed */
    struct settings settings;    /* this reactor's copy */
    const struct acl_table *acl; /* borrowed from the server: until access_update names the next */
    struct acl_log acl_log;
    struct loop *loop;   /* owned */
    struct shard *shard; /* owned; touched inside the gate only */
    ATTR_ALIGNED(CACHE_LINE_BYTES) struct gate shard_gate;
    uint32_t shard_depth; /* this thread's nested entries into its own gate */
    uint64_t held_shards; /* bit per shard that this thread holds for a transaction */
    struct moment now;    /* read once a turn */
    struct random random;

    struct loop_listener listeners[REACTOR_LISTENERS_MAX]; /* see accept.c */
    uint32_t listener_count;
    struct tls_maker tls;     /* for tls-port */
    uint32_t handshakes_left; /* steps of handshakes in this turn */
    uint16_t own_port;        /* 0: none */
    char own_socket[SETTINGS_TEXT_BYTES];
    int control_descriptor; /* owned eventfd: takes REACTOR_ORDER_… */
    int spare_descriptor;   /* owned: given up to tell a client that there are no descriptors */
    uint64_t ticks;
    struct loop_watch *control_watch;
    struct loop_watch *mailbox_watch;
    struct loop_timer *timer;

    struct list conns;          /* owned */
    struct list runnable;       /* have something to do without a new event */
    struct list batch_waiters;  /* wait for a free batch */
    struct list upload_waiters; /* wait until other uploads end */
    struct list rings;          /* connections to be looked at in every turn */
    uint32_t ring_turns;        /* since the loop was asked */
    uint32_t ring_count;        /* of them, and those about to join */
    struct list dead;           /* to be freed at the end of the turn */
    uint64_t next_conn;
    uint32_t conn_count;

    struct hub hub;

    struct chunk_pool chunks;
    struct list free_batches;
    uint32_t batch_count; /* free and taken */
    struct pin_mail *free_pins;
    struct pin_mail **open_pins; /* per shard: being filled during this turn */
    struct list stalled;         /* batch parts that wait for pages from other shards */
    uint32_t errand_count;       /* pin mails and gathers that are filled or out */
    bool reclaiming;             /* other shards were asked and have not all answered */
    bool balancing;              /* a shard with older values was asked for pages */
    uint64_t balanced_bytes;     /* evicted by the own shard when it was last looked at */
    int64_t exceeded_us;        /* since when there is more payload than allowed; 0: there is not */
    bool resizing;              /* shards were asked for pages that are to go */
    uint32_t resize_rest_ticks; /* until the first reactor tries again */
    bool resize_asks_all;       /* those it asked last had nothing to give */
    bool making_room;           /* a stalled part goes on in the next turn */

    struct reactor_metrics metrics;
    struct rate_sample rates[REACTOR_RATE_SAMPLES]; /* the oldest is overwritten next */
    uint32_t rate_next;
    uint32_t published_count;            /* ticks of published.c */
    uint64_t copied_bytes_at_reset;      /* of copy_payload_bytes() */
    struct command_stats *command_stats; /* owned */
    struct slowlog slowlog;
    struct latency latency;
    struct pubsub pubsub;
    struct feed feed;
    struct recall_list recalls;           /* of the own shard, while all reactors are told */
    bool recalling;                       /* they are */
    struct notice_classes notice_classes; /* as the setting says */
    bool notices_kept;                    /* the shard notes what is done to keys */
    struct pause pause;
    struct list monitors;        /* of connections of this reactor: see monitor.h */
    uint32_t monitor_count;      /* on all reactors: requests are told to them */
    struct list event_listeners; /* owned */
    uint32_t event_listener_count;
    struct output_limits output_limits; /* as the setting says */
    struct log_limit log_limit;
    int64_t tick_us;    /* of the last tick */
    int64_t held_up_us; /* when it last went on after something held it up, as DEBUG SLEEP does */
    int64_t busy_until_us; /* does not sleep before: whoever was answered may ask again */
    uint64_t leased_bytes; /* by the answers of this turn */
    size_t kept_bytes;     /* memory that requests keep from round to round */
    bool draining;
    bool drained; /* said so to main */
    bool closing_all;
    bool leaving;
    uint64_t shm_staging_bytes; /* of all connections */
    pthread_t thread;
    bool started;
};

/* NULL and error when it cannot be made. Main thread. */
struct reactor *reactor_create(struct server *server, uint32_t index, char *error,
                               size_t error_capacity);
void reactor_destroy(struct reactor **reactor_p);
/* Whether SLOWLOG or LATENCY wants to know of requests at all. */
static inline bool reactor_notices_requests(const struct reactor *reactor)
{
    return reactor->settings.slowlog_log_slower_than >= 0 ||
           reactor->settings.latency_monitor_threshold > 0;
}
/* A request is answered: is it one for SLOWLOG or LATENCY? */
void reactor_note_request(struct reactor *reactor, const struct conn *conn,
                          const struct request *request);
/* Does what there is to do, once. may_wait: sleeps when that is nothing. The thread's own, or a test's
 * that has no threads. */
void reactor_turn(struct reactor *reactor, bool may_wait);
/* The thread's function; argument is the reactor. */
void *reactor_main(void *argument);

/* The reactor whose shard owns the key. */
uint32_t reactor_of_key(const struct reactor *reactor, struct slice key);

/* This thread begins and ends a burst of work on its own shard; may nest. */
void reactor_shard_enter(struct reactor *reactor);
void reactor_shard_leave(struct reactor *reactor);
/* The shard of another reactor, if nobody is working on it: to be left again at once. NULL: send mail. */
struct shard *reactor_shard_borrow(struct reactor *reactor, uint32_t index);
void reactor_shard_return(struct reactor *reactor, uint32_t index);

/* Enters the gates of several shards and the own one, in the order of their numbers, waiting for each:
 * for what must be one step over several keys. Not from inside the own gate. Borrowing is free while
 * they are held. */
void reactor_hold_shards(struct reactor *reactor, uint64_t shards);
void reactor_free_shards(struct reactor *reactor);

/* CONFIG RESETSTAT: counters to zero, but for what counts what there is now. */
void reactor_reset_metrics(struct reactor *reactor);

/* Mail that came for this reactor (reactor_mail.c). */
void reactor_receive(struct reactor *reactor);
