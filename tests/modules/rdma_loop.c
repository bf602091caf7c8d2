/* rdma_loop – a transport for tests, without RDMA: it fulfils the contract of a transport between two
 * processes of one machine by process_vm_readv and process_vm_writev. What a process exposes stands in a
 * memfd of its own, its table, which the peer finds by the GID: descriptor number and process id.
 *
 * Faults are asked for in the file that KVASIR_LOOP_CONTROL names, numbers of 32 bits: delay_ms of each
 * transfer; fail_jobs, how many of the next ones fail; hold, while not 0 none is done; refuse, no peer is
 * reached; slow, while not 0 no link gets connected; second, there are two devices; and, a bit for each
 * device: gone, it is taken away; down, its transfers fail and it connects none. nodes: where they are.
 *
 * A test may itself be the peer: it makes a table by hand (see tests/integration/loop.py). */

#include "rdma_loop_objects.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define RECHECK_NS 5000000LL /* what is held is looked at again */
#define BUSY_SPINS 100000U

/* ---- devices and domains ---- */

static bool has_bit(const struct kvasir_domain *domain, const _Atomic uint32_t *mask)
{
    return (atomic_load(mask) >> domain->index & 1U) != 0;
}

static enum kvasir_status loop_devices(void *state, struct kvasir_device *devices,
                                       unsigned capacity, unsigned *count_p, char *said)
{
    const struct state *own = state;
    unsigned count = atomic_load(&own->control->second) != 0 ? DEVICES_MAX : 1;
    (void)said;
    for (unsigned i = 0; i < count && i < capacity; i++) {
        fill_device(own, i, &devices[i]);
    }
    *count_p = count;
    return KVASIR_OK;
}

static enum kvasir_status loop_choose_gid(void *state, const struct kvasir_device *device,
                                          int index, const struct kvasir_gid *peer,
                                          struct kvasir_gid *gid_p, char *said)
{
    (void)state;
    (void)peer;
    if (index > 0) {
        return say(said, KVASIR_NOT_FOUND,
                   "loop0 port 1 has no GID of that index: 0 is the only one");
    }
    *gid_p = device->gids[0];
    return KVASIR_OK;
}

static enum kvasir_status loop_domain_open(void *state, const char *device, uint32_t port,
                                           int gid_index, struct kvasir_domain **domain_p,
                                           char *said)
{
    struct itimerspec often = {.it_interval.tv_nsec = 50000000, .it_value.tv_nsec = 50000000};
    struct kvasir_domain *domain = calloc(1, sizeof(*domain));
    (void)gid_index;
    if (domain == NULL || strncmp(device, "loop", 4) != 0 || strlen(device) != 5 ||
        (uint32_t)(device[4] - '0') >= DEVICES_MAX || port != 1) {
        free(domain);
        return say(said, KVASIR_NOT_FOUND, "the only devices are loop0 and loop1, port 1");
    }
    domain->state = state;
    domain->index = (uint32_t)(device[4] - '0');
    fill_device(state, domain->index, &domain->facts.device);
    domain->facts.windows = atomic_load(&domain->state->control->no_windows) == 0;
    (void)snprintf(domain->facts.windows_reason, KVASIR_SAID_BYTES, "%s",
                   domain->facts.windows ? "" : "the test wants none");
    domain->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (domain->fd < 0 || timerfd_settime(domain->fd, 0, &often, NULL) != 0) {
        free(domain);
        return say(said, KVASIR_IO, strerror(errno));
    }
    *domain_p = domain;
    return KVASIR_OK;
}

static void loop_domain_close(struct kvasir_domain **domain_p)
{
    (void)close((*domain_p)->fd);
    free(*domain_p);
    *domain_p = NULL;
}

static const struct kvasir_domain_facts *loop_domain_facts(const struct kvasir_domain *domain)
{
    return &domain->facts;
}

static int loop_domain_fd(const struct kvasir_domain *domain)
{
    return domain->fd;
}

static unsigned loop_domain_poll(struct kvasir_domain *domain, struct kvasir_event *events,
                                 unsigned capacity)
{
    uint64_t expirations;
    (void)!read(domain->fd, &expirations, sizeof(expirations));
    if (capacity == 0 || domain->told || !has_bit(domain, &domain->state->control->gone)) {
        return 0;
    }
    domain->told = true;
    events[0] =
        (struct kvasir_event){.kind = KVASIR_EVENT_DEVICE_GONE, .reason = "the test took it away"};
    return 1;
}

/* ---- memory ---- */

