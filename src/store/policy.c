#include "store/policy.h"

#include "base/compiler.h"
#include "store/policy_fifo.h"
#include "store/policy_lru.h"
#include "store/policy_prefix.h"
#include "store/policy_sample.h"

#include <string.h>

static const struct policy_ops *const policies[] = {
    &policy_lru,          &policy_fifo,         &policy_prefix,
    &policy_lfu,          &policy_random,       &policy_volatile_lru,
    &policy_volatile_lfu, &policy_volatile_ttl, &policy_volatile_random,
};

const struct policy_ops *policy_at(unsigned index)
{
    return index < ARRAY_COUNT(policies) ? policies[index] : NULL;
}

const struct policy_ops *policy_find(const char *name)
{
    for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
        if (strcmp(policies[i]->name, name) == 0) {
            return policies[i];
        }
    }
    return NULL;
}
