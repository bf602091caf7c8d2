/* test_rdma_device – the rdma module's devices, the choice of a GID, opening, and what windows must do
 * before they are offered. */

#include "test_rdma_jobs.h"

static void load(struct rig *rig, const struct fake_options *options)
{
    assert_int_equal(rig_load(rig, options), KVASIR_OK);
}

static struct kvasir_device list_first(struct rig *rig)
{
    struct kvasir_device devices[4];
    unsigned count = 0;
    assert_int_equal(rig->ops->devices(rig->state, devices, 4, &count, rig->said), KVASIR_OK);
    assert_int_equal(count, 2);
    return devices[0];
}

static void test_rdma_device_lists_ports_with_gids(void **state)
{
    struct rig rig;
    struct kvasir_device device;
    (void)state;
    load(&rig, &(struct fake_options){.message_bytes_max = 8U << 20});
    device = list_first(&rig);
    assert_string_equal(device.name, "fake0");
    assert_int_equal(device.port, 1);
    assert_int_equal(device.layer, KVASIR_LAYER_ETHERNET);
    assert_true(device.up);
    assert_true(device.windows);
    assert_int_equal(device.numa_node, -1);
    assert_int_equal(device.mtu_bytes, 4096);
    assert_int_equal(device.rd_atomic, 16);
    assert_int_equal(device.message_bytes_max, 8U << 20);
    assert_int_equal(device.gid_count, 5);
    assert_int_equal(device.gids[2].type, KVASIR_GID_ROCE_V1);
    assert_int_equal(device.gids[3].type, KVASIR_GID_ROCE_V2);
    assert_int_equal(device.gids[3].index, 3);
    rig_unload(&rig);
}

static void test_rdma_device_counts_more_than_it_has_room_for(void **state)
{
    struct rig rig;
    struct kvasir_device device;
    unsigned count = 0;
    (void)state;
    load(&rig, &(struct fake_options){.no_windows = true});
    assert_int_equal(rig.ops->devices(rig.state, &device, 1, &count, rig.said), KVASIR_OK);
    assert_int_equal(count, 2);
    assert_false(device.windows);
    rig_unload(&rig);
}

static void test_rdma_device_none_is_no_failure(void **state)
{
    struct rig rig;
    struct kvasir_device device;
    struct kvasir_domain *domain = NULL;
    unsigned count = 7;
    (void)state;
    load(&rig, &(struct fake_options){.no_devices = true});
    assert_int_equal(rig.ops->devices(rig.state, &device, 1, &count, rig.said), KVASIR_OK);
    assert_int_equal(count, 0);
    assert_int_equal(rig.ops->domain_open(rig.state, "fake0", 1, -1, &domain, rig.said),
                     KVASIR_NOT_FOUND);
    assert_string_equal(rig.said, "there is no RDMA device fake0");
    assert_null(domain);
    rig_unload(&rig);
}

/* ---- which GID ---- */

static unsigned chosen(struct rig *rig, int index, const char *peer_last)
{
    struct kvasir_device device = list_first(rig);
    struct kvasir_gid peer = {.type = KVASIR_GID_ROCE_V2};
    struct kvasir_gid gid = {.index = 99};
    if (peer_last != NULL) {
        memcpy(peer.raw, peer_last, sizeof(peer.raw));
    }
    assert_int_equal(rig->ops->choose_gid(rig->state, &device, index,
                                          peer_last != NULL ? &peer : NULL, &gid, rig->said),
                     KVASIR_OK);
    return gid.index;
}

