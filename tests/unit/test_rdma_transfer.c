/* test_rdma_transfer – the rdma module's transfers: how jobs are cut, counted, queued and refused, and how
 * their events are waited for. */

#include "test_rdma_jobs.h"

#include "test_seed.h"

static const struct rig_options PLAIN = {.depth = 0};

static void open_rig(struct rig *rig, const struct rig_options *options)
{
    assert_int_equal(rig_open(rig, options), KVASIR_OK);
}

/* Bytes that differ from place to place. */
static void fill(uint8_t *bytes, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)((i * 2654435761U + seed * 40503U) >> 13);
    }
}

static struct kvasir_queue_stats stats_of(struct rig *rig)
{
    struct kvasir_queue_stats stats;
    rig->ops->queue_stats(rig->owner.queue, &stats);
    return stats;
}

static void test_rdma_transfer_moves_both_ways(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, &PLAIN);
    fill(rig.peer.bytes, RIG_MEMORY_BYTES, 1);
    assert_int_equal(rig_move(&rig, &rig.owner, KVASIR_JOB_READ, rig.peer.key, 4096, 65536),
                     KVASIR_OK);
    assert_memory_equal(rig.owner.bytes + 4096, rig.peer.bytes + 4096, 65536);
    assert_int_equal(rig.owner.bytes[4095], 0);
    assert_int_equal(rig.owner.bytes[4096 + 65536], 0);
    fill(rig.owner.bytes, RIG_MEMORY_BYTES, 2);
    assert_int_equal(
        rig_move(&rig, &rig.owner, KVASIR_JOB_WRITE, rig.peer.key, 0, RIG_MEMORY_BYTES), KVASIR_OK);
    assert_memory_equal(rig.owner.bytes, rig.peer.bytes, RIG_MEMORY_BYTES);
    assert_int_equal(stats_of(&rig).completions, 2);
    assert_int_equal(stats_of(&rig).read_bytes, 65536);
    assert_int_equal(stats_of(&rig).written_bytes, RIG_MEMORY_BYTES);
    rig_close(&rig);
}

static void test_rdma_transfer_sends_what_is_small_inline(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, &PLAIN);
    fill(rig.owner.bytes, 4096, 3);
    assert_int_equal(rig_move(&rig, &rig.owner, KVASIR_JOB_WRITE, rig.peer.key, 0, 220), KVASIR_OK);
    assert_int_equal(fake_last_flags() & IBV_SEND_INLINE, IBV_SEND_INLINE);
    assert_int_equal(rig_move(&rig, &rig.owner, KVASIR_JOB_WRITE, rig.peer.key, 220, 221),
                     KVASIR_OK);
    assert_int_equal(fake_last_flags() & IBV_SEND_INLINE, 0);
    assert_memory_equal(rig.owner.bytes, rig.peer.bytes, 441);
    assert_int_equal(rig_move(&rig, &rig.owner, KVASIR_JOB_READ, rig.peer.key, 0, 1), KVASIR_OK);
    assert_int_equal(fake_last_flags() & IBV_SEND_INLINE, 0);
    assert_int_equal(stats_of(&rig).inline_bytes, 220);
    rig_close(&rig);
}

/* Cuts total_bytes at random; returns how many pieces there are. */
static unsigned cut(uint64_t *random, size_t total_bytes, size_t *pieces, unsigned pieces_max)
{
    unsigned count = 0;
    while (total_bytes > 0) {
        size_t bytes;
        *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes = 1 + (size_t)(*random >> 33) % (total_bytes < 9000 ? total_bytes : 9000);
        if (count + 1 == pieces_max || bytes > total_bytes) {
            bytes = total_bytes;
        }
        pieces[count++] = bytes;
        total_bytes -= bytes;
    }
    return count;
}

