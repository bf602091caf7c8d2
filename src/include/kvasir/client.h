#pragma once
/* client – libkvasir: store, find and fetch KV blocks in a Kvasir server. A client is used by one
 * thread at a time; several clients may live in one process. It owns its connections (one per
 * reactor of the server) and its shared-memory mappings, and borrows keys and buffers for the
 * length of a call (synchronous) or until the request is done (submitted).
 *
 * No call blocks longer than its deadline: a dead, stopped or unreachable server is
 * KVASIR_CLOSED or KVASIR_TIMEOUT, and the next call does not wait for the same corpse again
 * (it fails at once until the back-off allows the next attempt). */

#include <kvasir/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvasir_client;
struct kvasir_request;
struct kvasir_view;
struct kvasir_events;

/* The way a value's bytes travelled. */
enum kvasir_path {
    KVASIR_PATH_NONE = 0,        /* nothing has moved yet */
    KVASIR_PATH_TCP = 1,         /* inline RESP over TCP */
    KVASIR_PATH_UNIX = 2,        /* inline RESP over the Unix socket */
    KVASIR_PATH_SHM = 3,         /* shared memory on the same host */
    KVASIR_PATH_RDMA = 4,        /* RDMA from and into registered buffers, driven by the server */
    KVASIR_PATH_RDMA_CLIENT = 5, /* the same, driven by the client */
};

/* What kind of state a value holds; eviction may treat kinds differently. */
enum kvasir_class {
    KVASIR_CLASS_FULL = 0,    /* full-attention KV block (the default) */
    KVASIR_CLASS_WINDOW = 1,  /* sliding-window KV block */
    KVASIR_CLASS_STATE = 2,   /* recurrent state snapshot */
    KVASIR_CLASS_ENCODER = 3, /* encoder output */
};

/* Who moves the payload of registered buffers. The server does it in one round trip and is the default. A
 * client that does it itself takes a round trip more for a put, and the server's processors none of the
 * work: for many clients on few server cores. Where the server lends no memory, it drives. */
enum kvasir_rdma_mode {
    KVASIR_RDMA_SERVER = 0,
    KVASIR_RDMA_CLIENT = 1,
};

struct kvasir_options {
    size_t struct_size;          /* set by kvasir_options_init; tells versions apart */
    const char *address;         /* "tcp://host:port" (also "host:port"), "unix:///path" */
    const char *user;            /* NULL: the default user */
    const char *password;        /* NULL: no AUTH is sent */
    const char *name;            /* CLIENT SETNAME; NULL: none */
    uint32_t timeout_ms;         /* default deadline of a call (5000) */
    uint32_t connect_timeout_ms; /* for one attempt to connect and greet (1000) */
    uint32_t backoff_min_ms;     /* first wait before reconnecting (50); doubles, jittered ... */
    uint32_t backoff_max_ms;     /* ... up to this (2000) */
    bool shm;                    /* use shared memory when client and server share a host (true) */
    size_t staging_bytes;        /* shared staging memory for puts, per connection (32 MiB) */
    uint32_t lease_ms;           /* how long a view may be read before it must be renewed (30000) */
    bool rdma;                   /* use RDMA when the server offers it (true) */
    const char *rdma_module;     /* path of rdma.so; NULL: the one installed with the library */
    const char *rdma_device;     /* names, with commas between; NULL: each whose port is up */
    int rdma_gid_index;          /* -1: the one nearest to the server's (-1) */
    uint32_t rdma_mtu_bytes;     /* at most; 0: what the port has (0) */
    enum kvasir_rdma_mode rdma_mode; /* who drives (KVASIR_RDMA_SERVER) */
    const char *cuda_module;         /* path of cuda.so; NULL: the one installed with the library */
    size_t bounce_bytes;        /* pinned host memory, at most, that payload of device buffers goes
                                through where no adapter reaches it (128 MiB) */
    uint8_t rdma_traffic_class; /* of this side's packets (RoCE v2): four times the DSCP, plus 2 for
                                   ECN; 0: what the device is set to (0) */
};

/* Fills in the defaults given above. */
KVASIR_API void kvasir_options_init(struct kvasir_options *options);

