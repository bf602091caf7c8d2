/* test_rdma_window – grants by memory windows: exactly the granted bytes, only the right that was given, only
 * on the link that it was given to, and no longer than until the revoke has ended. */

#include "test_rdma_jobs.h"

static const struct rig_options PLAIN = {.depth = 0};

#define AT    4096U
#define BYTES 8192U

static int open_rig(void **state)
{
    struct rig *rig = malloc(sizeof(*rig));
    *state = rig;
    return rig_open(rig, &PLAIN) == KVASIR_OK ? 0 : -1;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;
    rig_close(rig);
    free(rig);
    return 0;
}

/* The peer's link and the owner's are broken by a refusal: they are made anew. */
static void mend(struct rig *rig)
{
    rig->ops->link_close(&rig->owner.link);
    rig->ops->link_close(&rig->peer.link);
    while (!rig_idle(rig, &rig->owner) || !rig_idle(rig, &rig->peer)) {
    }
    assert_int_equal(rig_link(rig, &PLAIN, &rig->owner.link, &rig->peer.link), KVASIR_OK);
}

static bool peer_reads(struct rig *rig, uint32_t key, size_t at, size_t bytes)
{
    enum kvasir_status status;
    memset(rig->peer.bytes, 0xee, RIG_MEMORY_BYTES);
    status = rig_move(rig, &rig->peer, KVASIR_JOB_READ, key, at, bytes);
    if (status == KVASIR_OK) {
        assert_memory_equal(rig->peer.bytes + at, rig->owner.bytes + at, bytes);
        return true;
    }
    assert_int_equal(status, KVASIR_DENIED);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(rig->peer.bytes[at + i], 0xee);
    }
    return false;
}

static void test_rdma_window_gives_exactly_the_granted_bytes(void **state)
{
    struct rig *rig = *state;
    static const struct {
        size_t at;
        size_t bytes;
        bool allowed;
    } tries[] = {{AT, BYTES, true},
                 {AT + 77, 1, true},
                 {AT + BYTES - 1, 1, true},
                 {AT - 1, 2, false},
                 {AT - 1, BYTES, false},
                 {AT, BYTES + 1, false},
                 {AT + BYTES - 1, 2, false},
                 {AT + BYTES, 1, false},
                 {0, 1, false},
                 {AT - 1, BYTES + 2, false},
                 {RIG_MEMORY_BYTES - 1, 1, false}};
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        struct kvasir_grant grant = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, AT, BYTES);
        assert_int_equal(rig_bind(rig, &grant, 1), KVASIR_OK);
        assert_int_equal(peer_reads(rig, grant.key, tries[i].at, tries[i].bytes), tries[i].allowed);
        mend(rig);
    }
}

static void test_rdma_window_gives_only_the_right_that_was_granted(void **state)
{
    struct rig *rig = *state;
    struct kvasir_grant grant = rig_grant(rig, KVASIR_RIGHT_REMOTE_WRITE, AT, BYTES);
    assert_int_equal(rig_bind(rig, &grant, 1), KVASIR_OK);
    memset(rig->peer.bytes, 0x31, RIG_MEMORY_BYTES);
    assert_int_equal(rig_move(rig, &rig->peer, KVASIR_JOB_WRITE, grant.key, AT, BYTES), KVASIR_OK);
    assert_memory_equal(rig->owner.bytes + AT, rig->peer.bytes + AT, BYTES);
    assert_int_equal(rig->owner.bytes[AT - 1], 0);
    assert_int_equal(rig->owner.bytes[AT + BYTES], 0);
    assert_false(peer_reads(rig, grant.key, AT, 1));
    mend(rig);
    grant = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, 0, AT);
    assert_int_equal(rig_bind(rig, &grant, 1), KVASIR_OK);
    assert_int_equal(rig_move(rig, &rig->peer, KVASIR_JOB_WRITE, grant.key, 0, 1), KVASIR_DENIED);
    assert_int_equal(rig->owner.bytes[0], 0);
}

static void test_rdma_window_revoked_key_is_dead(void **state)
{
    struct rig *rig = *state;
    struct kvasir_grant grant = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, AT, BYTES);
    uint32_t key;
    assert_int_equal(rig_bind(rig, &grant, 1), KVASIR_OK);
    key = grant.key;
    assert_true(peer_reads(rig, key, AT, BYTES));
    assert_int_equal(rig_revoke(rig, &grant, 1), KVASIR_OK);
    assert_null(grant.window);
    assert_int_equal(grant.key, 0);
    assert_false(peer_reads(rig, key, AT, BYTES));
}

