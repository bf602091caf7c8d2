#include "server/server.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "net/chunk.h"
#include "net/listener.h"
#include "net/tls_context.h"
#include "plug/loader.h"
#include "server/batch.h"
#include "server/cores.h"
#include "server/reactor.h"
#include "server/resize.h"
#include "server/shares.h"
#include "server/stop_signal.h"
#include "server/tls_reload.h"
#include "server/users_file.h"
#include "store/reuse.h"
#include "store/value.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

/* Descriptors the process needs besides one per client. */
#define DESCRIPTORS_OWN 128
/* Closing waits for nothing but other reactors' turns. */
#define CLOSE_TIMEOUT_MS 10000

static void make_run_id(char run_id[41])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[20];
    check(getrandom(bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        run_id[2 * i] = digits[bytes[i] >> 4];
        run_id[2 * i + 1] = digits[bytes[i] & 15];
    }
    run_id[40] = '\0';
}

static uint64_t round_down(uint64_t bytes, uint64_t unit)
{
    return bytes / unit * unit;
}

static void show_progress(void *argument, size_t done_bytes, size_t total_bytes)
{
    char done[32];
    char total[32];
    (void)argument;
    number_format_bytes(done, sizeof(done), done_bytes);
    number_format_bytes(total, sizeof(total), total_bytes);
    log_info("payload memory %s of %s touched", done, total);
}

static bool no_room(const struct server *server, const struct shares *shares, char *error,
                    size_t error_capacity)
{
    (void)snprintf(
        error, error_capacity,
        "maxmemory %llu leaves no room for payload beside metadata-memory %llu, "
        "buffer-memory %llu (at least 2 MiB for each reactor), shm-staging-total %llu and the tables of "
        "leases (%llu for each of %u reactors, by grants-max): raise maxmemory",
        (unsigned long long)server->settings.maxmemory, (unsigned long long)shares->metadata_bytes,
        (unsigned long long)shares->buffer_bytes, (unsigned long long)shares->staging_bytes,
        (unsigned long long)(server->grants_share_bytes / server->reactor_count),
        server->reactor_count);
    return false;
}

/* What small values may make of their share: half of all memory, unless a size was chosen. */
static uint64_t reserve_of_metadata(const struct settings *settings)
{
    uint64_t most = settings->metadata_memory != 0 ? 0 : settings->maxmemory / 2;
    most = most < VALUE_MEMORY_BYTES_MAX ? most : VALUE_MEMORY_BYTES_MAX;
    return round_down(most, SERVER_PAYLOAD_PAGE_BYTES);
}

static bool make_metadata(struct server *server, const struct shares *shares, char *error,
                          size_t error_capacity)
{
    struct region_config config = {.name = "kvasir-metadata",
                                   .size_bytes = shares->metadata_bytes,
                                   .numa = &server->numa,
                                   .reserve_bytes = reserve_of_metadata(&server->settings),
                                   .huge_try = server->settings.huge_pages,
                                   .populate = server->settings.populate,
                                   .cancelled = stop_signal_is_pending};
    if (region_create(&config, error, error_capacity, &server->metadata_region) != KVASIR_OK) {
        return false;
    }
    server->metadata_pages = (uint32_t)(shares->metadata_bytes / SERVER_METADATA_PAGE_BYTES);
    const struct pages_config pages_config = {
        .region = server->metadata_region,
        .page_bytes = SERVER_METADATA_PAGE_BYTES,
        .unit_bytes = SERVER_METADATA_UNIT_BYTES,
        .present_count = server->metadata_pages,
        .node_count = server->numa.node_count,
    };
    server->metadata = pages_create_with(&pages_config);
    (void)snprintf(error, error_capacity, "out of memory for the tables of metadata pages");
    return server->metadata != NULL;
}

/* Address space for CONFIG SET maxmemory to grow into. A region that clients map gets none by itself:
 * to read where there is nothing yet would make memory. One that a device knows gets none at all: it is
 * registered as it is at the start. */
static uint64_t reserve_of_payload(const struct server *server, uint64_t size_bytes)
{
    const struct settings *settings = &server->settings;
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t wanted = settings->maxmemory_reserve;
    if (server->fabric != NULL) {
        return size_bytes;
    }
    if (wanted == 0 && !shares_offer_shm(settings)) {
        wanted = machine;
    }
    wanted = round_down(wanted, SERVER_PAYLOAD_PAGE_BYTES);
    return wanted > size_bytes ? wanted : size_bytes;
}

