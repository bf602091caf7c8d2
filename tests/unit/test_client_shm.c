/* test_client_shm – libkvasir's shared-memory path against a fake server that passes descriptors. */

#include "test_client_fake.h"

#include "base/clock.h"
#include "base/copy.h"

#include <kvasir/client.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define VALUE_BYTES 100000U

static struct kvasir_client *connect_lease(struct fake *fake, bool over_tcp, uint32_t lease_ms)
{
    fake->shm = true;
    fake->use_unix = true;
    fake_start(fake);
    char address[128];
    if (over_tcp) {
        (void)snprintf(address, sizeof address, "tcp://127.0.0.1:%u", fake->ports[0]);
    } else {
        (void)snprintf(address, sizeof address, "unix://%s", fake->path);
    }
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = address;
    options.staging_bytes = 4U << 20;
    options.lease_ms = lease_ms;
    char error[256] = "";
    struct kvasir_client *client = NULL;
    if (kvasir_connect(&options, error, sizeof error, &client) != KVASIR_OK) {
        fail_msg("connect: %s", error);
    }
    return client;
}

static struct kvasir_client *connect_shm(struct fake *fake)
{
    struct kvasir_client *client = connect_lease(fake, false, 30000);
    struct kvasir_server_info info;
    kvasir_server_info(client, &info);
    assert_true(info.shm);
    return client;
}

static void end(struct kvasir_client *client, struct fake *fake)
{
    kvasir_close(&client);
    fake_stop(fake);
    assert_int_equal(fake->leases, fake->releases);
}

static void pattern(uint8_t *bytes, size_t length, uint32_t seed)
{
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (uint8_t)((i * 7 + (i >> 8) + seed) & 255U);
    }
}

static void test_client_shm_copies_once_each_way(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_shm(&fake);
    static uint8_t sent[VALUE_BYTES];
    static uint8_t got[VALUE_BYTES];
    pattern(sent, sizeof sent, 1);
    size_t length = 0;
    uint64_t before = copy_payload_bytes();
    assert_int_equal(kvasir_put(client, "k", 1, sent, sizeof sent, NULL, 0), KVASIR_OK);
    assert_int_equal(copy_payload_bytes() - before, VALUE_BYTES);
    assert_int_equal(kvasir_path(client), KVASIR_PATH_SHM);
    assert_int_equal(kvasir_get(client, "k", 1, got, sizeof got, &length, 0), KVASIR_OK);
    assert_int_equal(copy_payload_bytes() - before, 2 * VALUE_BYTES);
    assert_int_equal(length, sizeof sent);
    assert_memory_equal(got, sent, sizeof sent);
    assert_int_equal(kvasir_get(client, "no", 2, got, sizeof got, &length, 0), KVASIR_NOT_FOUND);
    assert_int_equal(kvasir_get(client, "k", 1, got, 20000, &length, 0), KVASIR_TOO_SMALL);
    assert_int_equal(length, VALUE_BYTES);
    struct kvasir_counters counters;
    kvasir_counters(client, &counters);
    assert_int_equal(counters.shm_bytes, 2 * VALUE_BYTES);
    assert_int_equal(counters.path_fallbacks, 0);
    end(client, &fake);
    assert_int_equal(fake.sets + fake.gets, 0);
    assert_int_equal(fake.commits, 1);
}

static void test_client_shm_socket_copies_nothing(void **state)
{
    (void)state;
    struct fake fake = {0};
    fake_start(&fake);
    char address[64];
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", fake.ports[0]);
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = address;
    options.shm = false;
    struct kvasir_client *client = NULL;
    assert_int_equal(kvasir_connect(&options, NULL, 0, &client), KVASIR_OK);
    static uint8_t value[1000000];
    uint64_t before = copy_payload_bytes();
    assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_OK);
    assert_int_equal(copy_payload_bytes() - before, 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(kvasir_get(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_OK);
    }
    /* Only what came along with a header. */
    assert_true(copy_payload_bytes() - before <= 10 * 64);
    kvasir_close(&client);
    fake_stop(&fake);
}

static void test_client_shm_is_found_from_a_tcp_address(void **state)
{
    (void)state;
    struct fake fake = {.reactor_count = 2};
    struct kvasir_client *client = connect_lease(&fake, true, 30000);
    struct kvasir_server_info info;
    kvasir_server_info(client, &info);
    assert_true(info.shm);
    assert_string_equal(info.node_id, "fake-node");
    static uint8_t value[VALUE_BYTES];
    assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_path(client), KVASIR_PATH_SHM);
    end(client, &fake);
}

static void test_client_shm_works_without_when_set_up_fails(void **state)
{
    (void)state;
    static uint8_t value[VALUE_BYTES];
    for (int over_tcp = 0; over_tcp < 2; over_tcp++) {
        struct fake fake = {.no_descriptors = true};
        struct kvasir_client *client = connect_lease(&fake, over_tcp == 1, 30000);
        assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_OK);
        assert_int_equal(kvasir_path(client), over_tcp == 1 ? KVASIR_PATH_TCP : KVASIR_PATH_UNIX);
        struct kvasir_view *view = NULL;
        assert_int_equal(kvasir_get_view(client, "k", 1, &view, 0), KVASIR_UNSUPPORTED);
        assert_null(view);
        assert_non_null(strstr(kvasir_error(client), "descriptors instead of two"));
        end(client, &fake);
    }
}