static void loop_memory_deregister(struct kvasir_memory **memory_p)
{
    if ((*memory_p)->key != NULL) {
        give_key((*memory_p)->key);
    }
    if ((*memory_p)->alias != NULL) {
        (void)munmap((*memory_p)->alias, (*memory_p)->alias_bytes);
    }
    free(*memory_p);
    *memory_p = NULL;
}

static enum kvasir_status loop_memory_register(struct kvasir_domain *domain,
                                               const struct kvasir_memory_options *options,
                                               struct kvasir_memory **memory_p, char *said)
{
    struct kvasir_memory *memory = calloc(1, sizeof(*memory));
    unsigned remote = options->rights & (KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE);
    if (memory == NULL) {
        return say(said, KVASIR_NO_MEMORY, "out of memory");
    }
    *memory = (struct kvasir_memory){.domain = domain,
                                     .base = (uintptr_t)options->base,
                                     .bytes = options->bytes,
                                     .rights = options->rights};
    if ((options->rights & KVASIR_RIGHT_DMABUF) != 0 &&
        !map_alias(memory, options->dmabuf_fd, options->dmabuf_offset)) {
        free(memory);
        return say(said, KVASIR_UNSUPPORTED, "the file of a device's memory cannot be mapped");
    }
    for (unsigned i = 0; remote != 0 && i < KEYS_MAX && memory->key == NULL; i++) {
        struct key *key = &domain->state->table->keys[i];
        if (take_key(key)) {
            key->taken = KEY_OF_DEVICE + domain->index;
            key->rights = remote;
            key->base = memory->base;
            key->bytes = memory->bytes;
            key->shift = memory->shift;
            key->key = next_number(domain->state) << 8 | 0x5aU;
            memory->key = key;
        }
    }
    if (remote != 0 && memory->key == NULL) {
        loop_memory_deregister(&memory);
        return say(said, KVASIR_NO_MEMORY, "too much is registered");
    }
    *memory_p = memory;
    return KVASIR_OK;
}

static enum kvasir_status loop_memory_expose(const struct kvasir_memory *memory, uint64_t address,
                                             uint64_t bytes, struct kvasir_remote *remotes,
                                             unsigned capacity, unsigned *count_p)
{
    if (memory->key == NULL || address < memory->base || bytes > memory->bytes ||
        address - memory->base > memory->bytes - bytes) {
        return KVASIR_INVALID;
    }
    if (capacity == 0) {
        return KVASIR_TOO_SMALL;
    }
    remotes[0] =
        (struct kvasir_remote){.address = address, .bytes = bytes, .key = memory->key->key};
    *count_p = 1;
    return KVASIR_OK;
}

/* ---- queues ---- */

static enum kvasir_status loop_queue_create(struct kvasir_domain *domain,
                                            const struct kvasir_queue_options *options,
                                            struct kvasir_queue **queue_p, char *said)
{
    struct kvasir_queue *queue = calloc(1, sizeof(*queue));
    if (queue == NULL) {
        return say(said, KVASIR_NO_MEMORY, "out of memory");
    }
    queue->domain = domain;
    queue->options = *options;
    queue->entries = calloc(options->jobs_max, sizeof(*queue->entries));
    queue->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (queue->entries == NULL || queue->fd < 0) {
        free(queue->entries);
        free(queue);
        return say(said, KVASIR_NO_MEMORY, "out of memory or descriptors");
    }
    *queue_p = queue;
    return KVASIR_OK;
}

static void loop_link_close(struct kvasir_link **link_p);

static void loop_queue_destroy(struct kvasir_queue **queue_p)
{
    struct kvasir_queue *queue = *queue_p;
    while (queue->links != NULL) {
        struct kvasir_link *link = queue->links;
        loop_link_close(&link);
    }
    (void)close(queue->fd);
    free(queue->entries);
    free(queue);
    *queue_p = NULL;
}

static int loop_queue_fd(const struct kvasir_queue *queue)
{
    return queue->fd;
}

static enum kvasir_status perform(struct kvasir_link *link, const struct kvasir_job *job)
{
    struct control *control = link->queue->domain->state->control;
    struct pair *pair = find_pair(link->peer, link->peer_number);
    uint32_t right =
        job->kind == KVASIR_JOB_READ ? KVASIR_RIGHT_REMOTE_READ : KVASIR_RIGHT_REMOTE_WRITE;
    uint32_t live = LINK_LIVE;
    enum kvasir_status status;
    if (has_bit(link->queue->domain, &control->down)) {
        return KVASIR_TIMEOUT;
    }
    if (atomic_load(&control->fail_jobs) > 0) {
        atomic_fetch_sub(&control->fail_jobs, 1);
        return KVASIR_TIMEOUT;
    }
    for (unsigned i = 0; i < job->remote_count; i++) {
        if (!is_allowed(link->peer, &job->remotes[i], right, link->peer_number)) {
            return KVASIR_DENIED;
        }
    }
    /* A peer that closes its link waits until this is over. */
    if (pair == NULL || !atomic_compare_exchange_strong(&pair->state, &live, LINK_BUSY)) {
        return KVASIR_TIMEOUT;
    }
    status = move_bytes(link->peer, link->peer_process, job);
    atomic_store(&pair->state, LINK_LIVE);
    return status;
}