static bool make_payload(struct server *server, uint64_t size_bytes, char *error,
                         size_t error_capacity)
{
    /* Private memory gets transparent huge pages where memfds do not: a sixth less processor time
     * for the kernel's copies of 1 MiB values. Shared only if somebody may map it. */
    struct region_config config = {.name = "kvasir-payload",
                                   .size_bytes = size_bytes,
                                   .numa = &server->numa,
                                   .reserve_bytes = reserve_of_payload(server, size_bytes),
                                   .shared = shares_offer_shm(&server->settings),
                                   .registered = server->fabric != NULL,
                                   .huge_try = server->settings.huge_pages,
                                   .populate = server->settings.populate,
                                   .progress = show_progress,
                                   .cancelled = stop_signal_is_pending};
    if (region_create(&config, error, error_capacity, &server->payload_region) != KVASIR_OK) {
        return false;
    }
    const struct pages_config pages_config = {
        .region = server->payload_region,
        .page_bytes = SERVER_PAYLOAD_PAGE_BYTES,
        .unit_bytes = SERVER_PAYLOAD_UNIT_BYTES,
        .present_count = (uint32_t)(size_bytes / SERVER_PAYLOAD_PAGE_BYTES),
        .node_count = server->numa.node_count,
    };
    server->payload = pages_create_with(&pages_config);
    (void)snprintf(error, error_capacity, "out of memory for the tables of payload pages");
    return server->payload != NULL;
}

/* Payload gets what is left of maxmemory, the tables of both pools counted. */
static bool make_memory(struct server *server, char *error, size_t error_capacity)
{
    struct shares shares;
    uint64_t page_count;
    shares_divide(server, &shares);
    if (!make_metadata(server, &shares, error, error_capacity)) {
        return false;
    }
    server->fixed_bytes += pages_bookkeeping_bytes(server->metadata);
    page_count = resize_page_count(server, server->settings.maxmemory);
    if (page_count == 0) {
        return no_room(server, &shares, error, error_capacity);
    }
    return make_payload(server, page_count * SERVER_PAYLOAD_PAGE_BYTES, error, error_capacity);
}

/* Descriptors for maxclients: the soft limit is raised as far as the hard one allows. */
static void raise_descriptor_limit(const struct settings *settings)
{
    struct rlimit limit;
    rlim_t wanted = settings->maxclients + DESCRIPTORS_OWN;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
        return;
    }
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < wanted) {
        log_warn("open files are limited to %llu, maxclients %llu needs %llu: raise ulimit -n",
                 (unsigned long long)limit.rlim_cur, (unsigned long long)settings->maxclients,
                 (unsigned long long)wanted);
    }
}

static bool open_unix(struct server *server, char *error, size_t error_capacity)
{
    const struct settings *settings = &server->settings;
    uint32_t mode = (uint32_t)strtoul(settings->unixsocketperm, NULL, 8);
    if (settings->unixsocket[0] == '\0') {
        return true;
    }
    return listener_open_unix(settings->unixsocket, mode, (int)settings->tcp_backlog, error,
                              error_capacity, &server->unix_listener) == KVASIR_OK;
}

/* The reactors share the port, so the kernel would let them share it with another server, too, and
 * each would miss the other's keys. Looked at before memory is touched, which takes its time; the
 * probe does not listen, or a client that comes in that moment would be cut off. */
static bool port_is_ours(const struct server *server, uint64_t port, char *error,
                         size_t error_capacity)
{
    struct listener_bind binds[LISTENER_BIND_MAX];
    uint32_t count = listener_parse_bind(server->settings.bind, binds);
    uint32_t found_count = 0;
    (void)snprintf(error, error_capacity, "bind takes 1 to %d addresses of this host, not '%s'",
                   LISTENER_BIND_MAX, server->settings.bind);
    for (uint32_t i = 0; i < count && port != 0; i++) {
        int probe;
        enum kvasir_status status = listener_bind_tcp(binds[i].address, (uint16_t)port, false,
                                                      error, error_capacity, &probe);
        if (status == KVASIR_OK) {
            found_count++;
            (void)close(probe);
        } else if (status != KVASIR_NOT_FOUND || !binds[i].optional) {
            return false;
        }
    }
    return port == 0 || found_count > 0;
}

static bool make_users(struct server *server, char *error, size_t error_capacity)
{
    struct text errors = {0};
    bool done = users_file_start(&server->settings, &server->acl, &errors);
    if (!done) {
        /* Without memory there may be none for the sentence, either. */
        struct slice said = errors.length_bytes > 0 && !errors.failed
                                ? text_slice(&errors)
                                : slice_of_text("out of memory for users");
        (void)snprintf(error, error_capacity, "%.*s", (int)said.length_bytes,
                       (const char *)said.data);
    }
    text_fini(&errors);
    return done;
}

