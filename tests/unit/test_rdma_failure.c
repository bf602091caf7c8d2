/* test_rdma_failure – the rdma module when things fail: every call once, a peer that is gone, an adapter that
 * is gone, links that break among others, and addresses that do not fit. */

#include "test_rdma_jobs.h"

static const struct rig_options PLAIN = {.depth = 0};

/* ---- every call once ---- */

/* Everything a server and a client do, and back. Answers the first failure. */
static enum kvasir_status run_all(struct rig *rig, unsigned fail_at)
{
    const struct rig_options options = {.fake = {.registration_bytes_max = RIG_MEMORY_BYTES / 4},
                                        .windows_max = 3};
    struct kvasir_grant grants[2];
    struct kvasir_job job = {.kind = KVASIR_JOB_BIND, .grants = grants, .grant_count = 2};
    enum kvasir_status status;
    assert_int_equal(rig_load(rig, &options.fake), KVASIR_OK);
    rig->owner.bytes = malloc(RIG_MEMORY_BYTES);
    rig->peer.bytes = malloc(RIG_MEMORY_BYTES);
    memset(rig->owner.bytes, 0, RIG_MEMORY_BYTES);
    fake_fail_at(fail_at);
    status = rig_open_end(rig, &rig->owner, "fake0", KVASIR_RIGHT_WINDOWS, &options);
    if (status == KVASIR_OK) {
        status = rig_open_end(rig, &rig->peer, "fake1", RIG_RIGHTS, &options);
    }
    if (status == KVASIR_OK) {
        status = rig_link(rig, &options, &rig->owner.link, &rig->peer.link);
    }
    if (status == KVASIR_OK) {
        grants[0] = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, 0, 1000);
        grants[1] = rig_grant(rig, KVASIR_RIGHT_REMOTE_READ, 1000, 1000);
        status = rig->ops->submit(rig->owner.link, &job);
    }
    if (status == KVASIR_PENDING) {
        status = rig_event(rig, &rig->owner).status;
    }
    if (status == KVASIR_OK) {
        status = rig_move(rig, &rig->peer, KVASIR_JOB_READ, grants[0].key, 0, 1000);
        /* A broken link's grants are given up all the same. */
        assert_int_equal(rig_revoke(rig, grants, 2), KVASIR_OK);
    }
    return status;
}

static void test_rdma_failure_of_every_call_is_survived(void **state)
{
    struct rig rig;
    unsigned calls;
    (void)state;
    assert_int_equal(run_all(&rig, 0), KVASIR_OK);
    calls = fake_calls();
    assert_true(calls > 40);
    rig_close(&rig);
    for (unsigned call = 1; call <= calls; call++) {
        enum kvasir_status status = run_all(&rig, call);
        /* What can be done without is: a window, windows at all, inline, a thread. */
        assert_true(status <= KVASIR_OK);
        if (status != KVASIR_OK && rig.owner.link == NULL) {
            assert_true(strlen(rig.said) > 10);
        }
        rig_close(&rig);
    }
}

/* ---- links that break ---- */

/* A job of one byte by a key, offered and not waited for. */
static void offer(struct rig *rig, struct kvasir_link *link, uint64_t cookie, uint32_t key,
                  struct kvasir_local *local, struct kvasir_remote *remote)
{
    struct kvasir_job job = {.kind = KVASIR_JOB_READ,
                             .cookie = cookie,
                             .locals = local,
                             .local_count = 1,
                             .remotes = remote,
                             .remote_count = 1};
    *local = (struct kvasir_local){
        .memory = rig->owner.memory, .address = (uintptr_t)rig->owner.bytes + cookie, .bytes = 1};
    *remote = (struct kvasir_remote){
        .address = (uintptr_t)rig->peer.bytes + cookie, .bytes = 1, .key = key};
    assert_int_equal(rig->ops->submit(link, &job), KVASIR_PENDING);
}

