#pragma once
/* rdma_memory – ranges that the adapter may touch, registered in parts by several threads. Set-up: any
 * thread; looking up a part: any thread. Owns the registrations, not the memory. */

#include "rdma_impl.h"

/* Operations of struct kvasir_transport_ops. */
enum kvasir_status rdma_memory_register(struct kvasir_domain *domain,
                                        const struct kvasir_memory_options *options,
                                        struct kvasir_memory **memory_p, char *said);
void rdma_memory_deregister(struct kvasir_memory **memory_p);
enum kvasir_status rdma_memory_expose(const struct kvasir_memory *memory, uint64_t address,
                                      uint64_t bytes, struct kvasir_remote *remotes,
                                      unsigned capacity, unsigned *count_p);

/* Whether all of the range, 1 byte at least, lies within. */
bool rdma_memory_holds(const struct kvasir_memory *memory, uint64_t address, uint64_t bytes);
/* The registration of an address within, and how many bytes it has from there on. */
struct ibv_mr *rdma_memory_part(const struct kvasir_memory *memory, uint64_t address,
                                uint64_t *left_p);