/* Connects, greets and learns the server's reactors and paths. With address "tcp://…" of this very
 * host and shm true, the server's Unix socket is used when it is reachable and allowed.
 * KVASIR_OK; KVASIR_INVALID (address; the text says what is allowed), KVASIR_CLOSED,
 * KVASIR_TIMEOUT, KVASIR_DENIED, KVASIR_PROTOCOL. On failure a sentence that names the address and
 * the reason is written to error (may be NULL). The caller owns *client_p. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status kvasir_connect(const struct kvasir_options *options,
                                                             char *error, size_t error_capacity,
                                                             struct kvasir_client **client_p);

/* Cancels what is in flight, returns leases that are still held, unmaps, closes; sets *client_p to
 * NULL. Every view must have been released before. NULL and pointer to NULL are fine. */
KVASIR_API void kvasir_close(struct kvasir_client **client_p);

/* The path that served the last call that moved a payload. */
KVASIR_API enum kvasir_path kvasir_path(const struct kvasir_client *client);

/* "tcp", "unix", "shm", "rdma", "rdma-client" or "none". */
KVASIR_API const char *kvasir_path_name(enum kvasir_path path);

/* The sentence behind the last failure of a call on this client ("" when there was none);
 * valid until the next call. */
KVASIR_API const char *kvasir_error(const struct kvasir_client *client);

/* ---- buffers for RDMA, and those of devices --------------------------------------------- */

/* Lets the server read and write the buffer, so that puts from it and gets into it go by RDMA: no CPU
 * copies their bytes. Host memory needs it for nothing else, and every other call works on it as before.
 * What lies within a registered buffer is registered; a buffer may be registered several times. It must
 * stay mapped until it is unregistered or the client is closed. KVASIR_OK; KVASIR_UNSUPPORTED: no RDMA on
 * this client (kvasir_error says why; calls take other paths); KVASIR_NO_MEMORY (memlock: kvasir_error
 * names the limit), KVASIR_BUSY (too many buffers), KVASIR_INVALID, KVASIR_IO.
 *
 * A device's memory (CUDA) must be registered before it is given to a put or get: nothing else tells it
 * from the host's. It then serves on every path. With RDMA, where the driver exports it (dmabuf), the
 * adapter reads and writes it; otherwise payload is staged in pinned host memory (options.bounce_bytes),
 * kvasir_error says why, and KVASIR_OK is answered all the same. What writes the buffer must be done
 * before a put, and what reads it comes after a get: no stream of the caller's is waited for. One that was freed while it
 * was registered is forgotten when other memory in its place is registered, and must not be used until then. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status kvasir_register(struct kvasir_client *client,
                                                              void *base, size_t length_bytes);
/* Undoes one kvasir_register of the same buffer. KVASIR_OK; KVASIR_NOT_FOUND; KVASIR_BUSY: a submitted
 * request is in flight, which may use it. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status
kvasir_unregister(struct kvasir_client *client, const void *base, size_t length_bytes);

/* How the bytes of a registered buffer travel. */
enum kvasir_buffer {
    KVASIR_BUFFER_NONE = 0,   /* it is not registered */
    KVASIR_BUFFER_HOST = 1,   /* the adapter moves them */
    KVASIR_BUFFER_DEVICE = 2, /* likewise, from and to the device */
    KVASIR_BUFFER_STAGED = 3, /* from and to the device through pinned host memory */
};
KVASIR_API enum kvasir_buffer kvasir_buffer(struct kvasir_client *client, const void *base,
                                            size_t length_bytes);

/* ---- items: one key's part in a call ---------------------------------------------------- */

struct kvasir_item {
    const void *key; /* binary; borrowed */
    size_t key_length_bytes;

    /* The payload as a list of memory pieces, in order: read by a put, filled by a get. The caller
     * may leave segments NULL and give one piece in segment. Borrowed. */
    const struct iovec *segments;
    uint32_t segment_count;
    struct iovec segment;

    /* Results. */
    enum kvasir_status status;
    size_t length_bytes; /* get: of the value (also when KVASIR_TOO_SMALL); exists, stat likewise */
    enum kvasir_path path; /* get and put: the path that served this item */
};

