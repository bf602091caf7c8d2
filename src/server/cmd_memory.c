#include "server/cmd_memory.h"

#include "base/check.h"
#include "server/gather.h"
#include "server/info.h"
#include "server/reply.h"
#include "store/value.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>

/* Pairs of the reply to MEMORY STATS: Redis's but for those of databases, and ours. */
#define REDIS_PAIRS 27U
#define OWN_PAIRS   5U

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

static void stats_zeros(struct conn *conn)
{
    static const char *const names[] = {"startup.allocated", "replication.backlog",
                                        "clients.slaves"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        reply_pair_integer(conn, names[i], 0);
    }
}

/* What a database's keys take but for their own bytes; when they expire stands in the same place. */
static void stats_databases(struct conn *conn, const struct info_memory *memory)
{
    for (unsigned i = 0; i < INFO_DATABASES_MAX; i++) {
        char name[16];
        if (memory->keys[i] == 0) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "db.%u", i);
        reply_text(conn, name);
        reply_map(conn, 3);
        reply_pair_integer(conn, "overhead.hashtable.main", memory->keys[i] * value_bytes(0));
        reply_pair_integer(conn, "overhead.hashtable.expires", 0);
        reply_pair_integer(conn, "overhead.hashtable.slot-to-keys", 0);
    }
}

static void stats_dataset(struct conn *conn, const struct info_memory *memory, uint64_t key_count)
{
    reply_pair_integer(conn, "overhead.total", memory->used_bytes - memory->live_bytes);
    reply_pair_integer(conn, "keys.count", key_count);
    reply_pair_integer(conn, "keys.bytes-per-key",
                       key_count > 0 ? memory->used_bytes / key_count : 0);
    reply_pair_integer(conn, "dataset.bytes", memory->live_bytes);
    reply_pair_double(conn, "dataset.percentage",
                      100 * ratio(memory->live_bytes, memory->used_bytes));
    reply_pair_double(conn, "peak.percentage", 100 * ratio(memory->used_bytes, memory->peak_bytes));
}

/* As INFO names them: see section_memory_ratios there. */
static void stats_allocator(struct conn *conn, const struct info_memory *memory)
{
    uint64_t allocated = memory->live_bytes + memory->metadata_bytes;
    int64_t over = (int64_t)memory->resident_bytes - (int64_t)memory->used_bytes;
    reply_pair_integer(conn, "allocator.allocated", allocated);
    reply_pair_integer(conn, "allocator.active", memory->used_bytes);
    reply_pair_integer(conn, "allocator.resident", memory->resident_bytes);
    reply_pair_double(conn, "allocator-fragmentation.ratio", ratio(memory->used_bytes, allocated));
    reply_pair_integer(conn, "allocator-fragmentation.bytes", memory->used_bytes - allocated);
    reply_pair_double(conn, "allocator-rss.ratio",
                      ratio(memory->resident_bytes, memory->used_bytes));
    reply_pair_integer(conn, "allocator-rss.bytes", over);
    reply_pair_double(conn, "rss-overhead.ratio", 1.0);
    reply_pair_integer(conn, "rss-overhead.bytes", 0);
    reply_pair_double(conn, "fragmentation", ratio(memory->resident_bytes, memory->used_bytes));
    reply_pair_integer(conn, "fragmentation.bytes", over);
}

static void stats_own(struct conn *conn, const struct info_memory *memory)
{
    const struct server *server = conn->reactor->server;
    reply_pair_integer(conn, "payload.region",
                       (uint64_t)pages_present_count(server->payload) * SERVER_PAYLOAD_PAGE_BYTES);
    reply_pair_integer(conn, "payload.taken", memory->taken_bytes);
    reply_pair_integer(conn, "payload.pages", pages_present_count(server->payload));
    reply_pair_integer(conn, "payload.pages.free", pages_free_count(server->payload));
    reply_pair_integer(conn, "metadata.region",
                       (uint64_t)pages_present_count(server->metadata) *
                           SERVER_METADATA_PAGE_BYTES);
}

void cmd_memory_reply_stats(struct conn *conn, struct request *request)
{
    struct info_memory memory;
    uint64_t key_count = 0;
    uint64_t database_count = 0;
    info_memory(conn, request->gather, &memory);
    gather_destroy(&request->gather);
    for (unsigned i = 0; i < INFO_DATABASES_MAX; i++) {
        key_count += memory.keys[i];
        database_count += memory.keys[i] > 0;
    }
    reply_map(conn, REDIS_PAIRS + database_count + OWN_PAIRS);
    reply_pair_integer(conn, "peak.allocated", memory.peak_bytes);
    reply_pair_integer(conn, "total.allocated", memory.used_bytes);
    stats_zeros(conn);
    reply_pair_integer(conn, "clients.normal", memory.buffer_bytes);
    reply_pair_integer(conn, "cluster.links", 0);
    reply_pair_integer(conn, "aof.buffer", 0);
    reply_pair_integer(conn, "lua.caches", 0);
    reply_pair_integer(conn, "functions.caches", 0);
    stats_databases(conn, &memory);
    stats_dataset(conn, &memory, key_count);
    stats_allocator(conn, &memory);
    stats_own(conn, &memory);
}

