#pragma once
/* slot – which of Redis Cluster's 16384 hash slots a key is in, and which reactor of a server owns a
 * slot. Used by server and client alike, so that a client's key lands on the owning core. Any
 * thread; owns nothing. Source: Redis Cluster specification, "Key distribution model" and "Hash
 * tags" (CRC16-CCITT/XModem, polynomial 0x1021). */

#include "base/slice.h"

#define SLOT_COUNT 16384

/* Only the bytes between the first '{' and the next '}' count when there are any between. */
uint16_t slot_of_key(struct slice key);

/* Slots are dealt to reactors in contiguous, near-equal ranges. */
static inline uint32_t slot_reactor(uint16_t slot, uint32_t reactor_count)
{
    return (uint32_t)slot * reactor_count / SLOT_COUNT;
}
