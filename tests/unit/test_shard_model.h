#pragma once
/* test_shard_model – a naive model of a store: what each key must hold, what is pinned and leased. One
 * thread; a model owns its fixture. While fault points are armed they are held but for what is done to the
 * store itself: how the test looks at it never fails. */

#include "test_shard_fixture.h"

#include "base/random.h"

#include <stdio.h>

#define KEY_COUNT       300U
#define HELD_MAX        8U
#define GRANTS_HELD_MAX 6U
#define MODEL_OWNER     9U

/* What the model knows of one key. */
struct entry {
    uint8_t *bytes; /* owned; NULL: not there */
    size_t length_bytes;
    int64_t expires_at_ms;
};

/* A pin that the test holds, with what its bytes must be. */
struct held {
    struct value *value;
    uint8_t *bytes; /* owned */
    size_t length_bytes;
};

struct lease {
    uint64_t id;
    int64_t deadline_us;
};

struct model {
    struct fixture *fixture;
    struct random random;
    struct entry entries[KEY_COUNT];
    struct held held[HELD_MAX];
    struct lease leases[GRANTS_HELD_MAX];
    uint64_t evicted; /* as far as the model knows */
    uint64_t denied, evictions_learnt, hits;
};

static inline void key_text(uint32_t number, char text[16])
{
    (void)snprintf(text, 16, "k%u", number);
}

static inline void entry_clear(struct entry *entry)
{
    free(entry->bytes);
    *entry = (struct entry){0};
}

static inline void entry_store(struct entry *entry, const uint8_t *bytes, size_t length_bytes,
                               int64_t expires_at_ms)
{
    uint8_t *copy = malloc(length_bytes + 1);
    assert_non_null(copy);
    if (length_bytes > 0) {
        memcpy(copy, bytes, length_bytes);
    }
    entry_clear(entry);
    *entry = (struct entry){copy, length_bytes, expires_at_ms};
}

/* Once; the op may be PENDING afterwards. */
static inline void model_execute(struct model *model, struct op *op)
{
    fault_hold(false);
    shard_execute(model->fixture->shard, op, &model->fixture->now);
    fault_hold(true);
}

static inline enum kvasir_status model_run(struct model *model, struct op *op)
{
    fault_hold(false);
    (void)fixture_run(model->fixture, op);
    fault_hold(true);
    return op->status;
}

static inline void model_unpin(struct model *model, struct value **value_p)
{
    fault_hold(false);
    shard_unpin(model->fixture->shard, value_p);
    fault_hold(true);
}

static inline void model_expire(struct model *model)
{
    for (uint32_t i = 0; i < KEY_COUNT; i++) {
        struct entry *entry = &model->entries[i];
        if (entry->bytes != NULL && entry->expires_at_ms != 0 &&
            entry->expires_at_ms <= model->fixture->now.wall_ms) {
            entry_clear(entry);
        }
    }
}

/* Learns what was evicted: exactly as many keys as the counter says. skip is the key that the op itself
 * is about: it may have been evicted and set again. */
static inline void model_learn(struct model *model, uint32_t skip)
{
    uint64_t evicted = fixture_stats(model->fixture).evicted;
    uint64_t count = evicted - model->evicted;
    if (count == 0) {
        return;
    }
    uint64_t missing = 0;
    for (uint32_t i = 0; i < KEY_COUNT; i++) {
        char text[16];
        key_text(i, text);
        if (model->entries[i].bytes != NULL && !fixture_has(model->fixture, text)) {
            entry_clear(&model->entries[i]);
            missing++;
        }
    }
    if (skip < KEY_COUNT && missing + 1 == count) {
        missing++; /* the former value of the key */
    }
    assert_int_equal(missing, count);
    model->evicted = evicted;
    model->evictions_learnt += count;
}

static inline void held_end(struct model *model, struct held *held)
{
    fixture_assert_bytes(model->fixture, held->value, slice_of(held->bytes, held->length_bytes));
    model_unpin(model, &held->value);
    free(held->bytes);
    held->bytes = NULL;
}

static inline struct model *model_create(const struct fixture_options *options, uint64_t seed)
{
    struct model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    model->fixture = fixture_create(options);
    random_init(&model->random, seed);
    return model;
}

/* All that was taken comes back. */
static inline void model_destroy(struct model **model_p)
{
    struct model *model = *model_p;
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        if (model->held[i].bytes != NULL) {
            held_end(model, &model->held[i]);
        }
    }
    fault_hold(false);
    shard_drop_owner(model->fixture->shard, MODEL_OWNER);
    fault_hold(true);
    shard_verify(model->fixture->shard);
    for (uint32_t i = 0; i < KEY_COUNT; i++) {
        char text[16];
        key_text(i, text);
        (void)fixture_simple(model->fixture, OP_REMOVE, text);
        entry_clear(&model->entries[i]);
    }
    fixture_move(model->fixture,
                 1000); /* what was put aside for a value that did not come goes back */
    while (shard_tick(model->fixture->shard, &model->fixture->now, 10000)) {
    }
    assert_int_equal(fixture_stats(model->fixture).value_count, 0);
    assert_int_equal(pages_free_count(model->fixture->payload),
                     pages_count(model->fixture->payload));
    assert_int_equal(pages_free_count(model->fixture->metadata),
                     pages_count(model->fixture->metadata));
    fixture_destroy(model->fixture);
    free(model);
    *model_p = NULL;
}
