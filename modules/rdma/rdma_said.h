#pragma once
/* rdma_said – sentences about what failed, and lines in the log. Any thread; owns nothing. */

#include "rdma_impl.h"

#define RDMA_GID_TEXT_BYTES  48
#define RDMA_SIDE_TEXT_BYTES 224

/* Fills said (KVASIR_SAID_BYTES) and returns status, so that who finds a cause says it and returns. */
enum kvasir_status rdma_said(char *said, enum kvasir_status status, const char *format, ...)
    RDMA_PRINTF(3, 4);

void rdma_said_log(const struct rdma_module *module, enum kvasir_log_level level,
                   const char *format, ...) RDMA_PRINTF(3, 4);

/* "::ffff:10.9.0.1" for an IPv4 address, else as IPv6 is written. text: RDMA_GID_TEXT_BYTES. */
void rdma_said_gid(const struct kvasir_gid *gid, char *text);

/* "device rxe0, GID ::ffff:10.9.0.1 (index 1, RoCE v2), MTU 1024". text: RDMA_SIDE_TEXT_BYTES. */
void rdma_said_side(const struct kvasir_link_address *side, char *text);

const char *rdma_said_gid_type(enum kvasir_gid_type type);