/* Until the event comes the peer still reads, so the memory is not free before. */
static void test_rdma_window_is_free_only_after_the_event(void **state)
{
    struct rig *rig = *state;
    struct kvasir_grant grants[32];
    struct kvasir_grant more = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, 0, 1);
    struct kvasir_job revoke = {.kind = KVASIR_JOB_REVOKE, .grants = grants, .grant_count = 32};
    struct kvasir_job bind = {.kind = KVASIR_JOB_BIND, .grants = &more, .grant_count = 1};
    for (unsigned i = 0; i < 32; i++) {
        grants[i] = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, i * 512, 512);
    }
    assert_int_equal(rig_bind(rig, grants, 32), KVASIR_OK);
    assert_int_equal(rig->ops->submit(rig->owner.link, &bind), KVASIR_AGAIN);
    fake_hold(true);
    assert_int_equal(rig->ops->submit(rig->owner.link, &revoke), KVASIR_PENDING);
    fake_run(31);
    assert_true(rig_idle(rig, &rig->owner));
    assert_non_null(grants[0].window);
    assert_int_equal(rig->ops->submit(rig->owner.link, &bind), KVASIR_AGAIN);
    fake_run(1);
    assert_int_equal(rig_event(rig, &rig->owner).status, KVASIR_OK);
    assert_null(grants[0].window);
    fake_hold(false);
    assert_int_equal(rig_bind(rig, &more, 1), KVASIR_OK);
}

static void test_rdma_window_is_refused_on_another_link(void **state)
{
    struct rig *rig = *state;
    struct kvasir_link *first = rig->peer.link;
    struct kvasir_link *owners = NULL;
    struct kvasir_link *stranger = NULL;
    struct kvasir_grant grant = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, AT, BYTES);
    struct kvasir_job revoke = {.kind = KVASIR_JOB_REVOKE, .grants = &grant, .grant_count = 1};
    assert_int_equal(rig_bind(rig, &grant, 1), KVASIR_OK);
    assert_int_equal(rig_link(rig, &PLAIN, &owners, &stranger), KVASIR_OK);
    rig->peer.link = stranger;
    assert_false(peer_reads(rig, grant.key, AT, 1));
    assert_int_equal(rig_event(rig, &rig->peer).kind, KVASIR_EVENT_LINK_DOWN);
    /* Nor can it be revoked there. */
    assert_int_equal(rig->ops->submit(owners, &revoke), KVASIR_INVALID);
    rig->peer.link = first;
    assert_true(peer_reads(rig, grant.key, AT, BYTES));
    rig->ops->link_close(&owners);
    rig->ops->link_close(&stranger);
}

static void test_rdma_window_chains_have_one_completion(void **state)
{
    struct rig *rig = *state;
    struct kvasir_grant grants[32];
    struct kvasir_queue_stats before;
    struct kvasir_queue_stats after;
    for (unsigned i = 0; i < 32; i++) {
        grants[i] = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, i * 512, 512);
    }
    rig->ops->queue_stats(rig->owner.queue, &before);
    assert_int_equal(rig_bind(rig, grants, 32), KVASIR_OK);
    assert_int_equal(rig_revoke(rig, grants, 32), KVASIR_OK);
    rig->ops->queue_stats(rig->owner.queue, &after);
    assert_int_equal(after.doorbells - before.doorbells, 2);
    assert_int_equal(after.completions - before.completions, 2);
    assert_int_equal(after.work_requests - before.work_requests, 64);
    assert_int_equal(after.binds - before.binds, 32);
    assert_int_equal(after.revocations - before.revocations, 32);
    assert_int_equal(after.windows_free, 32);
}

/* With 8 random bits a key is foretold one time in 255; a counter would be every time. */
static void test_rdma_window_keys_are_random_and_new(void **state)
{
    struct rig *rig = *state;
    struct kvasir_grant grant = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, AT, BYTES);
    unsigned low_bits[256] = {0};
    unsigned different = 0;
    uint32_t last_of[256] = {0};
    for (unsigned i = 0; i < 2000; i++) {
        uint32_t key;
        assert_int_equal(rig_bind(rig, &grant, 1), KVASIR_OK);
        key = grant.key;
        /* Never the one that this window had before. */
        assert_int_not_equal(last_of[(key >> 8) % 256], key);
        last_of[(key >> 8) % 256] = key;
        different += low_bits[key & 0xff]++ == 0 ? 1 : 0;
        assert_int_equal(rig_revoke(rig, &grant, 1), KVASIR_OK);
    }
    assert_true(different > 200);
}