static void test_rdma_failure_of_one_job_ends_those_behind_it_only(void **state)
{
    struct rig rig;
    struct kvasir_local locals[20];
    struct kvasir_remote remotes[20];
    struct kvasir_link *second = NULL;
    struct kvasir_link *its_peer = NULL;
    struct kvasir_event event;
    (void)state;
    assert_int_equal(rig_open(&rig, &(struct rig_options){.depth = 4}), KVASIR_OK);
    assert_int_equal(rig_link(&rig, &PLAIN, &second, &its_peer), KVASIR_OK);
    memset(rig.peer.bytes, 1, RIG_MEMORY_BYTES);
    fake_hold(true);
    for (unsigned i = 0; i < 10; i++) {
        offer(&rig, rig.owner.link, i, i == 5 ? 0x700 : rig.peer.key, &locals[i], &remotes[i]);
    }
    for (unsigned i = 10; i < 20; i++) {
        offer(&rig, second, i, rig.peer.key, &locals[i], &remotes[i]);
    }
    fake_hold(false);
    for (unsigned left = 20; left > 0; left--) {
        event = rig_event(&rig, &rig.owner);
        assert_int_equal(event.kind, KVASIR_EVENT_JOB);
        assert_int_equal(event.status, event.cookie < 5 || event.cookie >= 10 ? KVASIR_OK
                                       : event.cookie == 5                    ? KVASIR_DENIED
                                                                              : KVASIR_CLOSED);
        assert_int_equal(rig.owner.bytes[event.cookie], event.status == KVASIR_OK ? 1 : 0);
    }
    event = rig_event(&rig, &rig.owner);
    assert_int_equal(event.kind, KVASIR_EVENT_LINK_DOWN);
    assert_int_equal(event.cookie, 1000);
    assert_true(rig_idle(&rig, &rig.owner));
    rig.ops->link_close(&second);
    rig.ops->link_close(&its_peer);
    rig_close(&rig);
}

static void test_rdma_failure_is_mended_by_another_link(void **state)
{
    struct rig rig;
    struct kvasir_job job = {.kind = KVASIR_JOB_READ};
    (void)state;
    assert_int_equal(rig_open(&rig, &PLAIN), KVASIR_OK);
    /* More often than there are places for links. */
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(rig_move(&rig, &rig.owner, KVASIR_JOB_READ, 0x700, 0, 8), KVASIR_DENIED);
        assert_int_equal(rig.ops->submit(rig.owner.link, &job), KVASIR_CLOSED);
        rig.ops->link_close(&rig.owner.link);
        rig.ops->link_close(&rig.peer.link);
        /* Who closes a link hears no more of it. */
        assert_true(rig_idle(&rig, &rig.owner));
        assert_int_equal(rig_link(&rig, &PLAIN, &rig.owner.link, &rig.peer.link), KVASIR_OK);
        assert_int_equal(rig_move(&rig, &rig.owner, KVASIR_JOB_READ, rig.peer.key, 0, 8),
                         KVASIR_OK);
    }
    rig_close(&rig);
}

static void test_rdma_failure_of_the_peer_is_a_timeout(void **state)
{
    struct rig rig;
    (void)state;
    assert_int_equal(rig_open(&rig, &PLAIN), KVASIR_OK);
    rig.ops->link_close(&rig.peer.link);
    assert_int_equal(rig_move(&rig, &rig.owner, KVASIR_JOB_WRITE, rig.peer.key, 0, 4096),
                     KVASIR_TIMEOUT);
    assert_string_equal(rig.logged,
                        "no RDMA link: other error; here device fake0, GID ::ffff:10.0.0.1 (index "
                        "3, RoCE v2), MTU 4096; there device fake1, GID ::ffff:10.0.0.2 (index 3, "
                        "RoCE v2), MTU 4096");
    rig_close(&rig);
}

static void test_rdma_failure_again_and_again_does_not_fill_the_log(void **state)
{
    struct rig rig;
    unsigned logged = 0;
    (void)state;
    assert_int_equal(rig_open(&rig, &PLAIN), KVASIR_OK);
    for (unsigned i = 0; i < 200; i++) {
        rig.logged[0] = '\0';
        assert_int_equal(rig_move(&rig, &rig.owner, KVASIR_JOB_READ, 0x700, 0, 8), KVASIR_DENIED);
        logged += rig.logged[0] != '\0' ? 1 : 0;
        rig.ops->link_close(&rig.owner.link);
        rig.ops->link_close(&rig.peer.link);
        assert_int_equal(rig_link(&rig, &PLAIN, &rig.owner.link, &rig.peer.link), KVASIR_OK);
    }
    assert_int_equal(logged, 16 + 3);
    rig_close(&rig);
}