static void test_rdma_device_chooses_a_gid_by_rule(void **state)
{
    struct rig rig;
    (void)state;
    load(&rig, &(struct fake_options){.no_windows = false});
    /* RoCE v2 and IPv4, the first of two. */
    assert_int_equal(chosen(&rig, KVASIR_GID_INDEX_AUTO, NULL), 3);
    /* The peer's subnet: 192.168.7.9 and 10.0.0.9. */
    assert_int_equal(
        chosen(&rig, KVASIR_GID_INDEX_AUTO, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\xa8\x07\x09"), 4);
    assert_int_equal(
        chosen(&rig, KVASIR_GID_INDEX_AUTO, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x00\x00\x09"), 3);
    /* A peer that speaks no IPv4: fe80::9. */
    assert_int_equal(chosen(&rig, KVASIR_GID_INDEX_AUTO, "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\x09"),
                     1);
    assert_int_equal(chosen(&rig, 0, NULL), 0);
    rig_unload(&rig);
}

static void test_rdma_device_names_the_indexes_there_are(void **state)
{
    struct rig rig;
    struct kvasir_device device;
    struct kvasir_gid gid;
    (void)state;
    load(&rig, &(struct fake_options){.no_windows = false});
    device = list_first(&rig);
    assert_int_equal(rig.ops->choose_gid(rig.state, &device, 9, NULL, &gid, rig.said),
                     KVASIR_NOT_FOUND);
    assert_string_equal(rig.said,
                        "device fake0 port 1 has no GID of index 9; it has 0, 1, 2, 3, 4");
    device.gid_count = 0;
    assert_int_equal(rig.ops->choose_gid(rig.state, &device, -1, NULL, &gid, rig.said),
                     KVASIR_NOT_FOUND);
    assert_non_null(strstr(rig.said, "has no GID; give its network interface an address"));
    rig_unload(&rig);
}

/* ---- opening ---- */

static void test_rdma_device_refuses_what_cannot_be_opened(void **state)
{
    struct rig rig;
    struct kvasir_domain *domain = NULL;
    (void)state;
    load(&rig, &(struct fake_options){.port_down = true});
    assert_int_equal(rig.ops->domain_open(rig.state, "fake0", 2, -1, &domain, rig.said),
                     KVASIR_NOT_FOUND);
    assert_string_equal(rig.said, "device fake0 has no port 2; it has 1");
    assert_int_equal(rig.ops->domain_open(rig.state, "fake0", 1, -1, &domain, rig.said),
                     KVASIR_CLOSED);
    assert_non_null(strstr(rig.said, "fake0 port 1 is down"));
    assert_null(domain);
    rig_unload(&rig);
}

/* What a domain says of windows on such adapters. */
static bool windows_of(const struct fake_options *options, char *reason)
{
    struct rig rig;
    struct kvasir_domain *domain = NULL;
    const struct kvasir_domain_facts *facts;
    bool windows;
    load(&rig, options);
    assert_int_equal(rig.ops->domain_open(rig.state, "fake0", 1, -1, &domain, rig.said), KVASIR_OK);
    facts = rig.ops->domain_facts(domain);
    windows = facts->windows;
    (void)snprintf(reason, KVASIR_SAID_BYTES, "%s", facts->windows_reason);
    rig.ops->domain_close(&domain);
    assert_null(domain);
    rig_unload(&rig);
    return windows;
}

static void test_rdma_device_offers_windows_that_hold(void **state)
{
    char reason[KVASIR_SAID_BYTES];
    (void)state;
    assert_true(windows_of(&(struct fake_options){.no_windows = false}, reason));
    assert_string_equal(reason, "");
    assert_true(windows_of(&(struct fake_options){.infiniband = true}, reason));
}

static void test_rdma_device_offers_no_windows_that_do_not(void **state)
{
    char reason[KVASIR_SAID_BYTES];
    (void)state;
    assert_false(windows_of(&(struct fake_options){.no_windows = true}, reason));
    assert_non_null(strstr(reason, "none of type 2B"));
    assert_false(windows_of(&(struct fake_options){.bind_fails = true}, reason));
    assert_non_null(strstr(reason, "binding a window"));
    assert_false(windows_of(&(struct fake_options){.revoke_lies = true}, reason));
    assert_non_null(strstr(reason, "reading with a revoked key: bytes came"));
}

/* ---- memory ---- */

static void note_progress(void *argument, size_t done_bytes, size_t bytes)
{
    size_t *last = argument;
    assert_true(done_bytes > *last && done_bytes <= bytes);
    *last = done_bytes;
}

static void test_rdma_device_registers_memory_in_parts(void **state)
{
    struct rig rig;
    struct kvasir_domain *domain = NULL;
    struct kvasir_memory *memory = NULL;
    struct kvasir_remote remotes[8];
    unsigned count = 0;
    size_t done_bytes = 0;
    uint8_t *bytes = malloc(9000);
    struct kvasir_memory_options options = {.base = bytes,
                                            .bytes = 9000,
                                            .rights = RIG_RIGHTS,
                                            .threads = 2,
                                            .progress = note_progress,
                                            .argument = &done_bytes};
    (void)state;
    load(&rig, &(struct fake_options){.registration_bytes_max = 2 * 4096});
    assert_int_equal(rig.ops->domain_open(rig.state, "fake0", 1, -1, &domain, rig.said), KVASIR_OK);
    assert_int_equal(rig.ops->memory_register(domain, &options, &memory, rig.said), KVASIR_OK);
    assert_int_equal(done_bytes, 9000);
    assert_int_equal(
        rig.ops->memory_expose(memory, (uintptr_t)bytes + 8000, 1000, remotes, 8, &count),
        KVASIR_OK);
    assert_int_equal(count, 2);
    assert_int_equal(remotes[0].bytes, 192);
    assert_int_equal(remotes[1].bytes, 808);
    assert_int_equal(remotes[1].address, (uintptr_t)bytes + 8192);
    assert_int_not_equal(remotes[0].key, remotes[1].key);
    assert_int_equal(
        rig.ops->memory_expose(memory, (uintptr_t)bytes + 8000, 1000, remotes, 1, &count),
        KVASIR_TOO_SMALL);
    assert_int_equal(
        rig.ops->memory_expose(memory, (uintptr_t)bytes + 8000, 1001, remotes, 8, &count),
        KVASIR_INVALID);
    assert_int_equal(rig.ops->memory_expose(memory, (uintptr_t)bytes, 0, remotes, 8, &count),
                     KVASIR_INVALID);
    rig.ops->memory_deregister(&memory);
    rig.ops->domain_close(&domain);
    free(bytes);
    rig_unload(&rig);
}

/* An adapter that takes 5 MiB at most is given 4. */
static void test_rdma_device_cuts_memory_at_huge_pages(void **state)
{
    enum {
        MIB = 1 << 20
    };
    struct rig rig;
    struct kvasir_domain *domain = NULL;
    struct kvasir_memory *memory = NULL;
    struct kvasir_remote remotes[8];
    unsigned count = 0;
    /* Nobody touches it. */
    uint8_t *bytes = malloc(9 * MIB);
    const struct kvasir_memory_options options = {
        .base = bytes, .bytes = 9 * MIB, .rights = RIG_RIGHTS};
    (void)state;
    load(&rig, &(struct fake_options){.registration_bytes_max = 5 * MIB});
    assert_int_equal(rig.ops->domain_open(rig.state, "fake0", 1, -1, &domain, rig.said), KVASIR_OK);
    assert_int_equal(rig.ops->memory_register(domain, &options, &memory, rig.said), KVASIR_OK);
    assert_int_equal(rig.ops->memory_expose(memory, (uintptr_t)bytes, 9 * MIB, remotes, 8, &count),
                     KVASIR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(remotes[0].bytes, 4 * MIB);
    assert_int_equal(remotes[1].bytes, 4 * MIB);
    assert_int_equal(remotes[2].bytes, 1 * MIB);
    rig.ops->memory_deregister(&memory);
    rig.ops->domain_close(&domain);
    free(bytes);
    rig_unload(&rig);
}

static void test_rdma_device_refuses_malformed_registrations(void **state)
{
    struct rig rig;
    struct kvasir_domain *domain = NULL;
    struct kvasir_memory *memory = NULL;
    uint8_t bytes[64];
    const struct kvasir_memory_options wrong[] = {
        {.base = bytes, .bytes = 0},
        {.base = bytes, .bytes = SIZE_MAX},
        {.base = bytes, .bytes = 64, .rights = 1U << 20},
        {.base = bytes, .bytes = 64, .rights = RIG_RIGHTS | KVASIR_RIGHT_READ_ONLY}};
    const struct kvasir_memory_options of_a_device = {
        .base = bytes, .bytes = 64, .rights = KVASIR_RIGHT_DMABUF, .dmabuf_fd = 0};
    (void)state;
    load(&rig, &(struct fake_options){.no_windows = false});
    assert_int_equal(rig.ops->domain_open(rig.state, "fake0", 1, -1, &domain, rig.said), KVASIR_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(rig.ops->memory_register(domain, &wrong[i], &memory, rig.said),
                         KVASIR_INVALID);
    }
    assert_int_equal(rig.ops->memory_register(domain, &of_a_device, &memory, rig.said),
                     KVASIR_UNSUPPORTED);
    assert_null(memory);
    rig.ops->domain_close(&domain);
    rig_unload(&rig);
}

static void test_rdma_device_tells_what_happens_to_it(void **state)
{
    struct rig rig;
    struct kvasir_event events[4];
    (void)state;
    assert_int_equal(rig_open(&rig, &(struct rig_options){.depth = 0}), KVASIR_OK);
    assert_int_equal(rig.ops->domain_poll(rig.owner.domain, events, 4), 0);
    fake_raise(IBV_EVENT_PORT_ERR, 0);
    fake_raise(IBV_EVENT_LID_CHANGE, 0);
    fake_raise(IBV_EVENT_PORT_ACTIVE, 0);
    fake_raise(IBV_EVENT_DEVICE_FATAL, 0);
    assert_int_equal(rig.ops->domain_poll(rig.owner.domain, events, 4), 3);
    assert_int_equal(events[0].kind, KVASIR_EVENT_PORT_DOWN);
    assert_int_equal(events[1].kind, KVASIR_EVENT_PORT_UP);
    assert_int_equal(events[2].kind, KVASIR_EVENT_DEVICE_GONE);
    /* A peer that tries a key that it does not have breaks its link at the owner's side, too. */
    assert_int_equal(rig_move(&rig, &rig.peer, KVASIR_JOB_READ, 0x700, 0, 1), KVASIR_DENIED);
    assert_int_equal(rig.ops->domain_poll(rig.owner.domain, events, 4), 1);
    assert_int_equal(events[0].kind, KVASIR_EVENT_LINK_BROKEN);
    assert_int_equal(events[0].cookie, 1000);
    rig_close(&rig);
}

static void test_rdma_device_speaks_with_the_traffic_class_of_the_link(void **state)
{
    static const uint8_t classes[] = {0, 106, 255};
    struct rig rig;
    struct kvasir_link_address peer;
    struct kvasir_link *other = NULL;
    struct kvasir_link_options options = {.gid_index = KVASIR_GID_INDEX_AUTO};
    (void)state;
    assert_int_equal(rig_open(&rig, &(struct rig_options){.depth = 0}), KVASIR_OK);
    rig.ops->link_close(&rig.owner.link);
    assert_int_equal(rig.ops->link_create(rig.peer.queue, &options, &other, &peer, rig.said),
                     KVASIR_OK);
    for (size_t i = 0; i < sizeof(classes); i++) {
        struct kvasir_link_address local;
        struct ibv_global_route route;
        options.traffic_class = classes[i];
        assert_int_equal(
            rig.ops->link_create(rig.owner.queue, &options, &rig.owner.link, &local, rig.said),
            KVASIR_OK);
        assert_int_equal(rig_connect(&rig, &rig.owner, rig.owner.link, &peer), KVASIR_OK);
        route = fake_pair_route(local.queue_pair);
        assert_int_equal(route.traffic_class, classes[i]);
        assert_int_equal(route.hop_limit, 64);
        rig.ops->link_close(&rig.owner.link);
    }
    rig.ops->link_close(&other);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rdma_device_lists_ports_with_gids),
        cmocka_unit_test(test_rdma_device_counts_more_than_it_has_room_for),
        cmocka_unit_test(test_rdma_device_none_is_no_failure),
        cmocka_unit_test(test_rdma_device_chooses_a_gid_by_rule),
        cmocka_unit_test(test_rdma_device_names_the_indexes_there_are),
        cmocka_unit_test(test_rdma_device_refuses_what_cannot_be_opened),
        cmocka_unit_test(test_rdma_device_offers_windows_that_hold),
        cmocka_unit_test(test_rdma_device_offers_no_windows_that_do_not),
        cmocka_unit_test(test_rdma_device_registers_memory_in_parts),
        cmocka_unit_test(test_rdma_device_cuts_memory_at_huge_pages),
        cmocka_unit_test(test_rdma_device_refuses_malformed_registrations),
        cmocka_unit_test(test_rdma_device_tells_what_happens_to_it),
        cmocka_unit_test(test_rdma_device_speaks_with_the_traffic_class_of_the_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