static void test_client_shm_views_show_the_value(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_shm(&fake);
    static uint8_t sent[VALUE_BYTES];
    pattern(sent, sizeof sent, 2);
    assert_int_equal(kvasir_put(client, "k", 1, sent, sizeof sent, NULL, 0), KVASIR_OK);
    struct kvasir_view *view = NULL;
    assert_int_equal(kvasir_get_view(client, "k", 1, &view, 0), KVASIR_OK);
    assert_int_equal(kvasir_view_length_bytes(view), sizeof sent);
    uint32_t count = 0;
    const struct iovec *segments = kvasir_view_segments(view, &count);
    assert_int_equal(count, 2);
    assert_int_equal(segments[0].iov_len + segments[1].iov_len, sizeof sent);
    assert_memory_equal(segments[0].iov_base, sent, segments[0].iov_len);
    assert_memory_equal(segments[1].iov_base, sent + segments[0].iov_len, segments[1].iov_len);
    int64_t left_us = kvasir_view_deadline_us(view) - clock_mono_us();
    assert_in_range(left_us, 20000000, 30000000);
    kvasir_view_release(&view);
    assert_null(view);
    assert_int_equal(kvasir_get_view(client, "absent", 6, &view, 0), KVASIR_NOT_FOUND);
    end(client, &fake);
}

static void test_client_shm_view_dies_with_its_connection(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_shm(&fake);
    static uint8_t value[VALUE_BYTES];
    assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_OK);
    struct kvasir_view *view = NULL;
    assert_int_equal(kvasir_get_view(client, "k", 1, &view, 0), KVASIR_OK);
    assert_int_equal(kvasir_delete(client, "!close", 6, 0), KVASIR_CLOSED);
    assert_int_equal(kvasir_view_deadline_us(view), 0);
    /* The mapping is still there: a late reader sees old bytes, not a fault. */
    uint32_t count = 0;
    const struct iovec *segments = kvasir_view_segments(view, &count);
    assert_memory_equal(segments[0].iov_base, value, segments[0].iov_len);
    kvasir_view_release(&view);
    kvasir_close(&client);
    fake_stop(&fake);
}

static void test_client_shm_view_survives_its_client(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_shm(&fake);
    static uint8_t value[VALUE_BYTES];
    assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_OK);
    struct kvasir_view *view = NULL;
    assert_int_equal(kvasir_get_view(client, "k", 1, &view, 0), KVASIR_OK);
    kvasir_close(&client);
    assert_int_equal(kvasir_view_deadline_us(view), 0);
    kvasir_view_release(&view);
    fake_stop(&fake);
}

struct bundle {
    struct kvasir_item *items;
    char (*keys)[32];
    uint8_t *bytes;
};

static struct bundle bundle_make(uint32_t count, size_t length)
{
    struct bundle bundle = {.items = calloc(count, sizeof *bundle.items),
                            .keys = calloc(count, sizeof *bundle.keys),
                            .bytes = calloc(count, length)};
    assert_true(bundle.items != NULL && bundle.keys != NULL && bundle.bytes != NULL);
    for (uint32_t i = 0; i < count; i++) {
        bundle.items[i].key = bundle.keys[i];
        bundle.items[i].key_length_bytes =
            (size_t)snprintf(bundle.keys[i], sizeof bundle.keys[i], "block:%u", i);
        bundle.items[i].segment.iov_base = bundle.bytes + i * length;
        bundle.items[i].segment.iov_len = length;
    }
    return bundle;
}

static void bundle_free(struct bundle *bundle)
{
    free(bundle->items);
    free(bundle->keys);
    free(bundle->bytes);
}

/* More than the staging memory holds, so that it is used again and again. */
static void test_client_shm_moves_batches_through_little_staging(void **state)
{
    (void)state;
    const uint32_t count = 300;
    struct fake fake = {.reactor_count = 2};
    struct kvasir_client *client = connect_shm(&fake);
    struct bundle puts = bundle_make(count, VALUE_BYTES);
    struct bundle gets = bundle_make(count, VALUE_BYTES);
    pattern(puts.bytes, (size_t)count * VALUE_BYTES, 5);
    assert_int_equal(kvasir_put_batch(client, puts.items, count, NULL, 20000), KVASIR_OK);
    assert_int_equal(kvasir_get_batch(client, gets.items, count, 20000), KVASIR_OK);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(puts.items[i].status, KVASIR_OK);
        assert_int_equal(gets.items[i].status, KVASIR_OK);
        assert_int_equal(gets.items[i].path, KVASIR_PATH_SHM);
    }
    assert_memory_equal(gets.bytes, puts.bytes, (size_t)count * VALUE_BYTES);
    struct kvasir_view *views[300];
    assert_int_equal(kvasir_get_view_batch(client, gets.items, count, views, 20000), KVASIR_OK);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(kvasir_view_length_bytes(views[i]), VALUE_BYTES);
        kvasir_view_release(&views[i]);
    }
    bundle_free(&puts);
    bundle_free(&gets);
    end(client, &fake);
    assert_int_equal(fake.leases, 2 * count);
}