static void test_rdma_failure_closing_cancels_what_is_under_way(void **state)
{
    struct rig rig;
    struct kvasir_local locals[10];
    struct kvasir_remote remotes[10];
    (void)state;
    assert_int_equal(rig_open(&rig, &(struct rig_options){.depth = 4}), KVASIR_OK);
    memset(rig.peer.bytes, 1, RIG_MEMORY_BYTES);
    fake_hold(true);
    for (unsigned i = 0; i < 10; i++) {
        offer(&rig, rig.owner.link, i, rig.peer.key, &locals[i], &remotes[i]);
    }
    fake_run(2);
    rig.ops->link_close(&rig.owner.link);
    fake_hold(false);
    for (unsigned i = 0; i < 10; i++) {
        struct kvasir_event event = rig_event(&rig, &rig.owner);
        assert_int_equal(event.cookie, i);
        assert_int_equal(event.status, KVASIR_CANCELLED);
    }
    assert_true(rig_idle(&rig, &rig.owner));
    /* Two had happened, unseen; nothing has since. */
    assert_int_equal(rig.owner.bytes[1], 1);
    assert_int_equal(rig.owner.bytes[2], 0);
    rig_close(&rig);
}

/* Without a single completion everything comes to an end. */
static void test_rdma_failure_of_the_adapter_leaves_nothing_waiting(void **state)
{
    struct rig rig;
    struct kvasir_local locals[10];
    struct kvasir_remote remotes[10];
    struct kvasir_grant grant;
    struct kvasir_job revoke = {
        .kind = KVASIR_JOB_REVOKE, .cookie = 10, .grants = &grant, .grant_count = 1};
    (void)state;
    assert_int_equal(rig_open(&rig, &PLAIN), KVASIR_OK);
    grant = rig_grant(&rig, KVASIR_RIGHT_REMOTE_READ, 0, 8);
    assert_int_equal(rig_bind(&rig, &grant, 1), KVASIR_OK);
    fake_hold(true);
    for (unsigned i = 0; i < 10; i++) {
        offer(&rig, rig.owner.link, i, rig.peer.key, &locals[i], &remotes[i]);
    }
    assert_int_equal(rig.ops->submit(rig.owner.link, &revoke), KVASIR_PENDING);
    fake_remove();
    assert_true(rig_idle(&rig, &rig.owner));
    rig.ops->link_close(&rig.owner.link);
    for (unsigned i = 0; i <= 10; i++) {
        struct kvasir_event event = rig_event(&rig, &rig.owner);
        assert_int_equal(event.cookie, i);
        assert_int_equal(event.status, i < 10 ? KVASIR_CANCELLED : KVASIR_OK);
    }
    assert_null(grant.window);
    rig_close(&rig);
}

/* ---- addresses ---- */

struct two {
    struct kvasir_link *owner;
    struct kvasir_link *peer;
    struct kvasir_link_address owner_address;
    struct kvasir_link_address peer_address;
};

static struct two make_two(struct rig *rig, int peer_gid_index)
{
    struct two two = {.owner = NULL, .peer = NULL};
    struct kvasir_link_options options = {.gid_index = KVASIR_GID_INDEX_AUTO, .mtu_bytes = 1024};
    assert_int_equal(rig->ops->link_create(rig->owner.queue, &options, &two.owner,
                                           &two.owner_address, rig->said),
                     KVASIR_OK);
    options.gid_index = peer_gid_index;
    options.mtu_bytes = 0;
    assert_int_equal(
        rig->ops->link_create(rig->peer.queue, &options, &two.peer, &two.peer_address, rig->said),
        KVASIR_OK);
    return two;
}

static void close_two(struct rig *rig, struct two *two)
{
    rig->ops->link_close(&two->owner);
    rig->ops->link_close(&two->peer);
}

static void test_rdma_failure_to_connect_names_both_sides(void **state)
{
    struct rig rig;
    struct two two;
    (void)state;
    assert_int_equal(rig_open(&rig, &PLAIN), KVASIR_OK);
    /* RoCE v1 cannot reach v2. */
    two = make_two(&rig, 2);
    assert_int_equal(rig.ops->link_connect(two.owner, &two.peer_address, rig.said), KVASIR_INVALID);
    assert_string_equal(
        rig.said,
        "no RDMA link: the GIDs are of different types; choose another GID index; here device "
        "fake0, GID ::ffff:10.0.0.1 (index 3, RoCE v2), MTU 1024; there device fake1, GID "
        "::ffff:10.0.0.2 (index 2, RoCE v1), MTU 4096");
    close_two(&rig, &two);
    two = make_two(&rig, 1);
    assert_int_equal(rig.ops->link_connect(two.owner, &two.peer_address, rig.said), KVASIR_INVALID);
    assert_non_null(strstr(rig.said, "one GID is an IPv4 address, the other is not"));
    close_two(&rig, &two);
    /* Nobody has this address. */
    two = make_two(&rig, 3);
    two.peer_address.gid.raw[15] = 99;
    assert_int_equal(rig_connect(&rig, &rig.owner, two.owner, &two.peer_address), KVASIR_TIMEOUT);
    assert_non_null(strstr(rig.said, "::ffff:10.0.0.1 (index 3"));
    assert_non_null(strstr(rig.said, "::ffff:10.0.0.99 (index 3"));
    close_two(&rig, &two);
    rig_close(&rig);
}