/* Lists that are cut differently, adapters with all kinds of limits: the bytes come out in order. */
static void run_cut_lists(uint64_t *random, const struct rig_options *options)
{
    enum {
        PIECES = 64
    };
    struct rig rig;
    size_t pieces[PIECES];
    struct kvasir_local locals[PIECES];
    struct kvasir_remote remotes[PIECES];
    size_t total_bytes = 1 + (size_t)(*random >> 20) % RIG_MEMORY_BYTES;
    size_t at = 0;
    struct kvasir_job job = {.locals = locals, .remotes = remotes};
    open_rig(&rig, options);
    job.local_count = cut(random, total_bytes, pieces, PIECES);
    for (unsigned i = 0; i < job.local_count; i++) {
        locals[i] = (struct kvasir_local){.memory = rig.owner.memory,
                                          .address = (uintptr_t)rig.owner.bytes + at,
                                          .bytes = pieces[i]};
        at += pieces[i];
    }
    job.remote_count = cut(random, total_bytes, pieces, PIECES);
    at = RIG_MEMORY_BYTES;
    for (unsigned i = 0; i < job.remote_count; i++) {
        at -= pieces[i];
        remotes[i] = (struct kvasir_remote){
            .address = (uintptr_t)rig.peer.bytes + at, .bytes = pieces[i], .key = rig.peer.key};
    }
    fill(rig.owner.bytes, total_bytes, 5);
    job.kind = KVASIR_JOB_WRITE;
    assert_int_equal(rig_run(&rig, &rig.owner, rig.owner.link, &job), KVASIR_OK);
    at = 0;
    for (unsigned i = 0; i < job.remote_count; i++) {
        assert_memory_equal((void *)(uintptr_t)remotes[i].address, rig.owner.bytes + at,
                            remotes[i].bytes);
        at += remotes[i].bytes;
    }
    memset(rig.owner.bytes, 0, total_bytes);
    job.kind = KVASIR_JOB_READ;
    assert_int_equal(rig_run(&rig, &rig.owner, rig.owner.link, &job), KVASIR_OK);
    fill(rig.peer.bytes, total_bytes, 5);
    assert_memory_equal(rig.owner.bytes, rig.peer.bytes, total_bytes);
    rig_close(&rig);
}

static void test_rdma_transfer_takes_lists_cut_in_any_way(void **state)
{
    uint64_t random = test_seed();
    (void)state;
    for (unsigned round = 0; round < 8; round++) {
        run_cut_lists(&random, &PLAIN);
        run_cut_lists(&random,
                      &(struct rig_options){.fake = {.message_bytes_max = 1000}, .depth = 16});
        run_cut_lists(&random, &(struct rig_options){.fake = {.sges_max = 3}, .depth = 1});
        run_cut_lists(&random, &(struct rig_options){.fake = {.sges_max = 4, .sges_read_max = 1}});
        run_cut_lists(&random, &(struct rig_options){.fake = {.completions_max = 2}, .depth = 64});
    }
}

/* 16 parts of 64 KiB: registrations of 16 KiB each, so lists of 16 places must be cut at their edges. */
static void test_rdma_transfer_crosses_registrations(void **state)
{
    struct rig rig;
    struct kvasir_remote remotes[32];
    unsigned count = 0;
    const struct rig_options options = {.fake = {.registration_bytes_max = 16384}};
    struct kvasir_local local;
    struct kvasir_job job = {
        .kind = KVASIR_JOB_READ, .locals = &local, .local_count = 1, .remotes = remotes};
    (void)state;
    open_rig(&rig, &options);
    fill(rig.peer.bytes, RIG_MEMORY_BYTES, 6);
    local = (struct kvasir_local){.memory = rig.owner.memory,
                                  .address = (uintptr_t)rig.owner.bytes + 100,
                                  .bytes = RIG_MEMORY_BYTES - 100};
    assert_int_equal(rig.ops->memory_expose(rig.peer.memory, (uintptr_t)rig.peer.bytes,
                                            RIG_MEMORY_BYTES - 100, remotes, 32, &count),
                     KVASIR_OK);
    assert_int_equal(count, 16);
    job.remote_count = count;
    assert_int_equal(rig_run(&rig, &rig.owner, rig.owner.link, &job), KVASIR_OK);
    assert_memory_equal(rig.owner.bytes + 100, rig.peer.bytes, RIG_MEMORY_BYTES - 100);
    rig_close(&rig);
}

/* ---- queues ---- */

enum {
    LINE = 200
};

/* LINE small reads, offered one by one; returns how many were taken. */
static unsigned submit_line(struct rig *rig, struct kvasir_local *locals,
                            struct kvasir_remote *remotes)
{
    for (unsigned i = 0; i < LINE; i++) {
        struct kvasir_job job = {.kind = KVASIR_JOB_READ,
                                 .cookie = i,
                                 .locals = &locals[i],
                                 .local_count = 1,
                                 .remotes = &remotes[i],
                                 .remote_count = 1};
        enum kvasir_status status;
        locals[i] = (struct kvasir_local){.memory = rig->owner.memory,
                                          .address = (uintptr_t)rig->owner.bytes + i * 512,
                                          .bytes = 512};
        remotes[i] = (struct kvasir_remote){
            .address = (uintptr_t)rig->peer.bytes + i * 512, .bytes = 512, .key = rig->peer.key};
        status = rig->ops->submit(rig->owner.link, &job);
        if (status == KVASIR_AGAIN) {
            return i;
        }
        assert_int_equal(status, KVASIR_PENDING);
    }
    return LINE;
}

