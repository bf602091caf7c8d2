#pragma once
/* client_impl – the inside of struct kvasir_client, for the files of this folder only. One thread at
 * a time, in the process that made it. */

#include "base/compiler.h"
#include "base/list.h"
#include "base/random.h"
#include "client/endpoint.h"
#include "client/job.h"
#include "client/link.h"
#include "client/rdma_move.h"
#include "client/remote_memory.h"
#include "client/shm_map.h"

#include <kvasir/client.h>

#include <sys/types.h>

struct bounces;

#define CLIENT_MAGIC           0x4b56434cU
#define CLIENT_REQUESTS_MAX    64U
#define CLIENT_ERROR_BYTES_MAX 320U

struct kvasir_client {
    uint32_t magic;
    pid_t process;                 /* a forked child must not use its parent's connections */
    struct kvasir_options options; /* its texts are those below */
    char *texts[7];                /* owned */
    struct endpoint origin;        /* what the caller gave */
    struct endpoint shared;        /* any reactor answers there; the Unix socket of origin's server,
                                      once that gave shared memory */
    struct link *links[GREETING_REACTORS_MAX]; /* owned */
    uint32_t link_count;
    uint32_t home;        /* the link for what is not worth spreading: see job.c */
    struct list requests; /* active, oldest first */
    struct list finished; /* submitted ones that the caller has not seen */
    uint32_t request_count;
    uint64_t done_count; /* requests finished so far */
    struct list views;
    struct list moves;         /* transfers under way */
    uint32_t connecting_count; /* queue pairs of which the device has yet to say that they are up */
    struct shm_map_table *regions; /* owned */
    struct remote_memory *memory;  /* owned; NULL: no RDMA */
    struct bounces *bounces;       /* owned; NULL: no buffer of a device was registered */
    struct random random;
    int64_t local_retry_at_us; /* when to look for shared memory again */
    uint32_t local_wait_ms;    /* the last wait for that */
    uint64_t local_reconnects; /* counters.reconnects when it was looked for */
    uint32_t backoff_ms;
    int64_t retry_at_us; /* no attempt to connect before */
    enum kvasir_path last_path;
    struct kvasir_counters counters;
    struct kvasir_server_info info;
    uint32_t lease_ms_max;
    char error[CLIENT_ERROR_BYTES_MAX];
    char shm_reason[CLIENT_ERROR_BYTES_MAX];  /* why shared memory is not in use */
    char rdma_reason[CLIENT_ERROR_BYTES_MAX]; /* why RDMA is not in use */
    char device_reason
        [CLIENT_ERROR_BYTES_MAX]; /* why memory of devices cannot be told; "": it can */
};

/* Writes the sentence that kvasir_error returns. */
ATTR_PRINTF(2, 3) void client_explain(struct kvasir_client *client, const char *form, ...);
ATTR_PRINTF(2, 3) void client_explain_shm(struct kvasir_client *client, const char *form, ...);
ATTR_PRINTF(2, 3) void client_explain_rdma(struct kvasir_client *client, const char *form, ...);
/* No attempt to connect until a jittered and growing while from now. */
void client_back_off(struct kvasir_client *client, int64_t now_us);
/* True when the client may be used by this process. */
bool client_is_usable(const struct kvasir_client *client);
/* Counts a moved payload and remembers its path. */
void client_count_payload(struct kvasir_client *client, struct kvasir_item *item, bool put,
                          enum kvasir_path path, size_t length_bytes);
