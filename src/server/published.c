#include "server/published.h"

#include "server/info_writer.h"
#include "server/reactor.h"

/* Ticks of this unit, each a tenth of a second, to one look at the heap. */
#define PUBLISHED_PER_PEAK 10U

static uint64_t rate_of(uint64_t before, uint64_t now, int64_t elapsed_us)
{
    /* Less than before: CONFIG RESETSTAT came between. */
    return now > before ? (now - before) * 1000000U / (uint64_t)elapsed_us : 0;
}

static void publish_rates(struct reactor *reactor)
{
    struct reactor_metrics *metrics = &reactor->metrics;
    struct rate_sample *oldest = &reactor->rates[reactor->rate_next];
    struct traffic_sums sums = {0};
    traffic_add_up(&metrics->traffic, &sums);
    struct rate_sample now = {reactor->now.mono_us, sums.commands, sums.bytes_in, sums.bytes_out};
    struct rate_sample then = oldest->mono_us > 0 ? *oldest : reactor->rates[0];
    int64_t elapsed_us = now.mono_us - then.mono_us;
    if (then.mono_us > 0 && elapsed_us > 0) {
        metric_set(&metrics->commands_rate, rate_of(then.commands, now.commands, elapsed_us));
        metric_set(&metrics->bytes_in_rate, rate_of(then.bytes_in, now.bytes_in, elapsed_us));
        metric_set(&metrics->bytes_out_rate, rate_of(then.bytes_out, now.bytes_out, elapsed_us));
    }
    *oldest = now;
    reactor->rate_next = (reactor->rate_next + 1) % REACTOR_RATE_SAMPLES;
}

/* Once a second: to ask for the heap walks its free pieces. */
static void publish_peak(struct reactor *reactor)
{
    struct reactor_metrics *metrics = &reactor->metrics;
    uint64_t used;
    if (reactor->published_count++ % PUBLISHED_PER_PEAK != 0) {
        return;
    }
    metric_set(&metrics->heap_bytes, info_heap_bytes(0));
    used = info_table_bytes(reactor->server) + metric_get(&metrics->heap_bytes);
    for (uint32_t i = 0; i < reactor->server->reactor_count; i++) {
        used += metric_get(&reactor->server->reactors[i]->metrics.used_bytes);
    }
    metric_max(&metrics->used_peak_bytes, used);
}

static void publish_used(struct reactor *reactor)
{
    struct shard_stats stats;
    reactor_shard_enter(reactor);
    shard_stats(reactor->shard, &stats);
    reactor_shard_leave(reactor);
    metric_set(&reactor->metrics.used_bytes,
               stats.payload_taken_bytes + stats.metadata_bytes + reactor->shm_staging_bytes);
    metric_set(&reactor->metrics.grants_bytes, stats.grants_bytes);
}

void published_tick(struct reactor *reactor)
{
    struct reactor_metrics *metrics = &reactor->metrics;
    publish_rates(reactor);
    publish_used(reactor);
    if (reactor->index == 0) {
        publish_peak(reactor);
    }
    metric_set(&metrics->staging_bytes, reactor->shm_staging_bytes);
    if (reactor->hub.fabric != NULL) {
        hub_take_stats(reactor);
    }
}
