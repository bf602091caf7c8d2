#include "server/info.h"

#include "base/number.h"
#include "plug/loader.h"
#include "server/conn.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LINE_BYTES_MAX 512

void info_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    struct info_facts facts = {0};
    struct shard_stats stats;
    shard_stats(reactor->shard, &stats);
    facts.payload_bytes = stats.payload_bytes;
    facts.payload_taken_bytes = stats.payload_taken_bytes;
    facts.metadata_bytes = stats.metadata_bytes;
    facts.payload_pages = stats.payload_pages;
    facts.values = stats.value_count;
    facts.orphans = stats.orphan_count;
    facts.reserved = stats.reserved_count;
    facts.leases = stats.leases;
    facts.reservations = stats.reservations;
    facts.hits = stats.hits;
    facts.misses = stats.misses;
    facts.evicted = stats.evicted;
    facts.evicted_bytes = stats.evicted_bytes;
    facts.moved_bytes = stats.moved_bytes;
    facts.drained_pages = stats.drained_pages;
    facts.expired = stats.expired;
    facts.expired_grants = stats.expired_grants;
    facts.denied_no_memory = stats.denied_no_memory;
    for (uint32_t i = 0; i < reactor->settings.databases && i < INFO_DATABASES_MAX; i++) {
        struct shard_database database;
        shard_database(reactor->shard, (uint8_t)i, &reactor->now, &database);
        facts.databases[i].keys = database.key_count;
        facts.databases[i].expiring = database.expiring_count;
        facts.databases[i].mean_ttl_ms = database.mean_ttl_ms;
    }
    if (gather_answer_add(&gather->answers[index], &facts, sizeof(facts))) {
        (void)gather_answer_add(&gather->answers[index], reactor->command_stats,
                                sizeof(*reactor->command_stats));
    }
}

/* ---- sums ---- */

struct totals {
    struct info_facts facts;
    struct command_stats *commands; /* owned by info_text */
    uint64_t counted[sizeof(struct reactor_metrics) / sizeof(struct metric)];
};

static void add_facts(struct info_facts *to, const struct info_facts *from)
{
    const size_t plain = offsetof(struct info_facts, databases) / sizeof(uint64_t);
    uint64_t sum[offsetof(struct info_facts, databases) / sizeof(uint64_t)];
    uint64_t more[offsetof(struct info_facts, databases) / sizeof(uint64_t)];
    memcpy(sum, to, sizeof(sum));
    memcpy(more, from, sizeof(more));
    for (size_t i = 0; i < plain; i++) {
        sum[i] += more[i];
    }
    memcpy(to, sum, sizeof(sum));
    for (size_t i = 0; i < INFO_DATABASES_MAX; i++) {
        uint64_t expiring = to->databases[i].expiring + from->databases[i].expiring;
        int64_t weighted = to->databases[i].mean_ttl_ms * (int64_t)to->databases[i].expiring +
                           from->databases[i].mean_ttl_ms * (int64_t)from->databases[i].expiring;
        to->databases[i].keys += from->databases[i].keys;
        to->databases[i].mean_ttl_ms = expiring > 0 ? weighted / (int64_t)expiring : 0;
        to->databases[i].expiring = expiring;
    }
}

static void add_up(struct conn *conn, const struct gather *gather, struct totals *totals)
{
    memset(totals, 0, sizeof(*totals));
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        const struct metric *metrics =
            (const struct metric *)(const void *)&conn->reactor->server->reactors[i]->metrics;
        struct info_facts facts;
        if (gather->answers[i].text_bytes >= sizeof(facts)) {
            memcpy(&facts, gather->answers[i].text, sizeof(facts));
            add_facts(&totals->facts, &facts);
        }
        for (size_t m = 0; m < ARRAY_COUNT(totals->counted); m++) {
            totals->counted[m] += metric_get(&metrics[m]);
        }
    }
}

#define COUNTED(totals, field) \
    ((totals)->counted[offsetof(struct reactor_metrics, field) / sizeof(struct metric)])

