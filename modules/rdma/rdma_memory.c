#include "rdma_memory.h"

#include "rdma_said.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* More gain nothing: the kernel's work on one address space does not spread further. */
#define THREADS_MAX 8U
#define RIGHTS_KNOWN                                                               \
    (KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE | KVASIR_RIGHT_WINDOWS | \
     KVASIR_RIGHT_RELAXED | KVASIR_RIGHT_DMABUF | KVASIR_RIGHT_READ_ONLY)

/* One part, for one thread. */
struct task {
    struct kvasir_memory *memory; /* borrowed */
    const struct kvasir_memory_options *options;
    unsigned part;
    int error; /* the system's; 0: registered */
};

static uint64_t part_bytes(const struct kvasir_memory *memory, unsigned part)
{
    uint64_t before = part * memory->part_bytes;
    uint64_t left = memory->bytes - before;
    return left < memory->part_bytes ? left : memory->part_bytes;
}

static unsigned access_of(unsigned rights)
{
    unsigned access = (rights & KVASIR_RIGHT_READ_ONLY) != 0 ? 0 : IBV_ACCESS_LOCAL_WRITE;
    access |= (rights & KVASIR_RIGHT_REMOTE_READ) != 0 ? IBV_ACCESS_REMOTE_READ : 0;
    access |= (rights & KVASIR_RIGHT_REMOTE_WRITE) != 0 ? IBV_ACCESS_REMOTE_WRITE : 0;
    access |= (rights & KVASIR_RIGHT_WINDOWS) != 0 ? IBV_ACCESS_MW_BIND : 0;
    access |= (rights & KVASIR_RIGHT_RELAXED) != 0 ? IBV_ACCESS_RELAXED_ORDERING : 0;
    return access;
}

static void register_part(struct task *task)
{
    struct kvasir_memory *memory = task->memory;
    struct ibv_pd *pd = memory->domain->pd;
    unsigned access = access_of(memory->rights);
    uint64_t offset = task->part * memory->part_bytes;
    uint64_t address = memory->base + offset;
    size_t bytes = part_bytes(memory, task->part);
    struct ibv_mr *mr;
    if ((memory->rights & KVASIR_RIGHT_DMABUF) != 0) {
        mr = ibv_reg_dmabuf_mr(pd, task->options->dmabuf_offset + offset, bytes, address,
                               task->options->dmabuf_fd, (int)access);
    } else {
        mr = ibv_reg_mr(pd, (uint8_t *)task->options->base + offset, bytes, access);
    }
    memory->parts[task->part] = mr;
    task->error = mr != NULL ? 0 : (errno != 0 ? errno : EIO);
}

static void *run_task(void *argument)
{
    register_part(argument);
    return NULL;
}

