/* fake_verbs – steering, devices, memory and windows of the fake. */

#include "fake_verbs.h"

#include "fake_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The library's headers stand functions in front of these by macros. */
#undef ibv_query_port
#undef ibv_reg_mr

struct fake_state fake;

/* Registering is done by several threads. */
static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- steering ---- */

void fake_rule_broken(const char *format, ...)
{
    va_list arguments;
    if (fake.broken_rule[0] != '\0') {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(fake.broken_rule, sizeof(fake.broken_rule), format, arguments);
    va_end(arguments);
}

static int or_else(int value, int otherwise)
{
    return value != 0 ? value : otherwise;
}

void fake_start(const struct fake_options *options)
{
    struct fake_options *own = &fake.options;
    memset(&fake, 0, sizeof(fake));
    *own = *options;
    own->sges_max = or_else(own->sges_max, FAKE_SGES_MAX);
    own->sges_read_max = or_else(own->sges_read_max, own->sges_max);
    own->requests_max = or_else(own->requests_max, 1024);
    own->completions_max = or_else(own->completions_max, 4096);
    own->windows_max = or_else(own->windows_max, 4096);
    own->message_bytes_max = own->message_bytes_max != 0 ? own->message_bytes_max : 1U << 30;
    own->registration_bytes_max =
        own->registration_bytes_max != 0 ? own->registration_bytes_max : UINT64_MAX;
    fake.requests = fake_allocate(FAKE_HELD_MAX * sizeof(*fake.requests));
    if (pipe2(fake.event_fds, O_CLOEXEC) != 0) {
        abort();
    }
}

const char *fake_finish(void)
{
    if (fake.objects != 0) {
        fake_rule_broken("%u objects are left", fake.objects);
    }
    free(fake.requests);
    fake.requests = NULL;
    (void)close(fake.event_fds[0]);
    (void)close(fake.event_fds[1]);
    return fake.broken_rule[0] != '\0' ? fake.broken_rule : NULL;
}

void fake_fail_at(unsigned call)
{
    fake.calls = 0;
    fake.fail_at = call;
}

unsigned fake_calls(void)
{
    return fake.calls;
}

bool fake_fails(void)
{
    bool fails;
    (void)pthread_mutex_lock(&fake_lock);
    fails = ++fake.calls == fake.fail_at;
    (void)pthread_mutex_unlock(&fake_lock);
    return fails;
}

/* Of a call that makes something. */
static bool refused(int error)
{
    if (fake_fails() || fake.removed) {
        errno = fake.removed ? EIO : error;
        return true;
    }
    return false;
}

void fake_hold(bool held)
{
    fake.held = held;
    if (!held) {
        fake_run(fake.request_count);
    }
}

void fake_remove(void)
{
    fake.removed = true;
}

unsigned fake_objects(void)
{
    return fake.objects;
}

unsigned fake_last_flags(void)
{
    return fake.last_flags;
}

int fake_last_sges(void)
{
    return fake.last_sges;
}

static void *make(size_t bytes)
{
    void *object = fake_allocate(bytes);
    (void)pthread_mutex_lock(&fake_lock);
    fake.objects++;
    (void)pthread_mutex_unlock(&fake_lock);
    return object;
}

static void unmake(void *object)
{
    free(object);
    (void)pthread_mutex_lock(&fake_lock);
    fake.objects--;
    (void)pthread_mutex_unlock(&fake_lock);
}

/* ---- devices ---- */

struct fake_adapter {
    struct ibv_device base;
    unsigned number;
};

struct fake_context {
    struct ibv_context base;
};

struct fake_pd {
    struct ibv_pd base;
    unsigned users;
};

static struct fake_adapter adapters[FAKE_ADAPTERS] = {
    {.base = {.name = "fake0", .ibdev_path = "/nowhere/fake0"}, .number = 0},
    {.base = {.name = "fake1", .ibdev_path = "/nowhere/fake1"}, .number = 1}};

static void use_pd(struct ibv_pd *pd, int more)
{
    struct fake_pd *own = (struct fake_pd *)(void *)pd;
    (void)pthread_mutex_lock(&fake_lock);
    own->users += (unsigned)more;
    (void)pthread_mutex_unlock(&fake_lock);
}

struct ibv_device **ibv_get_device_list(int *count_p)
{
    struct ibv_device **list;
    unsigned count = fake.options.no_devices ? 0 : FAKE_ADAPTERS;
    if (refused(EPERM)) {
        return NULL;
    }
    list = make((FAKE_ADAPTERS + 1) * sizeof(struct ibv_device *));
    for (unsigned i = 0; i < count; i++) {
        list[i] = &adapters[i].base;
    }
    if (count_p != NULL) {
        *count_p = (int)count;
    }
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    unmake(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
static int dealloc_mw(struct ibv_mw *mw);
static int req_notify_cq(struct ibv_cq *cq, int solicited_only);

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct fake_context *context;
    if (refused(EMFILE)) {
        return NULL;
    }
    context = make(sizeof(*context));
    context->base.device = device;
    context->base.async_fd = dup(fake.event_fds[0]);
    context->base.ops.alloc_mw = alloc_mw;
    context->base.ops.dealloc_mw = dealloc_mw;
    context->base.ops.poll_cq = fake_poll_cq;
    context->base.ops.req_notify_cq = req_notify_cq;
    context->base.ops.post_send = fake_post_send;
    return &context->base;
}

int ibv_close_device(struct ibv_context *context)
{
    (void)close(context->async_fd);
    unmake(context);
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
    (void)context;
    if (refused(EIO)) {
        return errno;
    }
    *attributes = (struct ibv_device_attr){
        .max_mr_size = fake.options.registration_bytes_max,
        .max_qp_wr = fake.options.requests_max,
        .device_cap_flags = fake.options.no_windows ? 0 : IBV_DEVICE_MEM_WINDOW_TYPE_2B,
        .max_sge = fake.options.sges_max,
        .max_sge_rd = fake.options.sges_read_max,
        .max_cqe = fake.options.completions_max,
        .max_qp_rd_atom = 16,
        .max_qp_init_rd_atom = 32,
        .max_mw = fake.options.windows_max,
        .phys_port_cnt = 1};
    return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *facts)
{
    struct ibv_port_attr *own = (struct ibv_port_attr *)(void *)facts;
    (void)context;
    if (refused(EIO) || port != 1) {
        return EIO;
    }
    own->state = fake.options.port_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    own->active_mtu = IBV_MTU_4096;
    own->max_msg_sz = fake.options.message_bytes_max;
    own->lid = fake.options.infiniband ? 7 : 0;
    own->link_layer = fake.options.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
    return 0;
}

/* 0 and 1: link-local, 2 and 3: 10.0.0.1 or .2, 4: 192.168.7.1 or .2; the even ones but the last RoCE v1. */
bool fake_gid(unsigned adapter, unsigned index, struct ibv_gid_entry *entry)
{
    static const char *const texts[FAKE_GIDS] = {"fe80::%u", "fe80::%u", "::ffff:10.0.0.%u",
                                                 "::ffff:10.0.0.%u", "::ffff:192.168.7.%u"};
    char text[32];
    if (index >= FAKE_GIDS) {
        return false;
    }
    /* The forms stand just above. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(text, sizeof(text), texts[index], adapter + 1);
#pragma GCC diagnostic pop
    *entry = (struct ibv_gid_entry){.gid_index = index, .port_num = 1};
    entry->gid_type = index % 2 == 0 && index < 4 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
    if (fake.options.infiniband) {
        entry->gid_type = IBV_GID_TYPE_IB;
    }
    return inet_pton(AF_INET6, text, entry->gid.raw) == 1;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t entries_max, uint32_t flags, size_t entry_size)
{
    const struct fake_adapter *adapter = (const struct fake_adapter *)(void *)context->device;
    size_t count = 0;
    (void)flags;
    (void)entry_size;
    if (refused(EIO)) {
        return -EIO;
    }
    while (count < entries_max && fake_gid(adapter->number, (unsigned)count, &entries[count])) {
        count++;
    }
    return (ssize_t)count;
}

int ibv_fork_init(void)
{
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct fake_pd *pd;
    if (refused(ENOMEM)) {
        return NULL;
    }
    pd = make(sizeof(*pd));
    pd->base.context = context;
    return &pd->base;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    struct fake_pd *own = (struct fake_pd *)(void *)pd;
    if (own->users > 0) {
        fake_rule_broken("a protection domain goes that %u objects use", own->users);
        return EBUSY;
    }
    unmake(own);
    return 0;
}

/* ---- memory and windows ---- */

static uint32_t take_key(struct fake_mr *mr, struct fake_mw *mw)
{
    uint32_t place = 1;
    (void)pthread_mutex_lock(&fake_lock);
    while (fake.keys[place].mr != NULL || fake.keys[place].mw != NULL) {
        place++;
        if (place == FAKE_KEYS_MAX) {
            abort();
        }
    }
    fake.keys[place] = (struct fake_key){.mr = mr, .mw = mw};
    (void)pthread_mutex_unlock(&fake_lock);
    return place << 8 | 0x11;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova,
                                unsigned int access)
{
    struct fake_mr *mr;
    if (refused(ENOMEM)) {
        return NULL;
    }
    if (iova != (uintptr_t)address || bytes > fake.options.registration_bytes_max ||
        ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
        errno = EINVAL;
        return NULL;
    }
    mr = make(sizeof(*mr));
    mr->base = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = address, .length = bytes};
    mr->access = access;
    mr->base.lkey = mr->base.rkey = take_key(mr, NULL);
    use_pd(pd, 1);
    return &mr->base;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access)
{
    return ibv_reg_mr_iova2(pd, address, bytes, (uintptr_t)address, (unsigned)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                 int fd, int access)
{
    (void)pd;
    (void)offset;
    (void)bytes;
    (void)iova;
    (void)fd;
    (void)access;
    errno = EOPNOTSUPP;
    return NULL;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct fake_mr *own = (struct fake_mr *)(void *)mr;
    if (own->bound > 0) {
        fake_rule_broken("memory is deregistered under %u windows", own->bound);
        return EBUSY;
    }
    fake.keys[mr->lkey >> 8].mr = NULL;
    use_pd(mr->pd, -1);
    unmake(own);
    return 0;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    struct fake_mw *mw;
    if (refused(ENOMEM)) {
        return NULL;
    }
    if (fake.windows == (unsigned)fake.options.windows_max || type != IBV_MW_TYPE_2) {
        errno = ENOMEM;
        return NULL;
    }
    fake.windows++;
    mw = make(sizeof(*mw));
    mw->base = (struct ibv_mw){.context = pd->context, .pd = pd, .type = type};
    mw->base.rkey = mw->key = take_key(NULL, mw);
    use_pd(pd, 1);
    return &mw->base;
}

static int dealloc_mw(struct ibv_mw *mw)
{
    struct fake_mw *own = (struct fake_mw *)(void *)mw;
    if (own->bound) {
        own->mr->bound--;
    }
    fake.windows--;
    fake.keys[own->key >> 8].mw = NULL;
    use_pd(mw->pd, -1);
    unmake(own);
    return 0;
}

/* ---- completion queues ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct fake_channel *channel;
    int fds[2];
    if (refused(EMFILE) || pipe2(fds, O_CLOEXEC) != 0) {
        return NULL;
    }
    channel = make(sizeof(*channel));
    channel->base.context = context;
    channel->base.fd = fds[0];
    channel->write_fd = fds[1];
    return &channel->base;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    struct fake_channel *own = (struct fake_channel *)(void *)channel;
    (void)close(channel->fd);
    (void)close(own->write_fd);
    unmake(own);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    struct fake_cq *cq;
    (void)vector;
    if (refused(ENOMEM)) {
        return NULL;
    }
    if (entries > fake.options.completions_max) {
        errno = EINVAL;
        return NULL;
    }
    cq = make(sizeof(*cq));
    cq->base = (struct ibv_cq){
        .context = context, .channel = channel, .cq_context = cq_context, .cqe = entries};
    cq->entries = fake_allocate((size_t)entries * sizeof(*cq->entries));
    cq->covers = fake_allocate((size_t)entries * sizeof(*cq->covers));
    if (channel != NULL) {
        ((struct fake_channel *)(void *)channel)->cq = cq;
    }
    return &cq->base;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    struct fake_cq *own = (struct fake_cq *)(void *)cq;
    if (own->unacknowledged > 0) {
        fake_rule_broken("a completion queue goes with %u events not acknowledged",
                         own->unacknowledged);
    }
    free(own->entries);
    free(own->covers);
    unmake(own);
    return 0;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    (void)solicited_only;
    ((struct fake_cq *)(void *)cq)->armed = true;
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq_p, void **context_p)
{
    struct fake_channel *own = (struct fake_channel *)(void *)channel;
    char byte;
    if (read(channel->fd, &byte, 1) != 1) {
        return -1;
    }
    own->cq->unacknowledged++;
    *cq_p = &own->cq->base;
    *context_p = own->cq->base.cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    ((struct fake_cq *)(void *)cq)->unacknowledged -= count;
}
