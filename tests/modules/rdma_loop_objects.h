#pragma once
/* rdma_loop_objects – what stands behind the handles that rdma_loop gives out. Part of rdma_loop.c alone. */

#include "rdma_loop_table.h"

struct kvasir_domain {
    struct state *state;
    struct kvasir_domain_facts facts;
    uint32_t index; /* of the device */
    int fd;
    bool told;
};

struct kvasir_memory {
    struct kvasir_domain *domain;
    uint64_t base, bytes;
    unsigned rights;
    struct key *key;    /* NULL: no remote rights */
    void *alias;        /* owned: a device's memory as a CPU reaches it; NULL: the host's own */
    size_t alias_bytes; /* of it, a part of which is the buffer */
    uint64_t shift;     /* as of a key */
};

struct kvasir_link {
    struct kvasir_queue *queue;
    struct kvasir_link *next;
    struct kvasir_link_options options;
    struct pair *pair;
    struct table *peer; /* mapped */
    pid_t peer_process;
    uint32_t peer_number;
    unsigned job_count;
    bool connected, failed, told;
    bool connecting; /* its event is due when connecting is not slow */
    enum kvasir_status connect_status;
    const char *connect_reason;
};

struct entry {
    struct kvasir_link *link; /* NULL: cancelled */
    struct kvasir_job *job;
    int64_t due_ns;
};

struct kvasir_queue {
    struct kvasir_domain *domain;
    struct kvasir_queue_options options;
    struct kvasir_link *links;
    unsigned link_count;
    struct entry *entries; /* in the order of submission */
    unsigned entry_count;
    int fd;
    struct kvasir_queue_stats stats;
};

/* ---- moving ---- */

/* The pages of a device's memory file, as its driver exported them, where a CPU can touch them. */
static inline bool map_alias(struct kvasir_memory *memory, int fd, uint64_t offset)
{
    off_t start = lseek(fd, 0, SEEK_CUR);
    memory->alias_bytes = offset + memory->bytes;
    memory->alias =
        start < 0 ? MAP_FAILED
                  : mmap(NULL, memory->alias_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, start);
    if (memory->alias == MAP_FAILED) {
        memory->alias = NULL;
        return false;
    }
    memory->shift = (uintptr_t)memory->alias + offset - memory->base;
    return true;
}

/* Both lists in step, a stretch at a time. */
static inline enum kvasir_status move_bytes(const struct table *peer, pid_t process,
                                            const struct kvasir_job *job)
{
    uint64_t local_used = 0;
    unsigned local_index = 0;
    for (unsigned r = 0; r < job->remote_count; r++) {
        const struct key *key = find_key(peer, job->remotes[r].key);
        uint64_t address = job->remotes[r].address + (key != NULL ? key->shift : 0);
        uint64_t remote_used = 0;
        while (remote_used < job->remotes[r].bytes) {
            const struct kvasir_local *local = &job->locals[local_index];
            uint64_t part = job->remotes[r].bytes - remote_used;
            struct iovec here;
            struct iovec there;
            ssize_t moved;
            part = part < local->bytes - local_used ? part : local->bytes - local_used;
            here.iov_base = (void *)(uintptr_t)(local->address + local->memory->shift + local_used);
            there.iov_base = (void *)(uintptr_t)(address + remote_used);
            here.iov_len = there.iov_len = part;
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
    key->shift = 0;
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
        key->shift = grants[i].local.memory->shift;
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
