#pragma once
/* rdma_loop_table – what rdma_loop knows of memory and queue pairs, its own and a peer's: tables that
 * processes share, and the control file. Part of rdma_loop.c alone. */

#include <kvasir/module.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define KEYS_MAX      4096U
#define PAIRS_MAX     4096U
#define DEVICES_MAX   2U
#define KEY_OF_DEVICE 2U
#define LINK_LIVE     1U
#define LINK_BUSY     2U
#define MESSAGE_MAX   (1U << 30)
#define GID_PREFIX    "\xfd\x6clooprdm"
#define PREFIX_BYTES  8U

struct key {
    _Atomic uint32_t key; /* 0: nobody reaches anything by it */
    _Atomic uint32_t rights;
    _Atomic uint64_t base, bytes;
    _Atomic uint64_t
        shift;             /* what is added to an address: a device's memory is touched elsewhere */
    _Atomic uint32_t pair; /* a window: good on this queue pair of ours only; 0: on any */
    _Atomic uint32_t taken; /* by who made 1 of 0; memory of an adapter: KEY_OF_DEVICE and on */
};

struct pair {
    uint32_t number; /* 0: free; odd on the first device, even on the second */
    _Atomic uint32_t state;
};

/* What the peer may reach. */
struct table {
    struct key keys[KEYS_MAX];
    struct pair pairs[PAIRS_MAX];
};

struct control {
    _Atomic uint32_t delay_ms, fail_jobs, hold, gone, refuse;
    _Atomic uint32_t no_windows; /* looked at when the device is opened */
    _Atomic uint32_t waiting;    /* out: transfers that were submitted and have no event yet */
    _Atomic uint32_t slow;       /* while not 0 no link gets connected */
    _Atomic uint32_t second;     /* not 0: there are two devices; looked at when they are listed */
    _Atomic uint32_t down; /* a bit for each device: its transfers fail, and it connects none */
    _Atomic uint32_t traffic_class; /* out: of the last link that was made */
    _Atomic uint32_t nodes; /* eight bits for each device: its memory node and 1; 0: unknown */
};

struct state {
    const struct kvasir_host *host;
    struct control *control;
    struct table *table;
    int table_fd;
    _Atomic uint32_t next;
};

static inline int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline enum kvasir_status say(char *said, enum kvasir_status status, const char *text)
{
    (void)snprintf(said, KVASIR_SAID_BYTES, "rdma_loop: %s", text);
    return status;
}

static inline uint32_t next_number(struct state *state)
{
    return 1 + (atomic_fetch_add(&state->next, 0x3579bU) & 0xfffffeU);
}

static inline void fill_device(const struct state *state, uint32_t index,
                               struct kvasir_device *device)
{
    uint32_t place[2] = {(uint32_t)state->table_fd, (uint32_t)getpid()};
    *device = (struct kvasir_device){
        .port = 1,
        .layer = KVASIR_LAYER_ETHERNET,
        .up = true,
        .numa_node = (int)(atomic_load(&state->control->nodes) >> 8 * index & 0xffU) - 1,
        .mtu_bytes = 4096,
        .rd_atomic = 16,
        .message_bytes_max = MESSAGE_MAX,
        .gid_count = 1};
    (void)snprintf(device->name, sizeof(device->name), "loop%u", index);
    device->gids[0].type = KVASIR_GID_ROCE_V2;
    memcpy(device->gids[0].raw, GID_PREFIX, PREFIX_BYTES);
    memcpy(device->gids[0].raw + PREFIX_BYTES, place, sizeof(place));
}

/* NULL: nothing is reached by it. */
static inline const struct key *find_key(const struct table *table, uint32_t number)
{
    for (unsigned i = 0; i < KEYS_MAX; i++) {
        if (table->keys[i].key == number && number != 0) {
            return &table->keys[i];
        }
    }
    return NULL;
}

/* The part of the peer's memory that a job names, if the peer allows it, on this queue pair of its. */
static inline bool is_allowed(const struct table *table, const struct kvasir_remote *remote,
                              uint32_t right, uint32_t pair)
{
    const struct key *key = find_key(table, remote->key);
    return key != NULL && (key->rights & right) != 0 && (key->pair == 0 || key->pair == pair) &&
           (key->taken < KEY_OF_DEVICE || key->taken - KEY_OF_DEVICE == (~pair & 1U)) &&
           remote->address >= key->base && remote->bytes <= key->bytes &&
           remote->address - key->base <= key->bytes - remote->bytes;
}

static inline struct pair *find_pair(struct table *table, uint32_t number)
{
    for (unsigned i = 0; i < PAIRS_MAX; i++) {
        if (table->pairs[i].number == number) {
            return &table->pairs[i];
        }
    }
    return NULL;
}

static inline struct pair *take_pair(struct state *state, uint32_t device)
{
    struct pair *pair = find_pair(state->table, 0);
    if (pair != NULL) {
        pair->number = next_number(state) - device;
    }
    return pair;
}

/* The control file, or memory that asks for nothing. */
static inline struct control *map_control(void)
{
    const char *path = getenv("KVASIR_LOOP_CONTROL");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *memory = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE,
                        fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    if (fd >= 0) {
        (void)close(fd);
    }
    return memory == MAP_FAILED ? NULL : memory;
}
