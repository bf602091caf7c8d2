#pragma once
/* cores – which processor cores this process may use. Main thread. */

#include <pthread.h>
#include <stdint.h>

/* By affinity and by the cgroup's quota, rounded up; at least 1, at most SERVER_REACTORS_MAX. */
uint32_t cores_available(void);
/* The index-th allowed core, 0 when there is none. */
uint32_t cores_at(uint32_t index);
/* Binds the thread to the index-th allowed core, if there are count of them. */
void cores_pin(pthread_t thread, uint32_t index, uint32_t count);