/* A module that is refused is no reason not to start. */
static bool load_modules(struct server *server, char *error, size_t error_capacity)
{
    char codecs[128];
    server->modules = loader_create(SERVER_VERSION);
    if (server->modules == NULL) {
        (void)snprintf(error, error_capacity, "out of memory for modules");
        return false;
    }
    (void)loader_load_list(server->modules, server->settings.loadmodule);
    if (registry_names(loader_registry(server->modules), REGISTRY_CODEC, 0, codecs,
                       sizeof(codecs)) == 0) {
        (void)snprintf(server->codec_refusal, sizeof(server->codec_refusal),
                       "UNSUPPORTED no codec module is loaded; the only CODEC is none");
    } else {
        (void)snprintf(server->codec_refusal, sizeof(server->codec_refusal),
                       "UNSUPPORTED codecs are loaded (%s), but the server does not use them yet; "
                       "the only CODEC is none",
                       codecs);
    }
    return true;
}

/* ---- RDMA ---- */

/* RDMA cannot be had: the server goes on without it. */
static void refuse_rdma(struct server *server, const char *reason)
{
    (void)snprintf(server->rdma_refusal, sizeof(server->rdma_refusal), "UNSUPPORTED no RDMA: %s",
                   reason);
}

/* Before memory is made: what a device is to know is laid out otherwise. */
static void open_fabric(struct server *server)
{
    char reason[KVASIR_SAID_BYTES];
    server->fabric = fabric_open(server->modules, &server->settings, reason, sizeof(reason));
    if (server->fabric == NULL) {
        refuse_rdma(server, reason);
    }
}

/* Once memory and reactors are there. */
static void offer_rdma(struct server *server)
{
    char reason[KVASIR_SAID_BYTES];
    size_t size_bytes = (size_t)pages_present_count(server->payload) * SERVER_PAYLOAD_PAGE_BYTES;
    bool done = server->fabric == NULL || fabric_register(server->fabric, server->payload_region,
                                                          size_bytes, reason, sizeof(reason));
    for (uint32_t i = 0; done && server->fabric != NULL && i < server->reactor_count; i++) {
        done = hub_init(server->reactors[i], server->fabric, reason);
        if (!done) {
            log_warn("RDMA is not on offer: %s", reason);
        }
    }
    if (!done) {
        for (uint32_t i = 0; i < server->reactor_count; i++) {
            hub_fini(server->reactors[i]);
        }
        fabric_close(&server->fabric);
        refuse_rdma(server, reason);
    }
}

/* The reactors' own ports follow the shared one, or begin where the option says. */
static bool ports_fit(const struct server *server, char *error, size_t error_capacity)
{
    const struct settings *settings = &server->settings;
    uint64_t first =
        settings->reactor_port_base != 0 ? settings->reactor_port_base : settings->port + 1;
    if (settings->port == 0 || !settings->reactor_ports ||
        first + server->reactor_count - 1 <= UINT16_MAX) {
        return true;
    }
    (void)snprintf(error, error_capacity,
                   "the own ports of %u reactors from %llu on pass 65535: lower port or "
                   "reactor-port-base, or set reactor-ports no",
                   server->reactor_count, (unsigned long long)first);
    return false;
}

/* Each shard writes its own cache lines. */
static struct tenant_use *make_tenant_uses(uint32_t count)
{
    size_t bytes = count * sizeof(struct tenant_use);
    struct tenant_use *uses = aligned_alloc(CACHE_LINE_BYTES, bytes);
    _Static_assert(sizeof(struct tenant_use) % CACHE_LINE_BYTES == 0, "no line is shared");
    if (uses != NULL) {
        memset(uses, 0, bytes);
    }
    return uses;
}

