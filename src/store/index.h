#pragma once
/* index – finds values by key: linear hashing with chains. One shard's thread; owns its buckets,
 * borrows the values.
 *
 * The buckets are one array in address space reserved for the largest number of values that the
 * metadata pages can hold; the kernel gives memory as it is touched. It grows by splitting one bucket
 * and shrinks by joining two, so no step is ever longer than a chain or two, nothing is copied as a
 * whole and growth cannot fail. Buckets below split have been divided (mask 2n-1), those above not
 * (mask n-1): as between the two tables of Redis's dict, which is why the reverse-binary cursor of
 * SCAN works here, too. Litwin, "Linear Hashing", VLDB 1980. */

#include "base/compiler.h"
#include "base/slice.h"
#include "store/value.h"

#include <stdbool.h>
#include <stdint.h>

struct index {
    uint32_t *buckets;   /* owned; where each chain begins: index_first reads it */
    const uint8_t *base; /* borrowed: below every value */
    uint64_t bucket_count;
    uint64_t half_mask; /* n - 1, where n is the power of two with n <= bucket_count < 2n */
    uint64_t bucket_max;
    uint64_t count;       /* of values */
    uint64_t moved_count; /* values and buckets that growing and shrinking ever handled */
};

/* Values lie behind base, in VALUE_MEMORY_BYTES_MAX. False: the address space is refused. */
ATTR_MUST_USE bool index_init(struct index *index, const void *base, uint64_t values_max);
void index_fini(struct index *index);

struct value *index_find(const struct index *index, uint8_t database, struct slice key,
                         uint64_t hash);
/* Has the bucket of a hash on its way from memory. Changes nothing. */
void index_prefetch(const struct index *index, uint64_t hash);
/* The first value of the chain in which one of this hash would be; NULL when the chain is empty. */
const struct value *index_peek(const struct index *index, uint64_t hash);
/* The key is not there yet. Neither of the two moves another value. */
void index_insert(struct index *index, struct value *value);
void index_remove(struct index *index, struct value *value);

/* Up to step_max steps towards the size that suits the count: values change their buckets. False when
 * there is nothing more to do. Four steps after each change of the count keep pace. */
bool index_balance(struct index *index, uint32_t step_max);

/* First of a bucket's chain, bucket < bucket_count. */
static inline struct value *index_first(const struct index *index, uint64_t bucket)
{
    uint64_t place = index->buckets[bucket]; /* counted from 1 in units of a value's alignment */
    uintptr_t offset = (uintptr_t)(place - 1) * VALUE_ALIGN_BYTES;
    return place == 0 ? NULL : (struct value *)((uintptr_t)index->base + offset);
}

static inline struct value *index_next(const struct value *value)
{
    return value_follow(value, value->chain);
}

/* The buckets that cursor names, at most two: *bucket_p is one, and unless it is UINT64_MAX
 * *second_p the other. Returns the next cursor, 0 at the end. What is in the index from cursor 0 to
 * cursor 0 is met at least once, however the index grows and shrinks between the calls. */
uint64_t index_scan(const struct index *index, uint64_t cursor, uint64_t *bucket_p,
                    uint64_t *second_p);

/* True when a scan that stands at cursor has been where a value of this hash lies: if the index shrank
 * meanwhile a bucket holds such values again. Who leaves them out meets each value once. */
bool index_scan_passed(uint64_t cursor, uint64_t hash);

/* Memory that the buckets take now. */
uint64_t index_bytes(const struct index *index);
