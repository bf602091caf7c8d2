#include "store/index.h"

#include "base/check.h"
#include "base/fault.h"
#include "mem/table.h"

#include <sys/mman.h>

#define INDEX_BUCKETS_MIN 512U
/* Vacated buckets go back to the kernel in pieces of this size. */
#define INDEX_RELEASE_BYTES ((size_t)256 << 10)
#define INDEX_PAGE_BYTES    4096U

bool index_init(struct index *index, const void *base, uint64_t values_max)
{
    /* Whole pieces, so that giving one back stays within the area. */
    uint64_t piece_buckets = INDEX_RELEASE_BYTES / sizeof(uint32_t);
    uint64_t bucket_max = (values_max / piece_buckets + 1) * piece_buckets;
    void *area = fault_hit("store.index") ? NULL : table_create(bucket_max * sizeof(uint32_t));
    if (area == NULL) {
        return false;
    }
    *index = (struct index){
        .buckets = area,
        .base = base,
        .bucket_count = INDEX_BUCKETS_MIN,
        .half_mask = INDEX_BUCKETS_MIN - 1,
        .bucket_max = bucket_max,
    };
    return true;
}

void index_fini(struct index *index)
{
    void *area = index->buckets;
    table_destroy(&area, index->bucket_max * sizeof(uint32_t));
    index->buckets = NULL;
}

/* The shard was chosen by this hash, too, so all hashes here may agree in their low or high bits:
 * the product's middle depends on all of them. */
static inline uint64_t index_mix(uint64_t hash)
{
    uint64_t product = hash * 0x9e3779b97f4a7c15U;
    return product ^ (product >> 32);
}

static inline uint64_t index_bucket(const struct index *index, uint64_t hash)
{
    uint64_t mixed = index_mix(hash);
    uint64_t bucket = mixed & (2 * index->half_mask + 1);
    return bucket < index->bucket_count ? bucket : bucket & index->half_mask;
}

static void index_set_first(struct index *index, uint64_t bucket, const struct value *value)
{
    uintptr_t offset = (uintptr_t)value - (uintptr_t)index->base;
    index->buckets[bucket] = value == NULL ? 0 : (uint32_t)(offset / VALUE_ALIGN_BYTES + 1);
}

struct value *index_find(const struct index *index, uint8_t database, struct slice key,
                         uint64_t hash)
{
    struct value *value = index_first(index, index_bucket(index, hash));
    while (value != NULL) {
        if (value->hash == hash && value->database == database &&
            slice_equal(value_key(value), key)) {
            return value;
        }
        value = index_next(value);
    }
    return NULL;
}

void index_prefetch(const struct index *index, uint64_t hash)
{
    __builtin_prefetch(&index->buckets[index_bucket(index, hash)]);
}

const struct value *index_peek(const struct index *index, uint64_t hash)
{
    return index_first(index, index_bucket(index, hash));
}

static void index_push(struct index *index, uint64_t bucket, struct value *value)
{
    value->chain = value_link(value, index_first(index, bucket));
    index_set_first(index, bucket, value);
}

void index_insert(struct index *index, struct value *value)
{
    index_push(index, index_bucket(index, value->hash), value);
    index->count++;
}

void index_remove(struct index *index, struct value *value)
{
    uint64_t bucket = index_bucket(index, value->hash);
    struct value *before = index_first(index, bucket);
    if (before == value) {
        index_set_first(index, bucket, index_next(value));
    } else {
        while (before != NULL && index_next(before) != value) {
            before = index_next(before);
        }
        check(before != NULL);
        before->chain = value_link(before, index_next(value));
    }
    value->chain = 0;
    index->count--;
}

static void index_split(struct index *index)
{
    uint64_t low = index->bucket_count - (index->half_mask + 1);
    uint64_t high = index->bucket_count;
    struct value *value = index_first(index, low);
    index_set_first(index, low, NULL);
    while (value != NULL) {
        struct value *next = index_next(value);
        bool is_high = (index_mix(value->hash) & (index->half_mask + 1)) != 0;
        index_push(index, is_high ? high : low, value);
        value = next;
        index->moved_count++;
    }
    index->bucket_count++;
    if (index->bucket_count == 2 * (index->half_mask + 1)) {
        index->half_mask = 2 * index->half_mask + 1;
    }
    index->moved_count++;
}

static void index_join(struct index *index)
{
    if (index->bucket_count == index->half_mask + 1) {
        index->half_mask /= 2;
    }
    index->bucket_count--;
    uint64_t low = index->bucket_count - (index->half_mask + 1);
    struct value *value = index_first(index, index->bucket_count);
    index_set_first(index, index->bucket_count, NULL);
    while (value != NULL) {
        struct value *next = index_next(value);
        index_push(index, low, value);
        value = next;
        index->moved_count++;
    }
    index->moved_count++;
    size_t used_bytes = index->bucket_count * sizeof(uint32_t);
    if (used_bytes % INDEX_RELEASE_BYTES == 0) {
        /* The piece just vacated reads as zeroes either way; a kernel that refuses costs memory. */
        (void)madvise((uint8_t *)index->buckets + used_bytes, INDEX_RELEASE_BYTES, MADV_DONTNEED);
    }
}

bool index_balance(struct index *index, uint32_t step_max)
{
    for (uint32_t step = 0; step < step_max; step++) {
        if (index->count > index->bucket_count && index->bucket_count < index->bucket_max) {
            index_split(index);
        } else if (index->count < index->bucket_count / 4 &&
                   index->bucket_count > INDEX_BUCKETS_MIN) {
            index_join(index);
        } else {
            return false;
        }
    }
    return true;
}

static uint64_t index_reverse(uint64_t bits)
{
    bits = ((bits >> 1) & 0x5555555555555555U) | ((bits & 0x5555555555555555U) << 1);
    bits = ((bits >> 2) & 0x3333333333333333U) | ((bits & 0x3333333333333333U) << 2);
    bits = ((bits >> 4) & 0x0f0f0f0f0f0f0f0fU) | ((bits & 0x0f0f0f0f0f0f0f0fU) << 4);
    return __builtin_bswap64(bits);
}

uint64_t index_scan(const struct index *index, uint64_t cursor, uint64_t *bucket_p,
                    uint64_t *second_p)
{
    uint64_t bucket = cursor & index->half_mask;
    uint64_t second = bucket + index->half_mask + 1;
    *bucket_p = bucket;
    *second_p = second < index->bucket_count ? second : UINT64_MAX;
    /* Counting from the high bit down: what a bucket divides into later, or is joined with, lies on
     * the same side of the cursor as the bucket itself. */
    cursor |= ~index->half_mask;
    return index_reverse(index_reverse(cursor) + 1);
}

bool index_scan_passed(uint64_t cursor, uint64_t hash)
{
    return index_reverse(index_mix(hash)) < index_reverse(cursor);
}

uint64_t index_bytes(const struct index *index)
{
    uint64_t used_bytes = index->bucket_count * sizeof(uint32_t);
    return (used_bytes + INDEX_PAGE_BYTES - 1) & ~(uint64_t)(INDEX_PAGE_BYTES - 1);
}
