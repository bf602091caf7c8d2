/* test_verbs – what the RDMA code takes for granted, shown on the device itself with plain verbs:
 * windows give what they are bound to and nothing else, a refused access moves no byte, and a
 * connection in error is made anew without touching its neighbours. */

#include <infiniband/verbs.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define POOL_BYTES   (1U << 20)
#define WINDOW_AT    (64U << 10)
#define WINDOW_BYTES (256U << 10)
#define CHAIN_LENGTH 32U
#define DEADLINE_S   60
#define UNTOUCHED    0xEE
/* 4.096 us << 14 and two tries: a peer that is gone is noticed within a second. Seven tries would
 * mean "for ever" to soft-RoCE. */
#define ACK_TIMEOUT 14
#define RETRIES     2

/* One end: a device of its own, so that what goes between two ends crosses the link. */
struct end {
    struct ibv_context *context;
    struct ibv_pd *domain;
    struct ibv_cq *queue;
    struct ibv_qp *pair;
    struct ibv_mr *memory;
    uint8_t *bytes;
    union ibv_gid gid;
    int gid_index;
    enum ibv_mtu mtu;
};

/* The reader asks, the owner holds the pool. */
struct ends {
    struct end reader;
    struct end owner;
};

/* ---- ends and their connection ------------------------------------------------------------- */

static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
}

static struct ibv_context *open_device(const char *name)
{
    struct ibv_context *context = NULL;
    struct ibv_device **devices = ibv_get_device_list(NULL);
    for (size_t i = 0; devices != NULL && devices[i] != NULL && context == NULL; i++) {
        if (name != NULL && strcmp(ibv_get_device_name(devices[i]), name) == 0) {
            context = ibv_open_device(devices[i]);
        }
    }
    if (devices != NULL) {
        ibv_free_device_list(devices);
    }
    return context;
}

