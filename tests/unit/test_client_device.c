/* test_client_device – libkvasir with buffers in a device's memory, which the CPU cannot touch: the driver
 * is one of memory copies (tests/fake/cuda), the server a fake one. */

#if __has_include(<cuda.h>)

#include "test_client_fake.h"

#include "../fake/cuda/fake_cuda.h"

#include <kvasir/client.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

struct rig {
    struct fake fake;
    struct kvasir_client *client;
};

static void begin(struct rig *rig, bool shm, size_t bounce_bytes)
{
    char address[128];
    char error[256] = "";
    struct kvasir_options options;
    *rig = (struct rig){.fake = {.shm = shm, .use_unix = shm}};
    fake_cuda_fail("", 0, CUDA_SUCCESS);
    fake_cuda_hold_copies(0);
    fake_cuda_set(2, 1);
    fake_cuda_set_ordering(100, 0);
    fake_start(&rig->fake);
    if (shm) {
        (void)snprintf(address, sizeof address, "unix://%s", rig->fake.path);
    } else {
        (void)snprintf(address, sizeof address, "tcp://127.0.0.1:%u", rig->fake.ports[0]);
    }
    kvasir_options_init(&options);
    options.address = address;
    options.shm = shm;
    options.cuda_module = CUDA_MODULE;
    options.timeout_ms = 20000;
    options.bounce_bytes = bounce_bytes;
    if (kvasir_connect(&options, error, sizeof error, &rig->client) != KVASIR_OK) {
        fail_msg("connect: %s", error);
    }
}

/* Nothing of the driver's is left behind. */
static void end(struct rig *rig)
{
    kvasir_close(&rig->client);
    fake_stop(&rig->fake);
    assert_int_equal(fake_cuda_left(), 0);
}

static void fill(void *device, size_t length, unsigned seed)
{
    uint8_t *bytes = fake_cuda_look(device);
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (uint8_t)(i * 7 + (i >> 8) + (i >> 16) * 3 + seed);
    }
}

static uint64_t bounced(const struct kvasir_client *client)
{
    struct kvasir_counters counters;
    kvasir_counters(client, &counters);
    return counters.bounced_bytes;
}

static uint8_t *registered(struct rig *rig, size_t bytes)
{
    uint8_t *device = fake_cuda_alloc(1, bytes);
    assert_int_equal(kvasir_register(rig->client, device, bytes), KVASIR_OK);
    return device;
}

static void round_trip(bool shm, enum kvasir_path path)
{
    static const size_t lengths[] = {1, 4095, 100000, MIB, 3 * MIB + 5};
    struct rig rig;
    begin(&rig, shm, 8 * MIB);
    uint8_t *device = registered(&rig, 8 * MIB);
    uint8_t *other = device + 4 * MIB;
    uint64_t moved = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct kvasir_put_options put = {.checksum = i % 2 == 1};
        size_t length = 0;
        fill(device, lengths[i], (unsigned)i);
        fill(other, lengths[i] + 1, 99);
        assert_int_equal(kvasir_put(rig.client, "k", 1, device, lengths[i], &put, 0), KVASIR_OK);
        assert_int_equal(kvasir_get(rig.client, "k", 1, other, 4 * MIB, &length, 0), KVASIR_OK);
        assert_int_equal(length, lengths[i]);
        assert_memory_equal(fake_cuda_look(device), fake_cuda_look(other), length);
        /* What is behind the value is left as it is. */
        uint8_t *behind = fake_cuda_look(other + length);
        assert_int_equal(*behind, (uint8_t)(length * 7 + (length >> 8) + (length >> 16) * 3 + 99));
        moved += 2 * length;
    }
    assert_int_equal(kvasir_path(rig.client), path);
    assert_int_equal(bounced(rig.client), moved);
    assert_int_equal(kvasir_get(rig.client, "k", 1, other, 100, NULL, 0), KVASIR_TOO_SMALL);
    assert_int_equal(kvasir_get(rig.client, "no", 2, other, 100, NULL, 0), KVASIR_NOT_FOUND);
    assert_int_equal(kvasir_put(rig.client, "e", 1, device, 0, NULL, 0), KVASIR_OK);
    end(&rig);
    fake_cuda_free(device);
}

