/* The space "cuda" on a driver of memory copies, in which every call can fail. */

#if __has_include(<cuda.h>)

#include "../../modules/cuda/cuda_said.h"
#include "../../modules/cuda/cuda_space.h"
#include "../fake/cuda/fake_cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES ((size_t)200000)

static const struct kvasir_space_ops *const ops = &cuda_space_ops;

/* The driver is opened by its path, as the true one; tests speak to the same copy of it. */
#define DRIVER FAKE_CUDA_LIBRARY

struct fixture {
    struct cuda_devices devices;
    char said[KVASIR_SAID_BYTES];
};

static int create(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fake_cuda_fail("", 0, CUDA_SUCCESS);
    fake_cuda_hold_copies(0);
    fake_cuda_set(2, 1);
    fake_cuda_set_ordering(100, 0);
    fake_cuda_set_context_needed(0);
    assert_int_equal(cuda_devices_open(&fixture->devices, DRIVER, fixture->said), KVASIR_OK);
    *state = fixture;
    return 0;
}

static int destroy(void **state)
{
    struct fixture *fixture = *state;
    cuda_devices_close(&fixture->devices);
    assert_int_equal(fake_cuda_left(), 0);
    free(fixture);
    return 0;
}

static void test_cuda_space_names_a_missing_driver(void **state)
{
    struct cuda_devices devices;
    char said[KVASIR_SAID_BYTES];
    (void)state;
    assert_int_equal(cuda_devices_open(&devices, "/nowhere/libcuda.so.1", said), KVASIR_NOT_FOUND);
    assert_non_null(strstr(said, "/nowhere/libcuda.so.1"));
    /* A library that is no driver. */
    assert_int_equal(cuda_devices_open(&devices, "libm.so.6", said), KVASIR_UNSUPPORTED);
    assert_non_null(strstr(said, "cuInit"));
}

static void test_cuda_space_names_a_driver_that_does_not_work(void **state)
{
    static const char *const calls[] = {"cuInit", "cuDeviceGetCount", "cuDeviceGet",
                                        "cuDeviceGetName", "cuDeviceGetPCIBusId"};
    struct cuda_devices devices;
    char said[KVASIR_SAID_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fake_cuda_fail(calls[i], 0, CUDA_ERROR_UNKNOWN);
        assert_int_equal(cuda_devices_open(&devices, DRIVER, said), KVASIR_IO);
        assert_non_null(strstr(said, "CUDA_ERROR_OTHER"));
    }
    fake_cuda_set(0, 0);
    assert_int_equal(cuda_devices_open(&devices, DRIVER, said), KVASIR_NOT_FOUND);
    fake_cuda_set(2, 1);
    assert_int_equal(fake_cuda_left(), 0);
}

static void test_cuda_space_tells_what_an_address_is(void **state)
{
    struct fixture *fixture = *state;
    struct kvasir_space_range range;
    char *device = fake_cuda_alloc(1, BYTES);
    char *managed = fake_cuda_alloc_managed(0, BYTES);
    void *pinned = NULL;
    char own = 0;

    assert_int_equal(ops->find(&fixture->devices, device + 777, 1, &range), KVASIR_OK);
    assert_ptr_equal(range.base, device);
    assert_true(range.bytes >= BYTES);
    assert_int_equal(range.kind, KVASIR_SPACE_DEVICE);
    assert_int_equal(range.device, 1);
    assert_string_equal(range.pci_address, "0000:1c:00.0");
    assert_true(range.dmabuf);

    assert_int_equal(ops->find(&fixture->devices, managed, 1, &range), KVASIR_OK);
    assert_int_equal(range.kind, KVASIR_SPACE_MANAGED);
    assert_false(range.dmabuf);

    assert_int_equal(ops->pinned_alloc(&fixture->devices, 0, BYTES, &pinned, fixture->said),
                     KVASIR_OK);
    assert_int_equal(ops->find(&fixture->devices, pinned, 1, &range), KVASIR_OK);
    assert_int_equal(range.kind, KVASIR_SPACE_PINNED);
    ops->pinned_free(&fixture->devices, &pinned);
    assert_null(pinned);
    ops->pinned_free(&fixture->devices, &pinned);

    assert_int_equal(ops->find(&fixture->devices, &own, 1, &range), KVASIR_NOT_FOUND);
    for (unsigned skip = 0; skip < 5; skip++) {
        fake_cuda_fail("cuPointerGetAttribute", skip, CUDA_ERROR_UNKNOWN);
        assert_int_equal(ops->find(&fixture->devices, device, 1, &range), KVASIR_IO);
    }
    fake_cuda_free(device);
    fake_cuda_free(managed);
}