static struct ibv_qp *create_pair(struct end *end)
{
    struct ibv_qp_init_attr wanted = {
        .send_cq = end->queue,
        .recv_cq = end->queue,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 64, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *pair = ibv_create_qp(end->domain, &wanted);
    assert_non_null(pair);
    return pair;
}

static void open_end(struct end *end, const char *device, int gid_index, int access)
{
    struct ibv_port_attr port;
    end->context = open_device(device);
    assert_non_null(end->context);
    end->gid_index = gid_index;
    assert_int_equal(ibv_query_gid(end->context, 1, gid_index, &end->gid), 0);
    assert_int_equal(ibv_query_port(end->context, 1, &port), 0);
    end->mtu = port.active_mtu;
    end->domain = ibv_alloc_pd(end->context);
    assert_non_null(end->domain);
    end->queue = ibv_create_cq(end->context, 256, NULL, NULL, 0);
    assert_non_null(end->queue);
    end->pair = create_pair(end);
    end->bytes = aligned_alloc(4096, POOL_BYTES);
    assert_non_null(end->bytes);
    end->memory = ibv_reg_mr(end->domain, end->bytes, POOL_BYTES, access);
    assert_non_null(end->memory);
}

static void close_end(struct end *end)
{
    assert_int_equal(ibv_destroy_qp(end->pair), 0);
    assert_int_equal(ibv_dereg_mr(end->memory), 0);
    assert_int_equal(ibv_destroy_cq(end->queue), 0);
    assert_int_equal(ibv_dealloc_pd(end->domain), 0);
    assert_int_equal(ibv_close_device(end->context), 0);
    free(end->bytes);
}

static void point_at(struct end *end, struct ibv_qp *own, const struct end *peer, uint32_t number)
{
    struct ibv_qp_attr change = {
        .qp_state = IBV_QPS_INIT,
        .port_num = 1,
        .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
    };
    assert_int_equal(
        ibv_modify_qp(own, &change,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    change = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = end->mtu < peer->mtu ? end->mtu : peer->mtu,
        .dest_qp_num = number,
        .max_dest_rd_atomic = 16,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = peer->gid,
                            .sgid_index = (uint8_t)end->gid_index,
                            .hop_limit = 64}},
    };
    assert_int_equal(ibv_modify_qp(own, &change,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER),
                     0);
    change = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .timeout = ACK_TIMEOUT,
        .retry_cnt = RETRIES,
        .rnr_retry = RETRIES,
        .max_rd_atomic = 16,
    };
    assert_int_equal(ibv_modify_qp(own, &change,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

static void join(struct ends *ends)
{
    point_at(&ends->reader, ends->reader.pair, &ends->owner, ends->owner.pair->qp_num);
    point_at(&ends->owner, ends->owner.pair, &ends->reader, ends->reader.pair->qp_num);
}

static void drain(struct ibv_cq *queue)
{
    struct ibv_wc completion;
    while (ibv_poll_cq(queue, 1, &completion) > 0) {
    }
}

static void rejoin(struct ends *ends)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    assert_int_equal(ibv_modify_qp(ends->reader.pair, &reset, IBV_QP_STATE), 0);
    assert_int_equal(ibv_modify_qp(ends->owner.pair, &reset, IBV_QP_STATE), 0);
    drain(ends->reader.queue);
    drain(ends->owner.queue);
    join(ends);
}

static int set_up(void **state)
{
    struct ends *ends = calloc(1, sizeof(*ends));
    assert_non_null(ends);
    /* The pool can be reached through windows only: it has no right of its own for a peer. */
    open_end(&ends->owner, getenv("VM_DEVICE"), number_of("VM_GID_INDEX"),
             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    open_end(&ends->reader, getenv("VM_DEVICE2"), number_of("VM_GID_INDEX2"),
             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    for (size_t i = 0; i < POOL_BYTES; i++) {
        ends->owner.bytes[i] = (uint8_t)(i ^ (i >> 8) ^ (i >> 16));
    }
    memset(ends->reader.bytes, UNTOUCHED, POOL_BYTES);
    join(ends);
    *state = ends;
    return 0;
}

static int tear_down(void **state)
{
    struct ends *ends = *state;
    close_end(&ends->reader);
    close_end(&ends->owner);
    free(ends);
    return 0;
}

/* ---- work requests -------------------------------------------------------------------------- */

static time_t now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Yields while it waits: two spinning processes would starve the driver of an emulated machine. */
static enum ibv_wc_status wait_for(struct ibv_cq *queue)
{
    struct ibv_wc completion = {.status = IBV_WC_GENERAL_ERR};
    time_t end_s = now_s() + DEADLINE_S;
    int count = 0;
    while (count == 0 && now_s() < end_s) {
        count = ibv_poll_cq(queue, 1, &completion);
        (void)sched_yield();
    }
    assert_int_equal(count, 1);
    return completion.status;
}

static enum ibv_wc_status run(struct end *end, struct ibv_qp *pair, struct ibv_send_wr *work)
{
    struct ibv_send_wr *rejected = NULL;
    assert_int_equal(ibv_post_send(pair, work, &rejected), 0);
    return wait_for(end->queue);
}

/* Moves bytes between the reader's memory at 0 and a place of the pool. */
static enum ibv_wc_status move(struct ends *ends, enum ibv_wr_opcode opcode, uint32_t key,
                               size_t offset, uint32_t length_bytes)
{
    struct ibv_sge piece = {
        .addr = (uintptr_t)ends->reader.bytes,
        .length = length_bytes,
        .lkey = ends->reader.memory->lkey,
    };
    struct ibv_send_wr work = {
        .opcode = opcode,
        .sg_list = &piece,
        .num_sge = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uintptr_t)ends->owner.bytes + offset, .rkey = key},
    };
    return run(&ends->reader, ends->reader.pair, &work);
}

static struct ibv_mw *create_window(struct ends *ends)
{
    struct ibv_mw *window = ibv_alloc_mw(ends->owner.domain, IBV_MW_TYPE_2);
    assert_non_null(window);
    return window;
}

static struct ibv_send_wr bind_work(struct ends *ends, struct ibv_mw *window, size_t offset,
                                    uint32_t length_bytes, unsigned access)
{
    return (struct ibv_send_wr){
        .opcode = IBV_WR_BIND_MW,
        .send_flags = IBV_SEND_SIGNALED,
        .bind_mw = {.mw = window,
                    .rkey = ibv_inc_rkey(window->rkey),
                    .bind_info = {.mr = ends->owner.memory,
                                  .addr = (uintptr_t)ends->owner.bytes + offset,
                                  .length = length_bytes,
                                  .mw_access_flags = access}},
    };
}

static void bind_on(struct ends *ends, struct ibv_qp *pair, struct ibv_mw *window, unsigned access)
{
    struct ibv_send_wr work = bind_work(ends, window, WINDOW_AT, WINDOW_BYTES, access);
    assert_int_equal(run(&ends->owner, pair, &work), IBV_WC_SUCCESS);
    window->rkey = work.bind_mw.rkey;
}

static void invalidate(struct ends *ends, struct ibv_mw *window)
{
    struct ibv_send_wr work = {
        .opcode = IBV_WR_LOCAL_INV,
        .send_flags = IBV_SEND_SIGNALED,
        .invalidate_rkey = window->rkey,
    };
    assert_int_equal(run(&ends->owner, ends->owner.pair, &work), IBV_WC_SUCCESS);
}

static void assert_readable(struct ends *ends, uint32_t key)
{
    memset(ends->reader.bytes, UNTOUCHED, WINDOW_BYTES);
    assert_int_equal(move(ends, IBV_WR_RDMA_READ, key, WINDOW_AT, WINDOW_BYTES), IBV_WC_SUCCESS);
    assert_memory_equal(ends->reader.bytes, ends->owner.bytes + WINDOW_AT, WINDOW_BYTES);
}

static void assert_refused(struct ends *ends, uint32_t key)
{
    memset(ends->reader.bytes, UNTOUCHED, WINDOW_BYTES);
    assert_int_equal(move(ends, IBV_WR_RDMA_READ, key, WINDOW_AT, WINDOW_BYTES),
                     IBV_WC_REM_ACCESS_ERR);
    for (size_t i = 0; i < WINDOW_BYTES; i++) {
        assert_int_equal(ends->reader.bytes[i], UNTOUCHED);
    }
}

static enum ibv_qp_state state_of(struct ibv_qp *pair)
{
    struct ibv_qp_attr now;
    struct ibv_qp_init_attr made;
    assert_int_equal(ibv_query_qp(pair, &now, IBV_QP_STATE, &made), 0);
    return now.qp_state;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_verbs_pool_without_remote_rights_is_refused(void **state)
{
    struct ends *ends = *state;
    assert_refused(ends, ends->owner.memory->rkey);
}

static void test_verbs_owner_reads_and_writes_the_peers_memory(void **state)
{
    /* The server-driven mode: the owner of the pool asks, with the peer's key. */
    struct ends *ends = *state;
    struct ibv_sge piece = {
        .addr = (uintptr_t)ends->owner.bytes,
        .length = POOL_BYTES,
        .lkey = ends->owner.memory->lkey,
    };
    struct ibv_send_wr work = {
        .opcode = IBV_WR_RDMA_WRITE,
        .sg_list = &piece,
        .num_sge = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uintptr_t)ends->reader.bytes,
                    .rkey = ends->reader.memory->rkey},
    };
    assert_int_equal(run(&ends->owner, ends->owner.pair, &work), IBV_WC_SUCCESS);
    assert_memory_equal(ends->reader.bytes, ends->owner.bytes, POOL_BYTES);

    memset(ends->owner.bytes, 0, POOL_BYTES);
    work.opcode = IBV_WR_RDMA_READ;
    assert_int_equal(run(&ends->owner, ends->owner.pair, &work), IBV_WC_SUCCESS);
    assert_memory_equal(ends->owner.bytes, ends->reader.bytes, POOL_BYTES);
}

