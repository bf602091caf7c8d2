/* test_input – the bytes of one connection: room, use, cut, against a plain buffer. */

#include "net/input.h"

#include "base/random.h"
#include "test_seed.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MODEL_BYTES (1U << 20)
#define CHUNK_DATA  sizeof(((struct chunk *)0)->data)

struct fixture {
    struct chunk_pool pool;
    struct input input;
};

static void setup(struct fixture *fixture)
{
    chunk_pool_init(&fixture->pool, 0, 2);
    chunk_pool_allow_large(&fixture->pool, 16U << 20);
    input_init(&fixture->input, &fixture->pool);
}

static void teardown(struct fixture *fixture)
{
    input_fini(&fixture->input);
    chunk_pool_fini(&fixture->pool);
}

static void add(struct input *input, const uint8_t *bytes, size_t length)
{
    assert_true(input_room(input) >= length);
    memcpy(input->data + input->end_bytes, bytes, length);
    input->end_bytes += length;
}

static void test_input_holds_no_memory_while_empty(void **state)
{
    struct fixture fixture;
    (void)state;
    setup(&fixture);
    assert_null(fixture.input.data);
    assert_true(input_make_room(&fixture.input, 1, MODEL_BYTES));
    assert_int_equal(fixture.pool.taken_count, 1);
    assert_int_equal(input_room(&fixture.input), CHUNK_DATA);
    add(&fixture.input, (const uint8_t *)"abc", 3);
    input_use(&fixture.input, 2);
    assert_int_equal(fixture.pool.taken_count, 1);
    input_use(&fixture.input, 1);
    assert_int_equal(fixture.pool.taken_count, 0);
    assert_null(fixture.input.data);
    teardown(&fixture);
}

static void test_input_grows_to_its_bound_only(void **state)
{
    struct fixture fixture;
    static uint8_t bytes[CHUNK_BYTES];
    (void)state;
    setup(&fixture);
    assert_true(input_make_room(&fixture.input, 1, 100000));
    add(&fixture.input, bytes, CHUNK_DATA);
    assert_true(input_make_room(&fixture.input, 20000, 100000));
    assert_int_equal(fixture.pool.taken_count, 0);
    assert_int_equal(input_length(&fixture.input), CHUNK_DATA);
    assert_false(input_make_room(&fixture.input, 100000 - CHUNK_DATA + 1, 100000));
    assert_false(input_make_room(&fixture.input, SIZE_MAX, 100000));
    assert_int_equal(input_length(&fixture.input), CHUNK_DATA);
    teardown(&fixture);
}

static void test_input_without_a_chunk_is_refused(void **state)
{
    struct fixture fixture;
    struct input others[2];
    (void)state;
    setup(&fixture);
    for (int i = 0; i < 2; i++) {
        input_init(&others[i], &fixture.pool);
        assert_true(input_make_room(&others[i], 1, MODEL_BYTES));
    }
    assert_false(input_make_room(&fixture.input, 1, MODEL_BYTES));
    input_fini(&others[0]);
    assert_true(input_make_room(&fixture.input, 1, MODEL_BYTES));
    input_fini(&others[1]);
    teardown(&fixture);
}

/* One step of a random walk over input and model. */
static void step(struct input *input, uint8_t *model, size_t *length, struct random *random)
{
    uint8_t bytes[600];
    size_t count = random_below(random, sizeof(bytes));
    uint64_t choice = random_below(random, 10);
    if (choice < 5 && *length + count <= MODEL_BYTES) {
        for (size_t i = 0; i < count; i++) {
            bytes[i] = (uint8_t)random_u64(random);
        }
        if (count > 0) {
            assert_true(input_make_room(input, count, 4 * MODEL_BYTES));
            add(input, bytes, count);
        }
        memcpy(model + *length, bytes, count);
        *length += count;
    } else if (choice < 8) {
        size_t part = random_below(random, *length < 2000 ? *length + 1 : 2000);
        input_use(input, part);
        memmove(model, model + part, *length - part);
        *length -= part;
    } else if (*length > 0) {
        size_t offset = random_below(random, *length);
        size_t part = random_below(random, *length - offset < 900 ? *length - offset : 900);
        input_cut(input, offset, part);
        memmove(model + offset, model + offset + part, *length - offset - part);
        *length -= part;
    }
}

static void test_input_agrees_with_a_plain_buffer(void **state)
{
    struct fixture fixture;
    struct random random;
    static uint8_t model[MODEL_BYTES];
    size_t length = 0;
    (void)state;
    random_init(&random, test_seed());
    setup(&fixture);
    for (int i = 0; i < 20000; i++) {
        step(&fixture.input, model, &length, &random);
        assert_int_equal(input_length(&fixture.input), length);
        if (length > 0) {
            assert_memory_equal(input_begin(&fixture.input), model, length);
        }
    }
    teardown(&fixture);
}

static void test_input_shares_a_bound_on_long_requests(void **state)
{
    struct fixture fixture;
    struct input other;
    (void)state;
    setup(&fixture);
    input_init(&other, &fixture.pool);
    assert_true(input_make_room(&fixture.input, 10U << 20, 64U << 20));
    assert_false(input_make_room(&other, 1U << 20, 64U << 20));
    input_fini(&fixture.input);
    assert_true(input_make_room(&other, 1U << 20, 64U << 20));
    input_fini(&other);
    assert_int_equal(fixture.pool.large_bytes, 0);
    teardown(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_input_shares_a_bound_on_long_requests),
        cmocka_unit_test(test_input_holds_no_memory_while_empty),
        cmocka_unit_test(test_input_grows_to_its_bound_only),
        cmocka_unit_test(test_input_without_a_chunk_is_refused),
        cmocka_unit_test(test_input_agrees_with_a_plain_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
