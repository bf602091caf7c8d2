#pragma once
/* rdma_device – which ports there are, what they can do, and which GID to speak from. Any thread; owns
 * nothing. */

#include "rdma_impl.h"

/* As the operations of struct kvasir_transport_ops. */
enum kvasir_status rdma_device_list(void *state, struct kvasir_device *devices, unsigned capacity,
                                    unsigned *count_p, char *said);
enum kvasir_status rdma_device_choose_gid(void *state, const struct kvasir_device *device,
                                          int index, const struct kvasir_gid *peer,
                                          struct kvasir_gid *gid_p, char *said);
/* Whether it stands for an IPv4 address. */
bool rdma_device_gid_is_ipv4(const struct kvasir_gid *gid);

/* Describes one port of an open device. KVASIR_OK, KVASIR_IO. */
enum kvasir_status rdma_device_describe(struct ibv_context *context,
                                        const struct ibv_device_attr *attributes, uint32_t port,
                                        struct kvasir_device *device_p, char *said);

/* 1024 for IBV_MTU_1024, and back; 0 for what is no MTU. */
uint32_t rdma_device_mtu_bytes(enum ibv_mtu mtu);
unsigned rdma_device_mtu_code(uint32_t mtu_bytes);
