/* test_transport – the RDMA module between two devices: what moves arrives, what fails ends in time,
 * and a neighbour notices nothing. */

#include "transport_pair.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KIB    ((size_t)1 << 10)
#define MIB    ((size_t)1 << 20)
#define NO_KEY 0x00badbadU

/* ---- devices --------------------------------------------------------------------------------- */

static void test_transport_lists_both_devices(void **state)
{
    struct pair *pair = *state;
    struct kvasir_device devices[4];
    unsigned count = 0;
    char said[KVASIR_SAID_BYTES] = "";
    assert_int_equal(pair->ops->devices(pair->state, devices, 4, &count, said), KVASIR_OK);
    assert_int_equal(count, 2);
    for (unsigned i = 0; i < count; i++) {
        assert_true(devices[i].up);
        assert_int_equal(devices[i].port, 1);
        assert_int_equal(devices[i].layer, KVASIR_LAYER_ETHERNET);
        assert_int_equal(devices[i].mtu_bytes, 4096);
    }
    assert_string_not_equal(devices[0].name, devices[1].name);
}

static void test_transport_chooses_the_ipv4_gid(void **state)
{
    struct pair *pair = *state;
    const struct kvasir_device *device = &pair->ops->domain_facts(pair->owner.domain)->device;
    struct kvasir_gid gid;
    char said[KVASIR_SAID_BYTES] = "";
    assert_int_equal(
        pair->ops->choose_gid(pair->state, device, KVASIR_GID_INDEX_AUTO, NULL, &gid, said),
        KVASIR_OK);
    assert_int_equal(gid.index, pair_number("VM_GID_INDEX"));
    assert_int_equal(gid.type, KVASIR_GID_ROCE_V2);
    assert_int_equal(pair->ops->choose_gid(pair->state, device, 200, NULL, &gid, said),
                     KVASIR_NOT_FOUND);
    assert_non_null(strstr(said, "200"));
    assert_non_null(strstr(said, device->name));
}

static void test_transport_finds_windows_that_work(void **state)
{
    struct pair *pair = *state;
    const struct kvasir_domain_facts *facts = pair->ops->domain_facts(pair->owner.domain);
    assert_string_equal(facts->windows_reason, "");
    assert_true(facts->windows);
}

static void test_transport_names_a_device_that_is_not_there(void **state)
{
    struct pair *pair = *state;
    struct kvasir_domain *domain = NULL;
    char said[KVASIR_SAID_BYTES] = "";
    assert_int_equal(
        pair->ops->domain_open(pair->state, "mlx5_77", 1, KVASIR_GID_INDEX_AUTO, &domain, said),
        KVASIR_NOT_FOUND);
    assert_non_null(strstr(said, "mlx5_77"));
    assert_null(domain);
}

static void test_transport_names_the_memlock_limit(void **state)
{
    struct pair *pair = *state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    struct rlimit low = {.rlim_cur = 64 * KIB, .rlim_max = before.rlim_max};
    uint8_t *bytes = aligned_alloc(4096, 8 * MIB);
    assert_non_null(bytes);
    struct kvasir_memory_options wanted = {.base = bytes, .bytes = 8 * MIB, .dmabuf_fd = -1};
    struct kvasir_memory *memory = NULL;
    char said[KVASIR_SAID_BYTES] = "";
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
    /* Root may lock what it likes. */
    assert_int_equal(seteuid(65534), 0);
    enum kvasir_status status =
        pair->ops->memory_register(pair->owner.domain, &wanted, &memory, said);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
    assert_int_equal(status, KVASIR_NO_MEMORY);
    assert_null(memory);
    assert_non_null(strstr(said, "memlock"));
    free(bytes);
}

/* ---- transfers ------------------------------------------------------------------------------- */

static void check_size(struct pair *pair, size_t length_bytes, uint32_t seed)
{
    pair_fill(pair->peer.bytes, length_bytes, seed);
    assert_int_equal(pair_move(pair, &pair->owner, KVASIR_JOB_READ, 0, length_bytes), KVASIR_OK);
    assert_true(pair_holds(pair->owner.bytes, length_bytes, seed));
    memset(pair->peer.bytes, PAIR_UNTOUCHED, length_bytes);
    assert_int_equal(pair_move(pair, &pair->owner, KVASIR_JOB_WRITE, 0, length_bytes), KVASIR_OK);
    assert_true(pair_holds(pair->peer.bytes, length_bytes, seed));
}