static void test_rdma_transfer_ends_jobs_in_order_however_slow(void **state)
{
    struct rig rig;
    struct kvasir_local locals[LINE];
    struct kvasir_remote remotes[LINE];
    unsigned next = 0;
    (void)state;
    /* Far more jobs than fit into queue pair and completion queue. */
    open_rig(&rig, &(struct rig_options){.fake = {.completions_max = 5}, .depth = 8});
    fill(rig.peer.bytes, RIG_MEMORY_BYTES, 7);
    fake_hold(true);
    assert_int_equal(submit_line(&rig, locals, remotes), LINE);
    assert_true(rig_idle(&rig, &rig.owner));
    while (next < LINE) {
        struct kvasir_event events[3];
        unsigned count;
        fake_run(1);
        count = rig.ops->queue_poll(rig.owner.queue, events, 3);
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(events[i].cookie, next++);
            assert_int_equal(events[i].status, KVASIR_OK);
        }
    }
    assert_memory_equal(rig.owner.bytes, rig.peer.bytes, LINE * 512);
    fake_hold(false);
    rig_close(&rig);
}

static void test_rdma_transfer_says_again_when_jobs_max_wait(void **state)
{
    struct rig rig;
    struct kvasir_local locals[LINE];
    struct kvasir_remote remotes[LINE];
    struct kvasir_job more = {.kind = KVASIR_JOB_READ,
                              .locals = locals,
                              .local_count = 1,
                              .remotes = remotes,
                              .remote_count = 1};
    (void)state;
    open_rig(&rig, &(struct rig_options){.jobs_max = 10});
    fake_hold(true);
    assert_int_equal(submit_line(&rig, locals, remotes), 10);
    fake_run(1);
    assert_int_equal(rig_event(&rig, &rig.owner).cookie, 0);
    assert_int_equal(rig.ops->submit(rig.owner.link, &more), KVASIR_PENDING);
    assert_int_equal(rig.ops->submit(rig.owner.link, &more), KVASIR_AGAIN);
    fake_hold(false);
    rig_close(&rig);
}

/* Two links share a completion queue of four: neither keeps the other waiting for ever. */
static void test_rdma_transfer_shares_completions_between_links(void **state)
{
    struct rig rig;
    struct kvasir_link *second = NULL;
    struct kvasir_link *its_peer = NULL;
    const struct rig_options options = {.fake = {.completions_max = 4}, .depth = 4};
    struct kvasir_local locals[LINE];
    struct kvasir_remote remotes[LINE];
    unsigned from_second = 0;
    (void)state;
    open_rig(&rig, &options);
    assert_int_equal(rig_link(&rig, &options, &second, &its_peer), KVASIR_OK);
    fake_hold(true);
    assert_int_equal(submit_line(&rig, locals, remotes), LINE);
    for (unsigned i = 0; i < 8; i++) {
        struct kvasir_job job = {.kind = KVASIR_JOB_READ,
                                 .cookie = LINE + i,
                                 .locals = &locals[i],
                                 .local_count = 1,
                                 .remotes = &remotes[i],
                                 .remote_count = 1};
        assert_int_equal(rig.ops->submit(second, &job), KVASIR_PENDING);
    }
    for (unsigned turn = 0; turn < 40; turn++) {
        struct kvasir_event event;
        fake_run(1);
        while (rig.ops->queue_poll(rig.owner.queue, &event, 1) == 1) {
            from_second += event.cookie >= LINE ? 1 : 0;
        }
    }
    assert_int_equal(from_second, 8);
    fake_hold(false);
    rig.ops->link_close(&second);
    rig.ops->link_close(&its_peer);
    rig_close(&rig);
}

static void test_rdma_transfer_wakes_who_armed(void **state)
{
    struct rig rig;
    struct kvasir_local local[LINE];
    struct kvasir_remote remote[LINE];
    int fd;
    (void)state;
    open_rig(&rig, &(struct rig_options){.jobs_max = 2});
    fd = rig.ops->queue_fd(rig.owner.queue);
    assert_int_equal(rig.ops->queue_arm(rig.owner.queue), KVASIR_OK);
    assert_false(rig_readable(fd));
    fake_hold(true);
    assert_int_equal(submit_line(&rig, local, remote), 2);
    assert_false(rig_readable(fd));
    fake_run(1);
    assert_true(rig_readable(fd));
    assert_int_equal(rig_event(&rig, &rig.owner).cookie, 0);
    assert_false(rig_readable(fd));
    /* What came before the arming wakes nobody, so arming tells. */
    fake_run(1);
    assert_int_equal(rig.ops->queue_arm(rig.owner.queue), KVASIR_AGAIN);
    assert_int_equal(rig_event(&rig, &rig.owner).cookie, 1);
    assert_int_equal(rig.ops->queue_arm(rig.owner.queue), KVASIR_OK);
    fake_hold(false);
    rig_close(&rig);
}

