#pragma once
/* fake_verbs – a libibverbs of memory copies, linked with the rdma module in place of the real one: two
 * adapters in one process, strict about keys, bounds, rights, states and order, and able to fail. Used by
 * one thread, but for registrations and the resolving of addresses. Tests steer it by these functions. */

#include <infiniband/verbs.h>
#include <stdbool.h>

/* What the adapters are like; 0 and false: as a good one. */
struct fake_options {
    bool no_windows;   /* none are claimed */
    bool bind_fails;   /* each bind completes with an error */
    bool revoke_lies;  /* a revoked key goes on working */
    bool port_down;    /* of both adapters */
    bool no_devices;   /* the list is empty */
    bool infiniband;   /* not Ethernet */
    int sges_max;      /* per work request */
    int sges_read_max; /* likewise, of READs */
    int requests_max;  /* per queue pair */
    int completions_max;
    int windows_max;
    uint32_t message_bytes_max;
    uint64_t registration_bytes_max;
};

/* Begins anew. */
void fake_start(const struct fake_options *options);
/* NULL, or what was left behind or done against the rules. */
const char *fake_finish(void);

/* The call-th call that can fail, counted from now, 1 is the next, fails; 0: none does. Allocations of the
 * module count, too. */
void fake_fail_at(unsigned call);
/* How many such calls there were since fake_fail_at or fake_start. */
unsigned fake_calls(void);
/* Counts one such call; true: it is to fail. */
bool fake_fails(void);

/* While held, work requests wait with the adapter; run lets so many of them happen, in order. */
void fake_hold(bool held);
void fake_run(unsigned count);
/* While slow, no address is resolved: whoever asks for it waits. */
void fake_slow(bool slow);
/* The adapter is gone: nothing completes any more, not even in error, and no call of set-up works. */
void fake_remove(void);
/* An asynchronous event of adapter 0; of a queue pair when its number is not 0. */
void fake_raise(enum ibv_event_type type, uint32_t queue_pair);

/* What the peer of a queue pair may do: IBV_ACCESS_… */
unsigned fake_pair_rights(uint32_t queue_pair);
/* The way to its peer. */
struct ibv_global_route fake_pair_route(uint32_t queue_pair);
/* Objects of all kinds that are there now. */
unsigned fake_objects(void);
/* Of the last work request posted: its flags, and how many lists entries it had. */
unsigned fake_last_flags(void);
int fake_last_sges(void);
