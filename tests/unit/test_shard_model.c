/* The store against a naive model: random ops over few keys and little memory, so that eviction, orphans
 * and expiry happen all the time. After each op the answer must be the model's, and whenever values were
 * evicted the model learns which ones, and exactly that many must be missing. Then the same, with each
 * fault point that an op comes by failing in its turn: what answers an error has changed nothing. */
#include "test_shard_model.h"

#include "test_seed.h"

#include <inttypes.h>

#define OP_COUNT        200000U
#define VERIFY_INTERVAL 997U
#define MODEL_BYTES_MAX 200000U
/* Of a run in which something fails; most memory is taken before, so that this is enough for evictions. */
#define FAULT_OP_COUNT      400U
#define FAULT_BALLAST_BYTES (3U << 19)
/* How many fail one after the other, for how long: an allocation, and a time without memory. */
#define FAULT_SPELL_COUNT 30U

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
    model_execute(model, op);
    while (op->status == KVASIR_PENDING) {
        model_learn(model, KEY_COUNT);
        model_execute(model, op);
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
    if (model_run(model, op) != KVASIR_OK) {
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
    assert_int_equal(model_run(model, op), KVASIR_OK);
    if (op->kind == OP_COMMIT) {
        entry_store(entry, bytes, op->put.length_bytes, 0);
    }
}

static void model_get(struct model *model, uint32_t number, struct op *op)
{
    struct entry *entry = &model->entries[number];
    op->kind = OP_GET;
    op->flags = random_below(&model->random, 16) == 0 ? OP_READ_REMOVE : 0;
    enum kvasir_status status = model_run(model, op);
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
        model_unpin(model, &op->value);
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
    if (model_run(model, op) != KVASIR_OK) {
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
    assert_int_equal(model_run(model, op), entry->bytes != NULL ? KVASIR_OK : KVASIR_NOT_FOUND);
    entry_clear(entry);
}

static void model_expiry(struct model *model, uint32_t number, struct op *op)
{
    struct entry *entry = &model->entries[number];
    bool had = entry->bytes != NULL;
    if (random_below(&model->random, 3) == 0) {
        op->kind = OP_PERSIST;
        bool had_expiry = had && entry->expires_at_ms != 0;
        assert_int_equal(model_run(model, op), had_expiry ? KVASIR_OK : KVASIR_NOT_FOUND);
        entry->expires_at_ms = 0;
        return;
    }
    op->kind = OP_EXPIRE;
    op->expires_at_ms =
        model->fixture->now.wall_ms - 100 + (int64_t)random_below(&model->random, 5000);
    assert_int_equal(model_run(model, op), had ? KVASIR_OK : KVASIR_NOT_FOUND);
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
        *op = (struct op){.kind = OP_RELEASE, .grant_id = lease->id, .owner = MODEL_OWNER};
        assert_int_equal(model_run(model, op), expired ? KVASIR_NOT_FOUND : KVASIR_OK);
        lease->id = 0;
        return;
    }
    op->kind = OP_LEASE;
    op->owner = MODEL_OWNER;
    op->deadline_us = model->fixture->now.mono_us + 200000;
    enum kvasir_status status = model_run(model, op);
    if (model->entries[number].bytes == NULL) {
        assert_int_equal(status, KVASIR_NOT_FOUND);
    } else if (status == KVASIR_OK) {
        model_unpin(model, &op->value);
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
    enum kvasir_status status = model_run(model, op);
    if (model->entries[number].bytes == NULL) {
        assert_int_equal(status, KVASIR_NOT_FOUND);
    } else if (op->pin_kind == VALUE_PIN_SOFT || op->kind == OP_UNPIN) {
        assert_int_equal(status, KVASIR_OK);
    } else {
        assert_true(status == KVASIR_OK || status == KVASIR_BUSY);
    }
}

/* COPY. */
static void model_copy(struct model *model, uint32_t number, struct op *op)
{
    const struct entry *from = &model->entries[random_below(&model->random, KEY_COUNT)];
    struct entry *entry = &model->entries[number];
    char text[16];
    key_text((uint32_t)(from - model->entries), text);
    struct op source = fixture_op(OP_GET, text);
    if (model_run(model, &source) != KVASIR_OK) {
        assert_null(from->bytes);
        return;
    }
    op->kind = OP_SET_FROM;
    op->combine = OP_COMBINE_COPY;
    op->sources = &source.value;
    op->source_count = 1;
    if (model_run(model, op) == KVASIR_OK) {
        fixture_assert_bytes(model->fixture, source.value,
                             slice_of(from->bytes, from->length_bytes));
        if (from != entry) {
            entry_store(entry, from->bytes, from->length_bytes, 0);
        }
        entry->expires_at_ms = 0;
    } else {
        assert_int_equal(op->status, KVASIR_NO_MEMORY);
        model->denied++;
    }
    model_unpin(model, &source.value);
}

/* INCRBY; what is no number is set to one now and then, so that there are some. */
static void model_add(struct model *model, uint32_t number, struct op *op)
{
    struct entry *entry = &model->entries[number];
    char text[24];
    int64_t former = 0;
    op->kind = OP_ADD;
    op->delta = 1 + (int64_t)random_below(&model->random, 1000);
    bool is_number =
        entry->bytes == NULL || slice_to_i64(slice_of(entry->bytes, entry->length_bytes), &former);
    enum kvasir_status status = model_run(model, op);
    if (status == KVASIR_NO_MEMORY) {
        model->denied++;
        return;
    }
    assert_int_equal(status, is_number ? KVASIR_OK : KVASIR_INVALID);
    if (is_number) {
        assert_int_equal(op->integer, former + op->delta);
        int length = snprintf(text, sizeof(text), "%" PRId64, op->integer);
        entry_store(entry, (const uint8_t *)text, (size_t)length, entry->expires_at_ms);
    } else if (random_below(&model->random, 2) == 0) {
        *op = (struct op){.kind = OP_REMOVE, .key = op->key, .hash = op->hash};
        assert_int_equal(model_run(model, op), KVASIR_OK);
        entry_clear(entry);
    }
}

static void model_rare(struct model *model)
{
    fault_hold(false);
    if (random_below(&model->random, 60) == 0) {
        shard_flush(model->fixture->shard, SHARD_DATABASE_ALL);
        for (uint32_t i = 0; i < KEY_COUNT; i++) {
            entry_clear(&model->entries[i]);
        }
    } else {
        (void)shard_tick(model->fixture->shard, &model->fixture->now,
                         (uint32_t)random_below(&model->random, 200));
    }
    fault_hold(true);
}

static void model_step(struct model *model)
{
    uint32_t number = (uint32_t)random_below(&model->random, KEY_COUNT);
    char text[16];
    key_text(number, text);
    struct op op = fixture_op(OP_GET, text);
    fixture_move(model->fixture, (int64_t)random_below(&model->random, 4));
    model_expire(model);
    switch (random_below(&model->random, 18)) {
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
    case 11:
        model_copy(model, number, &op);
        break;
    case 12:
        model_add(model, number, &op);
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
    struct model *model = model_create(&options, test_seed());
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
    model_destroy(&model);
}

/* One run in which count points fail, from the after-th on. False: it did not come to that. */
static bool model_run_with_fault(uint64_t seed, unsigned policy, uint32_t after, uint32_t count,
                                 uint64_t *denied_p)
{
    const struct fixture_options options = {0};
    struct model *model = model_create(&options, seed);
    struct op ballast = fixture_op(OP_RESERVE, "ballast");
    ballast.put.length_bytes = FAULT_BALLAST_BYTES;
    assert_int_equal(fixture_run(model->fixture, &ballast), KVASIR_OK);
    fault_arm_any(after, count);
    fault_hold(true);
    shard_set_policy(model->fixture->shard, policy_at(policy));
    for (uint32_t i = 0; i < FAULT_OP_COUNT; i++) {
        model_step(model);
    }
    model_compare_all(model);
    *denied_p += model->denied;
    model_unpin(model, &ballast.value);
    model_destroy(&model);
    return fault_failed() != NULL;
}

/* Of the policies one in turn for each point, or with KVASIR_FAULT_ALL every one for each. */
static void test_shard_model_agrees_with_the_store_whatever_fails(void **state)
{
    (void)state;
    const uint32_t counts[] = {1, FAULT_SPELL_COUNT};
    bool all = getenv("KVASIR_FAULT_ALL") != NULL;
    uint64_t seed = test_seed();
    unsigned policy_count = 0;
    uint64_t denied = 0;
    uint32_t points = 0;
    while (policy_at(policy_count) != NULL) {
        policy_count++;
    }
    for (uint32_t i = 0; i < 2; i++) {
        unsigned reached = policy_count;
        for (uint32_t after = 1; reached > 0; after++) {
            unsigned tried = all ? policy_count : 1;
            reached = 0;
            for (unsigned policy = after; policy < after + tried; policy++) {
                reached +=
                    model_run_with_fault(seed, policy % policy_count, after, counts[i], &denied);
            }
            points = after;
        }
    }
    (void)printf("points %" PRIu32 ", denied %" PRIu64 "\n", points - 1, denied);
    assert_true(points > FAULT_OP_COUNT);
    assert_true(denied > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard_model_agrees_with_the_store),
        cmocka_unit_test(test_shard_model_agrees_with_the_store_whatever_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
