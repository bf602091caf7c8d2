#pragma once
/* policy_lru – eviction of what was not read for the longest time. Used through policy.h by the
 * shard's thread; owns only the ends of its list. */

#include "store/policy.h"

extern const struct policy_ops policy_lru;
extern const struct policy_ops policy_volatile_lru; /* knows only values that expire */
