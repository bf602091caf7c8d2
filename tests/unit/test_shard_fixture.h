#pragma once
/* test_shard_fixture – one or more shards over small pools of their own, and short forms of the ops, for
 * the unit tests of the store. One thread; a fixture owns its regions, pools and shards. Time stands
 * still until a test moves it. */

#include "base/fault.h"
#include "mem/layout.h"
#include "store/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FIXTURE_PAGE_BYTES          (64U << 10)
#define FIXTURE_METADATA_PAGE_BYTES (128U << 10)
#define FIXTURE_SHARDS_MAX          2U
#define FIXTURE_WALL_MS             1700000000000
#define FIXTURE_DATABASES           3U

struct fixture {
    struct region *payload_region, *metadata_region; /* owned */
    struct pages *payload, *metadata;                /* owned */
    struct shard *shards[FIXTURE_SHARDS_MAX];        /* owned */
    struct shard *shard;                             /* the first */
    struct tenant_use tenant_uses[FIXTURE_SHARDS_MAX];
    struct moment now;
};

struct fixture_options {
    size_t payload_bytes;  /* 0: 2 MiB */
    size_t metadata_bytes; /* 0: 2 MiB */
    uint32_t shard_count;  /* 0: 1 */
    uint32_t grants_max;   /* 0: 64 */
    bool no_eviction;
    uint64_t value_bytes_max; /* 0: no limit */
};

static inline struct pages *fixture_pages(size_t size_bytes, uint32_t page_bytes,
                                          uint32_t unit_bytes, struct region **region_p)
{
    char error[256] = "";
    const struct region_config config = {.name = "test", .size_bytes = size_bytes};
    assert_int_equal(region_create(&config, error, sizeof(error), region_p), KVASIR_OK);
    struct pages *pages = pages_create(*region_p, page_bytes, unit_bytes);
    assert_non_null(pages);
    return pages;
}

static inline struct shard_config fixture_config(struct fixture *fixture,
                                                 const struct fixture_options *options)
{
    return (struct shard_config){
        .shard_count = options->shard_count != 0 ? options->shard_count : 1,
        .payload = fixture->payload,
        .metadata = fixture->metadata,
        .policy = options->no_eviction ? NULL : policy_at(0),
        .value_bytes_max = options->value_bytes_max != 0 ? options->value_bytes_max : UINT64_MAX,
        .append_bytes_max = 1U << 20,
        .grants_max = options->grants_max != 0 ? options->grants_max : 64,
        .database_count = FIXTURE_DATABASES,
        .tenant_uses = fixture->tenant_uses,
        .now = fixture->now,
    };
}

static inline struct fixture *fixture_create(const struct fixture_options *options)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->now = (struct moment){.wall_ms = FIXTURE_WALL_MS, .mono_us = 5000000};
    size_t payload_bytes = options->payload_bytes != 0 ? options->payload_bytes : 2U << 20;
    size_t metadata_bytes = options->metadata_bytes != 0 ? options->metadata_bytes : 2U << 20;
    fixture->payload =
        fixture_pages(payload_bytes, FIXTURE_PAGE_BYTES, 64, &fixture->payload_region);
    fixture->metadata =
        fixture_pages(metadata_bytes, FIXTURE_METADATA_PAGE_BYTES, 16, &fixture->metadata_region);
    struct shard_config config = fixture_config(fixture, options);
    for (uint32_t i = 0; i < config.shard_count; i++) {
        config.index = i;
        fixture->shards[i] = shard_create(&config);
        assert_non_null(fixture->shards[i]);
    }
    fixture->shard = fixture->shards[0];
    return fixture;
}

/* Checks that every page came back. */
static inline void fixture_destroy(struct fixture *fixture)
{
    fault_disarm_all();
    for (uint32_t i = 0; i < FIXTURE_SHARDS_MAX; i++) {
        if (fixture->shards[i] != NULL) {
            shard_verify(fixture->shards[i]);
        }
        shard_destroy(&fixture->shards[i]);
    }
    assert_int_equal(pages_free_count(fixture->payload), pages_count(fixture->payload));
    assert_int_equal(pages_free_count(fixture->metadata), pages_count(fixture->metadata));
    pages_destroy(&fixture->payload);
    pages_destroy(&fixture->metadata);
    region_destroy(&fixture->payload_region);
    region_destroy(&fixture->metadata_region);
    free(fixture);
}

