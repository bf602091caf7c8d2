#include "rdma_domain.h"

#include "rdma_device.h"
#include "rdma_probe.h"
#include "rdma_said.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context *open_device(const char *name, char *said)
{
    struct ibv_context *context = NULL;
    struct ibv_device **adapters = ibv_get_device_list(NULL);
    bool found = false;
    for (unsigned i = 0; adapters != NULL && adapters[i] != NULL && !found; i++) {
        if (strcmp(ibv_get_device_name(adapters[i]), name) == 0) {
            found = true;
            context = ibv_open_device(adapters[i]);
        }
    }
    if (!found) {
        (void)rdma_said(said, KVASIR_NOT_FOUND, "there is no RDMA device %s", name);
    } else if (context == NULL) {
        (void)rdma_said(said, KVASIR_IO, "device %s cannot be opened: %s", name, strerror(errno));
    }
    if (adapters != NULL) {
        ibv_free_device_list(adapters);
    }
    errno = found ? EIO : ENOENT;
    return context;
}

/* Attributes and port of the open device. */
static enum kvasir_status describe(struct kvasir_domain *domain, const char *device, uint32_t port,
                                   char *said)
{
    enum kvasir_status status;
    int error = ibv_query_device(domain->context, &domain->attributes);
    if (error != 0) {
        return rdma_said(said, KVASIR_IO, "device %s cannot be read: %s", device, strerror(error));
    }
    if (port < 1 || port > domain->attributes.phys_port_cnt) {
        return rdma_said(said, KVASIR_NOT_FOUND, "device %s has no port %u; it has %u", device,
                         (unsigned)port, (unsigned)domain->attributes.phys_port_cnt);
    }
    status = rdma_device_describe(domain->context, &domain->attributes, port, &domain->facts.device,
                                  said);
    if (status == KVASIR_OK && !domain->facts.device.up) {
        return rdma_said(said, KVASIR_CLOSED,
                         "device %s port %u is down; check the cable and ip link", device,
                         (unsigned)port);
    }
    return status;
}

/* Events are waited for in a loop, so reading them must never block. */
static enum kvasir_status make_nonblocking(struct ibv_context *context, const char *device,
                                           char *said)
{
    int flags = fcntl(context->async_fd, F_GETFL);
    if (flags < 0 || fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return rdma_said(said, KVASIR_IO, "device %s: its events cannot be waited for: %s", device,
                         strerror(errno));
    }
    return KVASIR_OK;
}

enum kvasir_status rdma_domain_open(void *state, const char *device, uint32_t port, int gid_index,
                                    struct kvasir_domain **domain_p, char *said)
{
    struct kvasir_gid gid;
    enum kvasir_status status;
    struct kvasir_domain *domain = calloc(1, sizeof(*domain));
    if (domain == NULL) {
        return rdma_said(said, KVASIR_NO_MEMORY, "device %s: no memory to open it", device);
    }
    domain->module = state;
    domain->context = open_device(device, said);
    if (domain->context == NULL) {
        status = errno == ENOENT ? KVASIR_NOT_FOUND : KVASIR_IO;
        goto free_domain;
    }
    status = describe(domain, device, port, said);
    if (status == KVASIR_OK) {
        status = make_nonblocking(domain->context, device, said);
    }
    if (status == KVASIR_OK) {
        status = rdma_device_choose_gid(state, &domain->facts.device, gid_index, NULL, &gid, said);
    }
    if (status != KVASIR_OK) {
        goto close_device;
    }
    domain->pd = ibv_alloc_pd(domain->context);
    if (domain->pd == NULL) {
        status = rdma_said(said, KVASIR_IO, "device %s: no protection domain: %s", device,
                           strerror(errno));
        goto close_device;
    }
    rdma_probe_windows(domain, &gid);
    *domain_p = domain;
    return KVASIR_OK;

close_device:
    (void)ibv_close_device(domain->context);
free_domain:
    free(domain);
    return status;
}

void rdma_domain_close(struct kvasir_domain **domain_p)
{
    struct kvasir_domain *domain = *domain_p;
    int error;
    if (domain == NULL) {
        return;
    }
    *domain_p = NULL;
    error = ibv_dealloc_pd(domain->pd);
    if (error != 0) {
        rdma_said_log(domain->module, KVASIR_LOG_ERROR,
                      "device %s: the protection domain is still in use and stays: %s",
                      domain->facts.device.name, strerror(error));
        return;
    }
    (void)ibv_close_device(domain->context);
    free(domain);
}

const struct kvasir_domain_facts *rdma_domain_facts(const struct kvasir_domain *domain)
{
    return &domain->facts;
}

int rdma_domain_fd(const struct kvasir_domain *domain)
{
    return domain->context->async_fd;
}

/* false: nothing that anybody has to know. */
static bool translate(const struct kvasir_domain *domain, const struct ibv_async_event *from,
                      struct kvasir_event *event)
{
    const struct kvasir_link *link = NULL;
    *event =
        (struct kvasir_event){.status = KVASIR_OK, .reason = ibv_event_type_str(from->event_type)};
    /* Only some are of interest, and newer adapters know more. */
    if (from->event_type == IBV_EVENT_PORT_ERR || from->event_type == IBV_EVENT_PORT_ACTIVE) {
        event->kind =
            from->event_type == IBV_EVENT_PORT_ERR ? KVASIR_EVENT_PORT_DOWN : KVASIR_EVENT_PORT_UP;
        return from->element.port_num == (int)domain->facts.device.port;
    }
    if (from->event_type == IBV_EVENT_DEVICE_FATAL) {
        event->kind = KVASIR_EVENT_DEVICE_GONE;
        event->status = KVASIR_IO;
        return true;
    }
    if (from->event_type == IBV_EVENT_QP_FATAL || from->event_type == IBV_EVENT_QP_REQ_ERR ||
        from->event_type == IBV_EVENT_QP_ACCESS_ERR) {
        /* The queue pair, and with it the link, stays until this event is acknowledged. */
        link = from->element.qp->qp_context;
        event->kind = KVASIR_EVENT_LINK_BROKEN;
        event->status = KVASIR_DENIED;
        event->cookie = link != NULL ? link->cookie : 0;
        return link != NULL;
    }
    return false;
}

unsigned rdma_domain_poll(struct kvasir_domain *domain, struct kvasir_event *events,
                          unsigned capacity)
{
    unsigned count = 0;
    struct ibv_async_event event;
    while (count < capacity && ibv_get_async_event(domain->context, &event) == 0) {
        if (translate(domain, &event, &events[count])) {
            count++;
        }
        ibv_ack_async_event(&event);
    }
    return count;
}
