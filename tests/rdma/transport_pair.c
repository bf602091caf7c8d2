#include "transport_pair.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

/* An emulated machine beside other work is slow, and nobody waits in vain but a failing test. */
#define DEADLINE_S 120
/* Registrations that a pool may consist of. */
#define REMOTES_MAX 64

/* ---- a host for the module ------------------------------------------------------------------ */

static void log_line(const struct kvasir_host *host, enum kvasir_log_level level, const char *text)
{
    (void)host;
    if (level <= KVASIR_LOG_WARN) {
        print_message("module: %s\n", text);
    }
}

static enum kvasir_status take_transport(const struct kvasir_host *host,
                                         const struct kvasir_transport_ops *ops, void *state)
{
    struct pair *pair = host->context;
    pair->ops = ops;
    pair->state = state;
    return KVASIR_OK;
}

const char *pair_text(const char *variable)
{
    const char *text = getenv(variable);
    if (text == NULL) {
        fail_msg("%s is not set", variable);
    }
    return text;
}

int pair_number(const char *variable)
{
    return (int)strtol(pair_text(variable), NULL, 10);
}

void pair_load(struct pair *pair)
{
    memset(pair, 0, sizeof(*pair));
    pair->file = dlopen(pair_text("KVASIR_RDMA_MODULE"), RTLD_NOW | RTLD_LOCAL);
    if (pair->file == NULL) {
        fail_msg("%s", dlerror());
    }
    pair->module = dlsym(pair->file, KVASIR_MODULE_SYMBOL);
    assert_non_null(pair->module);
    pair->host = (struct kvasir_host){
        .struct_size = sizeof(pair->host),
        .server_version = "0.0.0",
        .context = pair,
        .log = log_line,
        .register_transport = take_transport,
    };
    assert_int_equal(pair->module->setup(&pair->host, &pair->module_state), KVASIR_OK);
    assert_non_null(pair->ops);
}

void pair_unload(struct pair *pair)
{
    if (pair->module->teardown != NULL) {
        pair->module->teardown(pair->module_state);
    }
    (void)dlclose(pair->file);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void open_end(struct pair *pair, struct pair_end *end, const char *device, unsigned rights)
{
    char said[KVASIR_SAID_BYTES] = "";
    if (pair->ops->domain_open(pair->state, device, 1, KVASIR_GID_INDEX_AUTO, &end->domain, said) !=
        KVASIR_OK) {
        fail_msg("%s", said);
    }
    struct kvasir_queue_options wanted = {.links_max = 4, .jobs_max = 1024, .windows_max = 128};
    if (pair->ops->queue_create(end->domain, &wanted, &end->queue, said) != KVASIR_OK) {
        fail_msg("%s", said);
    }
    end->bytes = aligned_alloc(4096, PAIR_POOL_BYTES);
    assert_non_null(end->bytes);
    memset(end->bytes, PAIR_UNTOUCHED, PAIR_POOL_BYTES);
    struct kvasir_memory_options memory = {
        .base = end->bytes, .bytes = PAIR_POOL_BYTES, .rights = rights, .dmabuf_fd = -1};
    if (pair->ops->memory_register(end->domain, &memory, &end->memory, said) != KVASIR_OK) {
        fail_msg("%s", said);
    }
}

static void close_end(struct pair *pair, struct pair_end *end)
{
    if (end->domain == NULL) {
        return;
    }
    if (end->link != NULL) {
        pair->ops->link_close(&end->link);
    }
    pair->ops->queue_destroy(&end->queue);
    pair->ops->memory_deregister(&end->memory);
    pair->ops->domain_close(&end->domain);
    free(end->bytes);
}

void pair_open(struct pair *pair)
{
    pair_load(pair);
    open_end(pair, &pair->owner, pair_text("VM_DEVICE"), KVASIR_RIGHT_WINDOWS);
    pair_open_client(pair, &pair->peer);
}

void pair_open_peer(struct pair *pair)
{
    pair_load(pair);
    pair_open_client(pair, &pair->peer);
}

void pair_open_client(struct pair *pair, struct pair_end *end)
{
    open_end(pair, end, pair_text("VM_DEVICE2"),
             KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE);
}

void pair_close(struct pair *pair)
{
    close_end(pair, &pair->peer);
    close_end(pair, &pair->owner);
    pair_unload(pair);
}

void pair_create_link(struct pair *pair, struct pair_end *end, struct kvasir_link **link_p,
                      struct kvasir_link_address *address_p)
{
    char said[KVASIR_SAID_BYTES] = "";
    struct kvasir_link_options wanted = {
        .cookie = (uintptr_t)end,
        .gid_index = KVASIR_GID_INDEX_AUTO,
        .rights = KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE,
        .jobs_max = PAIR_JOBS_MAX,
    };
    if (pair->ops->link_create(end->queue, &wanted, link_p, address_p, said) != KVASIR_OK) {
        fail_msg("%s", said);
    }
}

static void connect_links(struct pair *pair, struct pair_end *end, struct kvasir_link *link,
                          const struct kvasir_link_address *remote)
{
    char said[KVASIR_SAID_BYTES] = "";
    if (pair_connect(pair, end, link, remote, said) != KVASIR_OK) {
        fail_msg("%s", said);
    }
}

void pair_join_another(struct pair *pair, struct kvasir_link **of_owner_p,
                       struct kvasir_link **of_peer_p)
{
    struct kvasir_link_address of_owner;
    struct kvasir_link_address of_peer;
    pair_create_link(pair, &pair->owner, of_owner_p, &of_owner);
    pair_create_link(pair, &pair->peer, of_peer_p, &of_peer);
    connect_links(pair, &pair->owner, *of_owner_p, &of_peer);
    connect_links(pair, &pair->peer, *of_peer_p, &of_owner);
    pair->owner.address = of_owner;
    pair->peer.address = of_peer;
}

void pair_join(struct pair *pair)
{
    pair_join_another(pair, &pair->owner.link, &pair->peer.link);
}

void pair_empty(struct pair *pair, struct pair_end *end)
{
    struct kvasir_event events[16];
    while (pair->ops->queue_poll(end->queue, events, 16) > 0) {
    }
}

void pair_part(struct pair *pair)
{
    pair->ops->link_close(&pair->peer.link);
    pair->ops->link_close(&pair->owner.link);
    pair_empty(pair, &pair->peer);
    pair_empty(pair, &pair->owner);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static time_t now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Both ends are polled: in one process, nobody else would. Yields, or it starves the driver of an
 * emulated machine. */
struct kvasir_event pair_wait(struct pair *pair, struct pair_end *end)
{
    struct kvasir_event event = {0};
    time_t end_s = now_s() + DEADLINE_S;
    while (pair->ops->queue_poll(end->queue, &event, 1) == 0) {
        if (now_s() >= end_s) {
            fail_msg("no event within %d s", DEADLINE_S);
        }
        (void)sched_yield();
    }
    return event;
}

enum kvasir_status pair_connect(struct pair *pair, struct pair_end *end, struct kvasir_link *link,
                                const struct kvasir_link_address *remote, char *said)
{
    enum kvasir_status status = pair->ops->link_connect(link, remote, said);
    if (status != KVASIR_PENDING) {
        return status;
    }
    struct kvasir_event event = pair_wait(pair, end);
    assert_int_equal(event.kind, KVASIR_EVENT_LINK_UP);
    if (event.status != KVASIR_OK) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "%s", event.reason);
    }
    return event.status;
}

