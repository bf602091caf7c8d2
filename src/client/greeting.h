#pragma once
/* greeting – what a server says about itself (KV.HELLO) and about its shared memory (KV.CONNECT SHM),
 * read token by token. Embedded in a link; one thread; owns nothing. */

#include "client/rail.h"
#include "proto/link_word.h"
#include "proto/reply_reader.h"

#include <kvasir/types.h>

#include <stdbool.h>
#include <stdint.h>

/* A server with more reactors is served through the first ones; it passes requests on inside. */
#define GREETING_REACTORS_MAX   128
#define GREETING_PATH_BYTES_MAX 108

struct greeting {
    char server[16];
    char version[32];
    char node_id[48];
    uint32_t reactor_count;
    uint32_t reactor; /* which one serves the connection */
    uint32_t key_bytes_max;
    uint64_t value_bytes_max;
    uint32_t lease_ms_max;
    uint32_t port_count;
    uint32_t socket_count;
    bool shm; /* on offer */
    char shm_socket[GREETING_PATH_BYTES_MAX];
    uint32_t rdma_count;                                  /* devices by which RDMA is on offer */
    struct kvasir_link_address rdma_addresses[RAILS_MAX]; /* which name no queue pair */
    bool rdma_lends[RAILS_MAX];                           /* the client may drive */
    uint16_t ports[GREETING_REACTORS_MAX];
    char sockets[GREETING_REACTORS_MAX][GREETING_PATH_BYTES_MAX];
};

struct greeting_shm {
    uint64_t region_bytes;
    uint64_t staging_bytes;
    uint64_t ring_offset_bytes; /* of the two rings behind the staging area, in its descriptor */
    uint32_t ring_bytes;        /* capacity of each; 0: none on offer */
    uint32_t page_bytes;
    uint32_t lease_ms_max;
};

/* Where the reader of one map is: which key's value comes next. */
struct greeting_reader {
    int field;
    int inner_field;
    bool value_next;
    bool inner_value_next;
    bool transport_shm; /* of the transport being read */
    bool transport_rdma;
    enum link_word inner_word;
    struct kvasir_link_address transport_address;
    char transport_socket[GREETING_PATH_BYTES_MAX];
};

void greeting_begin(struct greeting_reader *reader);
/* KVASIR_OK, or KVASIR_PROTOCOL: not the shape of a greeting. Unknown keys are passed over. */
enum kvasir_status greeting_token(struct greeting_reader *reader, const struct reply_token *token,
                                  struct greeting *greeting);
enum kvasir_status greeting_shm_token(struct greeting_reader *reader,
                                      const struct reply_token *token, struct greeting_shm *shm);
/* Memory of both rings, behind the staging area. 0, and no rings, when none are on offer or what is
 * said of them cannot be true. */
size_t greeting_rings_bytes(struct greeting_shm *shm);
