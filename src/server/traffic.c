#include "server/traffic.h"

#include "server/conn.h"
#include "server/info_writer.h"
#include "server/reactor.h"
#include "server/server.h"

#include <stddef.h>

void traffic_add_up(const struct traffic *traffic, struct traffic_sums *sums)
{
    for (int i = 0; i < TRAFFIC_WIRE_COUNT; i++) {
        sums->commands += metric_get(&traffic->wires[i].commands);
        sums->bytes_in += metric_get(&traffic->wires[i].bytes_in);
        sums->bytes_out += metric_get(&traffic->wires[i].bytes_out);
    }
}

void traffic_reset(struct traffic *traffic)
{
    struct metric *metrics = (struct metric *)(void *)traffic;
    for (size_t i = 0; i < sizeof(*traffic) / sizeof(*metrics); i++) {
        metric_set(&metrics[i], 0);
    }
}

/* ---- INFO ---- */

/* Of all reactors together. */
static uint64_t sum_of(const struct info_writer *writer, size_t offset)
{
    const struct server *server = writer->conn->reactor->server;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        const uint8_t *metrics = (const uint8_t *)&server->reactors[i]->metrics;
        sum += metric_get((const struct metric *)(const void *)(metrics + offset));
    }
    return sum;
}

#define SUM_OF(writer, field) sum_of(writer, offsetof(struct reactor_metrics, field))

static void write_number(struct info_writer *writer, const char *name, const char *what,
                         uint64_t value)
{
    info_line(writer, "%s_%s:%llu", name, what, (unsigned long long)value);
}

static void write_wires(struct info_writer *writer)
{
    static const char *const names[TRAFFIC_WIRE_COUNT] = {"tcp", "tls", "unix", "ring"};
    for (int i = 0; i < TRAFFIC_WIRE_COUNT; i++) {
        write_number(writer, names[i], "commands", SUM_OF(writer, traffic.wires[i].commands));
        write_number(writer, names[i], "in_bytes", SUM_OF(writer, traffic.wires[i].bytes_in));
        write_number(writer, names[i], "out_bytes", SUM_OF(writer, traffic.wires[i].bytes_out));
    }
}

static void write_paths(struct info_writer *writer)
{
    static const char *const names[TRAFFIC_PATH_COUNT] = {"shm", "rdma", "rdma_client"};
    for (int i = 0; i < TRAFFIC_PATH_COUNT; i++) {
        write_number(writer, names[i], "puts", SUM_OF(writer, traffic.paths[i].puts));
        write_number(writer, names[i], "gets", SUM_OF(writer, traffic.paths[i].gets));
        write_number(writer, names[i], "in_bytes", SUM_OF(writer, traffic.paths[i].in_bytes));
        write_number(writer, names[i], "out_bytes", SUM_OF(writer, traffic.paths[i].out_bytes));
        write_number(writer, names[i], "failed", SUM_OF(writer, traffic.paths[i].failed));
    }
}

void traffic_write(struct info_writer *writer)
{
    write_wires(writer);
    write_paths(writer);
    info_number(writer, "rdma_links_opened", SUM_OF(writer, traffic.links_opened));
    info_number(writer, "rdma_links_rebuilt", SUM_OF(writer, traffic.links_rebuilt));
    info_number(writer, "rdma_links_failed", SUM_OF(writer, traffic.links_failed));
    info_number(writer, "rdma_links_refused", SUM_OF(writer, traffic.links_refused));
    info_number(writer, "rdma_work_requests", SUM_OF(writer, traffic.work_requests));
    info_number(writer, "rdma_completions", SUM_OF(writer, traffic.completions));
    info_number(writer, "rdma_windows", SUM_OF(writer, rdma_windows));
    info_number(writer, "rdma_windows_free", SUM_OF(writer, rdma_windows_free));
    info_number(writer, "rdma_windows_bound", SUM_OF(writer, traffic.windows_bound));
    info_number(writer, "rdma_windows_revoked", SUM_OF(writer, traffic.windows_revoked));
    info_number(writer, "rdma_windows_replaced", SUM_OF(writer, traffic.windows_replaced));
    info_number(writer, "rdma_lent_bytes", SUM_OF(writer, rdma_lent_bytes));
    info_number(writer, "rdma_loans_expired", SUM_OF(writer, traffic.loans_expired));
    info_number(writer, "rdma_loans_recalled", SUM_OF(writer, traffic.loans_recalled));
}