/* Parts first to first + count, each by a thread, the first by the caller, who waits for all. */
static int register_round(struct kvasir_memory *memory, const struct kvasir_memory_options *options,
                          unsigned first, unsigned count)
{
    struct task tasks[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    bool started[THREADS_MAX] = {false};
    int error = 0;
    for (unsigned i = 0; i < count; i++) {
        tasks[i] = (struct task){.memory = memory, .options = options, .part = first + i};
        started[i] = i > 0 && pthread_create(&threads[i], NULL, run_task, &tasks[i]) == 0;
    }
    for (unsigned i = 0; i < count; i++) {
        if (started[i]) {
            (void)pthread_join(threads[i], NULL);
        } else {
            register_part(&tasks[i]);
        }
        error = error != 0 ? error : tasks[i].error;
    }
    return error;
}

static int register_all(struct kvasir_memory *memory, const struct kvasir_memory_options *options)
{
    unsigned threads =
        options->threads == 0 || options->threads > THREADS_MAX ? THREADS_MAX : options->threads;
    for (unsigned part = 0; part < memory->part_count; part += threads) {
        unsigned left = memory->part_count - part;
        unsigned count = left < threads ? left : threads;
        int error = register_round(memory, options, part, count);
        if (error != 0) {
            return error;
        }
        if (options->progress != NULL) {
            uint64_t done_bytes = (uint64_t)(part + count) * memory->part_bytes;
            options->progress(options->argument,
                              done_bytes < memory->bytes ? done_bytes : memory->bytes,
                              memory->bytes);
        }
    }
    return 0;
}

/* The usual reason is a limit that was never raised, and the system's word for it is no help. */
static enum kvasir_status say_refused(const struct kvasir_domain *domain, size_t bytes, int error,
                                      char *said)
{
    const char *device = domain->facts.device.name;
    struct rlimit limit;
    if (error == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < bytes) {
        return rdma_said(said, KVASIR_NO_MEMORY,
                         "device %s: %zu bytes cannot be registered, as only %llu may be locked; "
                         "raise it with ulimit -l, LimitMEMLOCK= or --ulimit memlock",
                         device, bytes, (unsigned long long)limit.rlim_cur);
    }
    if (error == EOPNOTSUPP || error == EPROTONOSUPPORT || error == ENOSYS) {
        return rdma_said(said, KVASIR_UNSUPPORTED,
                         "device %s: memory of this kind cannot be registered: %s", device,
                         strerror(error));
    }
    return rdma_said(said, error == ENOMEM ? KVASIR_NO_MEMORY : KVASIR_IO,
                     "device %s: %zu bytes cannot be registered: %s", device, bytes,
                     strerror(error));
}

static bool options_valid(const struct kvasir_memory_options *options)
{
    uint64_t base = (uintptr_t)options->base;
    bool writable_by_peers = (options->rights & KVASIR_RIGHT_REMOTE_WRITE) != 0;
    bool read_only = (options->rights & KVASIR_RIGHT_READ_ONLY) != 0;
    return options->bytes > 0 && base <= UINT64_MAX - options->bytes &&
           (options->rights & ~RIGHTS_KNOWN) == 0 && !(writable_by_peers && read_only);
}

/* As large as adapter and threads make it good. */
static uint64_t part_bytes_of(const struct kvasir_domain *domain)
{
    uint64_t largest = domain->attributes.max_mr_size;
    if (largest == 0 || largest >= RDMA_PART_BYTES) {
        return RDMA_PART_BYTES;
    }
    return largest < RDMA_PAGE_BYTES ? largest : largest - largest % RDMA_PAGE_BYTES;
}

enum kvasir_status rdma_memory_register(struct kvasir_domain *domain,
                                        const struct kvasir_memory_options *options,
                                        struct kvasir_memory **memory_p, char *said)
{
    struct kvasir_memory *memory;
    uint64_t each = part_bytes_of(domain);
    uint64_t count;
    int error;
    if (!options_valid(options)) {
        return rdma_said(said, KVASIR_INVALID,
                         "device %s: %zu bytes with rights %#x cannot be registered",
                         domain->facts.device.name, options->bytes, options->rights);
    }
    count = (options->bytes - 1) / each + 1;
    memory = calloc(1, sizeof(*memory) + (size_t)count * sizeof(struct ibv_mr *));
    if (memory == NULL || count > UINT32_MAX) {
        free(memory);
        return rdma_said(said, KVASIR_NO_MEMORY, "device %s: no memory for %llu registrations",
                         domain->facts.device.name, (unsigned long long)count);
    }
    memory->domain = domain;
    memory->base = (uintptr_t)options->base;
    memory->bytes = options->bytes;
    memory->rights = options->rights;
    if (!domain->facts.windows) {
        memory->rights &= ~KVASIR_RIGHT_WINDOWS;
    }
    memory->part_bytes = each;
    memory->part_count = (unsigned)count;
    error = register_all(memory, options);
    if (error != 0) {
        rdma_memory_deregister(&memory);
        return say_refused(domain, options->bytes, error, said);
    }
    *memory_p = memory;
    return KVASIR_OK;
}

void rdma_memory_deregister(struct kvasir_memory **memory_p)
{
    struct kvasir_memory *memory = *memory_p;
    if (memory == NULL) {
        return;
    }
    for (unsigned i = 0; i < memory->part_count; i++) {
        int error = memory->parts[i] != NULL ? ibv_dereg_mr(memory->parts[i]) : 0;
        if (error != 0) {
            rdma_said_log(memory->domain->module, KVASIR_LOG_ERROR,
                          "device %s: a registration is still in use and stays: %s",
                          memory->domain->facts.device.name, strerror(error));
        }
    }
    free(memory);
    *memory_p = NULL;
}

bool rdma_memory_holds(const struct kvasir_memory *memory, uint64_t address, uint64_t bytes)
{
    return bytes > 0 && address >= memory->base && address - memory->base < memory->bytes &&
           bytes <= memory->bytes - (address - memory->base);
}

struct ibv_mr *rdma_memory_part(const struct kvasir_memory *memory, uint64_t address,
                                uint64_t *left_p)
{
    uint64_t offset = address - memory->base;
    unsigned part = (unsigned)(offset / memory->part_bytes);
    *left_p = part_bytes(memory, part) - offset % memory->part_bytes;
    return memory->parts[part];
}

enum kvasir_status rdma_memory_expose(const struct kvasir_memory *memory, uint64_t address,
                                      uint64_t bytes, struct kvasir_remote *remotes,
                                      unsigned capacity, unsigned *count_p)
{
    const unsigned remote_rights = KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE;
    unsigned count = 0;
    if (!rdma_memory_holds(memory, address, bytes) || (memory->rights & remote_rights) == 0) {
        return KVASIR_INVALID;
    }
    while (bytes > 0) {
        uint64_t left;
        const struct ibv_mr *mr = rdma_memory_part(memory, address, &left);
        left = left < bytes ? left : bytes;
        if (count == capacity) {
            return KVASIR_TOO_SMALL;
        }
        remotes[count++] =
            (struct kvasir_remote){.address = address, .bytes = left, .key = mr->rkey};
        address += left;
        bytes -= left;
    }
    *count_p = count;
    return KVASIR_OK;
}