/* Options of a put; all zero is the default. */
struct kvasir_put_options {
    bool only_if_absent; /* an existing key answers KVASIR_EXISTS and stays as it is */
    bool checksum;       /* send XXH3-64 of the payload; the server verifies and keeps it */
    enum kvasir_class value_class; /* of every value of the call */
    uint64_t ttl_ms;               /* 0: never expires */
    const void *parent;            /* key of the block before the first item; the item before is
                                      the parent of each further item when chain is set */
    size_t parent_length_bytes;
    bool chain;
    uint64_t cost; /* of computing one value of the call again, in any unit that all who put share:
                      for its length, what is dearer stays longer. 0: nothing is said */
};

/* ---- synchronous calls ------------------------------------------------------------------
 *
 * timeout_ms 0 takes the client's default. The batch forms return KVASIR_OK when every item was
 * answered, whatever the answers are (look at each item's status), and otherwise the first reason
 * why not; items that were not answered then carry that reason themselves. The one-key forms
 * return the item's status. */

/* Stores buffers under keys. Item status: KVASIR_OK; KVASIR_EXISTS; KVASIR_NO_MEMORY,
 * KVASIR_TOO_LARGE, KVASIR_CORRUPT, KVASIR_INVALID, KVASIR_IO (of a device) and the connection's
 * failures. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status
kvasir_put(struct kvasir_client *client, const void *key, size_t key_length_bytes, const void *data,
           size_t length_bytes, const struct kvasir_put_options *options, uint32_t timeout_ms);
KVASIR_API KVASIR_MUST_USE enum kvasir_status
kvasir_put_batch(struct kvasir_client *client, struct kvasir_item *items, size_t item_count,
                 const struct kvasir_put_options *options, uint32_t timeout_ms);

/* Fills the caller's buffers. Item status: KVASIR_OK (length_bytes bytes were written),
 * KVASIR_NOT_FOUND, KVASIR_TOO_SMALL (nothing useful in the buffer; length_bytes says what it
 * takes), KVASIR_CORRUPT, of a device's memory KVASIR_IO and KVASIR_NO_MEMORY (see bounce_bytes), and the
 * connection's failures. After any failure but NOT_FOUND the
 * buffer's contents are undefined. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status
kvasir_get(struct kvasir_client *client, const void *key, size_t key_length_bytes, void *buffer,
           size_t capacity_bytes, size_t *length_bytes_p, uint32_t timeout_ms);
KVASIR_API KVASIR_MUST_USE enum kvasir_status kvasir_get_batch(struct kvasir_client *client,
                                                               struct kvasir_item *items,
                                                               size_t item_count,
                                                               uint32_t timeout_ms);

/* A read-only look at a value where it lies, held by a lease (shm path only: KVASIR_UNSUPPORTED on
 * others). The bytes may be read until kvasir_view_deadline_us(); release ends the lease. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status
kvasir_get_view(struct kvasir_client *client, const void *key, size_t key_length_bytes,
                struct kvasir_view **view_p, uint32_t timeout_ms);
KVASIR_API KVASIR_MUST_USE enum kvasir_status
kvasir_get_view_batch(struct kvasir_client *client, struct kvasir_item *items, size_t item_count,
                      struct kvasir_view **views, uint32_t timeout_ms);
KVASIR_API size_t kvasir_view_length_bytes(const struct kvasir_view *view);
/* The pieces of the value in order; owned by the view. A value of up to 2 MiB may have up to three
 * pieces, a longer one has one per 2 MiB page besides. */
KVASIR_API const struct iovec *kvasir_view_segments(const struct kvasir_view *view,
                                                    uint32_t *segment_count_p);
/* CLOCK_MONOTONIC in microseconds; reading later than this may see another value's bytes. */
KVASIR_API int64_t kvasir_view_deadline_us(const struct kvasir_view *view);
/* Ends the lease; sets *view_p to NULL. Does not wait for the server. */
KVASIR_API void kvasir_view_release(struct kvasir_view **view_p);