/* What is wrong goes behind what is there; the text has room for all of it. */
struct diagnosis {
    char text[1280];
    size_t length;
    unsigned trouble_count;
};

static void ATTR_PRINTF(2, 3) say(struct diagnosis *diagnosis, const char *format, ...)
{
    size_t room = sizeof(diagnosis->text) - diagnosis->length;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(diagnosis->text + diagnosis->length, room, format, arguments);
    va_end(arguments);
    check(length >= 0 && (size_t)length < room);
    diagnosis->length += (size_t)length;
}

static void diagnose_pages(struct diagnosis *diagnosis, const struct server *server)
{
    uint32_t free_pages = pages_free_count(server->payload);
    uint32_t free_metadata = pages_free_count(server->metadata);
    say(diagnosis, "Payload memory: %u of %u pages free. Metadata memory: %u of %u pages free.\n",
        free_pages, pages_present_count(server->payload), free_metadata,
        pages_present_count(server->metadata));
    if (free_pages == 0) {
        diagnosis->trouble_count++;
        say(diagnosis, "The store is full: new values take the place of old ones, or are refused "
                       "(maxmemory-policy). Raise maxmemory if hits suffer.\n");
    }
    if (free_metadata == 0) {
        diagnosis->trouble_count++;
        say(diagnosis, "There is no room for more keys, whatever payload is free. Raise "
                       "metadata-memory.\n");
    }
}

void cmd_memory_reply_doctor(struct conn *conn, struct request *request)
{
    struct diagnosis diagnosis = {.length = 0};
    struct info_memory memory;
    uint64_t limit = conn->reactor->settings.maxmemory;
    info_memory(conn, request->gather, &memory);
    gather_destroy(&request->gather);
    diagnose_pages(&diagnosis, conn->reactor->server);
    if (memory.evicted_count > 0) {
        say(&diagnosis, "%llu values were evicted since the start or CONFIG RESETSTAT.\n",
            (unsigned long long)memory.evicted_count);
    }
    if (memory.refused_count > 0) {
        diagnosis.trouble_count++;
        say(&diagnosis,
            "%llu times there was no memory for a value: too much is leased or pinned, or nothing "
            "may be evicted (maxmemory-policy).\n",
            (unsigned long long)memory.refused_count);
    }
    if (memory.used_bytes > limit || memory.resident_bytes > limit + limit / 8) {
        diagnosis.trouble_count++;
        say(&diagnosis,
            "In use are %llu bytes and resident %llu, but maxmemory is %llu: leases and pins may "
            "hold what was to be given back.\n",
            (unsigned long long)memory.used_bytes, (unsigned long long)memory.resident_bytes,
            (unsigned long long)limit);
    }
    if (diagnosis.trouble_count == 0) {
        say(&diagnosis, "No trouble seen.\n");
    }
    reply_verbatim(conn, slice_of_text(diagnosis.text));
}

void cmd_memory_reply_malloc_stats(struct conn *conn, struct request *request)
{
    const struct server *server = conn->reactor->server;
    struct info_memory memory;
    char text[512];
    info_memory(conn, request->gather, &memory);
    gather_destroy(&request->gather);
    (void)snprintf(text, sizeof(text),
                   "payload: %u pages of %u bytes, %u free; values take %llu bytes, of which they "
                   "use %llu\n"
                   "metadata: %u pages of %u bytes, %u free; %llu bytes taken\n"
                   "buffers: %llu bytes\n"
                   "resident: %llu bytes\n",
                   pages_present_count(server->payload), (unsigned)SERVER_PAYLOAD_PAGE_BYTES,
                   pages_free_count(server->payload), (unsigned long long)memory.taken_bytes,
                   (unsigned long long)memory.live_bytes, pages_present_count(server->metadata),
                   (unsigned)SERVER_METADATA_PAGE_BYTES, pages_free_count(server->metadata),
                   (unsigned long long)memory.metadata_bytes,
                   (unsigned long long)memory.buffer_bytes,
                   (unsigned long long)memory.resident_bytes);
    reply_verbatim(conn, slice_of_text(text));
}

void cmd_memory_reply_purge(struct conn *conn, struct request *request)
{
    (void)request;
    (void)malloc_trim(0);
    reply_ok(conn);
}

void cmd_memory_reply_help(struct conn *conn, struct request *request)
{
    static const char *const lines[] = {
        "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    How memory is doing, in a sentence.",
        "MALLOC-STATS",
        "    How memory is divided.",
        "PURGE",
        "    Give free memory of the heap back to the system.",
        "STATS",
        "    Memory in numbers.",
        "USAGE <key> [SAMPLES <count>]",
        "    Bytes that a key and its value take.",
        "HELP",
        "    This text.",
    };
    (void)request;
    reply_lines(conn, lines, ARRAY_COUNT(lines));
}