static void test_transport_moves_one_byte_to_many(void **state)
{
    static const size_t SIZES[] = {1, 7, 4096, 64 * KIB + 1, 2 * MIB, 9 * MIB + 13};
    struct pair *pair = *state;
    for (uint32_t i = 0; i < sizeof(SIZES) / sizeof(SIZES[0]); i++) {
        check_size(pair, SIZES[i], i);
        assert_true(pair_untouched(pair->owner.bytes + SIZES[i], 64));
        assert_true(pair_untouched(pair->peer.bytes + SIZES[i], 64));
    }
}

static void test_transport_moves_64_mib(void **state)
{
    struct pair *pair = *state;
    check_size(pair, 64 * MIB, 99);
}

static void test_transport_moves_lists_that_are_cut_differently(void **state)
{
    struct pair *pair = *state;
    struct kvasir_remote whole[16];
    unsigned count = 0;
    assert_int_equal(pair->ops->memory_expose(pair->peer.memory, (uintptr_t)pair->peer.bytes,
                                              300 * KIB, whole, 16, &count),
                     KVASIR_OK);
    assert_int_equal(count, 1);
    struct kvasir_remote remotes[3] = {whole[0], whole[0], whole[0]};
    remotes[0].bytes = 1;
    remotes[1].address += 1;
    remotes[1].bytes = 99 * KIB;
    remotes[2].address += 1 + 99 * KIB;
    remotes[2].bytes = 300 * KIB - 1 - 99 * KIB;
    /* Two parts, in the reverse order of their places. */
    struct kvasir_local locals[2] = {
        {.memory = pair->owner.memory,
         .address = (uintptr_t)pair->owner.bytes + MIB,
         .bytes = 200 * KIB + 3},
        {.memory = pair->owner.memory,
         .address = (uintptr_t)pair->owner.bytes,
         .bytes = 100 * KIB - 3},
    };
    struct kvasir_job job = {.kind = KVASIR_JOB_READ,
                             .locals = locals,
                             .local_count = 2,
                             .remotes = remotes,
                             .remote_count = 3};
    pair_fill(pair->peer.bytes, 300 * KIB, 5);

    assert_int_equal(pair_run(pair, &pair->owner, pair->owner.link, &job), KVASIR_OK);

    assert_memory_equal(pair->owner.bytes + MIB, pair->peer.bytes, 200 * KIB + 3);
    assert_memory_equal(pair->owner.bytes, pair->peer.bytes + 200 * KIB + 3, 100 * KIB - 3);
    assert_true(pair_untouched(pair->owner.bytes + 100 * KIB - 3, 64));
}

struct pipeline {
    struct kvasir_job jobs[PAIR_JOBS_MAX];
    struct kvasir_local locals[PAIR_JOBS_MAX];
    struct kvasir_remote remotes[PAIR_JOBS_MAX];
};

/* Jobs of 4 KiB each, side by side. */
static struct pipeline *make_pipeline(struct pair *pair, enum kvasir_job_kind kind)
{
    struct pipeline *line = calloc(1, sizeof(*line));
    assert_non_null(line);
    for (unsigned i = 0; i < PAIR_JOBS_MAX; i++) {
        unsigned count = 0;
        assert_int_equal(pair->ops->memory_expose(pair->peer.memory,
                                                  (uintptr_t)pair->peer.bytes + i * 4 * KIB,
                                                  4 * KIB, &line->remotes[i], 1, &count),
                         KVASIR_OK);
        line->locals[i] =
            (struct kvasir_local){.memory = pair->owner.memory,
                                  .address = (uintptr_t)pair->owner.bytes + i * 4 * KIB,
                                  .bytes = 4 * KIB};
        line->jobs[i] = (struct kvasir_job){.kind = kind,
                                            .cookie = i,
                                            .locals = &line->locals[i],
                                            .local_count = 1,
                                            .remotes = &line->remotes[i],
                                            .remote_count = 1};
    }
    return line;
}