/* ---- a device that takes long ---- */

static void test_rdma_failure_to_resolve_soon_holds_up_nobody(void **state)
{
    struct rig rig;
    struct two two;
    (void)state;
    assert_int_equal(rig_open(&rig, &PLAIN), KVASIR_OK);
    memset(rig.peer.bytes, 7, RIG_MEMORY_BYTES);
    two = make_two(&rig, 3);
    fake_slow(true);
    assert_int_equal(rig.ops->link_connect(two.owner, &two.peer_address, rig.said), KVASIR_PENDING);
    /* Others of the same queue work meanwhile, and this one takes no job yet. */
    assert_int_equal(rig_move(&rig, &rig.owner, KVASIR_JOB_READ, rig.peer.key, 0, 100), KVASIR_OK);
    assert_int_equal(rig.owner.bytes[99], 7);
    assert_true(rig_idle(&rig, &rig.owner));
    assert_int_equal(rig.ops->submit(two.owner, &(struct kvasir_job){.kind = KVASIR_JOB_READ}),
                     KVASIR_CLOSED);
    assert_int_equal(rig.ops->queue_arm(rig.owner.queue), KVASIR_OK);
    assert_false(rig_readable(rig.ops->queue_fd(rig.owner.queue)));
    fake_slow(false);
    assert_int_equal(rig_await_up(&rig, &rig.owner), KVASIR_OK);
    close_two(&rig, &two);
    rig_close(&rig);
}

static void test_rdma_failure_links_beyond_the_threads_wait_their_turn(void **state)
{
    enum {
        LINKS = 20
    };
    const struct kvasir_queue_options wanted = {.links_max = LINKS, .jobs_max = 1};
    struct kvasir_link_options options = {.gid_index = KVASIR_GID_INDEX_AUTO};
    struct kvasir_link *links[LINKS] = {NULL};
    struct kvasir_link_address address;
    struct kvasir_link_address peer;
    struct rig rig;
    struct rig_end many = {.bytes = NULL};
    struct two two;
    (void)state;
    assert_int_equal(rig_open(&rig, &PLAIN), KVASIR_OK);
    two = make_two(&rig, 3);
    peer = two.peer_address;
    assert_int_equal(rig.ops->queue_create(rig.owner.domain, &wanted, &many.queue, rig.said),
                     KVASIR_OK);
    fake_slow(true);
    for (unsigned i = 0; i < LINKS; i++) {
        options.cookie = i;
        assert_int_equal(rig.ops->link_create(many.queue, &options, &links[i], &address, rig.said),
                         KVASIR_OK);
        assert_int_equal(rig.ops->link_connect(links[i], &peer, rig.said), KVASIR_PENDING);
    }
    /* One that a thread is at, and one that waits for its turn. */
    rig.ops->link_close(&links[0]);
    rig.ops->link_close(&links[LINKS - 1]);
    fake_slow(false);
    for (unsigned i = 0; i < LINKS - 2; i++) {
        assert_int_equal(rig_await_up(&rig, &many), KVASIR_OK);
    }
    assert_true(rig_idle(&rig, &many));
    rig.ops->queue_destroy(&many.queue);
    close_two(&rig, &two);
    rig_close(&rig);
}

static void test_rdma_failure_closed_while_it_connects_gives_no_right(void **state)
{
    struct rig rig;
    struct two two;
    unsigned objects;
    (void)state;
    assert_int_equal(rig_open(&rig, &PLAIN), KVASIR_OK);
    objects = fake_objects();
    two = make_two(&rig, 3);
    fake_slow(true);
    assert_int_equal(rig.ops->link_connect(two.owner, &two.peer_address, rig.said), KVASIR_PENDING);
    rig.ops->link_close(&two.owner);
    assert_int_equal(fake_pair_rights(two.owner_address.queue_pair), 0);
    fake_slow(false);
    close_two(&rig, &two);
    /* Its queue pair goes when the thread has ended, by the next looks at the queue or with it. */
    while (fake_objects() != objects) {
        struct pollfd wait = {.fd = rig.ops->queue_fd(rig.owner.queue), .events = POLLIN};
        assert_int_equal(poll(&wait, 1, RIG_LIMIT_MS), 1);
        assert_true(rig_idle(&rig, &rig.owner));
    }
    rig_close(&rig);
}

