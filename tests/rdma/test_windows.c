/* test_windows – grants of the RDMA module between two devices: a peer reaches what it was granted, in
 * the direction and for the time that it was granted, and no byte else. */

#include "transport_pair.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KIB         ((size_t)1 << 10)
#define GRANT_AT    (128 * KIB)
#define GRANT_BYTES (64 * KIB)
#define NO_KEY      0x00badbadU

static struct kvasir_grant grant_of(struct pair *pair, unsigned rights)
{
    return (struct kvasir_grant){
        .local = {.memory = pair->owner.memory,
                  .address = (uintptr_t)pair->owner.bytes + GRANT_AT,
                  .bytes = GRANT_BYTES},
        .rights = rights,
    };
}

static void bind_grants(struct pair *pair, struct kvasir_link *link, struct kvasir_grant *grants,
                        unsigned count)
{
    struct kvasir_job job = {.kind = KVASIR_JOB_BIND, .grants = grants, .grant_count = count};
    assert_int_equal(pair_run(pair, &pair->owner, link, &job), KVASIR_OK);
}

static void revoke_grants(struct pair *pair, struct kvasir_link *link, struct kvasir_grant *grants,
                          unsigned count)
{
    struct kvasir_job job = {.kind = KVASIR_JOB_REVOKE, .grants = grants, .grant_count = count};
    assert_int_equal(pair_run(pair, &pair->owner, link, &job), KVASIR_OK);
    assert_null(grants[0].window);
}

static enum kvasir_status read_granted(struct pair *pair, uint32_t key)
{
    return pair_move_by(pair, &pair->peer, KVASIR_JOB_READ, key, GRANT_AT, GRANT_BYTES);
}

static void assert_refused(struct pair *pair, uint32_t key)
{
    memset(pair->peer.bytes + GRANT_AT, PAIR_UNTOUCHED, GRANT_BYTES);
    assert_int_equal(read_granted(pair, key), KVASIR_DENIED);
    assert_true(pair_untouched(pair->peer.bytes + GRANT_AT, GRANT_BYTES));
}

static void assert_granted(struct pair *pair, uint32_t key)
{
    pair_fill(pair->owner.bytes + GRANT_AT, GRANT_BYTES, 7);
    memset(pair->peer.bytes + GRANT_AT, PAIR_UNTOUCHED, GRANT_BYTES);
    assert_int_equal(read_granted(pair, key), KVASIR_OK);
    assert_true(pair_holds(pair->peer.bytes + GRANT_AT, GRANT_BYTES, 7));
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_windows_grant_lets_the_peer_read(void **state)
{
    struct pair *pair = *state;
    struct kvasir_grant grant = grant_of(pair, KVASIR_RIGHT_REMOTE_READ);
    bind_grants(pair, pair->owner.link, &grant, 1);
    assert_granted(pair, grant.key);
    revoke_grants(pair, pair->owner.link, &grant, 1);
}

static void test_windows_grant_lets_the_peer_write(void **state)
{
    struct pair *pair = *state;
    struct kvasir_grant grant = grant_of(pair, KVASIR_RIGHT_REMOTE_WRITE);
    bind_grants(pair, pair->owner.link, &grant, 1);
    pair_fill(pair->peer.bytes + GRANT_AT, GRANT_BYTES, 21);
    assert_int_equal(
        pair_move_by(pair, &pair->peer, KVASIR_JOB_WRITE, grant.key, GRANT_AT, GRANT_BYTES),
        KVASIR_OK);
    assert_true(pair_holds(pair->owner.bytes + GRANT_AT, GRANT_BYTES, 21));
    assert_true(pair_untouched(pair->owner.bytes + GRANT_AT + GRANT_BYTES, 64));
    revoke_grants(pair, pair->owner.link, &grant, 1);
}

static void test_windows_revoked_grant_moves_no_byte(void **state)
{
    struct pair *pair = *state;
    struct kvasir_grant grant = grant_of(pair, KVASIR_RIGHT_REMOTE_READ);
    bind_grants(pair, pair->owner.link, &grant, 1);
    uint32_t key = grant.key;
    assert_granted(pair, key);
    revoke_grants(pair, pair->owner.link, &grant, 1);
    assert_refused(pair, key);
}

static void test_windows_grant_for_reading_refuses_a_write(void **state)
{
    struct pair *pair = *state;
    struct kvasir_grant grant = grant_of(pair, KVASIR_RIGHT_REMOTE_READ);
    bind_grants(pair, pair->owner.link, &grant, 1);
    pair_fill(pair->peer.bytes + GRANT_AT, GRANT_BYTES, 21);
    assert_int_equal(
        pair_move_by(pair, &pair->peer, KVASIR_JOB_WRITE, grant.key, GRANT_AT, GRANT_BYTES),
        KVASIR_DENIED);
    assert_true(pair_untouched(pair->owner.bytes + GRANT_AT, GRANT_BYTES));
}

static void test_windows_grant_of_another_link_moves_no_byte(void **state)
{
    struct pair *pair = *state;
    struct kvasir_link *neighbour = NULL;
    struct kvasir_link *its_peer = NULL;
    pair_join_another(pair, &neighbour, &its_peer);
    struct kvasir_grant grant = grant_of(pair, KVASIR_RIGHT_REMOTE_READ);
    bind_grants(pair, neighbour, &grant, 1);

    assert_refused(pair, grant.key);

    /* The neighbour's grant is as good as before. */
    pair->ops->link_close(&pair->peer.link);
    struct kvasir_event event;
    while (pair->ops->queue_poll(pair->peer.queue, &event, 1) > 0) {
    }
    pair->peer.link = its_peer;
    assert_granted(pair, grant.key);
    revoke_grants(pair, neighbour, &grant, 1);
    pair->ops->link_close(&neighbour);
}

static void test_windows_pool_without_rights_moves_no_byte(void **state)
{
    struct pair *pair = *state;
    struct kvasir_remote remote;
    unsigned count = 0;
    assert_int_equal(pair->ops->memory_expose(pair->owner.memory, (uintptr_t)pair->owner.bytes,
                                              4 * KIB, &remote, 1, &count),
                     KVASIR_INVALID);
    assert_refused(pair, NO_KEY);
}

static void test_windows_binds_and_revokes_in_chains(void **state)
{
    enum {
        CHAIN = 64
    };
    struct pair *pair = *state;
    struct kvasir_grant grants[CHAIN];
    struct kvasir_queue_stats before;
    struct kvasir_queue_stats after;
    for (size_t i = 0; i < CHAIN; i++) {
        grants[i] = grant_of(pair, KVASIR_RIGHT_REMOTE_READ);
        grants[i].local.address = (uintptr_t)pair->owner.bytes + i * 4 * KIB;
        grants[i].local.bytes = 4 * KIB;
    }
    pair->ops->queue_stats(pair->owner.queue, &before);
    bind_grants(pair, pair->owner.link, grants, CHAIN);
    pair->ops->queue_stats(pair->owner.queue, &after);
    assert_true(after.completions - before.completions <= 2);
    assert_int_equal(after.doorbells - before.doorbells, after.completions - before.completions);
    assert_int_equal(after.binds - before.binds, CHAIN);
    pair_fill(pair->owner.bytes, CHAIN * 4 * KIB, 31);
    for (size_t i = 0; i < CHAIN; i++) {
        assert_int_equal(
            pair_move_by(pair, &pair->peer, KVASIR_JOB_READ, grants[i].key, i * 4 * KIB, 4 * KIB),
            KVASIR_OK);
    }
    assert_true(pair_holds(pair->peer.bytes, CHAIN * 4 * KIB, 31));
    revoke_grants(pair, pair->owner.link, grants, CHAIN);
    pair->ops->queue_stats(pair->owner.queue, &after);
    assert_int_equal(after.windows_free, after.windows);
}

static void test_windows_keys_differ_from_bind_to_bind(void **state)
{
    struct pair *pair = *state;
    uint32_t keys[8];
    for (size_t i = 0; i < 8; i++) {
        struct kvasir_grant grant = grant_of(pair, KVASIR_RIGHT_REMOTE_READ);
        bind_grants(pair, pair->owner.link, &grant, 1);
        keys[i] = grant.key;
        revoke_grants(pair, pair->owner.link, &grant, 1);
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(keys[k], keys[i]);
        }
    }
}