enum kvasir_status server_create(const struct settings *settings, char *error,
                                 size_t error_capacity, struct server **server_p)
{
    struct server *server = calloc(1, sizeof(*server));
    struct moment now = clock_moment();
    if (server == NULL) {
        (void)snprintf(error, error_capacity, "out of memory");
        return KVASIR_NO_MEMORY;
    }
    server->settings = *settings;
    numa_read(&server->numa, "");
    server->unix_listener = -1;
    server->done_descriptor = eventfd(0, EFD_CLOEXEC);
    server->start_wall_ms = now.wall_ms;
    server->start_mono_us = now.mono_us;
    server->events_zero_us = now.wall_ms * 1000 - now.mono_us;
    server->port = (uint16_t)settings->port;
    server->reactor_count =
        settings->reactors != 0 ? (uint32_t)settings->reactors : cores_available();
    server->pinned =
        strcmp(settings->pin_reactors, "yes") == 0 ||
        (strcmp(settings->pin_reactors, "auto") == 0 && cores_available() > server->reactor_count);
    if (!ports_fit(server, error, error_capacity)) {
        goto fail;
    }
    gate_init(&server->tls_gate);
    database_map_init(&server->databases);
    if (settings->tls_port != 0 &&
        tls_reload_context(settings, error, error_capacity, &server->tls) != KVASIR_OK) {
        goto fail;
    }
    make_run_id(server->run_id);
    raise_descriptor_limit(settings);
    if (!make_users(server, error, error_capacity) ||
        !port_is_ours(server, settings->port, error, error_capacity) ||
        !port_is_ours(server, settings->tls_port, error, error_capacity) ||
        !open_unix(server, error, error_capacity) || !load_modules(server, error, error_capacity)) {
        goto fail;
    }
    open_fabric(server);
    if (!make_memory(server, error, error_capacity)) {
        goto fail;
    }
    server->tenant_uses = make_tenant_uses(server->reactor_count);
    server->mailbox = mailbox_create(server->reactor_count);
    server->reuse = reuse_create(server->reactor_count, server->settings.maxmemory);
    if (server->mailbox == NULL || server->reuse == NULL || server->tenant_uses == NULL ||
        server->done_descriptor < 0) {
        (void)snprintf(error, error_capacity, "out of memory or file descriptors");
        goto fail;
    }
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        server->reactors[i] = reactor_create(server, i, error, error_capacity);
        if (server->reactors[i] == NULL) {
            goto fail;
        }
    }
    offer_rdma(server);
    *server_p = server;
    return KVASIR_OK;
fail:
    server_destroy(&server);
    return KVASIR_IO;
}

static void order_all(struct server *server, uint64_t order)
{
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        ssize_t written = write(server->reactors[i]->control_descriptor, &order, sizeof(order));
        check(written == (ssize_t)sizeof(order));
    }
}

/* Counts reactors that have drained until all have, or the time is up: false. */
static bool wait_drained(struct server *server, uint64_t timeout_ms, uint64_t *drained)
{
    int64_t end_us = clock_mono_us() + (int64_t)timeout_ms * 1000;
    while (*drained < server->reactor_count) {
        struct pollfd wait = {.fd = server->done_descriptor, .events = POLLIN};
        int64_t left_ms = (end_us - clock_mono_us()) / 1000;
        uint64_t count = 0;
        if (left_ms < 0 || poll(&wait, 1, (int)left_ms) <= 0) {
            return false;
        }
        if (read(server->done_descriptor, &count, sizeof(count)) == (ssize_t)sizeof(count)) {
            *drained += count;
        }
    }
    return true;
}

/* Ends the reactors: those with nothing under way at once, the others within the time given. */
static void stop_reactors(struct server *server)
{
    uint64_t drained = 0;
    order_all(server, REACTOR_ORDER_DRAIN);
    if (!wait_drained(server, server->settings.shutdown_timeout * 1000, &drained)) {
        log_warn("some requests did not end within shutdown-timeout %llu s: their connections are "
                 "closed",
                 (unsigned long long)server->settings.shutdown_timeout);
        order_all(server, REACTOR_ORDER_CLOSE);
        if (!wait_drained(server, CLOSE_TIMEOUT_MS, &drained)) {
            log_error("a reactor does not answer (DEBUG SLEEP?): the process ends without it");
            _exit(EXIT_FAILURE);
        }
    }
    order_all(server, REACTOR_ORDER_LEAVE);
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        (void)pthread_join(server->reactors[i]->thread, NULL);
    }
}

void server_run(struct server *server)
{
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        struct reactor *reactor = server->reactors[i];
        check(pthread_create(&reactor->thread, NULL, reactor_main, reactor) == 0);
        reactor->started = true;
        if (server->pinned) {
            cores_pin(reactor->thread, i, server->reactor_count);
        }
    }
    log_info("ready to serve");
    log_info("signal %s received: finishing what is under way", stop_signal_wait());
    stop_reactors(server);
    log_info("bye");
}

void server_destroy(struct server **server_p)
{
    struct server *server = *server_p;
    if (server == NULL) {
        return;
    }
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        reactor_destroy(&server->reactors[i]);
    }
    free(server->tenant_uses);
    acl_table_destroy(&server->acl);
    fabric_close(&server->fabric);
    loader_destroy(&server->modules);
    mailbox_destroy(&server->mailbox);
    tls_context_put(&server->tls);
    reuse_destroy(&server->reuse);
    pages_destroy(&server->payload);
    pages_destroy(&server->metadata);
    region_destroy(&server->payload_region);
    region_destroy(&server->metadata_region);
    if (server->unix_listener >= 0) {
        (void)close(server->unix_listener);
        (void)unlink(server->settings.unixsocket);
    }
    if (server->done_descriptor >= 0) {
        (void)close(server->done_descriptor);
    }
    free(server);
    *server_p = NULL;
}