/* Expandable segments of a framework: one tensor over many mappings. */
static void test_cuda_space_follows_memory_that_is_mapped_in_pieces(void **state)
{
    struct fixture *fixture = *state;
    struct kvasir_space_range range;
    struct kvasir_space_range first;
    const size_t piece = (size_t)1 << 16;
    char *device = fake_cuda_alloc_mapped(1, piece, 5);
    int fd = -1;
    uint64_t offset = 0;

    assert_int_equal(ops->find(&fixture->devices, device, piece, &first), KVASIR_OK);
    assert_ptr_equal(first.base, device);
    assert_int_equal(first.bytes, piece);
    assert_int_equal(ops->find(&fixture->devices, device + piece + 10, 3 * piece, &range),
                     KVASIR_OK);
    assert_ptr_equal(range.base, device + piece);
    assert_int_equal(range.bytes, 4 * piece);
    assert_int_not_equal(range.id, first.id);
    /* No further than the memory goes. */
    assert_int_equal(ops->find(&fixture->devices, device, 6 * piece, &range), KVASIR_OK);
    assert_int_equal(range.bytes, 5 * piece);
    assert_int_equal(ops->find(&fixture->devices, device, SIZE_MAX, &range), KVASIR_OK);
    assert_int_equal(range.bytes, 5 * piece);
    assert_int_equal(ops->export_dmabuf(&fixture->devices, device + piece, 2 * piece, &fd, &offset,
                                        fixture->said),
                     KVASIR_OK);
    assert_int_equal(close(fd), 0);
    assert_int_equal(ops->export_dmabuf(&fixture->devices, device + piece, 5 * piece, &fd, &offset,
                                        fixture->said),
                     KVASIR_INVALID);
    fake_cuda_free(device);
}

/* Two allocations may lie side by side; a buffer in the first ends with it. */
static void test_cuda_space_ends_where_an_allocation_does(void **state)
{
    struct fixture *fixture = *state;
    struct kvasir_space_range range;
    char *both = fake_cuda_alloc(0, (size_t)2 << 16);
    fake_cuda_free(both);
    char *first = fake_cuda_alloc(0, (size_t)1 << 16);
    fake_cuda_place_next(first + ((size_t)1 << 16));
    char *second = fake_cuda_alloc(0, (size_t)1 << 16);
    assert_ptr_equal(first, both);
    assert_ptr_equal(second, first + ((size_t)1 << 16));
    assert_int_equal(ops->find(&fixture->devices, first, (size_t)2 << 16, &range), KVASIR_OK);
    assert_int_equal(range.bytes, (size_t)1 << 16);
    fake_cuda_free(second);
    fake_cuda_free(first);
}

static void test_cuda_space_tells_memory_from_what_had_its_address(void **state)
{
    struct fixture *fixture = *state;
    struct kvasir_space_range before;
    struct kvasir_space_range after;
    char *device = fake_cuda_alloc(0, BYTES);
    assert_int_equal(ops->find(&fixture->devices, device, 1, &before), KVASIR_OK);
    fake_cuda_free(device);
    char *again = fake_cuda_alloc(0, BYTES);
    assert_ptr_equal(again, device);
    assert_int_equal(ops->find(&fixture->devices, again, 1, &after), KVASIR_OK);
    assert_int_not_equal(after.id, 0);
    assert_int_not_equal(after.id, before.id);
    fake_cuda_free(again);
}

static void test_cuda_space_answers_a_thread_without_a_context(void **state)
{
    struct fixture *fixture = *state;
    struct kvasir_space_range range;
    char *device = fake_cuda_alloc(1, BYTES);
    char own = 0;
    fake_cuda_set_context_needed(1);
    assert_int_equal(ops->find(&fixture->devices, device, BYTES, &range), KVASIR_OK);
    assert_int_equal(range.device, 1);
    assert_int_equal(ops->find(&fixture->devices, &own, 1, &range), KVASIR_NOT_FOUND);
    fake_cuda_fail("cuDevicePrimaryCtxRetain", 0, CUDA_ERROR_OUT_OF_MEMORY);
    struct cuda_devices fresh;
    assert_int_equal(cuda_devices_open(&fresh, DRIVER, fixture->said), KVASIR_OK);
    assert_int_equal(ops->find(&fresh, device, BYTES, &range), KVASIR_IO);
    cuda_devices_close(&fresh);
    fake_cuda_free(device);
}

/* What an adapter wrote is flushed where the device does not see it by itself; where neither is to be had
 * adapters are kept away. */
