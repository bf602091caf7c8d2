/* main – kvasir-server: options, log, memory, reactors, and the end of all of them. */

#include "base/check.h"
#include "base/log.h"
#include "base/number.h"
#include "server/reactor.h"
#include "server/resize.h"
#include "server/server.h"
#include "server/settings.h"
#include "server/stop_signal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static void settle_signals(void)
{
    stop_signal_block();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    /* A file size limit that payload memory would exceed is an error with a message. */
    (void)signal(SIGXFSZ, SIG_IGN);
}

static const char *pages_word(enum region_pages kind)
{
    switch (kind) {
    case REGION_PAGES_SMALL:
        return "4 KiB pages (huge pages are not to be had: see vm.nr_hugepages and "
               "transparent_hugepage/shmem_enabled)";
    case REGION_PAGES_TRANSPARENT:
        return "transparent huge pages";
    case REGION_PAGES_HUGE:
        return "2 MiB huge pages";
    }
    return "?";
}

/* Whether nobody from another machine can get through to the ports. */
static bool is_local(const char *addresses)
{
    struct listener_bind binds[LISTENER_BIND_MAX];
    uint32_t count = listener_parse_bind(addresses, binds);
    bool local = true;
    for (uint32_t i = 0; i < count; i++) {
        local = local && listener_bind_is_local(&binds[i]);
    }
    return local;
}

/* Who may do something without having said who he is: requirepass, lines of user and the users' file
 * all have their word in it, so the user default himself is asked. */
static void log_access(const struct server *server)
{
    const struct settings *settings = &server->settings;
    const struct acl_user *user = acl_table_default(server->acl);
    bool open = user->enabled && user->nopass;
    log_info("clients up to %llu, users %u, password %s", (unsigned long long)settings->maxclients,
             server->acl->count,
             open ? "not required" : "required (the user default is off or has one)");
    if (open && !settings->protected_mode && !is_local(settings->bind) &&
        (server->port != 0 || settings->tls_port != 0)) {
        log_warn(
            "anyone who reaches %s port %u may act as the user default without a password: set "
            "requirepass",
            settings->bind,
            server->port != 0 ? (unsigned)server->port : (unsigned)settings->tls_port);
    }
}

/* Where maxmemory goes; the parts add up to it. */
static void log_memory(const struct server *server)
{
    const uint64_t total_bytes = server->settings.maxmemory;
    const uint64_t part_bytes[] = {
        (uint64_t)pages_present_count(server->payload) * SERVER_PAYLOAD_PAGE_BYTES,
        (uint64_t)pages_present_count(server->metadata) * SERVER_METADATA_PAGE_BYTES,
        server->buffer_chunks_max * server->reactor_count * sizeof(struct chunk),
        server->staging_bytes_max * server->reactor_count,
    };
    char parts[ARRAY_COUNT(part_bytes)][32];
    char total[32];
    char rest[32];
    uint64_t rest_bytes = total_bytes;
    for (size_t i = 0; i < ARRAY_COUNT(part_bytes); i++) {
        number_format_bytes(parts[i], sizeof(parts[i]), part_bytes[i]);
        rest_bytes -= part_bytes[i] < rest_bytes ? part_bytes[i] : rest_bytes;
    }
    number_format_bytes(total, sizeof(total), total_bytes);
    number_format_bytes(rest, sizeof(rest), rest_bytes);
    log_info("maxmemory %s: payload %s, metadata %s, buffers %s, staging areas %s, tables %s",
             total, parts[0], parts[1], parts[2], parts[3], rest);
}