/* KVASIR_AGAIN: it is not its time. */
static enum kvasir_status outcome(const struct entry *entry)
{
    struct kvasir_link *link = entry->link;
    struct kvasir_job *job = entry->job;
    enum kvasir_status status;
    if (job->kind == KVASIR_JOB_REVOKE && (link == NULL || link->failed)) {
        return KVASIR_OK; /* the rights went with the link */
    }
    if (link == NULL) {
        return KVASIR_CANCELLED;
    }
    if (link->failed) {
        return KVASIR_CLOSED;
    }
    if (atomic_load(&link->queue->domain->state->control->hold) != 0 || now_ns() < entry->due_ns) {
        return KVASIR_AGAIN;
    }
    if (job->kind == KVASIR_JOB_REVOKE) {
        drop_windows(job->grants, job->grant_count);
        link->queue->stats.revocations += job->grant_count;
        return KVASIR_OK;
    }
    if (job->kind == KVASIR_JOB_BIND) {
        bind_windows(job->grants, job->grant_count, link->pair->number);
        link->queue->stats.binds += job->grant_count;
        return KVASIR_OK;
    }
    status = perform(link, job);
    link->failed = status != KVASIR_OK;
    return status;
}

static bool is_up_due(const struct kvasir_link *link)
{
    return link->connecting && atomic_load(&link->queue->domain->state->control->slow) == 0;
}

/* Tells of links that are up, or cannot be. */
static unsigned take_ups(struct kvasir_queue *queue, struct kvasir_event *events, unsigned capacity)
{
    unsigned count = 0;
    for (struct kvasir_link *link = queue->links; link != NULL && count < capacity;
         link = link->next) {
        if (is_up_due(link)) {
            link->connecting = false;
            link->connected = link->connect_status == KVASIR_OK;
            events[count++] = (struct kvasir_event){.kind = KVASIR_EVENT_LINK_UP,
                                                    .status = link->connect_status,
                                                    .cookie = link->options.cookie,
                                                    .reason = link->connect_reason};
        }
    }
    return count;
}

static unsigned loop_queue_poll(struct kvasir_queue *queue, struct kvasir_event *events,
                                unsigned capacity)
{
    uint64_t expirations;
    unsigned count = 0;
    unsigned kept = 0;
    (void)!read(queue->fd, &expirations, sizeof(expirations));
    for (unsigned i = 0; i < queue->entry_count; i++) {
        struct entry entry = queue->entries[i];
        enum kvasir_status status = count < capacity ? outcome(&entry) : KVASIR_AGAIN;
        if (status == KVASIR_AGAIN) {
            queue->entries[kept++] = entry;
            continue;
        }
        if (entry.link != NULL) {
            entry.link->job_count--;
        }
        queue->stats.completions++;
        atomic_fetch_sub(&queue->domain->state->control->waiting, 1);
        events[count++] = (struct kvasir_event){.kind = KVASIR_EVENT_JOB,
                                                .status = status,
                                                .cookie = entry.job->cookie,
                                                .reason = "rdma_loop"};
    }
    queue->entry_count = kept;
    count += take_ups(queue, events + count, capacity - count);
    for (struct kvasir_link *link = queue->links; link != NULL && count < capacity;
         link = link->next) {
        if (link->failed && !link->told && link->job_count == 0) {
            link->told = true;
            events[count++] = (struct kvasir_event){.kind = KVASIR_EVENT_LINK_DOWN,
                                                    .status = KVASIR_CLOSED,
                                                    .cookie = link->options.cookie,
                                                    .reason = "rdma_loop"};
        }
    }
    return count;
}