static void test_verbs_bound_window_gives_its_bytes(void **state)
{
    struct ends *ends = *state;
    struct ibv_mw *window = create_window(ends);
    bind_on(ends, ends->owner.pair, window, IBV_ACCESS_REMOTE_READ);
    assert_readable(ends, window->rkey);
    assert_int_equal(ibv_dealloc_mw(window), 0);
}

static void test_verbs_unbound_window_is_refused(void **state)
{
    struct ends *ends = *state;
    struct ibv_mw *window = create_window(ends);
    assert_refused(ends, window->rkey);
    assert_int_equal(ibv_dealloc_mw(window), 0);
}

static void test_verbs_invalidated_window_is_refused(void **state)
{
    struct ends *ends = *state;
    struct ibv_mw *window = create_window(ends);
    bind_on(ends, ends->owner.pair, window, IBV_ACCESS_REMOTE_READ);
    invalidate(ends, window);
    assert_refused(ends, window->rkey);
    assert_int_equal(ibv_dealloc_mw(window), 0);
}

static void test_verbs_key_of_an_earlier_bind_is_refused(void **state)
{
    struct ends *ends = *state;
    struct ibv_mw *window = create_window(ends);
    bind_on(ends, ends->owner.pair, window, IBV_ACCESS_REMOTE_READ);
    uint32_t stale = window->rkey;
    invalidate(ends, window);
    bind_on(ends, ends->owner.pair, window, IBV_ACCESS_REMOTE_READ);
    assert_readable(ends, window->rkey);
    assert_refused(ends, stale);
    assert_int_equal(ibv_dealloc_mw(window), 0);
}

