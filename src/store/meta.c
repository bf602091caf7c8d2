#include "store/meta.h"

#include "base/check.h"
#include "base/fault.h"

#include <string.h>

bool meta_init(struct meta *meta, struct pages *pages)
{
    check(pages_unit_bytes(pages) % VALUE_ALIGN_BYTES == 0);
    check((uint64_t)pages_page_bytes(pages) * pages_count(pages) <= VALUE_MEMORY_BYTES_MAX);
    meta->runs = fault_hit("store.meta_init") ? NULL : runs_create(pages);
    return meta->runs != NULL;
}

void meta_fini(struct meta *meta)
{
    runs_destroy(&meta->runs);
}

struct value *meta_take(struct meta *meta, struct slice key)
{
    struct run run;
    if (fault_hit("store.meta") ||
        runs_take(meta->runs, value_bytes(key.length_bytes), &run) != KVASIR_OK) {
        return NULL;
    }
    struct value *value = (struct value *)(void *)runs_address(runs_pages(meta->runs), run);
    memset(value, 0, value_bytes(0));
    value->key_length_bytes = (uint16_t)key.length_bytes;
    if (key.length_bytes > 0) {
        memcpy((uint8_t *)value + VALUE_FIELDS_BYTES, key.data, key.length_bytes);
    }
    return value;
}

void meta_give(struct meta *meta, struct value **value_p)
{
    struct run run = runs_find(meta->runs, *value_p);
    runs_give(meta->runs, &run);
    *value_p = NULL;
}

uint64_t meta_taken_bytes(const struct meta *meta)
{
    struct runs_stats stats;
    runs_stats(meta->runs, &stats);
    return stats.taken_bytes;
}

uint32_t meta_page_count(const struct meta *meta)
{
    struct runs_stats stats;
    runs_stats(meta->runs, &stats);
    return stats.page_count;
}