static void test_cuda_space_settles_what_adapters_wrote(void **state)
{
    struct fixture *fixture = *state;
    struct cuda_devices other;
    struct kvasir_space_range range;
    char *device = fake_cuda_alloc(0, BYTES);
    unsigned before = fake_cuda_flushes();
    assert_int_equal(ops->settle(&fixture->devices, 0, fixture->said), KVASIR_OK);
    assert_int_equal(fake_cuda_flushes(), before);

    fake_cuda_set_ordering(0, 1);
    assert_int_equal(cuda_devices_open(&other, DRIVER, fixture->said), KVASIR_OK);
    assert_int_equal(ops->find(&other, device, 1, &range), KVASIR_OK);
    assert_true(range.dmabuf);
    assert_int_equal(ops->settle(&other, 0, fixture->said), KVASIR_OK);
    assert_int_equal(fake_cuda_flushes(), before + 1);
    fake_cuda_fail("cuFlushGPUDirectRDMAWrites", 0, CUDA_ERROR_UNKNOWN);
    assert_int_equal(ops->settle(&other, 0, fixture->said), KVASIR_IO);
    assert_non_null(strstr(fixture->said, "0000:1b:00.0"));
    assert_int_equal(ops->settle(&other, 2, fixture->said), KVASIR_IO);
    cuda_devices_close(&other);

    fake_cuda_set_ordering(0, 0);
    assert_int_equal(cuda_devices_open(&other, DRIVER, fixture->said), KVASIR_OK);
    assert_int_equal(ops->find(&other, device, 1, &range), KVASIR_OK);
    assert_false(range.dmabuf);
    cuda_devices_close(&other);
    fake_cuda_free(device);
}

static void test_cuda_space_exports_whole_pages_around_a_range(void **state)
{
    struct fixture *fixture = *state;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *device = fake_cuda_alloc(0, BYTES);
    int fd = -1;
    uint64_t offset = 0;

    assert_int_equal(ops->export_dmabuf(&fixture->devices, device + page_bytes + 100, page_bytes,
                                        &fd, &offset, fixture->said),
                     KVASIR_OK);
    assert_int_equal(offset, 100);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), page_bytes);
    assert_int_equal(close(fd), 0);
    fake_cuda_free(device);
}

