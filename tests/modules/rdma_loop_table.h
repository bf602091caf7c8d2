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

#define KEYS_MAX     4096U
#define PAIRS_MAX    4096U
#define LINK_LIVE    1U
#define LINK_BUSY    2U
#define MESSAGE_MAX  (1U << 30)
#define GID_PREFIX   "\xfd\x6clooprdm"
#define PREFIX_BYTES 8U

struct key {
    _Atomic uint32_t key; /* 0: nobody reaches anything by it */
    _Atomic uint32_t rights;
    _Atomic uint64_t base, bytes;
    _Atomic uint32_t pair;  /* a window: good on this queue pair of ours only; 0: on any */
    _Atomic uint32_t taken; /* by whichever thread made 1 of 0 */
};

struct pair {
    uint32_t number; /* 0: free */
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

static inline void fill_device(const struct state *state, struct kvasir_device *device)
{
    uint32_t place[2] = {(uint32_t)state->table_fd, (uint32_t)getpid()};
    *device = (struct kvasir_device){.name = "loop0",
                                     .port = 1,
                                     .layer = KVASIR_LAYER_ETHERNET,
                                     .up = true,
                                     .numa_node = -1,
                                     .mtu_bytes = 4096,
                                     .rd_atomic = 16,
                                     .message_bytes_max = MESSAGE_MAX,
                                     .gid_count = 1};
    device->gids[0].type = KVASIR_GID_ROCE_V2;
    memcpy(device->gids[0].raw, GID_PREFIX, PREFIX_BYTES);
    memcpy(device->gids[0].raw + PREFIX_BYTES, place, sizeof(place));
}

/* The part of the peer's memory that a job names, if the peer allows it, on this queue pair of its. */
static inline bool is_allowed(const struct table *table, const struct kvasir_remote *remote,
                              uint32_t right, uint32_t pair)
{
    for (unsigned i = 0; i < KEYS_MAX; i++) {
        const struct key *key = &table->keys[i];
        if (key->key == remote->key && key->key != 0) {
            return (key->rights & right) != 0 && (key->pair == 0 || key->pair == pair) &&
                   remote->address >= key->base && remote->bytes <= key->bytes &&
                   remote->address - key->base <= key->bytes - remote->bytes;
        }
    }
    return false;
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

static inline struct pair *take_pair(struct state *state)
{
    struct pair *pair = find_pair(state->table, 0);
    if (pair != NULL) {
        pair->number = next_number(state);
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

/* ---- moving ---- */

/* Both lists in step, a stretch at a time. */
static inline enum kvasir_status move_bytes(pid_t process, const struct kvasir_job *job)
{
    uint64_t local_used = 0;
    unsigned local_index = 0;
    for (unsigned r = 0; r < job->remote_count; r++) {
        uint64_t remote_used = 0;
        while (remote_used < job->remotes[r].bytes) {
            const struct kvasir_local *local = &job->locals[local_index];
            uint64_t part = job->remotes[r].bytes - remote_used;
            struct iovec here;
            struct iovec there;
            ssize_t moved;
            part = part < local->bytes - local_used ? part : local->bytes - local_used;
            here = (struct iovec){(void *)(uintptr_t)(local->address + local_used), part};
            there =
                (struct iovec){(void *)(uintptr_t)(job->remotes[r].address + remote_used), part};
            moved = job->kind == KVASIR_JOB_READ
                        ? process_vm_readv(process, &here, 1, &there, 1, 0)
                        : process_vm_writev(process, &here, 1, &there, 1, 0);
            if (moved <= 0) {
                return errno == ESRCH ? KVASIR_TIMEOUT : KVASIR_IO;
            }
            remote_used += (uint64_t)moved;
            local_used += (uint64_t)moved;
            if (local_used == local->bytes) {
                local_index++;
                local_used = 0;
            }
        }
    }
    return KVASIR_OK;
}

/* ---- windows ---- */

static inline bool take_key(struct key *key)
{
    uint32_t none = 0;
    return atomic_compare_exchange_strong(&key->taken, &none, 1);
}

static inline void give_key(struct key *key)
{
    key->key = 0;
    key->pair = 0;
    key->taken = 0;
}

/* A key for each grant; nobody can use them yet. False: there are not enough. */
static inline bool take_windows(struct state *state, struct kvasir_grant *grants, unsigned count)
{
    unsigned taken = 0;
    for (unsigned i = 0; i < KEYS_MAX && taken < count; i++) {
        struct key *key = &state->table->keys[i];
        if (take_key(key)) {
            grants[taken].window = (struct kvasir_window *)(void *)key;
            grants[taken++].key = next_number(state) << 8 | 0xa5U;
        }
    }
    for (unsigned i = 0; taken < count && i < taken; i++) {
        give_key((struct key *)(void *)grants[i].window);
    }
    return taken == count;
}

/* Not every key at once: what a reader sees is whole. */
static inline void bind_windows(const struct kvasir_grant *grants, unsigned count, uint32_t pair)
{
    for (unsigned i = 0; i < count; i++) {
        struct key *key = (struct key *)(void *)grants[i].window;
        key->rights = grants[i].rights;
        key->base = grants[i].local.address;
        key->bytes = grants[i].local.bytes;
        key->pair = pair;
        key->key = grants[i].key;
    }
}

static inline void drop_windows(struct kvasir_grant *grants, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct key *key = (struct key *)(void *)grants[i].window;
        give_key(key);
        grants[i].window = NULL;
    }
}

/* Those of a queue pair that ends. */
static inline void lose_windows(struct state *state, uint32_t pair)
{
    for (unsigned i = 0; i < KEYS_MAX; i++) {
        if (state->table->keys[i].pair == pair) {
            give_key(&state->table->keys[i]);
        }
    }
}
