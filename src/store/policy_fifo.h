#pragma once
/* policy_fifo – eviction in three queues (S3-FIFO): a value is on probation first and goes to the main
 * queue when it was read; what came back soon after it went is taken there at once. Used through
 * policy.h by the shard's thread; owns its queues' ends and the memory of what went. */

#include "store/policy.h"

extern const struct policy_ops policy_fifo;
