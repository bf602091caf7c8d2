#include "server/info.h"

#include "base/copy.h"
#include "plug/loader.h"
#include "server/conn.h"
#include "server/info_channels.h"
#include "server/info_commands.h"
#include "server/info_writer.h"
#include "server/tenants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

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
    facts.expiring = stats.expiring_count;
    facts.stale_ppm = stats.stale_ppm * stats.expiring_count;
    for (uint32_t i = 0; i < reactor->settings.databases && i < INFO_DATABASES_MAX; i++) {
        struct shard_database database;
        shard_database(reactor->shard, database_map_place(&reactor->server->databases, (uint8_t)i),
                       &reactor->now, &database);
        facts.databases[i].keys = database.key_count;
        facts.databases[i].expiring = database.expiring_count;
        facts.databases[i].mean_ttl_ms = database.mean_ttl_ms;
    }
    facts.copied_bytes = copy_payload_bytes() - reactor->copied_bytes_at_reset;
    struct tenants_facts tenants;
    tenants_tell(reactor->shard, &tenants);
    if (gather_answer_add(&gather->answers[index], &facts, sizeof(facts)) &&
        gather_answer_add(&gather->answers[index], reactor->command_stats,
                          sizeof(*reactor->command_stats)) &&
        gather_answer_add(&gather->answers[index], &tenants, sizeof(tenants))) {
        info_channels_add(&gather->answers[index], &reactor->pubsub);
    }
}

/* ---- sums ---- */

struct totals {
    struct info_facts facts;
    struct command_stats *commands; /* owned by info_text */
    uint64_t counted[sizeof(struct reactor_metrics) / sizeof(struct metric)];
    uint64_t channels[PUBSUB_KIND_COUNT];
    struct traffic_sums traffic;
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
        traffic_add_up(&conn->reactor->server->reactors[i]->metrics.traffic, &totals->traffic);
        for (size_t m = 0; m < ARRAY_COUNT(totals->counted); m++) {
            totals->counted[m] += metric_get(&metrics[m]);
        }
    }
}

#define COUNTED(totals, field) \
    ((totals)->counted[offsetof(struct reactor_metrics, field) / sizeof(struct metric)])

/* The largest of the reactors' numbers, where a sum would say nothing. */
static uint64_t largest(const struct info_writer *writer, size_t offset)
{
    const struct server *server = writer->conn->reactor->server;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        const uint8_t *metrics = (const uint8_t *)&server->reactors[i]->metrics;
        uint64_t value = metric_get((const struct metric *)(const void *)(metrics + offset));
        largest = value > largest ? value : largest;
    }
    return largest;
}

static uint64_t buffer_bytes(const struct totals *totals)
{
    return COUNTED(totals, chunks_taken) * sizeof(struct chunk) +
           COUNTED(totals, long_request_bytes);
}

/* Of connections: themselves, and what they sent or have to get. */
static uint64_t client_bytes(const struct totals *totals)
{
    return COUNTED(totals, connections_now) * sizeof(struct conn) + buffer_bytes(totals) +
           COUNTED(totals, tls_bytes);
}

/* All that the process holds but code and stacks: regions, their tables, and the heap. */
static uint64_t used_bytes(const struct server *server, const struct totals *totals)
{
    return totals->facts.payload_taken_bytes + totals->facts.metadata_bytes +
           COUNTED(totals, staging_bytes) + info_table_bytes(server) +
           info_heap_bytes(client_bytes(totals) + COUNTED(totals, events_bytes));
}

static struct info_memory memory_of(const struct conn *conn, const struct totals *totals)
{
    uint64_t sampled = metric_get(&conn->reactor->server->reactors[0]->metrics.used_peak_bytes);
    struct info_memory memory = {.used_bytes = used_bytes(conn->reactor->server, totals),
                                 .resident_bytes = info_resident_bytes(),
                                 .live_bytes = totals->facts.payload_bytes,
                                 .taken_bytes = totals->facts.payload_taken_bytes,
                                 .metadata_bytes = totals->facts.metadata_bytes,
                                 .buffer_bytes = buffer_bytes(totals),
                                 .evicted_count = totals->facts.evicted,
                                 .refused_count = totals->facts.denied_no_memory};
    memory.peak_bytes = sampled > memory.used_bytes ? sampled : memory.used_bytes;
    for (size_t i = 0; i < INFO_DATABASES_MAX; i++) {
        memory.keys[i] = totals->facts.databases[i].keys;
    }
    return memory;
}

