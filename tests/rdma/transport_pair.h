#pragma once
/* transport_pair – two ends of the RDMA module in one process, each on a device of its own: "owner" as
 * the server is, "peer" as a client is. For tests in the emulated machine; one thread. Owns what it
 * opened. Whatever cannot be had fails the test that asked for it. */

#include <kvasir/module.h>

#include <stddef.h>
#include <stdint.h>

#define PAIR_JOBS_MAX   256U
#define PAIR_POOL_BYTES ((size_t)64 << 20)
/* How bytes look that nobody may have written. */
#define PAIR_UNTOUCHED 0xEE

struct pair_end {
    struct kvasir_domain *domain;
    struct kvasir_queue *queue;
    struct kvasir_link *link; /* to the other end; NULL when closed */
    struct kvasir_link_address address;
    struct kvasir_memory *memory;
    uint8_t *bytes; /* PAIR_POOL_BYTES */
};

struct pair {
    const struct kvasir_module *module;
    const struct kvasir_transport_ops *ops;
    void *state; /* what ops take */
    void *module_state;
    void *file; /* of the shared object */
    struct kvasir_host host;
    struct pair_end owner;
    struct pair_end peer;
};

/* Loads the module that KVASIR_RDMA_MODULE names and sets it up; no device is opened yet. */
void pair_load(struct pair *pair);
void pair_unload(struct pair *pair);

/* The same, and both ends opened: the owner's pool has no remote right but can have windows, the
 * peer's may be read and written by who has its key. */
void pair_open(struct pair *pair);
/* Links that are still there are closed, too. */
void pair_close(struct pair *pair);

/* One end only, which some server is the other side of. */
void pair_open_peer(struct pair *pair);
/* What pair_open_peer does, for one end more: "owner" is another client then, with keys of its own. */
void pair_open_client(struct pair *pair, struct pair_end *end);
/* A link of this end, not connected, and what its peer must know. */
void pair_create_link(struct pair *pair, struct pair_end *end, struct kvasir_link **link_p,
                      struct kvasir_link_address *address_p);

/* A connected link between the ends, and what becomes of it. */
void pair_join(struct pair *pair);

/* A joined pair for one test, and its end. */
int pair_set_up(void **state);
int pair_tear_down(void **state);
void pair_part(struct pair *pair);
/* One link more between the ends, beside that of pair_join; fails the test if it cannot be had. */
void pair_join_another(struct pair *pair, struct kvasir_link **of_owner_p,
                       struct kvasir_link **of_peer_p);

/* Takes what events of an end's queue are there. */
void pair_empty(struct pair *pair, struct pair_end *end);
/* The next event of an end's queue; fails the test when none comes in time. */
struct kvasir_event pair_wait(struct pair *pair, struct pair_end *end);
/* Connects a link of the end and waits for it. said: as of the contract. */
enum kvasir_status pair_connect(struct pair *pair, struct pair_end *end, struct kvasir_link *link,
                                const struct kvasir_link_address *remote, char *said);
/* Submits, and waits for the job's event, whose status it gives. */
enum kvasir_status pair_run(struct pair *pair, struct pair_end *end, struct kvasir_link *link,
                            struct kvasir_job *job);
/* Moves bytes between the same offset of both pools, with the keys of the other end's pool or with one
 * that was granted; kind is READ or WRITE, as seen from the end. */
enum kvasir_status pair_move(struct pair *pair, struct pair_end *end, enum kvasir_job_kind kind,
                             size_t offset, size_t length_bytes);
enum kvasir_status pair_move_by(struct pair *pair, struct pair_end *end, enum kvasir_job_kind kind,
                                uint32_t key, size_t offset, size_t length_bytes);

/* Bytes that tell their position and seed. */
void pair_fill(uint8_t *bytes, size_t length_bytes, uint32_t seed);
int pair_holds(const uint8_t *bytes, size_t length_bytes, uint32_t seed);
int pair_untouched(const uint8_t *bytes, size_t length_bytes);

/* Runs a program with two arguments; its exit status, -1 when it has none. */
int pair_run_program(const char *path, const char *first, const char *second);

/* The variable's value, which the emulated machine sets. */
const char *pair_text(const char *variable);
int pair_number(const char *variable);