enum kvasir_status pair_run(struct pair *pair, struct pair_end *end, struct kvasir_link *link,
                            struct kvasir_job *job)
{
    job->cookie = (uintptr_t)job;
    enum kvasir_status status = pair->ops->submit(link, job);
    if (status != KVASIR_PENDING) {
        return status;
    }
    struct kvasir_event event = pair_wait(pair, end);
    assert_int_equal(event.kind, KVASIR_EVENT_JOB);
    assert_true(event.cookie == job->cookie);
    return event.status;
}

static struct pair_end *other_of(struct pair *pair, struct pair_end *end)
{
    return end == &pair->owner ? &pair->peer : &pair->owner;
}

static enum kvasir_status move(struct pair *pair, struct pair_end *end, enum kvasir_job_kind kind,
                               const struct kvasir_remote *remotes, unsigned remote_count)
{
    struct kvasir_local local = {.memory = end->memory};
    for (unsigned i = 0; i < remote_count; i++) {
        local.bytes += remotes[i].bytes;
    }
    uint64_t offset = remotes[0].address - (uintptr_t)other_of(pair, end)->bytes;
    local.address = (uintptr_t)end->bytes + offset;
    struct kvasir_job job = {.kind = kind,
                             .locals = &local,
                             .local_count = 1,
                             .remotes = remotes,
                             .remote_count = remote_count};
    return pair_run(pair, end, end->link, &job);
}

enum kvasir_status pair_move_by(struct pair *pair, struct pair_end *end, enum kvasir_job_kind kind,
                                uint32_t key, size_t offset, size_t length_bytes)
{
    struct kvasir_remote remote = {.address = (uintptr_t)other_of(pair, end)->bytes + offset,
                                   .bytes = length_bytes,
                                   .key = key};
    return move(pair, end, kind, &remote, 1);
}

enum kvasir_status pair_move(struct pair *pair, struct pair_end *end, enum kvasir_job_kind kind,
                             size_t offset, size_t length_bytes)
{
    struct pair_end *other = other_of(pair, end);
    struct kvasir_remote remotes[REMOTES_MAX];
    unsigned count = 0;
    assert_int_equal(pair->ops->memory_expose(other->memory, (uintptr_t)other->bytes + offset,
                                              length_bytes, remotes, REMOTES_MAX, &count),
                     KVASIR_OK);
    return move(pair, end, kind, remotes, count);
}

/* ---- contents -------------------------------------------------------------------------------- */

static uint8_t coded(size_t at, uint32_t seed)
{
    return (uint8_t)(((at + seed) * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

void pair_fill(uint8_t *bytes, size_t length_bytes, uint32_t seed)
{
    for (size_t i = 0; i < length_bytes; i++) {
        bytes[i] = coded(i, seed);
    }
}

int pair_holds(const uint8_t *bytes, size_t length_bytes, uint32_t seed)
{
    size_t same = 0;
    while (same < length_bytes && bytes[same] == coded(same, seed)) {
        same++;
    }
    return same == length_bytes;
}

int pair_untouched(const uint8_t *bytes, size_t length_bytes)
{
    size_t same = 0;
    while (same < length_bytes && bytes[same] == PAIR_UNTOUCHED) {
        same++;
    }
    return same == length_bytes;
}

int pair_run_program(const char *path, const char *first, const char *second)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl(path, path, first, second, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
        return -1;
    }
    return WEXITSTATUS(status);
}

int pair_set_up(void **state)
{
    struct pair *pair = calloc(1, sizeof(*pair));
    assert_non_null(pair);
    pair_open(pair);
    pair_join(pair);
    *state = pair;
    return 0;
}

int pair_tear_down(void **state)
{
    struct pair *pair = *state;
    pair_close(pair);
    free(pair);
    return 0;
}
