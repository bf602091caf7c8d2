#include "server/tenants.h"

#include "base/check.h"
#include "server/access.h"
#include "server/conn.h"
#include "server/info.h"
#include "server/info_writer.h"

#include <string.h>

static void warn_of_guarantees(struct reactor *reactor, const struct tenant_table *table)
{
    uint64_t maxmemory = reactor->settings.maxmemory;
    uint64_t left_bytes = maxmemory;
    for (uint32_t i = 1; i < table->count; i++) {
        uint64_t bytes = table->rows[i].guarantee_bytes;
        if (bytes > left_bytes) {
            log_warn(
                "tenants: the guarantees are more than maxmemory %llu: each counts for its part",
                (unsigned long long)maxmemory);
            return;
        }
        left_bytes -= bytes;
    }
}

void tenants_configure(struct reactor *reactor)
{
    struct tenant_table table;
    char error[256];
    check(
        tenant_table_parse(&table, slice_of_text(reactor->settings.tenants), error, sizeof(error)));
    if (!shard_set_tenants(reactor->shard, &table)) {
        log_limited(&reactor->log_limit, LOG_ERROR,
                    "out of memory for tenants: reactor %u goes on with those it had",
                    reactor->index);
        return;
    }
    access_follow_tenants(reactor);
    if (reactor->index == 0) {
        warn_of_guarantees(reactor, &table);
    }
}

void tenants_tell(const struct shard *shard, struct tenants_facts *facts_p)
{
    for (uint32_t i = 0; i < TENANTS_MAX; i++) {
        shard_tenant_stats(shard, i, &facts_p->rows[i]);
    }
}

static void add_stats(struct shard_tenant_stats *sum, const struct shard_tenant_stats *more)
{
    sum->bytes += more->bytes;
    sum->value_count += more->value_count;
    sum->fixed_bytes += more->fixed_bytes;
    sum->hits += more->hits;
    sum->misses += more->misses;
    sum->evicted += more->evicted;
    sum->evicted_bytes += more->evicted_bytes;
    sum->refused += more->refused;
}

static void write_row(struct info_writer *writer, uint32_t row)
{
    const struct gather *gather = writer->gather;
    const struct tenant_table *table = shard_tenants(writer->conn->reactor->shard);
    const struct tenant *tenant = &table->rows[row];
    struct shard_tenant_stats sum = {0};
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        const struct gather_answer *answer = &gather->answers[i];
        struct tenants_facts facts;
        if (answer->text_bytes >= INFO_TENANTS_AT + sizeof(facts)) {
            memcpy(&facts, answer->text + INFO_TENANTS_AT, sizeof(facts));
            add_stats(&sum, &facts.rows[row]);
        }
    }
    info_line(
        writer,
        "tenant_%s:bytes=%llu,values=%llu,fixed_bytes=%llu,guarantee=%llu,burst=%llu,hits=%llu,"
        "misses=%llu,evicted_keys=%llu,evicted_bytes=%llu,refused=%llu",
        row == 0 ? "" : tenant->name, (unsigned long long)sum.bytes,
        (unsigned long long)sum.value_count, (unsigned long long)sum.fixed_bytes,
        (unsigned long long)tenant->guarantee_bytes, (unsigned long long)tenant->burst_bytes,
        (unsigned long long)sum.hits, (unsigned long long)sum.misses,
        (unsigned long long)sum.evicted, (unsigned long long)sum.evicted_bytes,
        (unsigned long long)sum.refused);
}

void tenants_write(struct info_writer *writer)
{
    const struct tenant_table *table = shard_tenants(writer->conn->reactor->shard);
    for (uint32_t i = 0; i < table->count; i++) {
        if (i == 0 || table->rows[i].name[0] != '\0') {
            write_row(writer, i);
        }
    }
}