static void test_cuda_space_refuses_what_cannot_be_exported(void **state)
{
    struct fixture *fixture = *state;
    char *device = fake_cuda_alloc(0, BYTES);
    char own = 0;
    int fd = -1;
    uint64_t offset = 0;
    struct kvasir_space_range range;

    assert_int_equal(ops->export_dmabuf(&fixture->devices, &own, 1, &fd, &offset, fixture->said),
                     KVASIR_INVALID);
    assert_int_equal(ops->find(&fixture->devices, device, 1, &range), KVASIR_OK);
    assert_int_equal(
        ops->export_dmabuf(&fixture->devices, device, range.bytes + 1, &fd, &offset, fixture->said),
        KVASIR_INVALID);
    assert_int_equal(
        ops->export_dmabuf(&fixture->devices, device + 1, SIZE_MAX, &fd, &offset, fixture->said),
        KVASIR_INVALID);
    assert_int_equal(ops->export_dmabuf(&fixture->devices, device, 0, &fd, &offset, fixture->said),
                     KVASIR_INVALID);
    fake_cuda_fail("cuMemGetHandleForAddressRange", 0, CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(
        ops->export_dmabuf(&fixture->devices, device, BYTES, &fd, &offset, fixture->said),
        KVASIR_UNSUPPORTED);
    assert_non_null(strstr(fixture->said, "0000:1b:00.0"));
    assert_int_equal(fd, -1);
    fake_cuda_free(device);
}

static void test_cuda_space_says_where_a_driver_offers_no_dmabuf(void **state)
{
    struct fixture *fixture = *state;
    struct cuda_devices old;
    char *device = fake_cuda_alloc(0, BYTES);
    int fd = -1;
    uint64_t offset = 0;
    fake_cuda_set(2, 0);
    assert_int_equal(cuda_devices_open(&old, DRIVER, fixture->said), KVASIR_OK);
    assert_int_equal(ops->export_dmabuf(&old, device, BYTES, &fd, &offset, fixture->said),
                     KVASIR_UNSUPPORTED);
    assert_non_null(strstr(fixture->said, "no dmabuf"));
    cuda_devices_close(&old);
    fake_cuda_free(device);
}

static void test_cuda_space_copies_both_ways_and_in_order(void **state)
{
    struct fixture *fixture = *state;
    struct kvasir_copier *copier = NULL;
    char *device = fake_cuda_alloc(1, BYTES);
    char *host = malloc(BYTES);
    char *back = calloc(1, BYTES);
    memset(host, 0x5a, BYTES);

    assert_int_equal(ops->copier_open(&fixture->devices, 1, &copier, fixture->said), KVASIR_OK);
    assert_int_equal(ops->copier_poll(copier), KVASIR_OK);
    fake_cuda_hold_copies(1);
    assert_int_equal(ops->copy(copier, device, host, BYTES), KVASIR_PENDING);
    assert_int_equal(ops->copy(copier, back, device, BYTES), KVASIR_PENDING);
    assert_int_equal(ops->copier_poll(copier), KVASIR_PENDING);
    assert_int_equal(back[0], 0);
    fake_cuda_hold_copies(0);
    assert_int_equal(ops->copier_poll(copier), KVASIR_OK);
    assert_memory_equal(back, host, BYTES);

    /* Closing waits for what is under way. */
    memset(back, 0, BYTES);
    fake_cuda_hold_copies(1);
    assert_int_equal(ops->copy(copier, back, device, BYTES), KVASIR_PENDING);
    ops->copier_close(&copier);
    assert_null(copier);
    assert_memory_equal(back, host, BYTES);
    ops->copier_close(&copier);
    fake_cuda_free(device);
    free(host);
    free(back);
}

static void test_cuda_space_a_failed_copier_stays_failed(void **state)
{
    struct fixture *fixture = *state;
    struct kvasir_copier *copier = NULL;
    char *device = fake_cuda_alloc(0, BYTES);
    char host[16] = {0};

    assert_int_equal(ops->copier_open(&fixture->devices, 0, &copier, fixture->said), KVASIR_OK);
    fake_cuda_fail("cuMemcpyAsync", 0, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(ops->copy(copier, device, host, sizeof(host)), KVASIR_IO);
    assert_int_equal(ops->copier_poll(copier), KVASIR_IO);
    assert_int_equal(ops->copy(copier, device, host, sizeof(host)), KVASIR_IO);
    ops->copier_close(&copier);

    assert_int_equal(ops->copier_open(&fixture->devices, 0, &copier, fixture->said), KVASIR_OK);
    assert_int_equal(ops->copy(copier, device, host, sizeof(host)), KVASIR_PENDING);
    fake_cuda_fail("cuStreamQuery", 0, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(ops->copier_poll(copier), KVASIR_IO);
    assert_int_equal(ops->copier_poll(copier), KVASIR_IO);
    ops->copier_close(&copier);
    fake_cuda_free(device);
}

static void test_cuda_space_a_failed_call_leaves_nothing(void **state)
{
    static const char *const calls[] = {"cuDeviceGet", "cuDevicePrimaryCtxRetain",
                                        "cuCtxPushCurrent", "cuStreamCreate"};
    struct fixture *fixture = *state;
    struct kvasir_copier *copier = NULL;
    void *memory = NULL;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fake_cuda_fail(calls[i], 0, CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(ops->copier_open(&fixture->devices, 0, &copier, fixture->said),
                         KVASIR_NO_MEMORY);
        assert_non_null(strstr(fixture->said, "CUDA_ERROR_OUT_OF_MEMORY"));
        assert_null(copier);
    }
    fake_cuda_fail("cuMemHostAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(ops->pinned_alloc(&fixture->devices, 0, BYTES, &memory, fixture->said),
                     KVASIR_NO_MEMORY);
    assert_null(memory);
    assert_int_equal(ops->pinned_alloc(&fixture->devices, 2, BYTES, &memory, fixture->said),
                     KVASIR_INVALID);
    assert_non_null(strstr(fixture->said, "no CUDA device 2"));
    assert_int_equal(ops->copier_open(&fixture->devices, -1, &copier, fixture->said),
                     KVASIR_INVALID);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_space_names_a_missing_driver),
        cmocka_unit_test(test_cuda_space_names_a_driver_that_does_not_work),
        TEST(test_cuda_space_tells_what_an_address_is),
        TEST(test_cuda_space_follows_memory_that_is_mapped_in_pieces),
        TEST(test_cuda_space_ends_where_an_allocation_does),
        TEST(test_cuda_space_tells_memory_from_what_had_its_address),
        TEST(test_cuda_space_answers_a_thread_without_a_context),
        TEST(test_cuda_space_settles_what_adapters_wrote),
        TEST(test_cuda_space_exports_whole_pages_around_a_range),
        TEST(test_cuda_space_refuses_what_cannot_be_exported),
        TEST(test_cuda_space_says_where_a_driver_offers_no_dmabuf),
        TEST(test_cuda_space_copies_both_ways_and_in_order),
        TEST(test_cuda_space_a_failed_copier_stays_failed),
        TEST(test_cuda_space_a_failed_call_leaves_nothing),
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
