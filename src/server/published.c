#include "server/published.h"

#include "server/reactor.h"

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

static void publish_used(struct reactor *reactor)
{
    struct reactor_metrics *metrics = &reactor->metrics;
    struct shard_stats stats;
    uint64_t used = 0;
    reactor_shard_enter(reactor);
    shard_stats(reactor->shard, &stats);
    reactor_shard_leave(reactor);
    metric_set(&metrics->used_bytes,
               stats.payload_taken_bytes + stats.metadata_bytes +
                   reactor->chunks.taken_count * sizeof(struct chunk) +
                   metric_get(&metrics->long_request_bytes) + metric_get(&metrics->tls_bytes) +
                   reactor->shm_staging_bytes + metric_get(&metrics->events_bytes));
    if (reactor->index > 0) {
        return;
    }
    for (uint32_t i = 0; i < reactor->server->reactor_count; i++) {
        used += metric_get(&reactor->server->reactors[i]->metrics.used_bytes);
    }
    metric_max(&metrics->used_peak_bytes, used);
}

void published_tick(struct reactor *reactor)
{
    struct reactor_metrics *metrics = &reactor->metrics;
    publish_rates(reactor);
    publish_used(reactor);
    metric_set(&metrics->staging_bytes, reactor->shm_staging_bytes);
    if (reactor->hub.fabric != NULL) {
        hub_take_stats(reactor);
    }
}
