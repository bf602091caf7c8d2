/* test_resize – a lowered maxmemory: what the shards are asked for, and that no more is evicted. Reactors
 * without loop and thread; the test carries their mail. */

#include "server/resize.h"

#include "server/reactor.h"
#include "test_shard_fixture.h"

#include <stdio.h>

#define SHARDS      2U
#define FIXED_BYTES (1ULL << 20)
#define TURNS_MAX   1000U

struct world {
    struct fixture *store;
    struct server server;
    struct reactor reactors[SHARDS];
};

/* Such that the payload has so many pages of the server's size. */
static uint64_t memory_for(uint64_t page_count)
{
    return FIXED_BYTES + page_count * SERVER_PAYLOAD_PAGE_BYTES / 127 * 128 + 4096;
}

static struct world *world_create(void)
{
    struct world *world = aligned_alloc(CACHE_LINE_BYTES, sizeof(*world));
    assert_non_null(world);
    memset(world, 0, sizeof(*world));
    world->store = fixture_create(&(struct fixture_options){.shard_count = SHARDS});
    struct server *server = &world->server;
    server->reactor_count = SHARDS;
    server->fixed_bytes = FIXED_BYTES;
    server->payload = world->store->payload;
    server->metadata = world->store->metadata;
    server->metadata_pages = pages_present_count(server->metadata);
    server->mailbox = mailbox_create(SHARDS);
    assert_non_null(server->mailbox);
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct reactor *reactor = &world->reactors[i];
        reactor->magic = REACTOR_MAGIC;
        reactor->index = i;
        reactor->server = server;
        reactor->shard = world->store->shards[i];
        reactor->now = world->store->now;
        reactor->settings.maxmemory = memory_for(pages_count(server->payload));
        gate_init(&reactor->shard_gate);
        chunk_pool_init(&reactor->chunks, 0, 0);
        server->reactors[i] = reactor;
    }
    return world;
}

/* The pages that were given up have to be there again for the fixture to find them all. */
static void world_destroy(struct world *world)
{
    while (pages_present_count(world->store->payload) < pages_count(world->store->payload)) {
        assert_true(pages_restore(world->store->payload, false));
    }
    for (uint32_t i = 0; i < SHARDS; i++) {
        chunk_pool_fini(&world->reactors[i].chunks);
    }
    mailbox_destroy(&world->server.mailbox);
    fixture_destroy(world->store);
    free(world);
}

/* Values of a page each. */
static void fill(struct world *world, uint32_t shard, unsigned count)
{
    world->store->shard = world->store->shards[shard];
    for (unsigned i = 0; i < count; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "shard%u:%u", shard, i);
        assert_int_equal(fixture_fill(world->store, key, FIXTURE_PAGE_BYTES), KVASIR_OK);
    }
    metric_set(&world->reactors[shard].metrics.used_bytes,
               (uint64_t)count * SERVER_PAYLOAD_PAGE_BYTES);
}

static void pin_all(struct world *world, uint32_t shard, unsigned count)
{
    world->store->shard = world->store->shards[shard];
    for (unsigned i = 0; i < count; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "shard%u:%u", shard, i);
        struct op op = fixture_op(OP_PIN, key);
        op.pin_kind = VALUE_PIN_HARD;
        op.pin_ms = 60000;
        assert_int_equal(fixture_run(world->store, &op), KVASIR_OK);
    }
}

static void carry_mail(struct world *world)
{
    struct mailbox *mailbox = world->server.mailbox;
    for (unsigned i = 0; i < 2; i++) {
        for (uint32_t at = 0; at < SHARDS; at++) {
            assert_true(mailbox_flush(mailbox, at));
        }
        for (uint32_t at = 0; at < SHARDS; at++) {
            reactor_receive(&world->reactors[at]);
        }
    }
}

static uint64_t evicted(const struct world *world, uint32_t shard)
{
    struct shard_stats stats;
    shard_stats(world->store->shards[shard], &stats);
    return stats.evicted;
}

static void shrink_to(struct world *world, uint32_t page_count)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        world->reactors[i].settings.maxmemory = memory_for(page_count);
    }
    assert_int_equal(resize_page_count(&world->server, memory_for(page_count)), page_count);
    for (unsigned turn = 0;
         turn < TURNS_MAX && pages_present_count(world->store->payload) > page_count; turn++) {
        resize_tick(&world->reactors[0]);
        carry_mail(world);
    }
    assert_int_equal(pages_present_count(world->store->payload), page_count);
}

static void test_resize_evicts_no_more_than_is_missing(void **state)
{
    struct world *world = world_create();
    (void)state;
    fill(world, 0, 12);
    fill(world, 1, 18);
    shrink_to(world, 27);
    assert_int_equal(evicted(world, 0) + evicted(world, 1), 3);
    world_destroy(world);
}

static void test_resize_asks_who_holds_most(void **state)
{
    struct world *world = world_create();
    (void)state;
    fill(world, 0, 2);
    fill(world, 1, 30);
    shrink_to(world, 8);
    assert_true(evicted(world, 0) <= 1);
    assert_int_equal(evicted(world, 0) + evicted(world, 1), 24);
    world_destroy(world);
}

static void test_resize_divides_evenly_while_nothing_is_known(void **state)
{
    struct world *world = world_create();
    (void)state;
    fill(world, 0, 16);
    fill(world, 1, 16);
    metric_set(&world->reactors[0].metrics.used_bytes, 0);
    metric_set(&world->reactors[1].metrics.used_bytes, 0);
    shrink_to(world, 22);
    assert_int_equal(evicted(world, 0), 5);
    assert_int_equal(evicted(world, 1), 5);
    world_destroy(world);
}

static void test_resize_asks_the_others_when_the_fullest_cannot_give(void **state)
{
    struct world *world = world_create();
    (void)state;
    fill(world, 0, 20);
    fill(world, 1, 10);
    pin_all(world, 0, 8);
    metric_set(&world->reactors[1].metrics.used_bytes, 0);
    shrink_to(world, 12);
    assert_int_equal(evicted(world, 0), 12);
    assert_true(evicted(world, 1) >= 6);
    world_destroy(world);
}

static void test_resize_takes_free_pages_away_at_once(void **state)
{
    struct world *world = world_create();
    struct pages *payload = world->store->payload;
    struct reactor *reactor = &world->reactors[1]; /* whichever is told first */
    (void)state;
    fill(world, 0, 12);
    reactor->settings.maxmemory = memory_for(10);
    resize_configure(reactor);
    assert_int_equal(pages_free_count(payload), 0);
    assert_int_equal(pages_present_count(payload), 12);
    assert_int_equal(pages_unreleased_count(payload), pages_count(payload) - 12);
    assert_int_equal(evicted(world, 0), 0);
    world->reactors[0].settings.maxmemory = memory_for(12);
    resize_tick(&world->reactors[0]);
    assert_int_equal(pages_unreleased_count(payload), 0);
    assert_int_equal(pages_present_count(payload), 12);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resize_evicts_no_more_than_is_missing),
        cmocka_unit_test(test_resize_asks_who_holds_most),
        cmocka_unit_test(test_resize_divides_evenly_while_nothing_is_known),
        cmocka_unit_test(test_resize_asks_the_others_when_the_fullest_cannot_give),
        cmocka_unit_test(test_resize_takes_free_pages_away_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