static void test_rdma_window_refuses_malformed_grants(void **state)
{
    struct rig *rig = *state;
    const struct kvasir_grant good = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, AT, BYTES);
    struct kvasir_grant grants[33];
    struct kvasir_job bind = {.kind = KVASIR_JOB_BIND, .grants = grants, .grant_count = 1};
    struct kvasir_job revoke = {.kind = KVASIR_JOB_REVOKE, .grants = grants, .grant_count = 1};
    grants[0] = good;
    grants[0].rights = 0;
    assert_int_equal(rig->ops->submit(rig->owner.link, &bind), KVASIR_INVALID);
    grants[0].rights = KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_WINDOWS;
    assert_int_equal(rig->ops->submit(rig->owner.link, &bind), KVASIR_INVALID);
    grants[0] = good;
    grants[0].local.bytes = RIG_MEMORY_BYTES;
    assert_int_equal(rig->ops->submit(rig->owner.link, &bind), KVASIR_INVALID);
    grants[0].local.bytes = 0;
    assert_int_equal(rig->ops->submit(rig->owner.link, &bind), KVASIR_INVALID);
    grants[0] = good;
    bind.grant_count = 0;
    assert_int_equal(rig->ops->submit(rig->owner.link, &bind), KVASIR_INVALID);
    /* More than there will ever be. */
    for (unsigned i = 0; i < 33; i++) {
        grants[i] = good;
    }
    bind.grant_count = 33;
    assert_int_equal(rig->ops->submit(rig->owner.link, &bind), KVASIR_TOO_LARGE);
    /* What is not bound is never told to the adapter. */
    assert_int_equal(rig->ops->submit(rig->owner.link, &revoke), KVASIR_INVALID);
    assert_int_equal(rig_bind(rig, grants, 1), KVASIR_OK);
    grants[1] = grants[0];
    revoke.grant_count = 2;
    assert_int_equal(rig->ops->submit(rig->owner.link, &revoke), KVASIR_INVALID);
    assert_int_equal(rig_revoke(rig, grants, 1), KVASIR_OK);
}

static void test_rdma_window_needs_memory_that_allows_it(void **state)
{
    struct rig *rig = *state;
    struct kvasir_grant grant = {
        .local = {.memory = rig->peer.memory, .address = (uintptr_t)rig->peer.bytes, .bytes = 1},
        .rights = KVASIR_RIGHT_REMOTE_READ};
    struct kvasir_job bind = {.kind = KVASIR_JOB_BIND, .grants = &grant, .grant_count = 1};
    assert_int_equal(rig->ops->submit(rig->peer.link, &bind), KVASIR_INVALID);
}

static void test_rdma_window_closing_a_link_ends_its_grants(void **state)
{
    struct rig *rig = *state;
    struct kvasir_grant grants[32];
    struct kvasir_queue_stats stats;
    for (unsigned i = 0; i < 32; i++) {
        grants[i] = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, i * 512, 512);
    }
    assert_int_equal(rig_bind(rig, grants, 32), KVASIR_OK);
    rig->ops->link_close(&rig->owner.link);
    rig->ops->queue_stats(rig->owner.queue, &stats);
    assert_int_equal(stats.windows_free, 32);
    assert_int_equal(stats.windows_replaced, 32);
    assert_true(rig_idle(rig, &rig->owner));
    mend(rig);
    assert_int_equal(rig_bind(rig, grants, 32), KVASIR_OK);
}

/* A link that broke keeps its owner's grants until he gives them up; they give no right any more. */
static void test_rdma_window_of_a_broken_link_is_revoked_at_once(void **state)
{
    struct rig *rig = *state;
    struct kvasir_grant grants[2] = {rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, 0, 512),
                                     rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, 512, 512)};
    struct kvasir_queue_stats stats;
    assert_int_equal(rig_bind(rig, grants, 2), KVASIR_OK);
    assert_int_equal(rig_move(rig, &rig->owner, KVASIR_JOB_READ, 0x700, 0, 1), KVASIR_DENIED);
    assert_int_equal(rig_event(rig, &rig->owner).kind, KVASIR_EVENT_LINK_DOWN);
    assert_int_equal(rig_revoke(rig, grants, 1), KVASIR_OK);
    rig->ops->queue_stats(rig->owner.queue, &stats);
    assert_int_equal(stats.windows_free, 31);
    assert_int_equal(rig_revoke(rig, grants + 1, 1), KVASIR_OK);
    assert_null(grants[1].window);
    rig->ops->queue_stats(rig->owner.queue, &stats);
    assert_int_equal(stats.windows_free, 32);
}

