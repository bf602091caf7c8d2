#pragma once
/* bare_store – a store's memory and shards without a server around them, for the programs that measure the
 * store itself. Ends the program where there is no memory. What it makes is never given back. */

#include "measure.h"
#include "store/shard.h"

#define BARE_PAGE_BYTES          (2U << 20)
#define BARE_METADATA_PAGE_BYTES (256U << 10)
#define BARE_METADATA_UNIT_BYTES 16U
#define BARE_PAYLOAD_UNIT_BYTES  64U

static inline struct moment bare_moment(void)
{
    return (struct moment){.wall_ms = 1700000000000, .mono_us = 1000000};
}

/* size_bytes is a multiple of BARE_PAGE_BYTES. */
static inline struct pages *bare_pages(const char *name, uint64_t size_bytes, uint32_t page_bytes,
                                       uint32_t unit_bytes)
{
    char error[256] = "";
    struct region *region = NULL;
    const struct region_config config = {.name = name, .size_bytes = size_bytes};
    if (region_create(&config, error, sizeof(error), &region) != KVASIR_OK) {
        measure_die("%s", error);
    }
    struct pages *pages = pages_create(region, page_bytes, unit_bytes);
    if (pages == NULL) {
        measure_die("no memory for the pages of %s", name);
    }
    return pages;
}

static inline struct pages *bare_payload(uint64_t size_bytes)
{
    return bare_pages("payload", size_bytes, BARE_PAGE_BYTES, BARE_PAYLOAD_UNIT_BYTES);
}

static inline struct pages *bare_metadata(uint64_t size_bytes)
{
    return bare_pages("metadata", size_bytes, BARE_METADATA_PAGE_BYTES, BARE_METADATA_UNIT_BYTES);
}

/* Shard index of shard_count, under the default policy. */
static inline struct shard *bare_shard(struct pages *payload, struct pages *metadata,
                                       uint32_t index, uint32_t shard_count)
{
    const struct shard_config config = {
        .index = index,
        .shard_count = shard_count,
        .payload = payload,
        .metadata = metadata,
        .policy = policy_at(0),
        .value_bytes_max = UINT64_MAX,
        .append_bytes_max = 1,
        .grants_max = 16,
        .database_count = 1,
        .now = bare_moment(),
    };
    struct shard *shard = shard_create(&config);
    if (shard == NULL) {
        measure_die("no memory for a shard");
    }
    return shard;
}
