/* test_device – libkvasir with the memory of a real CUDA device, against the server whose addresses
 * KVASIR_TEST_UNIX and KVASIR_TEST_TCP name. The device fills and checks its memory by itself. Without a
 * device it is skipped. */

#include "pattern.h"

#include <kvasir/client.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB         ((size_t)1 << 20)
#define ARENA_BYTES (64 * MIB)

struct rig {
    struct kvasir_client *client;
    uint8_t *from;
    uint8_t *into;
};

static int begin(void **state, const char *variable, bool shm)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    struct kvasir_options options;
    char error[512] = "";
    const char *reason;
    int devices = pattern_devices(&reason);
    assert_non_null(rig);
    kvasir_options_init(&options);
    options.address = getenv(variable);
    options.shm = shm;
    options.timeout_ms = 20000;
    assert_non_null(options.address);
    if (kvasir_connect(&options, error, sizeof(error), &rig->client) != KVASIR_OK) {
        fail_msg("connect: %s", error);
    }
    rig->from = pattern_alloc(0, ARENA_BYTES);
    rig->into = pattern_alloc(devices - 1, ARENA_BYTES);
    assert_non_null(rig->from);
    assert_non_null(rig->into);
    if (kvasir_register(rig->client, rig->from, ARENA_BYTES) != KVASIR_OK ||
        kvasir_register(rig->client, rig->into, ARENA_BYTES) != KVASIR_OK) {
        fail_msg("register: %s", kvasir_error(rig->client));
    }
    *state = rig;
    return 0;
}

static int begin_shm(void **state)
{
    return begin(state, "KVASIR_TEST_UNIX", true);
}

static int begin_unix(void **state)
{
    return begin(state, "KVASIR_TEST_UNIX", false);
}

static int begin_tcp(void **state)
{
    return begin(state, "KVASIR_TEST_TCP", false);
}

static int end(void **state)
{
    struct rig *rig = *state;
    kvasir_close(&rig->client);
    pattern_free(rig->from);
    pattern_free(rig->into);
    free(rig);
    return 0;
}

static void round_trips(struct rig *rig)
{
    static const size_t lengths[] = {1, 4095, 65536, MIB + 3, 40 * MIB + 12345};
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct kvasir_put_options put = {.checksum = i % 2 == 0};
        size_t bytes = lengths[i];
        size_t length = 0;
        assert_true(pattern_fill(rig->from, bytes, i));
        assert_true(pattern_fill(rig->into, ARENA_BYTES, 100 + i));
        assert_int_equal(kvasir_put(rig->client, "k", 1, rig->from, bytes, &put, 0), KVASIR_OK);
        assert_int_equal(kvasir_get(rig->client, "k", 1, rig->into, ARENA_BYTES, &length, 0),
                         KVASIR_OK);
        assert_int_equal(length, bytes);
        assert_int_equal(pattern_differences(rig->into, bytes, i), 0);
    }
}

static void test_device_goes_by_shared_memory(void **state)
{
    round_trips(*state);
    assert_int_equal(kvasir_path(((struct rig *)*state)->client), KVASIR_PATH_SHM);
}

static void test_device_goes_by_the_unix_socket(void **state)
{
    round_trips(*state);
    assert_int_equal(kvasir_path(((struct rig *)*state)->client), KVASIR_PATH_UNIX);
}

static void test_device_goes_by_tcp(void **state)
{
    round_trips(*state);
    assert_int_equal(kvasir_path(((struct rig *)*state)->client), KVASIR_PATH_TCP);
}

static void test_device_is_staged_without_an_adapter(void **state)
{
    struct rig *rig = *state;
    struct kvasir_counters counters;
    assert_int_equal(kvasir_buffer(rig->client, rig->from, ARENA_BYTES), KVASIR_BUFFER_STAGED);
    assert_int_equal(kvasir_put(rig->client, "k", 1, rig->from, MIB, NULL, 0), KVASIR_OK);
    kvasir_counters(rig->client, &counters);
    assert_int_equal(counters.bounced_bytes, MIB);
    assert_int_equal(kvasir_register(rig->client, rig->from, ARENA_BYTES + 1), KVASIR_INVALID);
    assert_int_equal(kvasir_unregister(rig->client, rig->from, ARENA_BYTES), KVASIR_OK);
    assert_int_equal(kvasir_buffer(rig->client, rig->from, 1), KVASIR_BUFFER_NONE);
}

static void test_device_moves_a_batch_of_pieces(void **state)
{
    enum {
        ITEMS = 32
    };
    struct rig *rig = *state;
    struct kvasir_item items[ITEMS];
    struct iovec pieces[ITEMS][2];
    char keys[ITEMS][8];
    for (size_t i = 0; i < ITEMS; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "b%zu", i);
        pieces[i][0] = (struct iovec){rig->from + i * MIB, MIB / 2};
        pieces[i][1] = (struct iovec){rig->from + i * MIB + MIB / 2, MIB / 2};
        items[i] = (struct kvasir_item){.key = keys[i],
                                        .key_length_bytes = strlen(keys[i]),
                                        .segments = pieces[i],
                                        .segment_count = 2};
    }
    assert_true(pattern_fill(rig->from, ITEMS * MIB, 7));
    assert_true(pattern_fill(rig->into, ARENA_BYTES, 8));
    assert_int_equal(kvasir_put_batch(rig->client, items, ITEMS, NULL, 0), KVASIR_OK);
    for (size_t i = 0; i < ITEMS; i++) {
        assert_int_equal(items[i].status, KVASIR_OK);
        items[i].segments = NULL;
        items[i].segment = (struct iovec){rig->into + i * MIB, MIB};
    }
    assert_int_equal(kvasir_get_batch(rig->client, items, ITEMS, 0), KVASIR_OK);
    assert_int_equal(pattern_differences(rig->into, ITEMS * MIB, 7), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_device_goes_by_shared_memory, begin_shm, end),
        cmocka_unit_test_setup_teardown(test_device_goes_by_the_unix_socket, begin_unix, end),
        cmocka_unit_test_setup_teardown(test_device_goes_by_tcp, begin_tcp, end),
        cmocka_unit_test_setup_teardown(test_device_is_staged_without_an_adapter, begin_tcp, end),
        cmocka_unit_test_setup_teardown(test_device_moves_a_batch_of_pieces, begin_shm, end),
    };
    const char *reason = "";
    if (pattern_devices(&reason) == 0) {
        printf("no CUDA device here (%s)\n", reason);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