void info_memory(struct conn *conn, const struct gather *gather, struct info_memory *memory_p)
{
    struct totals totals;
    add_up(conn, gather, &totals);
    *memory_p = memory_of(conn, &totals);
}

/* ---- text ---- */

static void section_server(struct info_writer *writer)
{
    const struct server *server = writer->conn->reactor->server;
    const struct moment *now = &writer->conn->reactor->now;
    int64_t up_s = (now->mono_us - server->start_mono_us) / 1000000;
    struct utsname machine = {0};
    (void)uname(&machine); /* fails into empty words */
    info_line(writer, "redis_version:%s", SERVER_REDIS_VERSION);
    info_line(writer, "redis_git_sha1:00000000");
    info_line(writer, "redis_git_dirty:0");
    info_line(writer, "redis_build_id:0");
    info_line(writer, "redis_mode:standalone");
    info_line(writer, "os:%s %s %s", machine.sysname, machine.release, machine.machine);
    info_line(writer, "arch_bits:64");
    info_line(writer, "monotonic_clock:POSIX clock_gettime");
    info_line(writer, "multiplexing_api:epoll");
    info_line(writer, "atomicvar_api:c11-builtin");
    info_line(writer, "gcc_version:%d.%d.%d", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
    info_line(writer, "process_id:%d", (int)getpid());
    info_line(writer, "process_supervised:no");
    info_line(writer, "run_id:%s", server->run_id);
    info_line(writer, "tcp_port:%u",
              server->port != 0 ? (unsigned)server->port : (unsigned)server->settings.tls_port);
    info_line(writer, "server_time_usec:%lld", (long long)now->wall_ms * 1000);
    info_line(writer, "uptime_in_seconds:%lld", (long long)up_s);
    info_line(writer, "uptime_in_days:%lld", (long long)(up_s / 86400));
    info_line(writer, "hz:100");
    info_line(writer, "configured_hz:100");
    info_line(writer, "lru_clock:%lld", (long long)(now->wall_ms / 1000 % (1 << 24)));
    info_line(writer, "executable:%s", server->executable);
    info_line(writer, "config_file:%s", server->config_file);
    info_line(writer, "io_threads_active:0");
    info_line(writer, "kvasir_version:%s", SERVER_VERSION);
    info_line(writer, "reactors:%u", server->reactor_count);
    info_line(writer, "tls_port:%u", (unsigned)server->settings.tls_port);
}

static void section_clients(struct info_writer *writer)
{
    info_number(writer, "connected_clients", COUNTED(writer->totals, connections_now));
    info_number(writer, "cluster_connections", 0);
    info_number(writer, "maxclients", writer->conn->reactor->settings.maxclients);
    info_number(writer, "client_recent_max_input_buffer",
                largest(writer, offsetof(struct reactor_metrics, input_bytes_max)));
    info_number(writer, "client_recent_max_output_buffer",
                largest(writer, offsetof(struct reactor_metrics, output_bytes_max)));
    info_number(writer, "blocked_clients",
                COUNTED(writer->totals, conns_waiting) + COUNTED(writer->totals, paused_clients));
    info_number(writer, "tracking_clients", 0);
    info_number(writer, "clients_in_timeout_table", 0);
    info_number(writer, "tls_clients", COUNTED(writer->totals, tls_clients));
    info_number(writer, "shm_clients", COUNTED(writer->totals, shm_clients));
    info_number(writer, "rdma_clients", COUNTED(writer->totals, rdma_clients));
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

static void section_memory_ratios(struct info_writer *writer, uint64_t used, uint64_t resident)
{
    const struct totals *totals = writer->totals;
    uint64_t live = totals->facts.payload_bytes;
    info_line(writer, "allocator_frag_ratio:%.2f",
              ratio(used, live + totals->facts.metadata_bytes));
    info_number(writer, "allocator_frag_bytes", used - live - totals->facts.metadata_bytes);
    info_line(writer, "allocator_rss_ratio:%.2f", ratio(resident, used));
    info_line(writer, "allocator_rss_bytes:%lld", (long long)(resident - used));
    info_line(writer, "rss_overhead_ratio:1.00");
    info_zeros(writer, "rss_overhead_bytes");
    /* As in Redis. Payload memory is resident from the start, full or not: what rounding and packing
     * cost is payload_taken_bytes over payload_live_bytes. */
    info_line(writer, "mem_fragmentation_ratio:%.2f", ratio(resident, used));
    info_line(writer, "mem_fragmentation_bytes:%lld", (long long)(resident - used));
    info_zeros(writer, "mem_not_counted_for_evict mem_replication_backlog "
                       "mem_total_replication_buffers mem_clients_slaves");
    info_number(writer, "mem_clients_normal", client_bytes(totals));
    info_zeros(writer, "mem_cluster_links mem_aof_buffer");
    info_line(writer, "mem_allocator:kvasir-pages");
    info_zeros(writer, "active_defrag_running lazyfree_pending_objects lazyfreed_objects");
}

static void section_memory(struct info_writer *writer)
{
    struct info_memory memory = memory_of(writer->conn, writer->totals);
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    info_number(writer, "used_memory", memory.used_bytes);
    info_human(writer, "used_memory_human", memory.used_bytes);
    info_number(writer, "used_memory_rss", memory.resident_bytes);
    info_human(writer, "used_memory_rss_human", memory.resident_bytes);
    info_number(writer, "used_memory_peak", memory.peak_bytes);
    info_human(writer, "used_memory_peak_human", memory.peak_bytes);
    info_line(writer, "used_memory_peak_perc:%.2f%%",
              ratio(memory.used_bytes, memory.peak_bytes) * 100);
    info_number(writer, "used_memory_overhead", memory.used_bytes - memory.live_bytes);
    info_number(writer, "used_memory_startup", 0);
    info_number(writer, "used_memory_dataset", memory.live_bytes);
    info_line(writer, "used_memory_dataset_perc:%.2f%%",
              ratio(memory.live_bytes, memory.used_bytes) * 100);
    info_number(writer, "allocator_allocated", memory.live_bytes + memory.metadata_bytes);
    info_number(writer, "allocator_active", memory.used_bytes);
    info_number(writer, "allocator_resident", memory.resident_bytes);
    info_number(writer, "total_system_memory", total);
    info_human(writer, "total_system_memory_human", total);
    info_zeros(writer, "used_memory_lua used_memory_vm_eval");
    info_human(writer, "used_memory_lua_human", 0);
    info_zeros(writer, "used_memory_scripts_eval number_of_cached_scripts number_of_functions "
                       "number_of_libraries used_memory_vm_functions used_memory_vm_total");
    info_human(writer, "used_memory_vm_total_human", 0);
    info_zeros(writer, "used_memory_functions used_memory_scripts");
    info_human(writer, "used_memory_scripts_human", 0);
    info_number(writer, "maxmemory", writer->conn->reactor->settings.maxmemory);
    info_human(writer, "maxmemory_human", writer->conn->reactor->settings.maxmemory);
    info_line(writer, "maxmemory_policy:%s", writer->conn->reactor->settings.maxmemory_policy);
    section_memory_ratios(writer, memory.used_bytes, memory.resident_bytes);
}

static void section_memory_own(struct info_writer *writer)
{
    const struct totals *totals = writer->totals;
    const struct server *server = writer->conn->reactor->server;
    uint32_t present = pages_present_count(server->payload);
    info_number(writer, "payload_region_bytes", (uint64_t)present * SERVER_PAYLOAD_PAGE_BYTES);
    info_number(writer, "payload_reserved_bytes", region_size_bytes(server->payload_region));
    info_number(writer, "payload_unreleased_bytes",
                (uint64_t)pages_unreleased_count(server->payload) * SERVER_PAYLOAD_PAGE_BYTES);
    info_number(writer, "payload_live_bytes", totals->facts.payload_bytes);
    info_number(writer, "payload_taken_bytes", totals->facts.payload_taken_bytes);
    info_number(writer, "payload_pages", totals->facts.payload_pages);
    info_number(writer, "payload_pages_total", present);
    info_number(writer, "payload_pages_free", pages_free_count(server->payload));
    info_number(writer, "payload_moved_bytes", totals->facts.moved_bytes);
    info_number(writer, "payload_drained_pages", totals->facts.drained_pages);
    info_number(writer, "payload_evicted_bytes", totals->facts.evicted_bytes);
    info_number(writer, "metadata_bytes", totals->facts.metadata_bytes);
    info_number(writer, "metadata_region_bytes",
                (uint64_t)pages_present_count(server->metadata) * SERVER_METADATA_PAGE_BYTES);
    info_number(writer, "buffer_bytes", buffer_bytes(totals));
    info_number(writer, "tls_bytes", COUNTED(totals, tls_bytes));
    info_number(writer, "staging_bytes", COUNTED(totals, staging_bytes));
    info_number(writer, "events_bytes", COUNTED(totals, events_bytes));
    info_number(writer, "heap_bytes", info_heap_bytes(0));
}

static void section_persistence(struct info_writer *writer)
{
    info_zeros(writer, "loading async_loading current_cow_peak current_cow_size "
                       "current_cow_size_age");
    info_line(writer, "current_fork_perc:0.00");
    info_zeros(writer, "current_save_keys_processed current_save_keys_total "
                       "rdb_changes_since_last_save rdb_bgsave_in_progress");
    info_number(writer, "rdb_last_save_time",
                (uint64_t)writer->conn->reactor->server->start_wall_ms / 1000);
    info_line(writer, "rdb_last_bgsave_status:ok");
    info_line(writer, "rdb_last_bgsave_time_sec:-1");
    info_line(writer, "rdb_current_bgsave_time_sec:-1");
    info_zeros(writer, "rdb_saves rdb_last_cow_size rdb_last_load_keys_expired "
                       "rdb_last_load_keys_loaded aof_enabled aof_rewrite_in_progress "
                       "aof_rewrite_scheduled");
    info_line(writer, "aof_last_rewrite_time_sec:-1");
    info_line(writer, "aof_current_rewrite_time_sec:-1");
    info_line(writer, "aof_last_bgrewrite_status:ok");
    info_zeros(writer, "aof_rewrites aof_rewrites_consecutive_failures");
    info_line(writer, "aof_last_write_status:ok");
    info_zeros(writer, "aof_last_cow_size module_fork_in_progress module_fork_last_cow_size");
}

static void section_stats(struct info_writer *writer)
{
    const struct totals *totals = writer->totals;
    info_number(writer, "total_connections_received", COUNTED(totals, connections_total));
    info_number(writer, "total_commands_processed", totals->traffic.commands);
    info_number(writer, "instantaneous_ops_per_sec", COUNTED(totals, commands_rate));
    info_number(writer, "total_net_input_bytes", totals->traffic.bytes_in);
    info_number(writer, "total_net_output_bytes", totals->traffic.bytes_out);
    info_zeros(writer, "total_net_repl_input_bytes total_net_repl_output_bytes");
    info_line(writer, "instantaneous_input_kbps:%.2f",
              (double)COUNTED(totals, bytes_in_rate) / 1024);
    info_line(writer, "instantaneous_output_kbps:%.2f",
              (double)COUNTED(totals, bytes_out_rate) / 1024);
    info_line(writer, "instantaneous_input_repl_kbps:0.00");
    info_line(writer, "instantaneous_output_repl_kbps:0.00");
    info_number(writer, "rejected_connections", COUNTED(totals, connections_rejected));
    info_zeros(writer, "sync_full sync_partial_ok sync_partial_err");
    info_number(writer, "expired_keys", totals->facts.expired);
    info_line(writer, "expired_stale_perc:%.2f",
              ratio(totals->facts.stale_ppm, totals->facts.expiring) / 10000);
    info_number(writer, "expired_time_cap_reached_count", COUNTED(totals, expire_cut_short));
    info_number(writer, "expire_cycle_cpu_milliseconds", COUNTED(totals, expire_us) / 1000);
    info_number(writer, "evicted_keys", totals->facts.evicted);
    info_number(writer, "evicted_clients", COUNTED(totals, output_limit_closed));
    info_number(writer, "total_eviction_exceeded_time", COUNTED(totals, exceeded_us) / 1000);
    info_number(writer, "current_eviction_exceeded_time", COUNTED(totals, exceeded_now_us) / 1000);
    info_number(writer, "keyspace_hits", totals->facts.hits);
    info_number(writer, "keyspace_misses", totals->facts.misses);
    info_number(writer, "pubsub_channels", totals->channels[PUBSUB_CHANNEL]);
    info_number(writer, "pubsub_patterns", totals->channels[PUBSUB_PATTERN]);
    info_number(writer, "pubsubshard_channels", totals->channels[PUBSUB_SHARD_CHANNEL]);
    info_zeros(writer,
               "latest_fork_usec total_forks migrate_cached_sockets slave_expires_tracked_keys "
               "active_defrag_hits active_defrag_misses active_defrag_key_hits "
               "active_defrag_key_misses total_active_defrag_time "
               "current_active_defrag_time tracking_total_keys tracking_total_items "
               "tracking_total_prefixes unexpected_error_replies");
    info_number(writer, "total_error_replies", totals->commands->errors_total);
    info_zeros(writer, "dump_payload_sanitizations io_threaded_reads_processed "
                       "io_threaded_writes_processed reply_buffer_shrinks reply_buffer_expands");
}

static void section_stats_own(struct info_writer *writer)
{
    const struct totals *totals = writer->totals;
    info_number(writer, "acl_access_denied_auth", COUNTED(totals, acl_denied[ACL_DENIED_AUTH]));
    info_number(writer, "acl_access_denied_cmd", COUNTED(totals, acl_denied[ACL_DENIED_COMMAND]));
    info_number(writer, "acl_access_denied_key", COUNTED(totals, acl_denied[ACL_DENIED_KEY]));
    info_number(writer, "acl_access_denied_channel",
                COUNTED(totals, acl_denied[ACL_DENIED_CHANNEL]));
    info_number(writer, "protocol_errors", COUNTED(totals, protocol_errors));
    info_number(writer, "tls_handshakes", COUNTED(totals, tls_handshakes));
    info_number(writer, "tls_handshake_failures", COUNTED(totals, tls_handshake_failures));
    info_number(writer, "timeout_closed", COUNTED(totals, timeout_closed));
    info_number(writer, "uploads_under_way_bytes",
                COUNTED(totals, uploads_short_bytes) + COUNTED(totals, uploads_long_bytes));
    info_number(writer, "upload_bytes", COUNTED(totals, upload_bytes));
    info_number(writer, "copied_bytes", totals->facts.copied_bytes);
    info_number(writer, "values", totals->facts.values);
    info_number(writer, "orphan_values", totals->facts.orphans);
    info_number(writer, "reserved_values", totals->facts.reserved);
    info_number(writer, "leases", totals->facts.leases);
    info_number(writer, "reservations", totals->facts.reservations);
    info_number(writer, "expired_grants", totals->facts.expired_grants);
    info_number(writer, "denied_no_memory", totals->facts.denied_no_memory);
    info_number(writer, "shard_hops", COUNTED(totals, hops));
    info_number(writer, "shard_borrows", COUNTED(totals, borrows));
    info_number(writer, "pages_balanced", COUNTED(writer->totals, pages_balanced));
    info_number(writer, "page_retries", COUNTED(totals, retries_for_pages));
    info_number(writer, "reactor_turns", COUNTED(totals, turns));
}

static void section_replication(struct info_writer *writer)
{
    info_line(writer, "role:master");
    info_number(writer, "connected_slaves", 0);
    info_line(writer, "master_failover_state:no-failover");
    info_line(writer, "master_replid:%s", writer->conn->reactor->server->run_id);
    info_line(writer, "master_replid2:0000000000000000000000000000000000000000");
    info_number(writer, "master_repl_offset", 0);
    info_line(writer, "second_repl_offset:-1");
    info_number(writer, "repl_backlog_active", 0);
    info_number(writer, "repl_backlog_size", 0);
    info_number(writer, "repl_backlog_first_byte_offset", 0);
    info_number(writer, "repl_backlog_histlen", 0);
}

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static void section_cpu(struct info_writer *writer)
{
    struct rusage self;
    if (getrusage(RUSAGE_SELF, &self) == 0) {
        info_line(writer, "used_cpu_sys:%f", seconds_of(&self.ru_stime));
        info_line(writer, "used_cpu_user:%f", seconds_of(&self.ru_utime));
        info_line(writer, "used_cpu_sys_children:0.000000");
        info_line(writer, "used_cpu_user_children:0.000000");
    }
}

static void section_modules(struct info_writer *writer)
{
    const struct loader *modules = writer->conn->reactor->server->modules;
    for (unsigned i = 0; i < loader_count(modules); i++) {
        struct loader_module module = loader_module(modules, i);
        info_line(writer, "module:name=%s,ver=%u,api=%u,filters=0,usedby=[],using=[],options=[]",
                  module.name, (unsigned)module.version, KVASIR_MODULE_ABI_VERSION);
    }
}

static void section_cluster(struct info_writer *writer)
{
    info_number(writer, "cluster_enabled", 0);
}

static void section_keyspace(struct info_writer *writer)
{
    for (unsigned i = 0; i < INFO_DATABASES_MAX; i++) {
        uint64_t keys = writer->totals->facts.databases[i].keys;
        if (keys > 0) {
            info_line(writer, "db%u:keys=%llu,expires=%llu,avg_ttl=%lld", i,
                      (unsigned long long)keys,
                      (unsigned long long)writer->totals->facts.databases[i].expiring,
                      (long long)writer->totals->facts.databases[i].mean_ttl_ms);
        }
    }
}

static const struct section {
    const char *title;
    bool by_default;
    void (*write)(struct info_writer *writer);
    void (*write_own)(struct info_writer *writer); /* fields that Redis does not have, or NULL */
} SECTIONS[] = {
    {"Server", true, section_server, NULL},
    {"Clients", true, section_clients, NULL},
    {"Memory", true, section_memory, section_memory_own},
    {"Persistence", true, section_persistence, NULL},
    {"Stats", true, section_stats, section_stats_own},
    {"Replication", true, section_replication, NULL},
    {"CPU", true, section_cpu, NULL},
    {"Modules", true, section_modules, NULL},
    {"Commandstats", false, info_commands_write, NULL},
    {"Errorstats", true, info_commands_write_errors, NULL},
    {"Latencystats", false, info_commands_write_latency, NULL},
    {"Cluster", true, section_cluster, NULL},
    {"Keyspace", true, section_keyspace, NULL},
    {"Transports", true, traffic_write, NULL},
    {"Tenants", true, tenants_write, NULL},
};

static bool wanted(const struct section *section, const struct slice *names, uint32_t count)
{
    if (count == 0) {
        return section->by_default;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (slice_equal_nocase(names[i], section->title) ||
            (slice_equal_nocase(names[i], "all") && strcmp(section->title, "Modules") != 0) ||
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
        if (answer->text_bytes >= sizeof(struct info_facts) + sizeof(*sum)) {
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
    struct info_writer writer = {.conn = conn, .totals = &totals, .gather = gather, .text = text};
    bool first = true;
    add_up(conn, gather, &totals);
    totals.commands = sum_commands(gather);
    writer.commands = totals.commands;
    if (totals.commands == NULL ||
        !info_channels_count(gather, INFO_CHANNELS_AT, totals.channels)) {
        free(totals.commands);
        return false;
    }
    for (size_t i = 0; i < ARRAY_COUNT(SECTIONS); i++) {
        if (!wanted(&SECTIONS[i], sections, section_count) ||
            (SECTIONS[i].write == tenants_write &&
             shard_tenants(conn->reactor->shard)->count == 0)) {
            continue;
        }
        if (!first) {
            writer.failed = !gather_answer_add(text, "\r\n", 2) || writer.failed;
        }
        first = false;
        info_line(&writer, "# %s", SECTIONS[i].title);
        SECTIONS[i].write(&writer);
        if (SECTIONS[i].write_own != NULL) {
            SECTIONS[i].write_own(&writer);
        }
    }
    free(totals.commands);
    return !writer.failed;
}
