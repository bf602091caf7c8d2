/* test_shard_tenant – whose values go, what a burst limits, and that the counts are right whatever
 * happens. */

#include "test_shard_fixture.h"

#include "base/random.h"
#include "test_seed.h"

#include <stdio.h>

#define KIB    ((uint64_t)1024)
#define EIGHTH (256 * KIB) /* of a fixture's payload */

static void set_tenants(struct fixture *fixture, const char *text)
{
    struct tenant_table table;
    char error[256];
    if (!tenant_table_parse(&table, slice_of_text(text), error, sizeof(error))) {
        fail_msg("%s", error);
    }
    for (uint32_t i = 0; i < FIXTURE_SHARDS_MAX && fixture->shards[i] != NULL; i++) {
        assert_true(shard_set_tenants(fixture->shards[i], &table));
    }
}

static struct fixture *start(uint32_t shard_count, const char *tenants)
{
    const struct fixture_options options = {.shard_count = shard_count};
    struct fixture *fixture = fixture_create(&options);
    set_tenants(fixture, tenants);
    return fixture;
}

static void tick_all(struct fixture *fixture)
{
    for (uint32_t i = 0; i < FIXTURE_SHARDS_MAX && fixture->shards[i] != NULL; i++) {
        fixture_move(fixture, 10);
        while (shard_tick(fixture->shards[i], &fixture->now, 1000)) {
        }
    }
}

static struct shard_tenant_stats stats_of(const struct shard *shard, uint32_t row)
{
    struct shard_tenant_stats stats;
    shard_tenant_stats(shard, row, &stats);
    return stats;
}

static uint32_t count_keys(struct fixture *fixture, const char *prefix, uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "%s%u", prefix, i);
        found += fixture_has(fixture, key);
    }
    return found;
}

static void fill(struct fixture *fixture, const char *prefix, uint32_t count, uint64_t bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "%s%u", prefix, i);
        assert_int_equal(fixture_fill(fixture, key, bytes), KVASIR_OK);
    }
}

static void test_shard_tenant_guarantee_keeps_what_is_older(void **state)
{
    (void)state;
    struct fixture *fixture = start(1, "a prefix a: guarantee 600kb");
    fill(fixture, "a:", 2, EIGHTH);
    fill(fixture, "x:", 20, EIGHTH);
    assert_int_equal(count_keys(fixture, "a:", 2), 2);
    assert_int_equal(count_keys(fixture, "x:", 20), 6);
    fixture_destroy(fixture);
}

static void test_shard_tenant_beyond_its_guarantee_gives_first(void **state)
{
    (void)state;
    struct fixture *fixture = start(1, "a prefix a: guarantee 600kb; b prefix b: guarantee 600kb");
    fill(fixture, "b:", 2, EIGHTH);
    fill(fixture, "a:", 6, EIGHTH); /* four more than guaranteed; the store is full */
    fill(fixture, "b:more:", 2, EIGHTH);
    assert_int_equal(count_keys(fixture, "b:", 2), 2);
    assert_int_equal(count_keys(fixture, "b:more:", 2), 2);
    assert_int_equal(count_keys(fixture, "a:", 6), 4);
    assert_int_equal(stats_of(fixture->shard, 1).evicted, 2);
    assert_int_equal(stats_of(fixture->shard, 2).evicted, 0);
    fixture_destroy(fixture);
}

static void test_shard_tenant_burst_is_the_most_it_has(void **state)
{
    (void)state;
    struct fixture *fixture = start(1, "a prefix a: burst 1026kb");
    for (uint32_t i = 0; i < 20; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "a:%u", i);
        assert_int_equal(fixture_fill(fixture, key, EIGHTH), KVASIR_OK);
        assert_true(stats_of(fixture->shard, 1).bytes <= 1026 * KIB);
    }
    assert_int_equal(count_keys(fixture, "a:", 20), 4);
    assert_true(pages_free_count(fixture->payload) > 0); /* of others' memory nothing went */
    struct op op = fixture_op(OP_RESERVE, "a:long");
    op.put.length_bytes = 1026 * KIB;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_QUOTA);
    assert_int_equal(count_keys(fixture, "a:", 20), 4); /* and nothing was evicted in vain */
    assert_int_equal(stats_of(fixture->shard, 1).refused, 1);
    fixture_destroy(fixture);
}

static void test_shard_tenant_burst_holds_while_no_tick_comes(void **state)
{
    (void)state;
    struct fixture *fixture = start(2, "a prefix a: burst 1mb");
    tick_all(fixture);
    for (uint32_t i = 0; i < 400; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "a:%u", i);
        fixture->shard = fixture->shards[i % 2];
        assert_int_equal(fixture_fill(fixture, key, 5 * KIB), KVASIR_OK);
        uint64_t bytes =
            stats_of(fixture->shards[0], 1).bytes + stats_of(fixture->shards[1], 1).bytes;
        /* The last value, and its metadata. */
        assert_true(bytes <= 1024 * KIB + 6 * KIB);
    }
    fixture->shard = fixture->shards[0];
    assert_true(stats_of(fixture->shard, 1).evicted > 0);
    fixture_destroy(fixture);
}

