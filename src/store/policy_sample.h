#pragma once
/* policy_sample – the policies that look at a few values and take the worst of them, as Redis does:
 * the least often read, the first to expire, or any. The volatile ones know only values that expire. */

#include "store/policy.h"

extern const struct policy_ops policy_random;
extern const struct policy_ops policy_volatile_random;
extern const struct policy_ops policy_lfu;
extern const struct policy_ops policy_volatile_lfu;
extern const struct policy_ops policy_volatile_ttl;