static void test_verbs_window_of_another_connection_is_refused(void **state)
{
    struct ends *ends = *state;
    struct ibv_qp *neighbour = create_pair(&ends->owner);
    struct ibv_qp *its_peer = create_pair(&ends->reader);
    point_at(&ends->owner, neighbour, &ends->reader, its_peer->qp_num);
    point_at(&ends->reader, its_peer, &ends->owner, neighbour->qp_num);
    struct ibv_mw *window = create_window(ends);
    bind_on(ends, neighbour, window, IBV_ACCESS_REMOTE_READ);

    assert_refused(ends, window->rkey);

    /* The neighbour goes on, and its window with it. */
    assert_int_equal(state_of(neighbour), IBV_QPS_RTS);
    struct ibv_qp *mine = ends->reader.pair;
    ends->reader.pair = its_peer;
    assert_readable(ends, window->rkey);
    ends->reader.pair = mine;
    assert_int_equal(ibv_dealloc_mw(window), 0);
    assert_int_equal(ibv_destroy_qp(neighbour), 0);
    assert_int_equal(ibv_destroy_qp(its_peer), 0);
}

static void test_verbs_window_for_reading_refuses_a_write(void **state)
{
    struct ends *ends = *state;
    struct ibv_mw *window = create_window(ends);
    bind_on(ends, ends->owner.pair, window, IBV_ACCESS_REMOTE_READ);
    assert_int_equal(move(ends, IBV_WR_RDMA_WRITE, window->rkey, WINDOW_AT, 4096),
                     IBV_WC_REM_ACCESS_ERR);
    for (size_t i = WINDOW_AT; i < WINDOW_AT + 4096; i++) {
        assert_int_equal(ends->owner.bytes[i], (uint8_t)(i ^ (i >> 8) ^ (i >> 16)));
    }
    assert_int_equal(ibv_dealloc_mw(window), 0);
}

static void test_verbs_window_for_writing_takes_a_write(void **state)
{
    struct ends *ends = *state;
    struct ibv_mw *window = create_window(ends);
    bind_on(ends, ends->owner.pair, window, IBV_ACCESS_REMOTE_WRITE);
    assert_int_equal(move(ends, IBV_WR_RDMA_WRITE, window->rkey, WINDOW_AT, WINDOW_BYTES),
                     IBV_WC_SUCCESS);
    assert_memory_equal(ends->owner.bytes + WINDOW_AT, ends->reader.bytes, WINDOW_BYTES);
    assert_int_not_equal(ends->owner.bytes[WINDOW_AT + WINDOW_BYTES], UNTOUCHED);
    assert_int_equal(ibv_dealloc_mw(window), 0);
}

