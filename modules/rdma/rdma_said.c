#include "rdma_said.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>

enum kvasir_status rdma_said(char *said, enum kvasir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(said, KVASIR_SAID_BYTES, format, arguments);
    va_end(arguments);
    return status;
}

void rdma_said_log(const struct rdma_module *module, enum kvasir_log_level level,
                   const char *format, ...)
{
    char text[KVASIR_SAID_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    module->host->log(module->host, level, text);
}

void rdma_said_gid(const struct kvasir_gid *gid, char *text)
{
    if (inet_ntop(AF_INET6, gid->raw, text, RDMA_GID_TEXT_BYTES) == NULL) {
        (void)snprintf(text, RDMA_GID_TEXT_BYTES, "?");
    }
}

const char *rdma_said_gid_type(enum kvasir_gid_type type)
{
    switch (type) {
    case KVASIR_GID_INFINIBAND:
        return "InfiniBand";
    case KVASIR_GID_ROCE_V1:
        return "RoCE v1";
    case KVASIR_GID_ROCE_V2:
        return "RoCE v2";
    }
    return "unknown type";
}

void rdma_said_side(const struct kvasir_link_address *side, char *text)
{
    char gid[RDMA_GID_TEXT_BYTES];
    rdma_said_gid(&side->gid, gid);
    (void)snprintf(text, RDMA_SIDE_TEXT_BYTES, "device %.*s, GID %s (index %u, %s), MTU %u",
                   KVASIR_DEVICE_NAME_BYTES - 1, side->device[0] != '\0' ? side->device : "?", gid,
                   (unsigned)side->gid.index, rdma_said_gid_type(side->gid.type),
                   (unsigned)side->mtu_bytes);
}
