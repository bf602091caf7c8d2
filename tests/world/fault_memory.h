#pragma once
/* fault_memory – in a program that is linked with FAULT_WRAPS each call for memory or a descriptor, of the
 * program itself and not of its libraries, is a fault point of that call's name ("malloc"); and what was
 * taken is counted. One thread. */

#include <stdint.h>

/* Blocks that were taken and not freed. */
int64_t fault_memory_block_count(void);
/* Descriptors that the process has open. */
uint32_t fault_memory_descriptor_count(void);
