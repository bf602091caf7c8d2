#pragma once
/* shares – how maxmemory is divided at the start, before anything is made of it. Called by server.c, before
 * there are threads. Owns nothing. */

#include <stdbool.h>
#include <stdint.h>

struct server;
struct settings;

struct shares {
    uint64_t metadata_bytes;
    uint64_t buffer_bytes;
    uint64_t staging_bytes;
};

/* Whether clients may get shared memory. */
bool shares_offer_shm(const struct settings *settings);
/* Sets the server's bounds and fixed_bytes by its settings, reactor_count and fabric; what the tables of metadata
 * pages take comes on top once these are there. */
void shares_divide(struct server *server, struct shares *shares_p);