static void test_verbs_chain_of_binds_has_one_completion(void **state)
{
    struct ends *ends = *state;
    struct ibv_mw *windows[CHAIN_LENGTH];
    struct ibv_send_wr works[CHAIN_LENGTH];
    for (size_t i = 0; i < CHAIN_LENGTH; i++) {
        windows[i] = create_window(ends);
        works[i] = bind_work(ends, windows[i], i * 4096, 4096, IBV_ACCESS_REMOTE_READ);
        works[i].send_flags = i + 1 < CHAIN_LENGTH ? 0 : IBV_SEND_SIGNALED;
        works[i].next = i + 1 < CHAIN_LENGTH ? &works[i + 1] : NULL;
    }
    assert_int_equal(run(&ends->owner, ends->owner.pair, works), IBV_WC_SUCCESS);
    for (size_t i = 0; i < CHAIN_LENGTH; i++) {
        windows[i]->rkey = works[i].bind_mw.rkey;
        assert_int_equal(move(ends, IBV_WR_RDMA_READ, windows[i]->rkey, i * 4096, 4096),
                         IBV_WC_SUCCESS);
        assert_memory_equal(ends->reader.bytes, ends->owner.bytes + i * 4096, 4096);
    }

    for (size_t i = 0; i < CHAIN_LENGTH; i++) {
        works[i].opcode = IBV_WR_LOCAL_INV;
        works[i].invalidate_rkey = windows[i]->rkey;
    }
    assert_int_equal(run(&ends->owner, ends->owner.pair, works), IBV_WC_SUCCESS);
    assert_refused(ends, windows[CHAIN_LENGTH - 1]->rkey);
    for (size_t i = 0; i < CHAIN_LENGTH; i++) {
        assert_int_equal(ibv_dealloc_mw(windows[i]), 0);
    }
}

static void test_verbs_refused_access_needs_and_allows_a_rebuild(void **state)
{
    struct ends *ends = *state;
    struct ibv_mw *window = create_window(ends);
    assert_refused(ends, window->rkey);
    assert_int_equal(state_of(ends->reader.pair), IBV_QPS_ERR);

    rejoin(ends);

    bind_on(ends, ends->owner.pair, window, IBV_ACCESS_REMOTE_READ);
    assert_readable(ends, window->rkey);
    assert_int_equal(ibv_dealloc_mw(window), 0);
}

static void test_verbs_vanished_peer_is_noticed(void **state)
{
    struct ends *ends = *state;
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    assert_int_equal(ibv_modify_qp(ends->owner.pair, &reset, IBV_QP_STATE), 0);
    assert_int_equal(move(ends, IBV_WR_RDMA_READ, ends->owner.memory->rkey, 0, 4096),
                     IBV_WC_RETRY_EXC_ERR);
}

static void test_verbs_read_beyond_a_window_is_refused(void **state)
{
    struct ends *ends = *state;
    const char *name = ibv_get_device_name(ends->owner.context->device);
    if (strncmp(name, "rxe", 3) == 0) {
        print_message("%s does not check the bounds of a window\n", name);
        skip();
    }
    struct ibv_mw *window = create_window(ends);
    bind_on(ends, ends->owner.pair, window, IBV_ACCESS_REMOTE_READ);
    assert_int_equal(move(ends, IBV_WR_RDMA_READ, window->rkey, WINDOW_AT + WINDOW_BYTES, 4096),
                     IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dealloc_mw(window), 0);
}

#define ON_ENDS(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_ENDS(test_verbs_pool_without_remote_rights_is_refused),
        ON_ENDS(test_verbs_owner_reads_and_writes_the_peers_memory),
        ON_ENDS(test_verbs_bound_window_gives_its_bytes),
        ON_ENDS(test_verbs_unbound_window_is_refused),
        ON_ENDS(test_verbs_invalidated_window_is_refused),
        ON_ENDS(test_verbs_key_of_an_earlier_bind_is_refused),
        ON_ENDS(test_verbs_window_of_another_connection_is_refused),
        ON_ENDS(test_verbs_window_for_reading_refuses_a_write),
        ON_ENDS(test_verbs_window_for_writing_takes_a_write),
        ON_ENDS(test_verbs_chain_of_binds_has_one_completion),
        ON_ENDS(test_verbs_refused_access_needs_and_allows_a_rebuild),
        ON_ENDS(test_verbs_vanished_peer_is_noticed),
        ON_ENDS(test_verbs_read_beyond_a_window_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