static void test_shard_tenant_pins_do_not_pass_the_burst(void **state)
{
    (void)state;
    struct fixture *fixture = start(1, "a prefix a: burst 514kb");
    struct op pin;
    fill(fixture, "a:", 2, EIGHTH);
    for (uint32_t i = 0; i < 2; i++) {
        pin = fixture_op(OP_PIN, i == 0 ? "a:0" : "a:1");
        pin.pin_kind = VALUE_PIN_HARD;
        pin.pin_ms = 1000;
        assert_int_equal(fixture_run(fixture, &pin), KVASIR_OK);
    }
    assert_int_equal(stats_of(fixture->shard, 1).fixed_bytes, stats_of(fixture->shard, 1).bytes);
    assert_int_equal(fixture_fill(fixture, "a:2", EIGHTH), KVASIR_QUOTA);
    assert_int_equal(fixture_fill(fixture, "x:2", EIGHTH), KVASIR_OK);
    fixture_move(fixture, 2000);
    tick_all(fixture);
    assert_int_equal(fixture_fill(fixture, "a:2", EIGHTH), KVASIR_OK);
    fixture_destroy(fixture);
}

static void test_shard_tenant_is_that_of_the_user_who_puts(void **state)
{
    (void)state;
    struct fixture *fixture = start(1, "a prefix a:; u user bob");
    struct op op = fixture_op(OP_SET, "a:1");
    op.payload = slice_of_text("x");
    op.tenant = 2;
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(stats_of(fixture->shard, 2).value_count, 1);
    op.tenant = 9; /* a row that another reactor knows already */
    assert_int_equal(fixture_run(fixture, &op), KVASIR_OK);
    assert_int_equal(stats_of(fixture->shard, 1).value_count, 1);
    assert_int_equal(stats_of(fixture->shard, 2).value_count, 0);
    assert_int_equal(fixture_simple(fixture, OP_GET, "none"), KVASIR_NOT_FOUND);
    assert_int_equal(fixture_simple(fixture, OP_EXISTS, "a:1"), KVASIR_OK);
    assert_int_equal(fixture_simple(fixture, OP_EXISTS, "a:2"), KVASIR_NOT_FOUND);
    assert_int_equal(stats_of(fixture->shard, 1).hits, 1);
    assert_int_equal(stats_of(fixture->shard, 1).misses, 1);
    assert_int_equal(stats_of(fixture->shard, 0).misses, 1);
    fixture_destroy(fixture);
}

static void test_shard_tenant_lowered_burst_shrinks_by_ticks(void **state)
{
    (void)state;
    struct fixture *fixture = start(2, "a prefix a: burst 2mb");
    for (uint32_t i = 0; i < 100; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "a:%u", i);
        fixture->shard = fixture->shards[i % 2];
        assert_int_equal(fixture_fill(fixture, key, 10 * KIB), KVASIR_OK);
    }
    set_tenants(fixture, "a prefix a: burst 200kb");
    for (uint32_t i = 0; i < 20; i++) {
        tick_all(fixture);
    }
    uint64_t bytes = stats_of(fixture->shards[0], 1).bytes + stats_of(fixture->shards[1], 1).bytes;
    assert_true(bytes <= 200 * KIB);
    assert_true(bytes > 150 * KIB); /* both gave, and no more than that */
    assert_true(stats_of(fixture->shards[0], 1).bytes > 50 * KIB);
    assert_true(stats_of(fixture->shards[1], 1).bytes > 50 * KIB);
    fixture_destroy(fixture);
}

static void test_shard_tenant_guarantees_of_more_than_there_is_share_it(void **state)
{
    (void)state;
    struct fixture *fixture = start(1, "a prefix a: guarantee 4mb; b prefix b: guarantee 4mb");
    fill(fixture, "a:", 8, EIGHTH);
    fill(fixture, "b:", 8, EIGHTH);
    assert_in_range(count_keys(fixture, "a:", 8), 3, 5);
    assert_in_range(count_keys(fixture, "b:", 8), 3, 5);
    fixture_destroy(fixture);
}

static void test_shard_tenant_policy_change_keeps_who_has_what(void **state)
{
    (void)state;
    struct fixture *fixture = start(1, "a prefix a: guarantee 600kb");
    fill(fixture, "a:", 2, EIGHTH);
    fill(fixture, "x:", 4, EIGHTH);
    shard_set_policy(fixture->shard, policy_at(1));
    fill(fixture, "y:", 20, EIGHTH);
    assert_int_equal(count_keys(fixture, "a:", 2), 2);
    shard_set_policy(fixture->shard, NULL);
    assert_int_equal(fixture_fill(fixture, "z", EIGHTH), KVASIR_NO_MEMORY);
    set_tenants(fixture, "a prefix a: guarantee 600kb; y prefix y:");
    shard_set_policy(fixture->shard, policy_at(2));
    fill(fixture, "z:", 20, EIGHTH);
    assert_int_equal(count_keys(fixture, "a:", 2), 2);
    fixture_destroy(fixture);
}

