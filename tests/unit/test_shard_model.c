/* The store against a naive model: random ops over few keys and little memory, so that eviction, orphans
 * and expiry happen all the time. After each op the answer must be the model's, and whenever values were
 * evicted the model learns which ones, and exactly that many must be missing. */
#include "test_shard_fixture.h"

#include "base/random.h"
#include "test_seed.h"

#include <inttypes.h>
#include <stdio.h>

#define KEY_COUNT       300U
#define OP_COUNT        200000U
#define VERIFY_INTERVAL 997U
#define HELD_MAX        8U
#define GRANTS_HELD_MAX 6U
#define MODEL_BYTES_MAX 200000U

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

static void key_text(uint32_t number, char text[16])
{
    (void)snprintf(text, 16, "k%u", number);
}

static void entry_clear(struct entry *entry)
{
    free(entry->bytes);
    *entry = (struct entry){0};
}

static void entry_store(struct entry *entry, const uint8_t *bytes, size_t length_bytes,
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

static void model_expire(struct model *model)
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
static void model_learn(struct model *model, uint32_t skip)
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

static size_t random_length(struct random *random)
{
    switch (random_below(random, 8)) {
    case 0:
        return 0;
    case 1:
        return random_below(random, 150000);
    case 2:
        return random_below(random, 3) * FIXTURE_PAGE_BYTES;
    case 3:
    case 4:
        return random_below(random, 20000);
    default:
        return random_below(random, 300);
    }
}

static void random_fill(struct random *random, uint8_t *bytes, size_t length_bytes)
{
    uint64_t word = random_u64(random) | 1;
    for (size_t i = 0; i < length_bytes; i++) {
        word = word * 6364136223846793005U + 1;
        bytes[i] = (uint8_t)(word >> 56);
    }
}

/* Making room may take turns, and what goes in them may be the key's own former value: each turn finds the
 * key as it is by then. */
static enum kvasir_status model_run_set(struct model *model, struct op *op)
{
    shard_execute(model->fixture->shard, op, &model->fixture->now);
    while (op->status == KVASIR_PENDING) {
        model_learn(model, KEY_COUNT);
        shard_execute(model->fixture->shard, op, &model->fixture->now);
    }
    return op->status;
}

static void model_set(struct model *model, uint32_t number, struct op *op)
{
    static uint8_t bytes[MODEL_BYTES_MAX];
    struct entry *entry = &model->entries[number];
    size_t length_bytes = random_length(&model->random);
    random_fill(&model->random, bytes, length_bytes);
    op->kind = OP_SET;
    op->payload = slice_of(bytes, length_bytes);
    op->flags = (uint32_t)random_below(&model->random, 8); /* NX, XX, KEEPTTL */
    if (random_below(&model->random, 3) == 0) {
        op->put.expires_at_ms =
            model->fixture->now.wall_ms + (int64_t)random_below(&model->random, 3000);
    }
    enum kvasir_status status = model_run_set(model, op);
    bool had = entry->bytes != NULL;
    int64_t expires_at_ms =
        had && (op->flags & OP_SET_KEEP_TTL) != 0 ? entry->expires_at_ms : op->put.expires_at_ms;
    if (had && (op->flags & OP_SET_IF_ABSENT) != 0) {
        assert_int_equal(status, KVASIR_EXISTS);
    } else if (!had && (op->flags & OP_SET_IF_PRESENT) != 0) {
        assert_int_equal(status, KVASIR_NOT_FOUND);
    } else if (status == KVASIR_OK) {
        entry_store(entry, bytes, length_bytes, expires_at_ms);
        model_expire(model); /* it may have expired on arrival */
    } else {
        assert_int_equal(status, KVASIR_NO_MEMORY);
        model->denied++;
    }
}

static void model_reserve(struct model *model, uint32_t number, struct op *op)
{
    static uint8_t bytes[MODEL_BYTES_MAX];
    struct entry *entry = &model->entries[number];
    op->kind = OP_RESERVE;
    op->put.length_bytes = random_length(&model->random);
    if (fixture_run(model->fixture, op) != KVASIR_OK) {
        assert_int_equal(op->status, KVASIR_NO_MEMORY);
        model->denied++;
        return;
    }
    model_learn(model, KEY_COUNT);
    random_fill(&model->random, bytes, op->put.length_bytes);
    struct layout_cursor cursor;
    layout_cursor_init(&cursor, model->fixture->payload, &op->value->layout,
                       op->value->length_bytes);
    for (size_t done = 0; done < op->put.length_bytes;) {
        struct iovec piece = layout_cursor_peek(&cursor);
        memcpy(piece.iov_base, bytes + done, piece.iov_len);
        layout_cursor_skip(&cursor, piece.iov_len);
        done += piece.iov_len;
    }
    op->kind = random_below(&model->random, 4) == 0 ? OP_ABORT : OP_COMMIT;
    assert_int_equal(fixture_run(model->fixture, op), KVASIR_OK);
    if (op->kind == OP_COMMIT) {
        entry_store(entry, bytes, op->put.length_bytes, 0);
    }
}

static void held_end(struct model *model, struct held *held)
{
    fixture_assert_bytes(model->fixture, held->value, slice_of(held->bytes, held->length_bytes));
    shard_unpin(model->fixture->shard, &held->value);
    free(held->bytes);
    held->bytes = NULL;
}

static void model_get(struct model *model, uint32_t number, struct op *op)
{
    struct entry *entry = &model->entries[number];
    op->kind = OP_GET;
    op->flags = random_below(&model->random, 16) == 0 ? OP_READ_REMOVE : 0;
    enum kvasir_status status = fixture_run(model->fixture, op);
    if (entry->bytes == NULL) {
        assert_int_equal(status, KVASIR_NOT_FOUND);
        return;
    }
    assert_int_equal(status, KVASIR_OK);
    model->hits++;
    fixture_assert_bytes(model->fixture, op->value, slice_of(entry->bytes, entry->length_bytes));
    struct held *held = &model->held[random_below(&model->random, HELD_MAX)];
    if (held->bytes == NULL && entry->length_bytes < 50000) {
        held->bytes = malloc(entry->length_bytes + 1);
        assert_non_null(held->bytes);
        memcpy(held->bytes, entry->bytes, entry->length_bytes);
        held->length_bytes = entry->length_bytes;
        held->value = op->value;
    } else {
        shard_unpin(model->fixture->shard, &op->value);
        if (held->bytes != NULL) {
            held_end(model, held);
        }
    }
    if (op->flags == OP_READ_REMOVE) {
        entry_clear(entry);
    }
}

/* APPEND and SETRANGE. */
static void model_edit(struct model *model, uint32_t number, struct op *op)
{
    static uint8_t bytes[2 * MODEL_BYTES_MAX];
    struct entry *entry = &model->entries[number];
    uint8_t part[200];
    size_t part_bytes = random_below(&model->random, sizeof(part));
    random_fill(&model->random, part, part_bytes);
    bool append = random_below(&model->random, 2) == 0;
    size_t old_bytes = entry->length_bytes;
    size_t offset_bytes = append ? old_bytes : random_below(&model->random, 70000);
    if (old_bytes > MODEL_BYTES_MAX) {
        return; /* grown long enough */
    }
    op->kind = append ? OP_APPEND : OP_SET_RANGE;
    op->payload = slice_of(part, part_bytes);
    op->offset_bytes = offset_bytes;
    if (fixture_run(model->fixture, op) != KVASIR_OK) {
        assert_int_equal(op->status, KVASIR_NO_MEMORY);
        model->denied++;
        return;
    }
    if (!append && part_bytes == 0) {
        assert_int_equal(op->integer, old_bytes);
        return;
    }
    memset(bytes, 0, offset_bytes + part_bytes);
    if (old_bytes > 0) {
        memcpy(bytes, entry->bytes, old_bytes);
    }
    memcpy(bytes + offset_bytes, part, part_bytes);
    size_t end_bytes = offset_bytes + part_bytes;
    size_t length_bytes = end_bytes > old_bytes ? end_bytes : old_bytes;
    assert_int_equal(op->integer, length_bytes);
    entry_store(entry, bytes, length_bytes, entry->expires_at_ms);
}

static void model_remove(struct model *model, uint32_t number, struct op *op)
{
    struct entry *entry = &model->entries[number];
    op->kind = OP_REMOVE;
    assert_int_equal(fixture_run(model->fixture, op),
                     entry->bytes != NULL ? KVASIR_OK : KVASIR_NOT_FOUND);
    entry_clear(entry);
}

static void model_expiry(struct model *model, uint32_t number, struct op *op)
{
    struct entry *entry = &model->entries[number];
    bool had = entry->bytes != NULL;
    if (random_below(&model->random, 3) == 0) {
        op->kind = OP_PERSIST;
        bool had_expiry = had && entry->expires_at_ms != 0;
        assert_int_equal(fixture_run(model->fixture, op),
                         had_expiry ? KVASIR_OK : KVASIR_NOT_FOUND);
        entry->expires_at_ms = 0;
        return;
    }
    op->kind = OP_EXPIRE;
    op->expires_at_ms =
        model->fixture->now.wall_ms - 100 + (int64_t)random_below(&model->random, 5000);
    assert_int_equal(fixture_run(model->fixture, op), had ? KVASIR_OK : KVASIR_NOT_FOUND);
    if (had) {
        entry->expires_at_ms = op->expires_at_ms;
        model_expire(model);
    }
}

static void model_lease(struct model *model, uint32_t number, struct op *op)
{
    struct lease *lease = &model->leases[random_below(&model->random, GRANTS_HELD_MAX)];
    if (lease->id != 0) {
        bool expired = lease->deadline_us <= model->fixture->now.mono_us;
        *op = (struct op){.kind = OP_RELEASE, .grant_id = lease->id, .owner = 9};
        assert_int_equal(fixture_run(model->fixture, op), expired ? KVASIR_NOT_FOUND : KVASIR_OK);
        lease->id = 0;
        return;
    }
    op->kind = OP_LEASE;
    op->owner = 9;
    op->deadline_us = model->fixture->now.mono_us + 200000;
    enum kvasir_status status = fixture_run(model->fixture, op);
    if (model->entries[number].bytes == NULL) {
        assert_int_equal(status, KVASIR_NOT_FOUND);
    } else if (status == KVASIR_OK) {
        shard_unpin(model->fixture->shard, &op->value);
        *lease = (struct lease){op->grant_id, op->deadline_us};
    } else {
        assert_int_equal(status, KVASIR_BUSY);
    }
}

static void model_pin(struct model *model, uint32_t number, struct op *op)
{
    op->kind = random_below(&model->random, 4) == 0 ? OP_UNPIN : OP_PIN;
    op->pin_kind = random_below(&model->random, 4) == 0 ? VALUE_PIN_HARD : VALUE_PIN_SOFT;
    op->pin_ms = 1 + (uint32_t)random_below(&model->random, 300);
    enum kvasir_status status = fixture_run(model->fixture, op);
    if (model->entries[number].bytes == NULL) {
        assert_int_equal(status, KVASIR_NOT_FOUND);
    } else if (op->pin_kind == VALUE_PIN_SOFT || op->kind == OP_UNPIN) {
        assert_int_equal(status, KVASIR_OK);
    } else {
        assert_true(status == KVASIR_OK || status == KVASIR_BUSY);
    }
}

static void model_rare(struct model *model)
{
    if (random_below(&model->random, 60) == 0) {
        shard_flush(model->fixture->shard, SHARD_DATABASE_ALL);
        for (uint32_t i = 0; i < KEY_COUNT; i++) {
            entry_clear(&model->entries[i]);
        }
    } else {
        (void)shard_tick(model->fixture->shard, &model->fixture->now,
                         (uint32_t)random_below(&model->random, 200));
    }
}

static void model_step(struct model *model)
{
    uint32_t number = (uint32_t)random_below(&model->random, KEY_COUNT);
    char text[16];
    key_text(number, text);
    struct op op = fixture_op(OP_GET, text);
    fixture_move(model->fixture, (int64_t)random_below(&model->random, 4));
    model_expire(model);
    switch (random_below(&model->random, 16)) {
    case 0:
    case 1:
    case 2:
        model_set(model, number, &op);
        break;
    case 3:
    case 4:
        model_reserve(model, number, &op);
        break;
    case 5:
        model_edit(model, number, &op);
        break;
    case 6:
        model_remove(model, number, &op);
        break;
    case 7:
        model_expiry(model, number, &op);
        break;
    case 8:
        model_lease(model, number, &op);
        break;
    case 9:
        model_pin(model, number, &op);
        break;
    case 10:
        model_rare(model);
        break;
    default:
        model_get(model, number, &op);
        break;
    }
    model_learn(model, number);
}

static void model_compare_all(struct model *model)
{
    shard_verify(model->fixture->shard);
    model_expire(model);
    for (uint32_t i = 0; i < KEY_COUNT; i++) {
        char text[16];
        key_text(i, text);
        assert_int_equal(fixture_has(model->fixture, text), model->entries[i].bytes != NULL);
    }
}

static void test_shard_model_agrees_with_the_store(void **state)
{
    (void)state;
    const struct fixture_options options = {0};
    struct model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    model->fixture = fixture_create(&options);
    random_init(&model->random, test_seed());
    for (uint32_t i = 0; i < OP_COUNT; i++) {
        model_step(model);
        if (i % VERIFY_INTERVAL == 0) {
            model_compare_all(model);
        }
    }
    /* The test is worth something only when these happened. */
    assert_true(model->evictions_learnt > 1000);
    assert_true(model->hits > 1000);
    (void)printf("hits %" PRIu64 ", evicted %" PRIu64 ", denied %" PRIu64 "\n", model->hits,
                 model->evictions_learnt, model->denied);
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        if (model->held[i].bytes != NULL) {
            held_end(model, &model->held[i]);
        }
    }
    shard_drop_owner(model->fixture->shard, 9);
    shard_verify(model->fixture->shard);
    for (uint32_t i = 0; i < KEY_COUNT; i++) {
        char text[16];
        key_text(i, text);
        (void)fixture_simple(model->fixture, OP_REMOVE, text);
        entry_clear(&model->entries[i]);
    }
    while (shard_tick(model->fixture->shard, &model->fixture->now, 10000)) {
    }
    assert_int_equal(fixture_stats(model->fixture).value_count, 0);
    assert_int_equal(pages_free_count(model->fixture->payload),
                     pages_count(model->fixture->payload));
    assert_int_equal(pages_free_count(model->fixture->metadata),
                     pages_count(model->fixture->metadata));
    fixture_destroy(model->fixture);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard_model_agrees_with_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