static uint64_t used_bytes(const struct totals *totals)
{
    return totals->facts.payload_taken_bytes + totals->facts.metadata_bytes +
           COUNTED(totals, chunks_taken) * sizeof(struct chunk) +
           COUNTED(totals, long_request_bytes) + COUNTED(totals, staging_bytes);
}

uint64_t info_used_bytes(struct conn *conn, const struct gather *gather)
{
    struct totals totals;
    add_up(conn, gather, &totals);
    return used_bytes(&totals);
}

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        char line[128] = "";
        char *end = NULL;
        if (fgets(line, sizeof(line), file) != NULL) {
            (void)strtoull(line, &end, 10);
            pages = strtoull(end, NULL, 10);
        }
        (void)fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- text ---- */

struct writer {
    struct conn *conn;
    const struct totals *totals;
    struct gather_answer *text;
    bool failed;
};

static void line(struct writer *writer, const char *format, ...) ATTR_PRINTF(2, 3);
static void line(struct writer *writer, const char *format, ...)
{
    char text[LINE_BYTES_MAX];
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(text, sizeof(text) - 2, format, arguments);
    va_end(arguments);
    if (length < 0) {
        return;
    }
    if ((size_t)length > sizeof(text) - 3) {
        length = (int)sizeof(text) - 3;
    }
    memcpy(text + length, "\r\n", 2);
    writer->failed = !gather_answer_add(writer->text, text, (size_t)length + 2) || writer->failed;
}

static void number(struct writer *writer, const char *name, uint64_t value)
{
    line(writer, "%s:%llu", name, (unsigned long long)value);
}

static void human(struct writer *writer, const char *name, uint64_t value)
{
    char text[32];
    number_format_bytes(text, sizeof(text), value);
    line(writer, "%s:%s", name, text);
}

