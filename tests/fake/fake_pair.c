/* fake_pair – queue pairs of the fake and their states, asynchronous events, and the calls of the C
 * library that are made to fail. */

#include "fake_impl.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUMBER_FIRST 16U

static pthread_mutex_t fake_slow_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fake_slow_over = PTHREAD_COND_INITIALIZER;

void fake_slow(bool slow)
{
    (void)pthread_mutex_lock(&fake_slow_lock);
    fake.slow = slow;
    (void)pthread_cond_broadcast(&fake_slow_over);
    (void)pthread_mutex_unlock(&fake_slow_lock);
}

static void resolve(void)
{
    (void)pthread_mutex_lock(&fake_slow_lock);
    while (fake.slow) {
        (void)pthread_cond_wait(&fake_slow_over, &fake_slow_lock);
    }
    (void)pthread_mutex_unlock(&fake_slow_lock);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
    struct fake_qp *qp;
    uint32_t place = 0;
    if (fake_fails() || fake.removed) {
        errno = ENOMEM;
        return NULL;
    }
    while (place < FAKE_PAIRS_MAX && fake.pairs[place] != NULL) {
        place++;
    }
    if (place == FAKE_PAIRS_MAX || attributes->cap.max_inline_data > FAKE_INLINE_MAX ||
        attributes->cap.max_send_sge > (unsigned)fake.options.sges_max ||
        attributes->cap.max_send_wr > (unsigned)fake.options.requests_max) {
        errno = EINVAL;
        return NULL;
    }
    qp = fake_allocate(sizeof(*qp));
    fake.objects++;
    qp->base = (struct ibv_qp){.context = pd->context,
                               .qp_context = attributes->qp_context,
                               .pd = pd,
                               .send_cq = attributes->send_cq,
                               .recv_cq = attributes->recv_cq,
                               .qp_num = place + NUMBER_FIRST,
                               .qp_type = attributes->qp_type};
    qp->serial = ++fake.serial;
    qp->requests_max = attributes->cap.max_send_wr;
    qp->sges_max = attributes->cap.max_send_sge;
    qp->inline_max = attributes->cap.max_inline_data;
    fake.pairs[place] = qp;
    return &qp->base;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct fake_qp *own = (struct fake_qp *)(void *)qp;
    for (unsigned i = 0; i < FAKE_KEYS_MAX; i++) {
        const struct fake_mw *mw = fake.keys[i].mw;
        if (mw != NULL && mw->bound && mw->qp == own) {
            fake_rule_broken("a queue pair goes before its windows");
        }
    }
    fake_drop_requests(own);
    fake.pairs[qp->qp_num - NUMBER_FIRST] = NULL;
    fake.objects--;
    free(own);
    return 0;
}

/* An address that no adapter has is never resolved. */
static bool reachable(const struct ibv_ah_attr *path)
{
    struct ibv_gid_entry entry;
    for (unsigned adapter = 0; adapter < FAKE_ADAPTERS && path->is_global != 0; adapter++) {
        for (unsigned i = 0; fake_gid(adapter, i, &entry); i++) {
            if (memcmp(entry.gid.raw, path->grh.dgid.raw, sizeof(entry.gid.raw)) == 0) {
                return true;
            }
        }
    }
    return path->is_global == 0 && path->dlid != 0;
}

static int to_rtr(struct fake_qp *qp, const struct ibv_qp_attr *to)
{
    struct ibv_gid_entry own;
    if (qp->attributes.qp_state != IBV_QPS_INIT || to->path_mtu < IBV_MTU_256 ||
        to->path_mtu > IBV_MTU_4096 ||
        (to->ah_attr.is_global != 0 && !fake_gid(0, to->ah_attr.grh.sgid_index, &own))) {
        return EINVAL;
    }
    resolve();
    if (!reachable(&to->ah_attr)) {
        return ETIMEDOUT;
    }
    qp->attributes.path_mtu = to->path_mtu;
    qp->attributes.dest_qp_num = to->dest_qp_num;
    qp->attributes.rq_psn = to->rq_psn;
    qp->attributes.ah_attr = to->ah_attr;
    qp->attributes.max_dest_rd_atomic = to->max_dest_rd_atomic;
    return 0;
}

static int to_rts(struct fake_qp *qp, const struct ibv_qp_attr *to)
{
    if (qp->attributes.qp_state != IBV_QPS_RTR) {
        return EINVAL;
    }
    if (to->retry_cnt > 6 || to->timeout == 0) {
        fake_rule_broken("a queue pair waits for ever");
    }
    qp->attributes.sq_psn = to->sq_psn;
    qp->attributes.max_rd_atomic = to->max_rd_atomic;
    return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *to, int mask)
{
    struct fake_qp *own = (struct fake_qp *)(void *)qp;
    int error = 0;
    if (to->qp_state == IBV_QPS_ERR) {
        fake_qp_fail(own);
        return 0;
    }
    if (fake_fails() || fake.removed) {
        return EIO;
    }
    if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
        own->attributes.qp_access_flags = to->qp_access_flags;
    }
    if (to->qp_state == IBV_QPS_INIT) {
        own->attributes.qp_state = IBV_QPS_INIT;
    } else if (to->qp_state == IBV_QPS_RTR) {
        error = to_rtr(own, to);
    } else {
        error = to_rts(own, to);
    }
    if (error == 0) {
        own->attributes.qp_state = to->qp_state;
    }
    return error;
}

unsigned fake_pair_rights(uint32_t queue_pair)
{
    return fake.pairs[queue_pair - NUMBER_FIRST]->attributes.qp_access_flags;
}

struct ibv_global_route fake_pair_route(uint32_t queue_pair)
{
    return fake.pairs[queue_pair - NUMBER_FIRST]->attributes.ah_attr.grh;
}

/* ---- asynchronous events ---- */

void fake_raise(enum ibv_event_type type, uint32_t queue_pair)
{
    struct fake_event event = {.type = type, .queue_pair = queue_pair};
    if (queue_pair != 0) {
        event.serial = fake.pairs[queue_pair - NUMBER_FIRST]->serial;
    }
    (void)!write(fake.event_fds[1], &event, sizeof(event));
}

/* Events of queue pairs that are gone go with them. */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct fake_event from;
    while (read(context->async_fd, &from, sizeof(from)) == (ssize_t)sizeof(from)) {
        struct fake_qp *qp =
            from.queue_pair != 0 ? fake.pairs[from.queue_pair - NUMBER_FIRST] : NULL;
        *event = (struct ibv_async_event){.event_type = from.type};
        if (from.queue_pair == 0) {
            event->element.port_num = 1;
            return 0;
        }
        if (qp != NULL && qp->serial == from.serial) {
            event->element.qp = &qp->base;
            return 0;
        }
    }
    return -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

/* ---- words ---- */

const char *ibv_event_type_str(enum ibv_event_type type)
{
    return type == IBV_EVENT_QP_ACCESS_ERR ? "local access violation work queue error" : "event";
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    switch ((int)status) {
    case IBV_WC_SUCCESS:
        return "success";
    case IBV_WC_REM_ACCESS_ERR:
        return "remote access error";
    case IBV_WC_WR_FLUSH_ERR:
        return "work request flushed error";
    default:
        return "other error";
    }
}

/* ---- what of the C library can fail ---- */

/* The linker puts these before the library's (--wrap). The names are its choice. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);

void *fake_allocate(size_t bytes)
{
    void *memory = __real_calloc(1, bytes);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fake_fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fake_fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    return fake_fails() ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
