/* test_published – what a reactor tells others of itself: rates over the last samples, memory in use, and
 * its peak over all reactors and the heap. */

#include "server/published.h"

#include "server/reactor.h"
#include "test_shard_fixture.h"

#define SAMPLE_US 100000

struct world {
    struct fixture *store;
    struct server server;
    struct reactor reactors[2];
};

static struct world *world_create(void)
{
    struct world *world = aligned_alloc(CACHE_LINE_BYTES, sizeof(*world));
    assert_non_null(world);
    memset(world, 0, sizeof(*world));
    world->store = fixture_create(&(struct fixture_options){.shard_count = 2});
    world->server.reactor_count = 2;
    world->server.payload = world->store->payload;
    world->server.metadata = world->store->metadata;
    for (uint32_t i = 0; i < 2; i++) {
        struct reactor *reactor = &world->reactors[i];
        reactor->index = i;
        reactor->server = &world->server;
        reactor->shard = world->store->shards[i];
        reactor->now.mono_us = SAMPLE_US;
        gate_init(&reactor->shard_gate);
        world->server.reactors[i] = reactor;
    }
    return world;
}

static void world_destroy(struct world *world)
{
    fixture_destroy(world->store);
    free(world);
}

/* A sample, and then a tenth of a second. */
static void tick(struct reactor *reactor)
{
    published_tick(reactor);
    reactor->now.mono_us += SAMPLE_US;
}

static void test_published_rates_are_of_the_last_samples(void **state)
{
    struct world *world = world_create();
    struct reactor *reactor = &world->reactors[0];
    struct reactor_metrics *metrics = &reactor->metrics;
    struct wire_traffic *wires = metrics->traffic.wires;
    (void)state;
    tick(reactor);
    assert_int_equal(metric_get(&metrics->commands_rate), 0);
    for (int i = 0; i < 5; i++) {
        metric_add(&wires[TRAFFIC_TCP].commands, 30);
        metric_add(&wires[TRAFFIC_RINGS].commands, 20);
        metric_add(&wires[TRAFFIC_TCP].bytes_in, 1000);
        metric_add(&wires[TRAFFIC_UNIX].bytes_out, 2000);
        tick(reactor);
        assert_int_equal(metric_get(&metrics->commands_rate), 500);
        assert_int_equal(metric_get(&metrics->bytes_in_rate), 10000);
        assert_int_equal(metric_get(&metrics->bytes_out_rate), 20000);
    }
    /* Once nothing happens for as long as the samples reach, nothing is said. */
    for (unsigned i = 0; i < REACTOR_RATE_SAMPLES + 1; i++) {
        tick(reactor);
    }
    assert_int_equal(metric_get(&metrics->commands_rate), 0);
    assert_int_equal(metric_get(&metrics->bytes_out_rate), 0);
    world_destroy(world);
}

static void test_published_rates_stand_a_reset(void **state)
{
    struct world *world = world_create();
    struct reactor *reactor = &world->reactors[0];
    (void)state;
    metric_set(&reactor->metrics.traffic.wires[TRAFFIC_TCP].commands, 1000000);
    tick(reactor);
    tick(reactor);
    metric_set(&reactor->metrics.traffic.wires[TRAFFIC_TCP].commands, 10);
    tick(reactor);
    assert_int_equal(metric_get(&reactor->metrics.commands_rate), 0);
    world_destroy(world);
}

static void test_published_used_is_what_regions_hold(void **state)
{
    struct world *world = world_create();
    struct reactor *reactor = &world->reactors[0];
    struct shard_stats stats;
    (void)state;
    assert_int_equal(fixture_fill(world->store, "k", 100000), KVASIR_OK);
    shard_stats(reactor->shard, &stats);
    reactor->shm_staging_bytes = 64000;
    published_tick(reactor);
    assert_true(stats.payload_taken_bytes >= 100000);
    assert_int_equal(metric_get(&reactor->metrics.used_bytes),
                     stats.payload_taken_bytes + stats.metadata_bytes + 64000);
    assert_int_equal(metric_get(&reactor->metrics.grants_bytes), stats.grants_bytes);
    assert_int_equal(metric_get(&reactor->metrics.staging_bytes), 64000);
    world_destroy(world);
}

/* As long as a look at the heap takes to come. */
static void tick_second(struct world *world)
{
    for (unsigned i = 0; i < 10; i++) {
        tick(&world->reactors[1]);
        tick(&world->reactors[0]);
    }
}

static void test_published_peak_is_over_all_reactors_and_the_heap(void **state)
{
    static const uint64_t much = 100000000;
    struct world *world = world_create();
    struct reactor *first = &world->reactors[0];
    struct reactor *second = &world->reactors[1];
    (void)state;
    tick_second(world);
    uint64_t before = metric_get(&first->metrics.used_peak_bytes);
    assert_true(before >= metric_get(&first->metrics.used_bytes) +
                              metric_get(&second->metrics.used_bytes) +
                              metric_get(&first->metrics.heap_bytes));
    second->shm_staging_bytes = much;
    tick_second(world);
    uint64_t peak = metric_get(&first->metrics.used_peak_bytes);
    assert_true(peak >= before + much && peak < before + much + much / 100);
    second->shm_staging_bytes = 0;
    tick_second(world);
    assert_true(metric_get(&first->metrics.used_peak_bytes) == peak);
    assert_int_equal(metric_get(&second->metrics.used_peak_bytes), 0);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_rates_are_of_the_last_samples),
        cmocka_unit_test(test_published_rates_stand_a_reset),
        cmocka_unit_test(test_published_used_is_what_regions_hold),
        cmocka_unit_test(test_published_peak_is_over_all_reactors_and_the_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