static void test_client_device_goes_by_the_socket(void **state)
{
    (void)state;
    round_trip(false, KVASIR_PATH_TCP);
}

static void test_client_device_goes_by_shared_memory(void **state)
{
    (void)state;
    round_trip(true, KVASIR_PATH_SHM);
}

static void test_client_device_says_what_became_of_a_buffer(void **state)
{
    struct rig rig;
    struct kvasir_client *client;
    static uint8_t host[4096];
    (void)state;
    begin(&rig, false, 4 * MIB);
    client = rig.client;
    uint8_t *device = fake_cuda_alloc(0, MIB);
    uint8_t *managed = fake_cuda_alloc_managed(0, MIB);
    assert_int_equal(kvasir_buffer(client, device, MIB), KVASIR_BUFFER_NONE);
    assert_int_equal(kvasir_register(client, device, MIB), KVASIR_OK);
    assert_non_null(strstr(kvasir_error(client), "staged in pinned host memory: no RDMA"));
    assert_int_equal(kvasir_buffer(client, device + 5, MIB - 5), KVASIR_BUFFER_STAGED);
    assert_int_equal(kvasir_buffer(client, device + 5, MIB), KVASIR_BUFFER_NONE);
    assert_int_equal(kvasir_register(client, managed, MIB), KVASIR_UNSUPPORTED);
    assert_int_equal(kvasir_register(client, host, sizeof host), KVASIR_UNSUPPORTED);
    /* Registered twice it is there until it was dropped twice. */
    assert_int_equal(kvasir_register(client, device, MIB), KVASIR_OK);
    assert_int_equal(kvasir_unregister(client, device, MIB), KVASIR_OK);
    assert_int_equal(kvasir_buffer(client, device, MIB), KVASIR_BUFFER_STAGED);
    assert_int_equal(kvasir_unregister(client, device, MIB - 1), KVASIR_NOT_FOUND);
    assert_int_equal(kvasir_unregister(client, device, MIB), KVASIR_OK);
    assert_int_equal(kvasir_unregister(client, device, MIB), KVASIR_NOT_FOUND);
    assert_int_equal(kvasir_buffer(client, device, MIB), KVASIR_BUFFER_NONE);
    end(&rig);
    fake_cuda_free(device);
    fake_cuda_free(managed);
}

static void test_client_device_refuses_what_reaches_beyond(void **state)
{
    struct rig rig;
    (void)state;
    begin(&rig, false, 4 * MIB);
    uint8_t *device = fake_cuda_alloc(0, MIB);
    assert_int_equal(kvasir_register(rig.client, device, MIB + 1), KVASIR_INVALID);
    assert_non_null(strstr(kvasir_error(rig.client), "beyond their allocation"));
    assert_int_equal(kvasir_register(rig.client, device, MIB / 2), KVASIR_OK);
    assert_int_equal(kvasir_put(rig.client, "k", 1, device + 100, MIB / 2, NULL, 0),
                     KVASIR_INVALID);
    assert_non_null(strstr(kvasir_error(rig.client), "beyond a registered buffer"));
    fake_cuda_fail("cuPointerGetAttribute", 0, CUDA_ERROR_UNKNOWN);
    assert_int_equal(kvasir_register(rig.client, device, MIB), KVASIR_IO);
    end(&rig);
    fake_cuda_free(device);
}