/* ---- what is refused ---- */

static void assert_refused(struct rig *rig, struct kvasir_job *job)
{
    assert_int_equal(rig->ops->submit(rig->owner.link, job), KVASIR_INVALID);
    assert_true(rig_idle(rig, &rig->owner));
}

static void test_rdma_transfer_refuses_malformed_jobs(void **state)
{
    struct rig rig;
    struct kvasir_local local;
    struct kvasir_remote remote;
    struct kvasir_local good_local;
    struct kvasir_remote good_remote;
    struct kvasir_job job = {.kind = KVASIR_JOB_READ,
                             .locals = &local,
                             .local_count = 1,
                             .remotes = &remote,
                             .remote_count = 1};
    (void)state;
    open_rig(&rig, &PLAIN);
    good_local = local = (struct kvasir_local){
        .memory = rig.owner.memory, .address = (uintptr_t)rig.owner.bytes, .bytes = 100};
    good_remote = remote = (struct kvasir_remote){
        .address = (uintptr_t)rig.peer.bytes, .bytes = 100, .key = rig.peer.key};
    local.bytes = 99;
    assert_refused(&rig, &job);
    local.bytes = 0;
    assert_refused(&rig, &job);
    local = good_local;
    local.address += RIG_MEMORY_BYTES - 99;
    assert_refused(&rig, &job);
    local = good_local;
    local.address--;
    assert_refused(&rig, &job);
    local = good_local;
    local.memory = rig.peer.memory;
    assert_refused(&rig, &job);
    local.memory = NULL;
    assert_refused(&rig, &job);
    local = good_local;
    remote.address = UINT64_MAX - 50;
    assert_refused(&rig, &job);
    remote = good_remote;
    remote.bytes = 0;
    assert_refused(&rig, &job);
    remote = good_remote;
    job.remote_count = 0;
    assert_refused(&rig, &job);
    job.remote_count = 1;
    job.kind = (enum kvasir_job_kind)9;
    assert_refused(&rig, &job);
    job.kind = KVASIR_JOB_READ;
    assert_int_equal(rig_run(&rig, &rig.owner, rig.owner.link, &job), KVASIR_OK);
    rig_close(&rig);
}

static void test_rdma_transfer_does_not_read_into_read_only_memory(void **state)
{
    struct rig rig;
    struct kvasir_memory *memory = NULL;
    const struct kvasir_remote remote = {.address = 1, .bytes = 8, .key = 1};
    struct kvasir_local local;
    struct kvasir_job job = {.kind = KVASIR_JOB_READ,
                             .locals = &local,
                             .local_count = 1,
                             .remotes = &remote,
                             .remote_count = 1};
    struct kvasir_memory_options options = {.bytes = 8, .rights = KVASIR_RIGHT_READ_ONLY};
    (void)state;
    open_rig(&rig, &PLAIN);
    options.base = rig.owner.bytes;
    assert_int_equal(rig.ops->memory_register(rig.owner.domain, &options, &memory, rig.said),
                     KVASIR_OK);
    local =
        (struct kvasir_local){.memory = memory, .address = (uintptr_t)rig.owner.bytes, .bytes = 8};
    assert_refused(&rig, &job);
    rig.ops->memory_deregister(&memory);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rdma_transfer_moves_both_ways),
        cmocka_unit_test(test_rdma_transfer_sends_what_is_small_inline),
        cmocka_unit_test(test_rdma_transfer_takes_lists_cut_in_any_way),
        cmocka_unit_test(test_rdma_transfer_crosses_registrations),
        cmocka_unit_test(test_rdma_transfer_ends_jobs_in_order_however_slow),
        cmocka_unit_test(test_rdma_transfer_says_again_when_jobs_max_wait),
        cmocka_unit_test(test_rdma_transfer_shares_completions_between_links),
        cmocka_unit_test(test_rdma_transfer_wakes_who_armed),
        cmocka_unit_test(test_rdma_transfer_refuses_malformed_jobs),
        cmocka_unit_test(test_rdma_transfer_does_not_read_into_read_only_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