static void test_transport_carries_a_pipeline_of_256(void **state)
{
    struct pair *pair = *state;
    struct pipeline *line = make_pipeline(pair, KVASIR_JOB_READ);
    pair_fill(pair->peer.bytes, PAIR_JOBS_MAX * 4 * KIB, 11);
    for (unsigned i = 0; i < PAIR_JOBS_MAX; i++) {
        assert_int_equal(pair->ops->submit(pair->owner.link, &line->jobs[i]), KVASIR_PENDING);
    }
    struct kvasir_job extra = line->jobs[0];
    assert_int_equal(pair->ops->submit(pair->owner.link, &extra), KVASIR_AGAIN);

    for (unsigned i = 0; i < PAIR_JOBS_MAX; i++) {
        struct kvasir_event event = pair_wait(pair, &pair->owner);
        assert_int_equal(event.kind, KVASIR_EVENT_JOB);
        assert_int_equal(event.cookie, i);
        assert_int_equal(event.status, KVASIR_OK);
    }

    assert_true(pair_holds(pair->owner.bytes, PAIR_JOBS_MAX * 4 * KIB, 11));
    free(line);
}

static void test_transport_wakes_a_loop_that_waits(void **state)
{
    struct pair *pair = *state;
    struct pipeline *line = make_pipeline(pair, KVASIR_JOB_WRITE);
    struct kvasir_event event;
    pair_fill(pair->owner.bytes, 4 * KIB, 3);
    assert_int_equal(pair->ops->submit(pair->owner.link, &line->jobs[0]), KVASIR_PENDING);

    while (pair->ops->queue_poll(pair->owner.queue, &event, 1) == 0) {
        if (pair->ops->queue_arm(pair->owner.queue) == KVASIR_OK) {
            struct pollfd fd = {.fd = pair->ops->queue_fd(pair->owner.queue), .events = POLLIN};
            assert_int_equal(poll(&fd, 1, 60000), 1);
        }
    }

    assert_int_equal(event.status, KVASIR_OK);
    assert_true(pair_holds(pair->peer.bytes, 4 * KIB, 3));
    free(line);
}

static void test_transport_signals_less_than_it_posts(void **state)
{
    struct pair *pair = *state;
    struct kvasir_queue_stats before;
    struct kvasir_queue_stats after;
    struct pipeline *line = make_pipeline(pair, KVASIR_JOB_WRITE);
    pair->ops->queue_stats(pair->owner.queue, &before);
    /* One job of many parts. */
    struct kvasir_job job = {.kind = KVASIR_JOB_WRITE,
                             .locals = line->locals,
                             .local_count = 64,
                             .remotes = line->remotes,
                             .remote_count = 64};
    pair_fill(pair->owner.bytes, 64 * 4 * KIB, 3);
    assert_int_equal(pair_run(pair, &pair->owner, pair->owner.link, &job), KVASIR_OK);
    pair->ops->queue_stats(pair->owner.queue, &after);
    assert_true(pair_holds(pair->peer.bytes, 64 * 4 * KIB, 3));
    assert_true(after.work_requests - before.work_requests >= 64);
    assert_true(after.completions - before.completions <= 2);
    assert_int_equal(after.written_bytes - before.written_bytes, 64 * 4 * KIB);
    free(line);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void test_transport_link_in_error_ends_its_jobs_and_no_others(void **state)
{
    struct pair *pair = *state;
    struct kvasir_link *neighbour = NULL;
    struct kvasir_link *its_peer = NULL;
    pair_join_another(pair, &neighbour, &its_peer);
    struct pipeline *line = make_pipeline(pair, KVASIR_JOB_READ);
    line->remotes[0].key = NO_KEY;
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(pair->ops->submit(pair->owner.link, &line->jobs[i]), KVASIR_PENDING);
    }

    for (unsigned i = 0; i < 16; i++) {
        struct kvasir_event event = pair_wait(pair, &pair->owner);
        assert_int_equal(event.kind, KVASIR_EVENT_JOB);
        assert_int_equal(event.cookie, i);
        assert_int_equal(event.status, i == 0 ? KVASIR_DENIED : KVASIR_CLOSED);
    }
    assert_int_equal(pair_wait(pair, &pair->owner).kind, KVASIR_EVENT_LINK_DOWN);
    assert_true(pair_untouched(pair->owner.bytes, 4 * KIB));
    assert_int_equal(pair->ops->submit(pair->owner.link, &line->jobs[1]), KVASIR_CLOSED);
    assert_int_equal(pair_run(pair, &pair->owner, neighbour, &line->jobs[1]), KVASIR_OK);

    /* And a link that is made anew works. */
    pair_part(pair);
    pair_join(pair);
    check_size(pair, 4 * KIB, 17);
    pair->ops->link_close(&neighbour);
    pair->ops->link_close(&its_peer);
    free(line);
}