static void section_server(struct writer *writer)
{
    const struct server *server = writer->conn->reactor->server;
    const struct moment *now = &writer->conn->reactor->now;
    int64_t up_s = (now->mono_us - server->start_mono_us) / 1000000;
    struct utsname machine;
    if (uname(&machine) != 0) {
        memset(&machine, 0, sizeof(machine));
    }
    line(writer, "redis_version:%s", SERVER_REDIS_VERSION);
    line(writer, "redis_git_sha1:00000000");
    line(writer, "redis_git_dirty:0");
    line(writer, "redis_build_id:0");
    line(writer, "redis_mode:standalone");
    line(writer, "os:%s %s %s", machine.sysname, machine.release, machine.machine);
    line(writer, "arch_bits:64");
    line(writer, "monotonic_clock:POSIX clock_gettime");
    line(writer, "multiplexing_api:epoll");
    line(writer, "atomicvar_api:c11-builtin");
    line(writer, "gcc_version:%d.%d.%d", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
    line(writer, "process_id:%d", (int)getpid());
    line(writer, "process_supervised:no");
    line(writer, "run_id:%s", server->run_id);
    line(writer, "tcp_port:%u", (unsigned)server->port);
    line(writer, "server_time_usec:%lld", (long long)now->wall_ms * 1000);
    line(writer, "uptime_in_seconds:%lld", (long long)up_s);
    line(writer, "uptime_in_days:%lld", (long long)(up_s / 86400));
    line(writer, "hz:100");
    line(writer, "configured_hz:100");
    line(writer, "lru_clock:%lld", (long long)(now->wall_ms / 1000 % (1 << 24)));
    line(writer, "executable:%s", server->executable);
    line(writer, "config_file:%s", server->config_file);
    line(writer, "io_threads_active:0");
    line(writer, "kvasir_version:%s", SERVER_VERSION);
    line(writer, "reactors:%u", server->reactor_count);
}

static void section_clients(struct writer *writer)
{
    number(writer, "connected_clients", COUNTED(writer->totals, connections_now));
    number(writer, "cluster_connections", 0);
    number(writer, "maxclients", writer->conn->reactor->settings.maxclients);
    number(writer, "client_recent_max_input_buffer", 0);
    number(writer, "client_recent_max_output_buffer", 0);
    number(writer, "blocked_clients", 0);
    number(writer, "tracking_clients", 0);
    number(writer, "clients_in_timeout_table", 0);
    number(writer, "shm_clients", COUNTED(writer->totals, shm_clients));
}

static void section_memory(struct writer *writer)
{
    const struct totals *totals = writer->totals;
    const struct server *server = writer->conn->reactor->server;
    uint64_t used = used_bytes(totals);
    uint64_t resident = resident_bytes();
    uint32_t present = pages_present_count(server->payload);
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    number(writer, "used_memory", used);
    human(writer, "used_memory_human", used);
    number(writer, "used_memory_rss", resident);
    human(writer, "used_memory_rss_human", resident);
    number(writer, "used_memory_peak", used);
    human(writer, "used_memory_peak_human", used);
    number(writer, "used_memory_overhead", totals->facts.metadata_bytes);
    number(writer, "used_memory_dataset", totals->facts.payload_bytes);
    number(writer, "total_system_memory", total);
    human(writer, "total_system_memory_human", total);
    number(writer, "maxmemory", writer->conn->reactor->settings.maxmemory);
    human(writer, "maxmemory_human", writer->conn->reactor->settings.maxmemory);
    line(writer, "maxmemory_policy:%s", writer->conn->reactor->settings.maxmemory_policy);
    /* Payload memory is resident from the start, full or not: what rounding and packing cost says
     * more than resident size over used. */
    line(writer, "mem_fragmentation_ratio:%.2f",
         totals->facts.payload_bytes > 0
             ? (double)totals->facts.payload_taken_bytes / (double)totals->facts.payload_bytes
             : 1.0);
    line(writer, "mem_allocator:kvasir-pages");
    number(writer, "lazyfree_pending_objects", 0);
    number(writer, "payload_region_bytes", (uint64_t)present * pages_page_bytes(server->payload));
    number(writer, "payload_reserved_bytes", region_size_bytes(server->payload_region));
    number(writer, "payload_unreleased_bytes",
           (uint64_t)pages_unreleased_count(server->payload) * pages_page_bytes(server->payload));
    number(writer, "payload_live_bytes", totals->facts.payload_bytes);
    number(writer, "payload_taken_bytes", totals->facts.payload_taken_bytes);
    number(writer, "payload_pages", totals->facts.payload_pages);
    number(writer, "payload_pages_total", present);
    number(writer, "payload_pages_free", pages_free_count(server->payload));
    number(writer, "payload_moved_bytes", totals->facts.moved_bytes);
    number(writer, "payload_drained_pages", totals->facts.drained_pages);
    number(writer, "payload_evicted_bytes", totals->facts.evicted_bytes);
    number(writer, "metadata_bytes", totals->facts.metadata_bytes);
    number(writer, "metadata_region_bytes",
           (uint64_t)pages_present_count(server->metadata) * SERVER_METADATA_PAGE_BYTES);
    number(writer, "buffer_bytes",
           COUNTED(totals, chunks_taken) * sizeof(struct chunk) +
               COUNTED(totals, long_request_bytes));
    number(writer, "staging_bytes", COUNTED(totals, staging_bytes));
}

static void section_persistence(struct writer *writer)
{
    number(writer, "loading", 0);
    number(writer, "async_loading", 0);
    number(writer, "rdb_changes_since_last_save", 0);
    number(writer, "rdb_bgsave_in_progress", 0);
    number(writer, "rdb_last_save_time",
           (uint64_t)writer->conn->reactor->server->start_wall_ms / 1000);
    line(writer, "rdb_last_bgsave_status:ok");
    number(writer, "aof_enabled", 0);
    number(writer, "aof_rewrite_in_progress", 0);
}

static void section_stats(struct writer *writer)
{
    const struct totals *totals = writer->totals;
    number(writer, "total_connections_received", COUNTED(totals, connections_total));
    number(writer, "total_commands_processed", COUNTED(totals, commands));
    number(writer, "total_net_input_bytes", COUNTED(totals, bytes_in));
    number(writer, "total_net_output_bytes", COUNTED(totals, bytes_out));
    number(writer, "rejected_connections", COUNTED(totals, connections_rejected));
    number(writer, "expired_keys", totals->facts.expired);
    number(writer, "evicted_keys", totals->facts.evicted);
    number(writer, "evicted_clients", COUNTED(totals, output_limit_closed));
    number(writer, "keyspace_hits", totals->facts.hits);
    number(writer, "keyspace_misses", totals->facts.misses);
    number(writer, "pubsub_channels", 0);
    number(writer, "pubsub_patterns", 0);
    number(writer, "latest_fork_usec", 0);
    number(writer, "total_error_replies", totals->commands->errors_total);
    number(writer, "protocol_errors", COUNTED(totals, protocol_errors));
    number(writer, "timeout_closed", COUNTED(totals, timeout_closed));
    number(writer, "uploads_under_way_bytes",
           COUNTED(totals, uploads_short_bytes) + COUNTED(totals, uploads_long_bytes));
    number(writer, "upload_bytes", COUNTED(totals, upload_bytes));
    number(writer, "copied_bytes", COUNTED(totals, copied_bytes));
    number(writer, "values", totals->facts.values);
    number(writer, "orphan_values", totals->facts.orphans);
    number(writer, "reserved_values", totals->facts.reserved);
    number(writer, "leases", totals->facts.leases);
    number(writer, "reservations", totals->facts.reservations);
    number(writer, "expired_grants", totals->facts.expired_grants);
    number(writer, "denied_no_memory", totals->facts.denied_no_memory);
    number(writer, "shard_hops", COUNTED(totals, hops));
    number(writer, "shard_borrows", COUNTED(totals, borrows));
    number(writer, "pages_balanced", COUNTED(writer->totals, pages_balanced));
    number(writer, "page_retries", COUNTED(totals, retries_for_pages));
    number(writer, "reactor_turns", COUNTED(totals, turns));
}

static void section_replication(struct writer *writer)
{
    line(writer, "role:master");
    number(writer, "connected_slaves", 0);
    line(writer, "master_failover_state:no-failover");
    line(writer, "master_replid:%s", writer->conn->reactor->server->run_id);
    line(writer, "master_replid2:0000000000000000000000000000000000000000");
    number(writer, "master_repl_offset", 0);
    line(writer, "second_repl_offset:-1");
    number(writer, "repl_backlog_active", 0);
    number(writer, "repl_backlog_size", 0);
    number(writer, "repl_backlog_first_byte_offset", 0);
    number(writer, "repl_backlog_histlen", 0);
}

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static void section_cpu(struct writer *writer)
{
    struct rusage self;
    if (getrusage(RUSAGE_SELF, &self) == 0) {
        line(writer, "used_cpu_sys:%f", seconds_of(&self.ru_stime));
        line(writer, "used_cpu_user:%f", seconds_of(&self.ru_utime));
        line(writer, "used_cpu_sys_children:0.000000");
        line(writer, "used_cpu_user_children:0.000000");
    }
}

static void section_modules(struct writer *writer)
{
    const struct loader *modules = writer->conn->reactor->server->modules;
    for (unsigned i = 0; i < loader_count(modules); i++) {
        struct loader_module module = loader_module(modules, i);
        line(writer, "module:name=%s,ver=%u,api=%u,filters=0,usedby=[],using=[],options=[]",
             module.name, (unsigned)module.version, KVASIR_MODULE_ABI_VERSION);
    }
}

static void section_commandstats(struct writer *writer)
{
    for (int id = 0; id < COMMAND_COUNT; id++) {
        const struct command_stat *stat = &writer->totals->commands->commands[id];
        if (stat->calls + stat->rejected > 0) {
            double usec = (double)stat->nanoseconds / 1000;
            line(writer,
                 "cmdstat_%s:calls=%llu,usec=%.0f,usec_per_call=%.2f,rejected_calls=%llu,"
                 "failed_calls=%llu",
                 command_by_id((enum command_id)id)->name, (unsigned long long)stat->calls, usec,
                 stat->calls > 0 ? usec / (double)stat->calls : 0,
                 (unsigned long long)stat->rejected, (unsigned long long)stat->failed);
        }
    }
}

static void section_errorstats(struct writer *writer)
{
    const struct command_stats *stats = writer->totals->commands;
    for (size_t i = 0; i < COMMAND_STATS_ERRORS && stats->errors[i].name[0] != '\0'; i++) {
        line(writer, "errorstat_%s:count=%llu", stats->errors[i].name,
             (unsigned long long)stats->errors[i].count);
    }
}

static void section_latencystats(struct writer *writer)
{
    for (int id = 0; id < COMMAND_COUNT; id++) {
        const struct command_stat *stat = &writer->totals->commands->commands[id];
        if (stat->calls > 0) {
            line(writer, "latency_percentiles_usec_%s:p50=%.3f,p99=%.3f,p99.9=%.3f",
                 command_by_id((enum command_id)id)->name, command_stats_percentile(stat, 50000),
                 command_stats_percentile(stat, 99000), command_stats_percentile(stat, 99900));
        }
    }
}

static void section_cluster(struct writer *writer)
{
    number(writer, "cluster_enabled", 0);
}

static void section_keyspace(struct writer *writer)
{
    for (unsigned i = 0; i < INFO_DATABASES_MAX; i++) {
        uint64_t keys = writer->totals->facts.databases[i].keys;
        if (keys > 0) {
            line(writer, "db%u:keys=%llu,expires=%llu,avg_ttl=%lld", i, (unsigned long long)keys,
                 (unsigned long long)writer->totals->facts.databases[i].expiring,
                 (long long)writer->totals->facts.databases[i].mean_ttl_ms);
        }
    }
}

static const struct section {
    const char *title;
    bool by_default;
    void (*write)(struct writer *writer);
} SECTIONS[] = {
    {"Server", true, section_server},
    {"Clients", true, section_clients},
    {"Memory", true, section_memory},
    {"Persistence", true, section_persistence},
    {"Stats", true, section_stats},
    {"Replication", true, section_replication},
    {"CPU", true, section_cpu},
    {"Modules", true, section_modules},
    {"Commandstats", false, section_commandstats},
    {"Errorstats", true, section_errorstats},
    {"Latencystats", false, section_latencystats},
    {"Cluster", true, section_cluster},
    {"Keyspace", true, section_keyspace},
};

static bool wanted(const struct section *section, const struct slice *names, uint32_t count)
{
    if (count == 0) {
        return section->by_default;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (slice_equal_nocase(names[i], section->title) || slice_equal_nocase(names[i], "all") ||
            slice_equal_nocase(names[i], "everything") ||
            (section->by_default && slice_equal_nocase(names[i], "default"))) {
            return true;
        }
    }
    return false;
}

/* What all reactors counted of commands; NULL: no memory. */
static struct command_stats *sum_commands(const struct gather *gather)
{
    struct command_stats *sum = calloc(1, sizeof(*sum));
    for (uint32_t i = 0; sum != NULL && i < gather->reactor_count; i++) {
        const struct gather_answer *answer = &gather->answers[i];
        if (answer->text_bytes == sizeof(struct info_facts) + sizeof(*sum)) {
            command_stats_add(
                sum, (const struct command_stats *)(const void *)(answer->text +
                                                                  sizeof(struct info_facts)));
        }
    }
    return sum;
}

bool info_text(struct conn *conn, const struct gather *gather, const struct slice *sections,
               uint32_t section_count, struct gather_answer *text)
{
    struct totals totals;
    struct writer writer = {.conn = conn, .totals = &totals, .text = text};
    bool first = true;
    add_up(conn, gather, &totals);
    totals.commands = sum_commands(gather);
    if (totals.commands == NULL) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_COUNT(SECTIONS); i++) {
        if (!wanted(&SECTIONS[i], sections, section_count)) {
            continue;
        }
        if (!first) {
            writer.failed = !gather_answer_add(text, "\r\n", 2) || writer.failed;
        }
        first = false;
        line(&writer, "# %s", SECTIONS[i].title);
        SECTIONS[i].write(&writer);
    }
    free(totals.commands);
    return !writer.failed;
}