static void fall_back(struct fake *fake)
{
    static uint8_t sent[VALUE_BYTES];
    static uint8_t got[VALUE_BYTES];
    pattern(sent, sizeof sent, 9);
    struct kvasir_client *client = connect_shm(fake);
    assert_int_equal(kvasir_put(client, "k", 1, sent, sizeof sent, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_path(client), KVASIR_PATH_UNIX);
    assert_int_equal(kvasir_get(client, "k", 1, got, sizeof got, NULL, 0), KVASIR_OK);
    assert_memory_equal(got, sent, sizeof sent);
    struct kvasir_counters counters;
    kvasir_counters(client, &counters);
    assert_int_equal(counters.path_fallbacks, 1);
    end(client, fake);
    assert_int_equal(fake->sets, 1);
}

static void test_client_shm_falls_back_when_reserve_is_refused(void **state)
{
    (void)state;
    struct fake fake = {.refuse_reserve = true};
    fall_back(&fake);
}

static void test_client_shm_falls_back_when_staging_is_too_small(void **state)
{
    (void)state;
    struct fake fake = {.staging_grant_max = 65536};
    fall_back(&fake);
}

static void test_client_shm_deduplicates_before_moving(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_shm(&fake);
    static uint8_t value[VALUE_BYTES];
    struct kvasir_put_options put = {.only_if_absent = true};
    assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, &put, 0), KVASIR_OK);
    uint64_t before = copy_payload_bytes();
    assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, &put, 0), KVASIR_EXISTS);
    assert_int_equal(copy_payload_bytes(), before);
    end(client, &fake);
    assert_int_equal(fake.commits, 1);
}

static void test_client_shm_late_lease_is_tried_once_more_then_expired(void **state)
{
    (void)state;
    struct fake fake = {.delay_ms = 20};
    struct kvasir_client *client = connect_lease(&fake, false, 10);
    static uint8_t value[VALUE_BYTES];
    assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_get(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_EXPIRED);
    struct kvasir_counters counters;
    kvasir_counters(client, &counters);
    assert_int_equal(counters.leases_expired, 2);
    end(client, &fake);
    assert_int_equal(fake.leases, 2);
}

static void test_client_borrow_outside_the_region_is_refused(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_shm(&fake);
    static uint8_t value[VALUE_BYTES];
    assert_int_equal(kvasir_put(client, "!outside", 8, value, sizeof value, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_get(client, "!outside", 8, value, sizeof value, NULL, 0),
                     KVASIR_PROTOCOL);
    kvasir_close(&client);
    fake_stop(&fake);
}

static void test_client_shm_cancelled_leases_are_given_back(void **state)
{
    (void)state;
    struct fake fake = {.delay_ms = 500}; /* no answer comes before the request is taken back */
    struct kvasir_client *client = connect_shm(&fake);
    struct bundle bundle = bundle_make(10, VALUE_BYTES);
    assert_int_equal(kvasir_put_batch(client, bundle.items, 10, NULL, 0), KVASIR_OK);
    struct kvasir_request *request = NULL;
    assert_int_equal(kvasir_submit(client, KVASIR_CALL_GET, bundle.items, 10, NULL, &request),
                     KVASIR_PENDING);
    kvasir_request_free(client, &request);
    assert_int_equal(bundle.items[9].status, KVASIR_CANCELLED);
    assert_int_equal(kvasir_exists(client, "block:1", 7, 0), KVASIR_OK);
    bundle_free(&bundle);
    end(client, &fake);
    assert_int_equal(fake.leases, 10);
    assert_int_equal(fake.connections, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_shm_copies_once_each_way),
        cmocka_unit_test(test_client_shm_socket_copies_nothing),
        cmocka_unit_test(test_client_shm_is_found_from_a_tcp_address),
        cmocka_unit_test(test_client_shm_works_without_when_set_up_fails),
        cmocka_unit_test(test_client_shm_views_show_the_value),
        cmocka_unit_test(test_client_shm_view_dies_with_its_connection),
        cmocka_unit_test(test_client_shm_view_survives_its_client),
        cmocka_unit_test(test_client_shm_moves_batches_through_little_staging),
        cmocka_unit_test(test_client_shm_falls_back_when_reserve_is_refused),
        cmocka_unit_test(test_client_shm_falls_back_when_staging_is_too_small),
        cmocka_unit_test(test_client_shm_deduplicates_before_moving),
        cmocka_unit_test(test_client_shm_late_lease_is_tried_once_more_then_expired),
        cmocka_unit_test(test_client_borrow_outside_the_region_is_refused),
        cmocka_unit_test(test_client_shm_cancelled_leases_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
