/* rdma_module – what the module exports: the transport "rdma" over libibverbs. */

#include "rdma_device.h"
#include "rdma_domain.h"
#include "rdma_job.h"
#include "rdma_link.h"
#include "rdma_memory.h"
#include "rdma_queue.h"
#include "rdma_said.h"

#include <stdlib.h>
#include <string.h>

static const struct kvasir_transport_ops OPS = {
    .struct_size = sizeof(OPS),
    .name = "rdma",
    .devices = rdma_device_list,
    .choose_gid = rdma_device_choose_gid,
    .domain_open = rdma_domain_open,
    .domain_close = rdma_domain_close,
    .domain_facts = rdma_domain_facts,
    .domain_fd = rdma_domain_fd,
    .domain_poll = rdma_domain_poll,
    .memory_register = rdma_memory_register,
    .memory_deregister = rdma_memory_deregister,
    .memory_expose = rdma_memory_expose,
    .queue_create = rdma_queue_create,
    .queue_destroy = rdma_queue_destroy,
    .queue_fd = rdma_queue_fd,
    .queue_poll = rdma_queue_poll,
    .queue_arm = rdma_queue_arm,
    .queue_stats = rdma_queue_stats,
    .link_create = rdma_link_create,
    .link_connect = rdma_link_connect,
    .link_close = rdma_link_close,
    .submit = rdma_job_submit,
};

static enum kvasir_status setup(const struct kvasir_host *host, void **state_p)
{
    struct rdma_module *module;
    enum kvasir_status status;
    int error;
    if (host->struct_size < offsetof(struct kvasir_host, register_transport) + sizeof(void *)) {
        host->log(host, KVASIR_LOG_ERROR, "this program is too old to use transports");
        return KVASIR_UNSUPPORTED;
    }
    module = calloc(1, sizeof(*module));
    if (module == NULL) {
        return KVASIR_NO_MEMORY;
    }
    module->host = host;
    /* Before any registration: a child of this process must not take registered pages away from it.
     * Kernels from 5.12 on see to that by themselves, and then this does nothing. */
    error = ibv_fork_init();
    if (error != 0) {
        rdma_said_log(module, KVASIR_LOG_WARN,
                      "registered memory is not safe from fork in this process: %s",
                      strerror(error));
    }
    status = host->register_transport(host, &OPS, module);
    if (status != KVASIR_OK) {
        free(module);
        return status;
    }
    *state_p = module;
    return KVASIR_OK;
}

static void teardown(void *state)
{
    free(state);
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "rdma",
    .summary = "payload by RDMA (libibverbs), with a revocable key for each grant",
    .version = KVASIR_MODULE_VERSION(0, 1, 0),
    .setup = setup,
    .teardown = teardown,
};