static void test_rdma_window_bind_under_way_when_the_link_breaks(void **state)
{
    struct rig *rig = *state;
    struct kvasir_grant grants[4];
    struct kvasir_grant bound = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, 0, 512);
    struct kvasir_job bind = {
        .kind = KVASIR_JOB_BIND, .cookie = 5, .grants = grants, .grant_count = 4};
    struct kvasir_job revoke = {
        .kind = KVASIR_JOB_REVOKE, .cookie = 6, .grants = &bound, .grant_count = 1};
    const struct kvasir_local local = {
        .memory = rig->owner.memory, .address = (uintptr_t)rig->owner.bytes, .bytes = 1};
    const struct kvasir_remote remote = {
        .address = (uintptr_t)rig->peer.bytes, .bytes = 1, .key = 0x700};
    struct kvasir_job wrong = {.kind = KVASIR_JOB_READ,
                               .cookie = 4,
                               .locals = &local,
                               .local_count = 1,
                               .remotes = &remote,
                               .remote_count = 1};
    struct kvasir_event event;
    assert_int_equal(rig_bind(rig, &bound, 1), KVASIR_OK);
    for (unsigned i = 0; i < 4; i++) {
        grants[i] = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, i * 512, 512);
    }
    fake_hold(true);
    assert_int_equal(rig->ops->submit(rig->owner.link, &wrong), KVASIR_PENDING);
    assert_int_equal(rig->ops->submit(rig->owner.link, &bind), KVASIR_PENDING);
    assert_int_equal(rig->ops->submit(rig->owner.link, &revoke), KVASIR_PENDING);
    fake_hold(false);
    event = rig_event(rig, &rig->owner);
    assert_int_equal(event.cookie, 4);
    assert_int_equal(event.status, KVASIR_DENIED);
    event = rig_event(rig, &rig->owner);
    assert_int_equal(event.cookie, 5);
    assert_int_equal(event.status, KVASIR_CLOSED);
    assert_null(grants[3].window);
    event = rig_event(rig, &rig->owner);
    assert_int_equal(event.cookie, 6);
    assert_int_equal(event.status, KVASIR_OK);
    assert_null(bound.window);
    assert_int_equal(rig_event(rig, &rig->owner).kind, KVASIR_EVENT_LINK_DOWN);
}

static void test_rdma_window_pool_takes_what_the_adapter_has(void **state)
{
    struct rig rig;
    struct kvasir_queue_stats stats;
    (void)state;
    assert_int_equal(
        rig_open(&rig, &(struct rig_options){.fake = {.windows_max = 40}, .windows_max = 32}),
        KVASIR_OK);
    rig.ops->queue_stats(rig.owner.queue, &stats);
    assert_int_equal(stats.windows, 32);
    rig.ops->queue_stats(rig.peer.queue, &stats);
    assert_int_equal(stats.windows, 8);
    assert_non_null(strstr(rig.logged, "8 windows of 32 wanted"));
    rig_close(&rig);
}

static void test_rdma_window_none_where_none_work(void **state)
{
    struct rig rig;
    struct kvasir_grant grant;
    struct kvasir_job bind = {.kind = KVASIR_JOB_BIND, .grants = &grant, .grant_count = 1};
    (void)state;
    assert_int_equal(rig_open(&rig, &(struct rig_options){.fake = {.revoke_lies = true}}),
                     KVASIR_OK);
    grant = rig_grant(&rig, KVASIR_RIGHT_REMOTE_READ, 0, 1);
    assert_int_equal(rig.ops->submit(rig.owner.link, &bind), KVASIR_UNSUPPORTED);
    assert_int_equal(rig_move(&rig, &rig.owner, KVASIR_JOB_READ, rig.peer.key, 0, 1), KVASIR_OK);
    rig_close(&rig);
}

#define ON_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_RIG(test_rdma_window_gives_exactly_the_granted_bytes),
        ON_RIG(test_rdma_window_gives_only_the_right_that_was_granted),
        ON_RIG(test_rdma_window_revoked_key_is_dead),
        ON_RIG(test_rdma_window_is_free_only_after_the_event),
        ON_RIG(test_rdma_window_is_refused_on_another_link),
        ON_RIG(test_rdma_window_chains_have_one_completion),
        ON_RIG(test_rdma_window_keys_are_random_and_new),
        ON_RIG(test_rdma_window_refuses_malformed_grants),
        ON_RIG(test_rdma_window_needs_memory_that_allows_it),
        ON_RIG(test_rdma_window_closing_a_link_ends_its_grants),
        ON_RIG(test_rdma_window_of_a_broken_link_is_revoked_at_once),
        ON_RIG(test_rdma_window_bind_under_way_when_the_link_breaks),
        cmocka_unit_test(test_rdma_window_pool_takes_what_the_adapter_has),
        cmocka_unit_test(test_rdma_window_none_where_none_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