static enum kvasir_status loop_queue_arm(struct kvasir_queue *queue)
{
    struct itimerspec timer = {{0, 0}, {0, 0}};
    bool held = atomic_load(&queue->domain->state->control->hold) != 0;
    bool connecting = false;
    int64_t now = now_ns();
    int64_t wait = RECHECK_NS;
    for (unsigned i = 0; i < queue->entry_count; i++) {
        const struct entry *entry = &queue->entries[i];
        if (entry->link == NULL || entry->link->failed || (!held && entry->due_ns <= now)) {
            return KVASIR_AGAIN;
        }
        wait = entry->due_ns - now < wait && entry->due_ns > now ? entry->due_ns - now : wait;
    }
    for (const struct kvasir_link *link = queue->links; link != NULL; link = link->next) {
        if ((link->failed && !link->told) || is_up_due(link)) {
            return KVASIR_AGAIN;
        }
        connecting = connecting || link->connecting;
    }
    timer.it_value.tv_nsec = queue->entry_count > 0 || connecting ? wait : 0;
    return timerfd_settime(queue->fd, 0, &timer, NULL) == 0 ? KVASIR_OK : KVASIR_AGAIN;
}

static void loop_queue_stats(const struct kvasir_queue *queue, struct kvasir_queue_stats *stats_p)
{
    *stats_p = queue->stats;
}

/* ---- links ---- */

static enum kvasir_status loop_link_create(struct kvasir_queue *queue,
                                           const struct kvasir_link_options *options,
                                           struct kvasir_link **link_p,
                                           struct kvasir_link_address *local_p, char *said)
{
    const struct kvasir_device *device = &queue->domain->facts.device;
    struct kvasir_link *link;
    if (queue->link_count >= queue->options.links_max) {
        return say(said, KVASIR_BUSY, "links_max links are there");
    }
    link = calloc(1, sizeof(*link));
    if (link == NULL) {
        return say(said, KVASIR_NO_MEMORY, "out of memory");
    }
    link->queue = queue;
    link->options = *options;
    link->options.jobs_max = options->jobs_max != 0 ? options->jobs_max : 256;
    link->pair = take_pair(queue->domain->state, queue->domain->index);
    if (link->pair == NULL) {
        free(link);
        return say(said, KVASIR_NO_MEMORY, "no queue pair is free");
    }
    atomic_store(&queue->domain->state->control->traffic_class, options->traffic_class);
    link->next = queue->links;
    queue->links = link;
    queue->link_count++;
    *local_p = (struct kvasir_link_address){
        .layer = device->layer,
        .queue_pair = link->pair->number,
        .packet_sequence = link->pair->number ^ 0x555555U,
        .mtu_bytes = options->mtu_bytes != 0 ? options->mtu_bytes : device->mtu_bytes,
        .rd_atomic = device->rd_atomic,
        .gid = device->gids[0]};
    (void)snprintf(local_p->device, sizeof(local_p->device), "%s", device->name);
    *link_p = link;
    return KVASIR_OK;
}

static enum kvasir_status begin_connecting(struct kvasir_link *link, enum kvasir_status status,
                                           const char *reason)
{
    struct itimerspec soon = {.it_value.tv_nsec = 1};
    link->connecting = true;
    link->connect_status = status;
    link->connect_reason = reason;
    (void)timerfd_settime(link->queue->fd, 0, &soon, NULL);
    return KVASIR_PENDING;
}

static enum kvasir_status loop_link_connect(struct kvasir_link *link,
                                            const struct kvasir_link_address *remote, char *said)
{
    uint32_t place[2];
    char path[64];
    int fd;
    if (atomic_load(&link->queue->domain->state->control->refuse) != 0 ||
        has_bit(link->queue->domain, &link->queue->domain->state->control->down)) {
        return begin_connecting(link, KVASIR_TIMEOUT,
                                "loop0: no way to the peer, as the test wants it");
    }
    if (memcmp(remote->gid.raw, GID_PREFIX, PREFIX_BYTES) != 0) {
        return say(said, KVASIR_INVALID, "loop0: the peer's GID is none of this transport");
    }
    memcpy(place, remote->gid.raw + PREFIX_BYTES, sizeof(place));
    (void)snprintf(path, sizeof(path), "/proc/%u/fd/%u", place[1], place[0]);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return begin_connecting(link, KVASIR_TIMEOUT, "loop0: the peer is not there");
    }
    link->peer = mmap(NULL, sizeof(*link->peer), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (link->peer == MAP_FAILED) {
        link->peer = NULL;
        return say(said, KVASIR_IO, strerror(errno));
    }
    link->peer_process = (pid_t)place[1];
    link->peer_number = remote->queue_pair;
    atomic_store(&link->pair->state, LINK_LIVE);
    return begin_connecting(link, KVASIR_OK, "rdma_loop");
}