/* KVASIR_OK (present), KVASIR_NOT_FOUND. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status kvasir_exists(struct kvasir_client *client,
                                                            const void *key,
                                                            size_t key_length_bytes,
                                                            uint32_t timeout_ms);
KVASIR_API KVASIR_MUST_USE enum kvasir_status kvasir_exists_batch(struct kvasir_client *client,
                                                                  struct kvasir_item *items,
                                                                  size_t item_count,
                                                                  uint32_t timeout_ms);

/* How many leading keys of the chain are stored, in one round trip per reactor; pin_ms > 0 keeps
 * what was found from eviction that long. Item status: KVASIR_OK for the leading ones, else
 * KVASIR_NOT_FOUND. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status
kvasir_match(struct kvasir_client *client, struct kvasir_item *items, size_t item_count,
             uint32_t pin_ms, size_t *match_count_p, uint32_t timeout_ms);

/* KVASIR_OK (was there), KVASIR_NOT_FOUND. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status kvasir_delete(struct kvasir_client *client,
                                                            const void *key,
                                                            size_t key_length_bytes,
                                                            uint32_t timeout_ms);
KVASIR_API KVASIR_MUST_USE enum kvasir_status kvasir_delete_batch(struct kvasir_client *client,
                                                                  struct kvasir_item *items,
                                                                  size_t item_count,
                                                                  uint32_t timeout_ms);

struct kvasir_stat {
    size_t length_bytes; /* raw */
    size_t stored_bytes; /* as stored, after the codec */
    uint64_t checksum;   /* XXH3-64 of the raw bytes; valid if checksum_valid */
    bool checksum_valid;
    enum kvasir_class value_class;
    int64_t ttl_ms; /* left to live; -1: never expires */
    int64_t pin_ms; /* left of the longest pin; 0: none */
    uint64_t hit_count;
    uint64_t generation; /* grows at every overwrite of the key */
    uint32_t lease_count;
    char codec[16];
    char tier[16];
};
KVASIR_API KVASIR_MUST_USE enum kvasir_status kvasir_stat(struct kvasir_client *client,
                                                          const void *key, size_t key_length_bytes,
                                                          struct kvasir_stat *stat_p,
                                                          uint32_t timeout_ms);
/* One stat per item; stats[i] is valid where items[i].status is KVASIR_OK. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status
kvasir_stat_batch(struct kvasir_client *client, struct kvasir_item *items, size_t item_count,
                  struct kvasir_stat *stats, uint32_t timeout_ms);

/* ---- submit and poll ---------------------------------------------------------------------
 *
 * The same batches without waiting. Items, keys and buffers belong to the client until the request
 * is done. Requests are done in any order. */

enum kvasir_call {
    KVASIR_CALL_PUT = 1,
    KVASIR_CALL_GET = 2,
    KVASIR_CALL_EXISTS = 3,
    KVASIR_CALL_DELETE = 4,
    KVASIR_CALL_MATCH = 5,
};

struct kvasir_submit_options {
    const struct kvasir_put_options *put; /* KVASIR_CALL_PUT; NULL: defaults; copied */
    uint32_t pin_ms;                      /* KVASIR_CALL_MATCH */
    uint32_t timeout_ms;                  /* 0: the client's default */
    void *user_data;                      /* handed back by kvasir_request_user_data */
};

/* KVASIR_PENDING and *request_p, or KVASIR_AGAIN when the client's bound on requests in flight is
 * reached (poll first), or a failure. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status
kvasir_submit(struct kvasir_client *client, enum kvasir_call call, struct kvasir_item *items,
              size_t item_count, const struct kvasir_submit_options *options,
              struct kvasir_request **request_p);
/* Moves what can be moved, waiting up to timeout_ms (0: not at all; negative: until the earliest
 * deadline) for something to be done. KVASIR_OK and one finished request, or KVASIR_AGAIN when none
 * is finished, or KVASIR_NOT_FOUND when none is in flight. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status
kvasir_poll(struct kvasir_client *client, int timeout_ms, struct kvasir_request **request_p);
/* The batch's status, as the synchronous form would have returned it. */
KVASIR_API enum kvasir_status kvasir_request_status(const struct kvasir_request *request);
KVASIR_API void *kvasir_request_user_data(const struct kvasir_request *request);
KVASIR_API size_t kvasir_request_match_count(const struct kvasir_request *request);
/* Gives a finished request back, or cancels one in flight (its items then read KVASIR_CANCELLED and
 * its buffers are the caller's again); sets *request_p to NULL. */
KVASIR_API void kvasir_request_free(struct kvasir_client *client,
                                    struct kvasir_request **request_p);

