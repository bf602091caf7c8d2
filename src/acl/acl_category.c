#include "acl/acl_category.h"

#include "base/check.h"

static const char *const NAMES[] = {
    "keyspace", "read",        "write",      "set",         "sortedset", "list",  "hash", "string",
    "bitmap",   "hyperloglog", "geo",        "stream",      "pubsub",    "admin", "fast", "slow",
    "blocking", "dangerous",   "connection", "transaction", "scripting", "kv",    "rdma",
};
_Static_assert(ARRAY_COUNT(NAMES) <= 32, "categories are bits of a uint32_t");

unsigned acl_category_count(void)
{
    return (unsigned)ARRAY_COUNT(NAMES);
}

const char *acl_category_name(unsigned index)
{
    check(index < ARRAY_COUNT(NAMES));
    return NAMES[index];
}

uint32_t acl_category_bit(struct slice name)
{
    for (unsigned i = 0; i < ARRAY_COUNT(NAMES); i++) {
        if (slice_equal_nocase(name, NAMES[i])) {
            return UINT32_C(1) << i;
        }
    }
    return 0;
}

uint32_t acl_category_bits_of(const struct command *command)
{
    uint32_t bits = 0;
    for (const char *at = command->categories; *at != '\0';) {
        size_t length = strcspn(at, " ");
        check(*at == '@');
        bits |= acl_category_bit(slice_of(at + 1, length - 1));
        at += length + (at[length] == ' ' ? 1 : 0);
    }
    return bits;
}