static void loop_link_close(struct kvasir_link **link_p)
{
    struct kvasir_link *link = *link_p;
    struct kvasir_queue *queue = link->queue;
    struct kvasir_link **at = &queue->links;
    /* A transfer of the peer's under way ends first; one that was killed in the middle never does. */
    for (unsigned i = 0; i < BUSY_SPINS && atomic_load(&link->pair->state) == LINK_BUSY; i++) {
        (void)usleep(10);
    }
    lose_windows(queue->domain->state, link->pair->number);
    atomic_store(&link->pair->state, 0);
    link->pair->number = 0;
    for (unsigned i = 0; i < queue->entry_count; i++) {
        if (queue->entries[i].link == link) {
            queue->entries[i].link = NULL;
        }
    }
    while (*at != link) {
        at = &(*at)->next;
    }
    *at = link->next;
    queue->link_count--;
    if (link->peer != NULL) {
        (void)munmap(link->peer, sizeof(*link->peer));
    }
    free(link);
    *link_p = NULL;
}

static enum kvasir_status loop_submit(struct kvasir_link *link, struct kvasir_job *job)
{
    struct kvasir_queue *queue = link->queue;
    int64_t delay_ms = atomic_load(&queue->domain->state->control->delay_ms);
    uint64_t local = 0;
    uint64_t remote = 0;
    if (job->kind != KVASIR_JOB_REVOKE && (!link->connected || link->failed)) {
        return KVASIR_CLOSED;
    }
    for (unsigned i = 0; i < job->local_count; i++) {
        const struct kvasir_local *part = &job->locals[i];
        if (part->memory->domain != queue->domain || part->address < part->memory->base ||
            part->address + part->bytes > part->memory->base + part->memory->bytes) {
            return KVASIR_INVALID;
        }
        local += part->bytes;
    }
    for (unsigned i = 0; i < job->remote_count; i++) {
        remote += job->remotes[i].bytes;
    }
    if (job->grant_count == 0 && (local != remote || local == 0)) {
        return KVASIR_INVALID;
    }
    if (queue->entry_count == queue->options.jobs_max ||
        link->job_count == link->options.jobs_max) {
        return KVASIR_AGAIN;
    }
    if (job->kind == KVASIR_JOB_BIND &&
        !take_windows(queue->domain->state, job->grants, job->grant_count)) {
        return KVASIR_AGAIN;
    }
    queue->entries[queue->entry_count++] =
        (struct entry){.link = link, .job = job, .due_ns = now_ns() + delay_ms * 1000000};
    link->job_count++;
    queue->stats.jobs++;
    atomic_fetch_add(&queue->domain->state->control->waiting, 1);
    return KVASIR_PENDING;
}

static const struct kvasir_transport_ops loop_ops = {
    .struct_size = sizeof(struct kvasir_transport_ops),
    .name = "rdma",
    .devices = loop_devices,
    .choose_gid = loop_choose_gid,
    .domain_open = loop_domain_open,
    .domain_close = loop_domain_close,
    .domain_facts = loop_domain_facts,
    .domain_fd = loop_domain_fd,
    .domain_poll = loop_domain_poll,
    .memory_register = loop_memory_register,
    .memory_deregister = loop_memory_deregister,
    .memory_expose = loop_memory_expose,
    .queue_create = loop_queue_create,
    .queue_destroy = loop_queue_destroy,
    .queue_fd = loop_queue_fd,
    .queue_poll = loop_queue_poll,
    .queue_arm = loop_queue_arm,
    .queue_stats = loop_queue_stats,
    .link_create = loop_link_create,
    .link_connect = loop_link_connect,
    .link_close = loop_link_close,
    .submit = loop_submit,
};

/* ---- the module ---- */

static enum kvasir_status setup(const struct kvasir_host *host, void **state_p)
{
    struct state *state = calloc(1, sizeof(*state));
    if (state == NULL) {
        return KVASIR_NO_MEMORY;
    }
    state->host = host;
    state->control = map_control();
    state->table_fd = memfd_create("rdma_loop", MFD_CLOEXEC);
    state->table = MAP_FAILED;
    atomic_store(&state->next, (uint32_t)now_ns());
    if (state->table_fd >= 0 && ftruncate(state->table_fd, sizeof(struct table)) == 0) {
        state->table = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED,
                            state->table_fd, 0);
    }
    if (state->control == NULL || state->table == MAP_FAILED) {
        return KVASIR_IO;
    }
    *state_p = state;
    return host->register_transport(host, &loop_ops, state);
}

static void teardown(void *argument)
{
    struct state *state = argument;
    (void)munmap(state->table, sizeof(struct table));
    (void)munmap(state->control, sizeof(struct control));
    (void)close(state->table_fd);
    free(state);
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "rdma_loop",
    .summary = "a transport for tests: one machine, no RDMA",
    .version = KVASIR_MODULE_VERSION(1, 0, 0),
    .setup = setup,
    .teardown = teardown,
};