static inline void fixture_move(struct fixture *fixture, int64_t ms)
{
    fixture->now.wall_ms += ms;
    fixture->now.mono_us += ms * 1000;
}

static inline struct op fixture_op(enum op_kind kind, const char *key)
{
    struct op op = {.kind = (uint8_t)kind, .key = slice_of_text(key)};
    op.hash = op_hash(0, 0, op.key);
    return op;
}

static inline enum kvasir_status fixture_run(struct fixture *fixture, struct op *op)
{
    do {
        shard_execute(fixture->shard, op, &fixture->now);
    } while (op->status == KVASIR_PENDING);
    return op->status;
}

static inline enum kvasir_status fixture_simple(struct fixture *fixture, enum op_kind kind,
                                                const char *key)
{
    struct op op = fixture_op(kind, key);
    return fixture_run(fixture, &op);
}

static inline enum kvasir_status fixture_set(struct fixture *fixture, const char *key,
                                             const char *text)
{
    struct op op = fixture_op(OP_SET, key);
    op.payload = slice_of_text(text);
    return fixture_run(fixture, &op);
}

/* A reservation of this length, committed at once. */
static inline enum kvasir_status fixture_fill(struct fixture *fixture, const char *key,
                                              uint64_t length_bytes)
{
    struct op op = fixture_op(OP_RESERVE, key);
    op.put.length_bytes = length_bytes;
    if (fixture_run(fixture, &op) == KVASIR_OK) {
        op.kind = OP_COMMIT;
        (void)fixture_run(fixture, &op);
    }
    return op.status;
}

static inline bool fixture_has(struct fixture *fixture, const char *key)
{
    struct op op = fixture_op(OP_EXISTS, key);
    op.flags = OP_READ_NO_TOUCH;
    return fixture_run(fixture, &op) == KVASIR_OK;
}

/* The bytes of a pinned value; at most capacity of them. */
static inline size_t fixture_bytes(const struct fixture *fixture, const struct value *value,
                                   void *buffer, size_t capacity)
{
    struct layout_cursor cursor;
    layout_cursor_init(&cursor, fixture->payload, &value->layout, value->length_bytes);
    size_t length_bytes = 0;
    for (;;) {
        struct iovec piece = layout_cursor_peek(&cursor);
        if (piece.iov_len == 0 || length_bytes + piece.iov_len > capacity) {
            return length_bytes;
        }
        memcpy((uint8_t *)buffer + length_bytes, piece.iov_base, piece.iov_len);
        length_bytes += piece.iov_len;
        layout_cursor_skip(&cursor, piece.iov_len);
    }
}

#define FIXTURE_TEXT_BYTES 4096U

static inline void fixture_assert_bytes(const struct fixture *fixture, const struct value *value,
                                        struct slice expected)
{
    uint8_t *buffer = malloc(expected.length_bytes + 1);
    assert_non_null(buffer);
    assert_non_null(value);
    assert_int_equal(value->length_bytes, expected.length_bytes);
    assert_int_equal(fixture_bytes(fixture, value, buffer, expected.length_bytes),
                     expected.length_bytes);
    assert_true(slice_equal(slice_of(buffer, expected.length_bytes), expected));
    free(buffer);
}

/* text NULL: the key is not there. */
static inline void fixture_assert_value(struct fixture *fixture, const char *key, const char *text)
{
    struct op op = fixture_op(OP_GET, key);
    op.flags = OP_READ_NO_TOUCH;
    enum kvasir_status status = fixture_run(fixture, &op);
    if (text == NULL) {
        assert_int_equal(status, KVASIR_NOT_FOUND);
        return;
    }
    assert_int_equal(status, KVASIR_OK);
    fixture_assert_bytes(fixture, op.value, slice_of_text(text));
    shard_unpin(fixture->shard, &op.value);
}

static inline struct shard_stats fixture_stats(const struct fixture *fixture)
{
    struct shard_stats stats;
    shard_stats(fixture->shard, &stats);
    return stats;
}

/* The usual fixture: one shard, 2 MiB of payload in 32 pages. */
static inline int fixture_setup(void **state)
{
    const struct fixture_options options = {0};
    *state = fixture_create(&options);
    return 0;
}

static inline int fixture_teardown(void **state)
{
    fixture_destroy(*state);
    return 0;
}