static void test_rdma_failure_of_addresses_that_cannot_be(void **state)
{
    struct rig rig;
    struct two two;
    struct kvasir_link_address wrong[8];
    (void)state;
    assert_int_equal(rig_open(&rig, &PLAIN), KVASIR_OK);
    two = make_two(&rig, 3);
    for (size_t i = 0; i < 8; i++) {
        wrong[i] = two.peer_address;
    }
    wrong[0].mtu_bytes = 1500;
    wrong[1].queue_pair = 1U << 24;
    wrong[2].queue_pair = 0;
    wrong[3].packet_sequence = 1U << 24;
    wrong[4].layer = KVASIR_LAYER_INFINIBAND;
    wrong[5].rd_atomic = 1U << 20;
    memset(wrong[6].gid.raw, 0, sizeof(wrong[6].gid.raw));
    memset(&wrong[7], 0xff, sizeof(wrong[7]));
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(rig.ops->link_connect(two.owner, &wrong[i], rig.said), KVASIR_INVALID);
    }
    assert_int_equal(rig_connect(&rig, &rig.owner, two.owner, &two.peer_address), KVASIR_OK);
    assert_int_equal(rig.ops->link_connect(two.owner, &two.peer_address, rig.said), KVASIR_INVALID);
    assert_non_null(strstr(rig.said, "it was connected before"));
    close_two(&rig, &two);
    rig_close(&rig);
}

static void test_rdma_failure_to_create_says_what_is_possible(void **state)
{
    struct rig rig;
    struct kvasir_link *links[4] = {NULL};
    struct kvasir_link_address address;
    struct kvasir_link_options options = {.gid_index = 17};
    (void)state;
    assert_int_equal(rig_open(&rig, &PLAIN), KVASIR_OK);
    assert_int_equal(rig.ops->link_create(rig.owner.queue, &options, &links[0], &address, rig.said),
                     KVASIR_NOT_FOUND);
    options.gid_index = KVASIR_GID_INDEX_AUTO;
    options.mtu_bytes = 9000;
    assert_int_equal(rig.ops->link_create(rig.owner.queue, &options, &links[0], &address, rig.said),
                     KVASIR_INVALID);
    assert_non_null(strstr(rig.said, "an MTU of 9000 is not possible"));
    options.mtu_bytes = 0;
    options.rights = KVASIR_RIGHT_WINDOWS;
    assert_int_equal(rig.ops->link_create(rig.owner.queue, &options, &links[0], &address, rig.said),
                     KVASIR_INVALID);
    options.rights = 0;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(
            rig.ops->link_create(rig.owner.queue, &options, &links[i], &address, rig.said),
            i < 3 ? KVASIR_OK : KVASIR_BUSY);
    }
    assert_non_null(strstr(rig.said, "there are 4 links already"));
    /* A queue takes its links along. */
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rdma_failure_of_every_call_is_survived),
        cmocka_unit_test(test_rdma_failure_of_one_job_ends_those_behind_it_only),
        cmocka_unit_test(test_rdma_failure_is_mended_by_another_link),
        cmocka_unit_test(test_rdma_failure_of_the_peer_is_a_timeout),
        cmocka_unit_test(test_rdma_failure_again_and_again_does_not_fill_the_log),
        cmocka_unit_test(test_rdma_failure_closing_cancels_what_is_under_way),
        cmocka_unit_test(test_rdma_failure_of_the_adapter_leaves_nothing_waiting),
        cmocka_unit_test(test_rdma_failure_to_connect_names_both_sides),
        cmocka_unit_test(test_rdma_failure_to_resolve_soon_holds_up_nobody),
        cmocka_unit_test(test_rdma_failure_links_beyond_the_threads_wait_their_turn),
        cmocka_unit_test(test_rdma_failure_closed_while_it_connects_gives_no_right),
        cmocka_unit_test(test_rdma_failure_of_addresses_that_cannot_be),
        cmocka_unit_test(test_rdma_failure_to_create_says_what_is_possible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