static void test_transport_closing_a_link_ends_all_its_jobs(void **state)
{
    struct pair *pair = *state;
    struct pipeline *line = make_pipeline(pair, KVASIR_JOB_WRITE);
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(pair->ops->submit(pair->owner.link, &line->jobs[i]), KVASIR_PENDING);
    }
    pair->ops->link_close(&pair->owner.link);
    assert_null(pair->owner.link);
    struct kvasir_event event;
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(pair->ops->queue_poll(pair->owner.queue, &event, 1), 1);
        assert_int_equal(event.cookie, i);
        assert_true(event.status == KVASIR_OK || event.status == KVASIR_CANCELLED);
    }
    assert_int_equal(pair->ops->queue_poll(pair->owner.queue, &event, 1), 0);
    free(line);
}

static void test_transport_notices_a_peer_that_is_gone(void **state)
{
    struct pair *pair = *state;
    pair->ops->link_close(&pair->peer.link);
    assert_int_equal(pair_move(pair, &pair->owner, KVASIR_JOB_WRITE, 0, 4 * KIB), KVASIR_TIMEOUT);
    assert_int_equal(pair_wait(pair, &pair->owner).kind, KVASIR_EVENT_LINK_DOWN);
}

static void test_transport_says_why_it_cannot_connect(void **state)
{
    struct pair *pair = *state;
    struct kvasir_link_options wanted = {.gid_index = KVASIR_GID_INDEX_AUTO};
    struct kvasir_link_address local;
    struct kvasir_link *link = NULL;
    char said[KVASIR_SAID_BYTES] = "";
    assert_int_equal(pair->ops->link_create(pair->owner.queue, &wanted, &link, &local, said),
                     KVASIR_OK);
    struct kvasir_link_address wrong = pair->peer.address;
    wrong.mtu_bytes = 1000;
    assert_int_equal(pair->ops->link_connect(link, &wrong, said), KVASIR_INVALID);
    assert_non_null(strstr(said, local.device));
    assert_non_null(strstr(said, "1000"));
    pair->ops->link_close(&link);
}

static void test_transport_uses_the_lower_mtu(void **state)
{
    struct pair *pair = *state;
    struct kvasir_link_options wanted = {.gid_index = KVASIR_GID_INDEX_AUTO, .mtu_bytes = 1024};
    struct kvasir_link_address low;
    struct kvasir_link_address high;
    char said[KVASIR_SAID_BYTES] = "";
    pair_part(pair);
    assert_int_equal(
        pair->ops->link_create(pair->owner.queue, &wanted, &pair->owner.link, &low, said),
        KVASIR_OK);
    assert_int_equal(low.mtu_bytes, 1024);
    wanted.mtu_bytes = 0;
    wanted.rights = KVASIR_RIGHT_REMOTE_READ | KVASIR_RIGHT_REMOTE_WRITE;
    assert_int_equal(
        pair->ops->link_create(pair->peer.queue, &wanted, &pair->peer.link, &high, said),
        KVASIR_OK);
    assert_int_equal(pair_connect(pair, &pair->owner, pair->owner.link, &high, said), KVASIR_OK);
    assert_int_equal(pair_connect(pair, &pair->peer, pair->peer.link, &low, said), KVASIR_OK);
    check_size(pair, 64 * KIB, 41);
}

#define ON_PAIR(name) cmocka_unit_test_setup_teardown(name, pair_set_up, pair_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_PAIR(test_transport_lists_both_devices),
        ON_PAIR(test_transport_chooses_the_ipv4_gid),
        ON_PAIR(test_transport_finds_windows_that_work),
        ON_PAIR(test_transport_names_a_device_that_is_not_there),
        ON_PAIR(test_transport_names_the_memlock_limit),
        ON_PAIR(test_transport_moves_one_byte_to_many),
        ON_PAIR(test_transport_moves_64_mib),
        ON_PAIR(test_transport_moves_lists_that_are_cut_differently),
        ON_PAIR(test_transport_carries_a_pipeline_of_256),
        ON_PAIR(test_transport_wakes_a_loop_that_waits),
        ON_PAIR(test_transport_signals_less_than_it_posts),
        ON_PAIR(test_transport_link_in_error_ends_its_jobs_and_no_others),
        ON_PAIR(test_transport_closing_a_link_ends_all_its_jobs),
        ON_PAIR(test_transport_notices_a_peer_that_is_gone),
        ON_PAIR(test_transport_says_why_it_cannot_connect),
        ON_PAIR(test_transport_uses_the_lower_mtu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