static void test_windows_refuses_what_lies_outside_its_memory(void **state)
{
    struct pair *pair = *state;
    struct kvasir_grant grant = grant_of(pair, KVASIR_RIGHT_REMOTE_READ);
    grant.local.address = (uintptr_t)pair->owner.bytes + PAIR_POOL_BYTES - 1;
    grant.local.bytes = 2;
    struct kvasir_job job = {.kind = KVASIR_JOB_BIND, .grants = &grant, .grant_count = 1};
    assert_int_equal(pair->ops->submit(pair->owner.link, &job), KVASIR_INVALID);
}

static void test_windows_read_beyond_a_grant_moves_no_byte(void **state)
{
    struct pair *pair = *state;
    const char *name = pair->ops->domain_facts(pair->owner.domain)->device.name;
    if (strncmp(name, "rxe", 3) == 0) {
        print_message("%s does not check the bounds of a window\n", name);
        skip();
    }
    struct kvasir_grant grant = grant_of(pair, KVASIR_RIGHT_REMOTE_READ);
    bind_grants(pair, pair->owner.link, &grant, 1);
    assert_int_equal(pair_move_by(pair, &pair->peer, KVASIR_JOB_READ, grant.key,
                                  GRANT_AT + GRANT_BYTES, 4 * KIB),
                     KVASIR_DENIED);
    assert_true(pair_untouched(pair->peer.bytes + GRANT_AT + GRANT_BYTES, 4 * KIB));
}

static void test_windows_closing_a_link_revokes_its_grants(void **state)
{
    struct pair *pair = *state;
    struct kvasir_grant grant = grant_of(pair, KVASIR_RIGHT_REMOTE_READ);
    struct kvasir_queue_stats stats;
    bind_grants(pair, pair->owner.link, &grant, 1);
    pair_part(pair);
    pair->ops->queue_stats(pair->owner.queue, &stats);
    assert_int_equal(stats.windows_free, stats.windows);
    pair_join(pair);
    assert_refused(pair, grant.key);
}

#define ON_PAIR(name) cmocka_unit_test_setup_teardown(name, pair_set_up, pair_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_PAIR(test_windows_grant_lets_the_peer_read),
        ON_PAIR(test_windows_grant_lets_the_peer_write),
        ON_PAIR(test_windows_revoked_grant_moves_no_byte),
        ON_PAIR(test_windows_grant_for_reading_refuses_a_write),
        ON_PAIR(test_windows_grant_of_another_link_moves_no_byte),
        ON_PAIR(test_windows_pool_without_rights_moves_no_byte),
        ON_PAIR(test_windows_binds_and_revokes_in_chains),
        ON_PAIR(test_windows_keys_differ_from_bind_to_bind),
        ON_PAIR(test_windows_refuses_what_lies_outside_its_memory),
        ON_PAIR(test_windows_read_beyond_a_grant_moves_no_byte),
        ON_PAIR(test_windows_closing_a_link_revokes_its_grants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