static void test_client_device_takes_memory_that_is_mapped_in_pieces(void **state)
{
    struct rig rig;
    (void)state;
    begin(&rig, false, 4 * MIB);
    uint8_t *device = fake_cuda_alloc_mapped(1, MIB / 2, 4);
    uint8_t *other = registered(&rig, 2 * MIB);
    assert_int_equal(kvasir_register(rig.client, device, 2 * MIB + 1), KVASIR_INVALID);
    assert_int_equal(kvasir_register(rig.client, device, 2 * MIB), KVASIR_OK);
    fill(device, 2 * MIB, 9);
    assert_int_equal(kvasir_put(rig.client, "k", 1, device, 2 * MIB, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_get(rig.client, "k", 1, other, 2 * MIB, NULL, 0), KVASIR_OK);
    assert_memory_equal(fake_cuda_look(other), fake_cuda_look(device), 2 * MIB);
    end(&rig);
    fake_cuda_free(device);
    fake_cuda_free(other);
}

/* A capacity beyond all addresses reaches beyond every buffer. */
static void test_client_device_refuses_a_length_that_wraps(void **state)
{
    struct rig rig;
    (void)state;
    begin(&rig, false, 4 * MIB);
    uint8_t *device = registered(&rig, MIB);
    assert_int_equal(kvasir_put(rig.client, "k", 1, device, 10, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_get(rig.client, "k", 1, device + 5, SIZE_MAX, NULL, 0), KVASIR_INVALID);
    assert_non_null(strstr(kvasir_error(rig.client), "beyond a registered buffer"));
    assert_int_equal(kvasir_buffer(rig.client, device + 5, SIZE_MAX), KVASIR_BUFFER_NONE);
    end(&rig);
    fake_cuda_free(device);
}

/* The framework gives the same addresses out again: what was registered of the memory before is gone,
 * all of it, and only that. */
static void test_client_device_forgets_a_buffer_that_was_freed(void **state)
{
    struct rig rig;
    struct kvasir_request *request = NULL;
    (void)state;
    begin(&rig, false, 4 * MIB);
    uint8_t *other = registered(&rig, MIB);
    uint8_t *device = registered(&rig, 2 * MIB);
    assert_int_equal(kvasir_register(rig.client, device, 2 * MIB), KVASIR_OK);
    assert_int_equal(kvasir_register(rig.client, device + MIB, MIB), KVASIR_OK);
    fake_cuda_free(device);
    uint8_t *again = fake_cuda_alloc(0, MIB / 2);
    assert_ptr_equal(again, device);

    struct kvasir_item item = {.key = "a", .key_length_bytes = 1, .segment = {other, MIB}};
    assert_int_equal(kvasir_submit(rig.client, KVASIR_CALL_PUT, &item, 1, NULL, &request),
                     KVASIR_PENDING);
    assert_int_equal(kvasir_register(rig.client, again, MIB / 2), KVASIR_BUSY);
    assert_non_null(strstr(kvasir_error(rig.client), "was freed"));
    kvasir_request_free(rig.client, &request);

    assert_int_equal(kvasir_register(rig.client, again, MIB / 2), KVASIR_OK);
    assert_int_equal(kvasir_buffer(rig.client, device + MIB, MIB), KVASIR_BUFFER_NONE);
    assert_int_equal(kvasir_buffer(rig.client, device, 2 * MIB), KVASIR_BUFFER_NONE);
    assert_int_equal(kvasir_buffer(rig.client, again, MIB / 2), KVASIR_BUFFER_STAGED);
    assert_int_equal(kvasir_buffer(rig.client, other, MIB), KVASIR_BUFFER_STAGED);
    assert_int_equal(kvasir_unregister(rig.client, device, 2 * MIB), KVASIR_NOT_FOUND);
    /* It goes by the device that it is on now. */
    fill(again, MIB / 2, 4);
    assert_int_equal(kvasir_put(rig.client, "k", 1, again, MIB / 2, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_get(rig.client, "k", 1, other, MIB, NULL, 0), KVASIR_OK);
    assert_memory_equal(fake_cuda_look(other), fake_cuda_look(again), MIB / 2);
    end(&rig);
    fake_cuda_free(again);
    fake_cuda_free(other);
}

/* Pieces of both kinds in one value, and more items than there are lanes for. */
static void test_client_device_moves_batches_through_few_lanes(void **state)
{
    enum {
        ITEMS = 40
    };
    struct rig rig;
    struct kvasir_item items[ITEMS];
    struct iovec pieces[ITEMS][3];
    char keys[ITEMS][8];
    static uint8_t host[ITEMS * 1000];
    (void)state;
    begin(&rig, false, 2 * MIB);
    uint8_t *device = registered(&rig, ITEMS * 50000);
    uint8_t *into = registered(&rig, ITEMS * 50000);
    fill(device, (size_t)ITEMS * 50000, 1);
    memset(host, 7, sizeof host);
    for (size_t i = 0; i < ITEMS; i++) {
        size_t at = i * 50000;
        (void)snprintf(keys[i], sizeof keys[i], "k%zu", i);
        pieces[i][0] = (struct iovec){device + at, 40000};
        pieces[i][1] = (struct iovec){host + i * 1000, 1000};
        pieces[i][2] = (struct iovec){device + at + 40000, 9000};
        items[i] = (struct kvasir_item){.key = keys[i],
                                        .key_length_bytes = strlen(keys[i]),
                                        .segments = pieces[i],
                                        .segment_count = 3};
    }
    assert_int_equal(kvasir_put_batch(rig.client, items, ITEMS, NULL, 0), KVASIR_OK);
    for (size_t i = 0; i < ITEMS; i++) {
        assert_int_equal(items[i].status, KVASIR_OK);
        items[i].segments = NULL;
        items[i].segment = (struct iovec){into + i * 50000, 50000};
    }
    assert_int_equal(kvasir_get_batch(rig.client, items, ITEMS, 0), KVASIR_OK);
    for (size_t i = 0; i < ITEMS; i++) {
        const uint8_t *from = fake_cuda_look(device + i * 50000);
        const uint8_t *to = fake_cuda_look(into + i * 50000);
        assert_int_equal(items[i].status, KVASIR_OK);
        assert_int_equal(items[i].length_bytes, 50000);
        assert_memory_equal(to, from, 40000);
        assert_memory_equal(to + 40000, host + i * 1000, 1000);
        assert_memory_equal(to + 41000, from + 40000, 9000);
    }
    end(&rig);
    fake_cuda_free(device);
    fake_cuda_free(into);
}

static void test_client_device_names_the_bound_on_pinned_memory(void **state)
{
    struct rig rig;
    (void)state;
    begin(&rig, false, 2 * MIB);
    uint8_t *device = registered(&rig, 4 * MIB);
    assert_int_equal(kvasir_put(rig.client, "k", 1, device, 2 * MIB + 1, NULL, 0),
                     KVASIR_NO_MEMORY);
    assert_non_null(strstr(kvasir_error(rig.client), "bounce_bytes"));
    assert_int_equal(kvasir_put(rig.client, "k", 1, device, 2 * MIB, NULL, 0), KVASIR_OK);
    end(&rig);
    begin(&rig, false, 2 * MIB);
    assert_int_equal(kvasir_register(rig.client, device, MIB), KVASIR_OK);
    fake_cuda_fail("cuMemHostAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(kvasir_put(rig.client, "k", 1, device, 100, NULL, 0), KVASIR_NO_MEMORY);
    end(&rig);
    fake_cuda_free(device);
}

static void test_client_device_answers_a_copy_that_fails(void **state)
{
    static const char *const calls[] = {"cuMemcpyAsync", "cuStreamQuery"};
    struct rig rig;
    (void)state;
    begin(&rig, false, 4 * MIB);
    uint8_t *device = registered(&rig, MIB);
    fill(device, MIB, 3);
    assert_int_equal(kvasir_put(rig.client, "k", 1, device, MIB, NULL, 0), KVASIR_OK);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        fake_cuda_fail(calls[i], 0, CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_int_equal(kvasir_put(rig.client, "p", 1, device, MIB, NULL, 0), KVASIR_IO);
        assert_non_null(strstr(kvasir_error(rig.client), "device 1"));
        fake_cuda_fail(calls[i], 0, CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_int_equal(kvasir_get(rig.client, "k", 1, device, MIB, NULL, 0), KVASIR_IO);
        /* The next begins anew. */
        assert_int_equal(kvasir_get(rig.client, "k", 1, device, MIB, NULL, 0), KVASIR_OK);
    }
    fake_cuda_fail("cuStreamCreate", 0, CUDA_ERROR_OUT_OF_MEMORY);
    uint8_t *other = fake_cuda_alloc(0, MIB);
    assert_int_equal(kvasir_register(rig.client, other, MIB), KVASIR_IO);
    assert_non_null(strstr(kvasir_error(rig.client), "device 0"));
    end(&rig);
    fake_cuda_free(device);
    fake_cuda_free(other);
}

/* A request that is taken back in the middle of a copy: when its memory is the caller's again nothing
 * touches it, and the client goes on. */
static void test_client_device_lets_go_of_what_is_cancelled(void **state)
{
    struct rig rig;
    struct kvasir_request *request = NULL;
    (void)state;
    begin(&rig, false, 4 * MIB);
    uint8_t *device = registered(&rig, 2 * MIB);
    struct kvasir_item items[2] = {
        {.key = "a", .key_length_bytes = 1, .segment = {device, MIB}},
        {.key = "b", .key_length_bytes = 1, .segment = {device + MIB, MIB}}};
    fill(device, 2 * MIB, 5);
    for (int late = 0; late < 2; late++) {
        assert_int_equal(kvasir_submit(rig.client, KVASIR_CALL_PUT, items, 2, NULL, &request),
                         KVASIR_PENDING);
        for (int turn = 0; turn < late; turn++) {
            assert_int_equal(kvasir_poll(rig.client, 0, &request), KVASIR_AGAIN);
        }
        assert_int_equal(kvasir_unregister(rig.client, device, 2 * MIB), KVASIR_BUSY);
        kvasir_request_free(rig.client, &request);
        assert_int_equal(items[0].status, KVASIR_CANCELLED);
        assert_int_equal(kvasir_put(rig.client, "c", 1, device, MIB, NULL, 0), KVASIR_OK);
    }
    end(&rig);
    fake_cuda_free(device);
}

static void test_client_device_ends_by_the_deadline(void **state)
{
    struct rig rig;
    (void)state;
    begin(&rig, false, 4 * MIB);
    uint8_t *device = registered(&rig, MIB);
    /* The fake server answers nothing to this key. */
    assert_int_equal(kvasir_get(rig.client, "!silent", 7, device, MIB, NULL, 200), KVASIR_TIMEOUT);
    end(&rig);
    fake_cuda_free(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_device_goes_by_the_socket),
        cmocka_unit_test(test_client_device_goes_by_shared_memory),
        cmocka_unit_test(test_client_device_says_what_became_of_a_buffer),
        cmocka_unit_test(test_client_device_refuses_what_reaches_beyond),
        cmocka_unit_test(test_client_device_takes_memory_that_is_mapped_in_pieces),
        cmocka_unit_test(test_client_device_refuses_a_length_that_wraps),
        cmocka_unit_test(test_client_device_forgets_a_buffer_that_was_freed),
        cmocka_unit_test(test_client_device_moves_batches_through_few_lanes),
        cmocka_unit_test(test_client_device_names_the_bound_on_pinned_memory),
        cmocka_unit_test(test_client_device_answers_a_copy_that_fails),
        cmocka_unit_test(test_client_device_lets_go_of_what_is_cancelled),
        cmocka_unit_test(test_client_device_ends_by_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

#include <stdio.h>

int main(void)
{
    puts("skipped: built without the CUDA toolkit");
    return 77;
}

#endif
