#pragma once
/* policy_prefix – eviction for chains of blocks: the longer a chain has been in use the longer it may
 * lie unread, by as much as such chains were found to come back more often; and a chain goes from its
 * tail. Used through policy.h by the shard's thread; owns its queues' ends and the memory of
 * what went. */

#include "store/policy.h"

extern const struct policy_ops policy_prefix;