static void test_shard_tenant_want_of_memory_leaves_all_as_it_was(void **state)
{
    (void)state;
    struct fixture *fixture = start(1, "a prefix a:");
    struct tenant_table table;
    char error[256];
    fill(fixture, "b:", 2, 100);
    assert_true(tenant_table_parse(&table, slice_of_text("a prefix a:; b prefix b:; c prefix c:"),
                                   error, sizeof(error)));
    for (uint32_t after = 1; after <= 2; after++) {
        fault_arm("store.policy", after, 1);
        assert_false(shard_set_tenants(fixture->shard, &table));
        fault_disarm_all();
        assert_int_equal(shard_tenants(fixture->shard)->count, 2);
        shard_verify(fixture->shard);
    }
    assert_true(shard_set_tenants(fixture->shard, &table));
    assert_int_equal(stats_of(fixture->shard, 2).value_count, 2);
    fixture_destroy(fixture);
}

/* ---- random work: the counts are recounted, and no limit is passed ---- */

static void random_step(struct fixture *fixture, struct random *random)
{
    static const char *const prefixes[] = {"a:", "b:", "x:", "u:"};
    char key[32];
    (void)snprintf(key, sizeof(key), "%s%u", prefixes[random_below(random, 4)],
                   (unsigned)random_below(random, 40));
    fixture->shard = fixture->shards[random_below(random, 2)];
    struct op op = fixture_op(OP_SET, key);
    op.tenant = key[0] == 'u' ? 3 : 0;
    switch (random_below(random, 8)) {
    case 0:
    case 1:
    case 2:
        op.kind = OP_RESERVE;
        op.put.length_bytes = random_below(random, 90000);
        if (fixture_run(fixture, &op) == KVASIR_OK) {
            op.kind = random_below(random, 4) == 0 ? OP_ABORT : OP_COMMIT;
            op.put = (struct op_put){.length_bytes = op.value->length_bytes};
            (void)fixture_run(fixture, &op);
        }
        return;
    case 3:
        op.payload = slice_of(key, strlen(key));
        (void)fixture_run(fixture, &op);
        return;
    case 4:
        (void)fixture_simple(fixture, OP_REMOVE, key);
        return;
    case 5:
        op.kind = OP_PIN;
        op.pin_kind = random_below(random, 2) == 0 ? VALUE_PIN_SOFT : VALUE_PIN_HARD;
        op.pin_ms = 50;
        (void)fixture_run(fixture, &op);
        return;
    case 6:
        (void)fixture_simple(fixture, OP_EXISTS, key);
        return;
    default:
        tick_all(fixture);
        return;
    }
}

static void test_shard_tenant_counts_hold_whatever_happens(void **state)
{
    static const char *const tables[] = {
        "",
        "a prefix a: guarantee 500kb burst 700kb; b prefix b: burst 300kb; u user bob burst 400kb",
        "a prefix a: burst 200kb; b prefix b: guarantee 100kb; u user bob",
        "c prefix b:; b prefix a:; u user bob guarantee 1mb",
    };
    (void)state;
    struct random random;
    random_init(&random, test_seed());
    struct fixture *fixture = start(2, tables[1]);
    for (uint32_t i = 0; i < 6000; i++) {
        random_step(fixture, &random);
        if (random_below(&random, 300) == 0) {
            set_tenants(fixture, tables[random_below(&random, 4)]);
        }
        if (random_below(&random, 400) == 0) {
            shard_flush(fixture->shard, 0);
        }
        if (i % 50 == 0) {
            shard_verify(fixture->shards[0]);
            shard_verify(fixture->shards[1]);
        }
    }
    set_tenants(fixture, tables[1]);
    for (uint32_t i = 0; i < 30; i++) {
        tick_all(fixture); /* pins run out as well */
    }
    const struct tenant_table *table = shard_tenants(fixture->shards[0]);
    for (uint32_t i = 1; i < table->count; i++) {
        uint64_t bytes =
            stats_of(fixture->shards[0], i).bytes + stats_of(fixture->shards[1], i).bytes;
        assert_true(table->rows[i].burst_bytes == 0 || bytes <= table->rows[i].burst_bytes);
    }
    fixture_destroy(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard_tenant_guarantee_keeps_what_is_older),
        cmocka_unit_test(test_shard_tenant_beyond_its_guarantee_gives_first),
        cmocka_unit_test(test_shard_tenant_burst_is_the_most_it_has),
        cmocka_unit_test(test_shard_tenant_burst_holds_while_no_tick_comes),
        cmocka_unit_test(test_shard_tenant_pins_do_not_pass_the_burst),
        cmocka_unit_test(test_shard_tenant_is_that_of_the_user_who_puts),
        cmocka_unit_test(test_shard_tenant_lowered_burst_shrinks_by_ticks),
        cmocka_unit_test(test_shard_tenant_guarantees_of_more_than_there_is_share_it),
        cmocka_unit_test(test_shard_tenant_policy_change_keeps_who_has_what),
        cmocka_unit_test(test_shard_tenant_want_of_memory_leaves_all_as_it_was),
        cmocka_unit_test(test_shard_tenant_counts_hold_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
