#pragma once
/* server – what all reactors of the process share: made by main before they start, read-only while
 * they run (but for what is said to be safe), torn down by main after they have ended. Owns the
 * payload and metadata memory, the mailbox and the listening sockets. */

#include "base/gate.h"
#include "mem/numa.h"
#include "mem/pages.h"
#include "mem/region.h"
#include "net/mailbox.h"
#include "server/database_map.h"
#include "server/settings.h"
#include "store/tenant.h"

#include <kvasir/transport_types.h>

#include <stdint.h>

#define SERVER_VERSION KVASIR_VERSION
/* What INFO and HELLO tell clients that ask for Redis's version: they choose commands by it. */
#define SERVER_REDIS_VERSION       "7.0.15"
#define SERVER_PAYLOAD_PAGE_BYTES  (2U << 20)
#define SERVER_PAYLOAD_UNIT_BYTES  64U
#define SERVER_METADATA_PAGE_BYTES (256U << 10)
#define SERVER_METADATA_UNIT_BYTES 16U
#define SERVER_REACTORS_MAX        64

struct acl_table;
struct fabric;
struct loader;
struct ssl_ctx_st;
struct reactor;
struct reuse;

struct server {
    struct settings settings; /* as at start; reactors have copies that CONFIG SET changes */
    uint32_t reactor_count;
    struct reactor *reactors[SERVER_REACTORS_MAX]; /* owned */
    struct mailbox *mailbox;                       /* owned */
    struct region *payload_region;                 /* owned */
    struct region *metadata_region;                /* owned */
    struct pages *payload;                         /* owned */
    struct pages *metadata;                        /* owned */
    struct reuse *reuse;            /* owned; what the shards' eviction policies learn together */
    struct tenant_use *tenant_uses; /* owned: one of each reactor's shard */
    struct database_map databases;  /* which of the shards' is which of the clients' */
    struct acl_table *acl; /* owned; the latest, which reactor 0 alone replaces and looks up here */
    struct loader *modules; /* owned; read-only while reactors run */
    struct fabric
        *fabric; /* owned; NULL: no RDMA; read-only, but for its flag, while reactors run */
    struct ssl_ctx_st *tls; /* shared by count; as at start; NULL: no TLS */
    struct gate tls_gate;   /* one CONFIG SET renews it at a time */
    int unix_listener;      /* owned; shared by all reactors; -1: none */
    int done_descriptor;    /* owned eventfd: each reactor adds 1 when it has drained */
    char run_id[41];
    char rdma_refusal[KVASIR_SAID_BYTES + 32]; /* the error reply where there is no fabric */
    char codec_refusal[256]; /* the error reply to CODEC with any other word than none */
    char executable[256];
    char config_file[256];
    int64_t start_wall_ms;
    int64_t start_mono_us;
    int64_t events_zero_us;    /* Unix time at mono_us 0: what events are numbered by */
    struct numa numa;          /* memory nodes */
    uint64_t fixed_bytes;      /* of maxmemory at the start: all but payload and its tables */
    uint32_t metadata_pages;   /* at the start */
    uint64_t heap_share_bytes; /* of those: what was counted for the heap */
    uint64_t grants_share_bytes;
    uint64_t buffer_chunks_max; /* per reactor */
    uint64_t batches_max;       /* per reactor */
    uint64_t staging_bytes_max; /* per reactor */
    bool pinned;                /* reactors are bound to cores */
    uint16_t port;              /* as bound */
};

/* Builds everything from the settings: memory, sockets, reactors (not yet running). On failure error
 * holds a sentence for the operator. */
ATTR_MUST_USE enum kvasir_status server_create(const struct settings *settings, char *error,
                                               size_t error_capacity, struct server **server_p);
/* Runs the reactors until a signal (SIGTERM, SIGINT) arrives, drains and returns. The signals must be
 * blocked by the caller. */
void server_run(struct server *server);
void server_destroy(struct server **server_p);