/* ---- events: what happens to keys ---------------------------------------------------------
 *
 * For who mirrors what a store holds, as a router does that sends a prompt to the engine or the host
 * where most of its prefix is. Events of all keys that the user may read, in one order; the numbers grow
 * and have gaps. The server keeps the latest (its option events-backlog) from when somebody first asks,
 * so that nothing is lost to who polls often enough, and who does not is told that he lost something.
 *
 * To begin: open with KVASIR_EVENTS_NOW, then learn what is there (kvasir_exists_batch), then poll. Events
 * of the meantime come again, which does no harm: the last event of a key says whether it is there. */

enum kvasir_key_event_kind {
    KVASIR_KEY_OTHER = 0,   /* of a server that is newer than the library */
    KVASIR_KEY_SEALED = 1,  /* the key has this value now, whatever it had before */
    KVASIR_KEY_EVICTED = 2, /* from here on the key is gone: its value made room for others */
    KVASIR_KEY_DELETED = 3,
    KVASIR_KEY_EXPIRED = 4,
    KVASIR_KEY_FLUSHED = 5, /* no key is named: gone are all of this database and shard */
};

struct kvasir_key_event {
    uint64_t number;
    enum kvasir_key_event_kind kind;
    uint32_t database;
    uint32_t shard;  /* of the key; it stays in it as long as the server runs */
    const void *key; /* binary; valid as long as the list */
    size_t key_length_bytes;
    size_t length_bytes; /* of the value */
    char tier[16];
};

/* Where a subscription begins, besides a number that kvasir_events_number returned. */
#define KVASIR_EVENTS_OLDEST 0          /* with all that is still there */
#define KVASIR_EVENTS_NOW    UINT64_MAX /* with what happens after kvasir_events_open */

/* count_max: events of one poll, up to 10000; 0: 1000. Asks the server only for KVASIR_EVENTS_NOW.
 * KVASIR_OK; KVASIR_INVALID, KVASIR_NO_MEMORY, KVASIR_DENIED and the connection's failures. Nothing of it
 * is at the server: the number is all it takes to go on, also on another client. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status kvasir_events_open(struct kvasir_client *client,
                                                                 uint64_t since, uint32_t count_max,
                                                                 uint32_t timeout_ms,
                                                                 struct kvasir_events **events_p);
/* What happened since the last poll, at once: *count_p may be 0, and with count_max there may be more.
 * The list is valid until the next poll or close. KVASIR_OK; KVASIR_OVERRUN: events were lost, and the
 * next poll goes on with what happens from now on: learn anew what is there; KVASIR_DENIED and the connection's failures,
 * after which the next poll asks for the same events again. A server that was started anew answers
 * KVASIR_OVERRUN. */
KVASIR_API KVASIR_MUST_USE enum kvasir_status
kvasir_events_poll(struct kvasir_events *events, uint32_t timeout_ms,
                   const struct kvasir_key_event **list_p, size_t *count_p);
/* The number that is reached. */
KVASIR_API uint64_t kvasir_events_number(const struct kvasir_events *events);
/* Before or after kvasir_close; sets *events_p to NULL. NULL and pointer to NULL are fine. */
KVASIR_API void kvasir_events_close(struct kvasir_events **events_p);

/* ---- facts ------------------------------------------------------------------------------- */

struct kvasir_counters {
    uint64_t calls, round_trips, reconnects, timeouts, errors;
    uint64_t put_items, put_bytes, get_hits, get_misses, get_bytes;
    uint64_t tcp_bytes, unix_bytes, shm_bytes, rdma_bytes; /* payload, both ways */
    uint64_t rdma_client_bytes; /* what this side drove; not in rdma_bytes */
    uint64_t path_fallbacks;    /* an item that left its first path */
    uint64_t leases_expired;
    uint64_t
        bounced_bytes; /* of device buffers, that went through pinned host memory; in the above */
};
KVASIR_API void kvasir_counters(const struct kvasir_client *client,
                                struct kvasir_counters *counters_p);

/* The server's limits, learnt on connecting. */
struct kvasir_server_info {
    char version[32];
    char node_id[48];
    uint32_t reactor_count;
    uint64_t value_bytes_max;
    uint32_t key_bytes_max;
    bool shm;  /* shared memory is in use on this client */
    bool rdma; /* so is RDMA, for buffers that are registered */
};
KVASIR_API void kvasir_server_info(const struct kvasir_client *client,
                                   struct kvasir_server_info *info_p);

KVASIR_API const char *kvasir_version(void);

#ifdef __cplusplus
}
#endif