/* What an operator wants to know, in a dozen lines. */
static void log_start(const struct server *server)
{
    const struct settings *settings = &server->settings;
    char value_max[32];
    number_format_bytes(value_max, sizeof(value_max), resize_value_max(server->reactors[0]));
    log_info("kvasir-server %s, process %d, run id %s", SERVER_VERSION, (int)getpid(),
             server->run_id);
    log_info("reactors %u, pinned to cores %s", server->reactor_count,
             server->pinned ? "yes" : "no");
    log_memory(server);
    log_info("payload in %s", pages_word(region_page_kind(server->payload_region)));
    log_info("maxmemory-policy %s, values up to %s", settings->maxmemory_policy, value_max);
    if (server->port != 0) {
        log_info("listening on %s port %u", settings->bind, (unsigned)server->port);
        if (settings->reactor_ports) {
            log_info("reactors' own ports %u to %u", (unsigned)server->reactors[0]->own_port,
                     (unsigned)server->reactors[server->reactor_count - 1]->own_port);
        }
    }
    if (settings->tls_port != 0) {
        log_info("listening on %s port %llu for TLS, clients' certificates: %s", settings->bind,
                 (unsigned long long)settings->tls_port, settings->tls_auth_clients);
    }
    if (settings->unixsocket[0] != '\0') {
        log_info("listening on %s, reactors' own sockets %s to .%u", settings->unixsocket,
                 server->reactors[0]->own_socket, server->reactor_count - 1);
        log_info("shared memory for clients on the Unix socket: %s", settings->shm ? "yes" : "no");
    } else {
        log_info("no unixsocket, so no shared memory for clients on this host");
    }
    log_access(server);
}

static bool write_pid_file(const char *path)
{
    FILE *file;
    if (path[0] == '\0') {
        return true;
    }
    file = fopen(path, "we");
    if (file == NULL) {
        log_error("cannot write pidfile %s: %s", path, strerror(errno));
        return false;
    }
    (void)fprintf(file, "%d\n", (int)getpid());
    return fclose(file) == 0;
}

static void remove_pid_file(const char *path)
{
    if (path[0] != '\0') {
        (void)unlink(path);
    }
}

/* The whole path, for INFO and CONFIG REWRITE; one that is too long is not remembered. */
static void note_config_file(struct server *server, const char *path)
{
    char *whole = realpath(path, NULL);
    if (whole != NULL && strlen(whole) < sizeof(server->config_file)) {
        memcpy(server->config_file, whole, strlen(whole) + 1);
    }
    free(whole);
}

static int run(const struct settings *settings, char **argv)
{
    struct server *server = NULL;
    char error[512];
    /* Before the memory, which takes its time to be touched. */
    if (!write_pid_file(settings->pidfile)) {
        return EXIT_FAILURE;
    }
    if (server_create(settings, error, sizeof(error), &server) != KVASIR_OK) {
        remove_pid_file(settings->pidfile);
        if (stop_signal_is_pending()) {
            log_info("signal %s ended the start: %s", stop_signal_wait(), error);
            return EXIT_SUCCESS;
        }
        log_error("cannot start: %s", error);
        return EXIT_FAILURE;
    }
    (void)snprintf(server->executable, sizeof(server->executable), "%.255s", argv[0]);
    if (argv[1] != NULL && strncmp(argv[1], "--", 2) != 0) {
        note_config_file(server, argv[1]);
    }
    log_start(server);
    server_run(server);
    remove_pid_file(settings->pidfile);
    server_destroy(&server);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct settings settings; /* too large for a stack frame; handed on by pointer */
    char error[512];
    int code;
    if (argc == 2 && strcmp(argv[1], "-h") == 0) {
        settings_print_usage();
        return EXIT_SUCCESS;
    }
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        settings_print_help();
        return EXIT_SUCCESS;
    }
    if (argc == 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-v") == 0)) {
        (void)printf("kvasir-server %s\n", SERVER_VERSION);
        return EXIT_SUCCESS;
    }
    settings_init(&settings);
    check(getrandom(&settings.hash_seed, sizeof(settings.hash_seed), 0) ==
          (ssize_t)sizeof(settings.hash_seed));
    if (settings_read_arguments(&settings, argc, argv, error, sizeof(error)) != KVASIR_OK ||
        settings_verify(&settings, error, sizeof(error)) != KVASIR_OK) {
        (void)fprintf(stderr, "kvasir-server: %s\n", error);
        return EXIT_FAILURE;
    }
    settle_signals();
    if (!log_setup(log_level_of(settings.loglevel), settings.logfile)) {
        (void)fprintf(stderr, "kvasir-server: cannot open logfile %s: %s\n", settings.logfile,
                      strerror(errno));
        return EXIT_FAILURE;
    }
    log_set_thread_name("main");
    code = run(&settings, argv);
    settings_fini(&settings);
    return code;
}
