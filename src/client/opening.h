#pragma once
/* opening – the commands that open a connection, encoded into its outbox: the greeting, and the ways that
 * payload may take. Called by the engine's thread; owns nothing. */

#include "client/link.h"

void opening_hello(struct link *link);
void opening_connect_shm(struct link *link);
void opening_connect_ring(struct link *link);
struct opening_rdma {
    struct kvasir_link_address local;
    uint32_t link;   /* which of the connection's queue pairs */
    const char *via; /* by which of the server's devices */
    bool lends;      /* this side drives */
};

void opening_connect_rdma(struct link *link, const struct opening_rdma *wanted);
