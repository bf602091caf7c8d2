/* test_client – the public calls of libkvasir against a fake server over TCP. */

#include "test_client_fake.h"
#include "test_seed.h"

#include "base/random.h"

#include <kvasir/client.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BATCH_ITEMS 10000U

static struct kvasir_client *connect_to(struct fake *fake)
{
    fake_start(fake);
    char address[96];
    if (fake->use_unix) {
        (void)snprintf(address, sizeof address, "unix://%s", fake->path);
    } else {
        (void)snprintf(address, sizeof address, "tcp://127.0.0.1:%u", fake->ports[0]);
    }
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = address;
    options.shm = fake->shm;
    char error[256] = "";
    struct kvasir_client *client = NULL;
    enum kvasir_status status = kvasir_connect(&options, error, sizeof error, &client);
    if (status != KVASIR_OK) {
        fail_msg("connect: %s", error);
    }
    return client;
}

static void end(struct kvasir_client *client, struct fake *fake)
{
    kvasir_close(&client);
    assert_null(client);
    fake_stop(fake);
}

static void fill(uint8_t *bytes, size_t length, uint64_t seed)
{
    struct random random;
    random_init(&random, seed);
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (uint8_t)random_u64(&random);
    }
}

static void round_trip(struct kvasir_client *client, const char *key, size_t length)
{
    uint8_t *sent = malloc(length + 1);
    uint8_t *got = malloc(length + 1);
    assert_true(sent != NULL && got != NULL);
    fill(sent, length, length);
    size_t got_length = SIZE_MAX;
    assert_int_equal(kvasir_put(client, key, strlen(key), sent, length, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_get(client, key, strlen(key), got, length, &got_length, 0), KVASIR_OK);
    assert_int_equal(got_length, length);
    assert_memory_equal(got, sent, length);
    free(sent);
    free(got);
}

static void test_client_returns_what_was_put(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_to(&fake);
    static const size_t lengths[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, 65536, 300000, 5000000};
    for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "length:%zu", lengths[i]);
        round_trip(client, key, lengths[i]);
    }
    assert_int_equal(kvasir_path(client), KVASIR_PATH_TCP);
    end(client, &fake);
    assert_int_equal(fake.sets, ARRAY_COUNT(lengths));
}

static void test_client_reads_replies_that_come_byte_by_byte(void **state)
{
    (void)state;
    struct fake fake = {.dribble = true, .reactor_count = 2};
    struct kvasir_client *client = connect_to(&fake);
    round_trip(client, "small", 100);
    round_trip(client, "direct", 4096);
    round_trip(client, "large", 20000);
    assert_int_equal(kvasir_exists(client, "small", 5, 0), KVASIR_OK);
    assert_int_equal(kvasir_exists(client, "absent", 6, 0), KVASIR_NOT_FOUND);
    struct kvasir_stat stat;
    assert_int_equal(kvasir_stat(client, "small", 5, &stat, 0), KVASIR_OK);
    assert_int_equal(stat.length_bytes, 100);
    end(client, &fake);
}

static void test_client_tells_absent_and_present(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_to(&fake);
    uint8_t byte = 7;
    size_t length = 99;
    assert_int_equal(kvasir_get(client, "k", 1, &byte, 1, &length, 0), KVASIR_NOT_FOUND);
    assert_int_equal(length, 99);
    assert_int_equal(kvasir_delete(client, "k", 1, 0), KVASIR_NOT_FOUND);
    assert_int_equal(kvasir_put(client, "k", 1, "x", 1, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_exists(client, "k", 1, 0), KVASIR_OK);
    assert_int_equal(kvasir_delete(client, "k", 1, 0), KVASIR_OK);
    assert_int_equal(kvasir_exists(client, "k", 1, 0), KVASIR_NOT_FOUND);
    struct kvasir_counters counters;
    kvasir_counters(client, &counters);
    assert_int_equal(counters.get_misses, 1);
    end(client, &fake);
}

static void test_client_put_only_if_absent_keeps_the_first(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_to(&fake);
    struct kvasir_put_options put = {.only_if_absent = true};
    char got = 0;
    assert_int_equal(kvasir_put(client, "k", 1, "1", 1, &put, 0), KVASIR_OK);
    assert_int_equal(kvasir_put(client, "k", 1, "2", 1, &put, 0), KVASIR_EXISTS);
    assert_int_equal(kvasir_get(client, "k", 1, &got, 1, NULL, 0), KVASIR_OK);
    assert_int_equal(got, '1');
    end(client, &fake);
}

static void test_client_says_how_long_a_value_is_that_does_not_fit(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_to(&fake);
    static uint8_t value[100000];
    static uint8_t small[5000];
    size_t length = 0;
    assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_get(client, "k", 1, small, sizeof small, &length, 0), KVASIR_TOO_SMALL);
    assert_int_equal(length, sizeof value);
    length = 0;
    assert_int_equal(kvasir_get(client, "k", 1, NULL, 0, &length, 0), KVASIR_TOO_SMALL);
    assert_int_equal(length, sizeof value);
    /* The stream is still in step. */
    round_trip(client, "next", 10);
    end(client, &fake);
}

static void test_client_refuses_what_the_server_could_never_take(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_to(&fake);
    static char key[2049];
    char byte = 0;
    assert_int_equal(kvasir_put(client, key, sizeof key, &byte, 1, NULL, 0), KVASIR_TOO_LARGE);
    assert_int_equal(kvasir_put(client, "k", 1, &byte, (64U << 20) + 1, NULL, 0), KVASIR_TOO_LARGE);
    assert_int_equal(kvasir_put(client, NULL, 3, &byte, 1, NULL, 0), KVASIR_INVALID);
    assert_int_equal(kvasir_put(client, "k", 1, NULL, 3, NULL, 0), KVASIR_INVALID);
    end(client, &fake);
    assert_int_equal(fake.sets, 0);
}

static void test_client_hands_on_the_servers_refusals(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_to(&fake);
    char byte = 0;
    assert_int_equal(kvasir_put(client, "!oom", 4, &byte, 1, NULL, 0), KVASIR_NO_MEMORY);
    assert_string_equal(kvasir_error(client), "the server answers: OOM store is full");
    assert_int_equal(kvasir_put(client, "!denied", 7, &byte, 1, NULL, 0), KVASIR_DENIED);
    assert_int_equal(kvasir_get(client, "!corrupt", 8, &byte, 1, NULL, 0), KVASIR_CORRUPT);
    /* A push message in between is passed over. */
    assert_int_equal(kvasir_get(client, "!push", 5, &byte, 1, NULL, 0), KVASIR_NOT_FOUND);
    end(client, &fake);
}

static void test_client_reads_a_stat_and_passes_over_new_fields(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_to(&fake);
    struct kvasir_stat stat = {0};
    assert_int_equal(kvasir_stat(client, "k", 1, &stat, 0), KVASIR_NOT_FOUND);
    assert_int_equal(kvasir_put(client, "k", 1, "1234", 4, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_stat(client, "k", 1, &stat, 0), KVASIR_OK);
    assert_int_equal(stat.length_bytes, 4);
    assert_int_equal(stat.stored_bytes, 2);
    assert_true(stat.checksum_valid);
    assert_int_equal(stat.checksum, 0xdeadbeef);
    assert_int_equal(stat.value_class, KVASIR_CLASS_WINDOW);
    assert_int_equal(stat.ttl_ms, 4321);
    assert_int_equal(stat.hit_count, 3);
    assert_string_equal(stat.codec, "bf16");
    assert_string_equal(stat.tier, "dram");
    end(client, &fake);
}

/* ---- batches ------------------------------------------------------------------------------- */

struct bundle {
    struct kvasir_item *items;
    char (*keys)[32];
    uint8_t *bytes;
};

static struct bundle bundle_make(uint32_t count, size_t length)
{
    struct bundle bundle = {.items = calloc(count, sizeof *bundle.items),
                            .keys = calloc(count, sizeof *bundle.keys),
                            .bytes = malloc((size_t)count * length + 1)};
    assert_true(bundle.items != NULL && bundle.keys != NULL && bundle.bytes != NULL);
    for (uint32_t i = 0; i < count; i++) {
        int key_length = snprintf(bundle.keys[i], sizeof bundle.keys[i], "block:%u", i);
        bundle.items[i].key = bundle.keys[i];
        bundle.items[i].key_length_bytes = (size_t)key_length;
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

static void check_all(const struct bundle *bundle, uint32_t count, enum kvasir_status status)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(bundle->items[i].status, status);
    }
}

static void test_client_moves_a_batch_of_ten_thousand(void **state)
{
    (void)state;
    const size_t length = 200;
    struct fake fake = {.reactor_count = 4};
    struct kvasir_client *client = connect_to(&fake);
    struct bundle puts = bundle_make(BATCH_ITEMS, length);
    struct bundle gets = bundle_make(BATCH_ITEMS, length);
    fill(puts.bytes, BATCH_ITEMS * length, test_seed());
    assert_int_equal(kvasir_put_batch(client, puts.items, BATCH_ITEMS, NULL, 20000), KVASIR_OK);
    check_all(&puts, BATCH_ITEMS, KVASIR_OK);
    assert_int_equal(kvasir_get_batch(client, gets.items, BATCH_ITEMS, 20000), KVASIR_OK);
    check_all(&gets, BATCH_ITEMS, KVASIR_OK);
    assert_memory_equal(gets.bytes, puts.bytes, BATCH_ITEMS * length);
    bundle_free(&puts);
    bundle_free(&gets);
    end(client, &fake);
    assert_int_equal(fake.misrouted, 0);
    assert_int_equal(fake.connections, 4);
}

static void test_client_finds_and_deletes_ten_thousand(void **state)
{
    (void)state;
    struct fake fake = {.reactor_count = 4};
    struct kvasir_client *client = connect_to(&fake);
    struct bundle bundle = bundle_make(BATCH_ITEMS, 1);
    assert_int_equal(kvasir_put_batch(client, bundle.items, BATCH_ITEMS, NULL, 20000), KVASIR_OK);
    assert_int_equal(kvasir_exists_batch(client, bundle.items, BATCH_ITEMS, 20000), KVASIR_OK);
    check_all(&bundle, BATCH_ITEMS, KVASIR_OK);
    assert_int_equal(kvasir_delete_batch(client, bundle.items, BATCH_ITEMS, 20000), KVASIR_OK);
    check_all(&bundle, BATCH_ITEMS, KVASIR_OK);
    assert_int_equal(kvasir_get_batch(client, bundle.items, BATCH_ITEMS, 20000), KVASIR_OK);
    check_all(&bundle, BATCH_ITEMS, KVASIR_NOT_FOUND);
    bundle_free(&bundle);
    end(client, &fake);
    assert_in_range(fake.match_keys_max, 2, 1000);
}

/* A server that reads nothing while its output waits would lock up a client that writes everything
 * before it reads. */
static void test_client_reads_while_it_writes(void **state)
{
    (void)state;
    const size_t length = 300000;
    const uint32_t count = 100;
    struct fake fake = {.read_when_idle = true, .use_unix = true};
    struct kvasir_client *client = connect_to(&fake);
    struct bundle puts = bundle_make(count, length);
    struct bundle gets = bundle_make(count, length);
    fill(puts.bytes, count * length, 1);
    assert_int_equal(kvasir_put_batch(client, puts.items, count, NULL, 20000), KVASIR_OK);
    struct kvasir_request *request[2];
    struct kvasir_submit_options options = {.timeout_ms = 20000};
    assert_int_equal(
        kvasir_submit(client, KVASIR_CALL_GET, gets.items, count, &options, &request[0]),
        KVASIR_PENDING);
    assert_int_equal(
        kvasir_submit(client, KVASIR_CALL_PUT, puts.items, count, &options, &request[1]),
        KVASIR_PENDING);
    for (int i = 0; i < 2; i++) {
        struct kvasir_request *done = NULL;
        assert_int_equal(kvasir_poll(client, -1, &done), KVASIR_OK);
        assert_int_equal(kvasir_request_status(done), KVASIR_OK);
        kvasir_request_free(client, &done);
    }
    assert_memory_equal(gets.bytes, puts.bytes, count * length);
    bundle_free(&puts);
    bundle_free(&gets);
    end(client, &fake);
}

static void test_client_scatters_and_gathers_segments(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_to(&fake);
    enum {
        PIECES = 400,
        PIECE = 512
    };
    static uint8_t sent[PIECES * PIECE];
    static uint8_t got[PIECES * PIECE];
    static struct iovec from[PIECES];
    static struct iovec to[PIECES + 1];
    fill(sent, sizeof sent, 3);
    for (size_t i = 0; i < PIECES; i++) {
        from[i] = (struct iovec){.iov_base = sent + i * PIECE, .iov_len = PIECE};
        to[i] = (struct iovec){.iov_base = got + i * PIECE, .iov_len = PIECE};
    }
    to[PIECES] = (struct iovec){0};
    struct kvasir_item item = {
        .key = "k", .key_length_bytes = 1, .segments = from, .segment_count = PIECES};
    assert_int_equal(kvasir_put_batch(client, &item, 1, NULL, 0), KVASIR_OK);
    item.segments = to;
    item.segment_count = PIECES + 1;
    assert_int_equal(kvasir_get_batch(client, &item, 1, 0), KVASIR_OK);
    assert_int_equal(item.status, KVASIR_OK);
    assert_int_equal(item.length_bytes, sizeof sent);
    assert_memory_equal(got, sent, sizeof sent);
    end(client, &fake);
}

static void match_over(uint32_t reactors, uint32_t count, uint32_t hole)
{
    struct fake fake = {.reactor_count = reactors};
    struct kvasir_client *client = connect_to(&fake);
    struct bundle bundle = bundle_make(count, 1);
    assert_int_equal(kvasir_put_batch(client, bundle.items, count, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_delete(client, bundle.keys[hole], strlen(bundle.keys[hole]), 0),
                     KVASIR_OK);
    size_t match_count = 0;
    assert_int_equal(kvasir_match(client, bundle.items, count, 1000, &match_count, 0), KVASIR_OK);
    assert_int_equal(match_count, hole);
    check_all(&bundle, hole, KVASIR_OK);
    for (uint32_t i = hole; i < count; i++) {
        assert_int_equal(bundle.items[i].status, KVASIR_NOT_FOUND);
    }
    bundle_free(&bundle);
    end(client, &fake);
    assert_in_range(fake.match_keys_max, 1, 1000);
}

static void test_client_match_counts_leading_keys_of_one_reactor(void **state)
{
    (void)state;
    match_over(1, 3500, 2100);
    match_over(1, 10, 0);
}

static void test_client_match_merges_several_reactors(void **state)
{
    (void)state;
    match_over(4, 3500, 2100);
    match_over(3, 10, 9);
}

static void test_client_chains_parents(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_to(&fake);
    struct bundle bundle = bundle_make(3, 1);
    struct kvasir_put_options put = {.parent = "root", .parent_length_bytes = 4, .chain = true};
    assert_int_equal(kvasir_put_batch(client, bundle.items, 3, &put, 0), KVASIR_OK);
    assert_string_equal(fake_find(&fake, slice_of_text("block:0"))->parent, "root");
    assert_string_equal(fake_find(&fake, slice_of_text("block:1"))->parent, "block:0");
    assert_string_equal(fake_find(&fake, slice_of_text("block:2"))->parent, "block:1");
    bundle_free(&bundle);
    end(client, &fake);
}

/* ---- submit and poll ----------------------------------------------------------------------- */

static void test_client_polls_what_was_submitted(void **state)
{
    (void)state;
    struct fake fake = {.reactor_count = 2};
    struct kvasir_client *client = connect_to(&fake);
    struct bundle bundle = bundle_make(50, 5000);
    struct kvasir_request *request = NULL;
    int mark = 0;
    struct kvasir_submit_options options = {.user_data = &mark};
    assert_int_equal(kvasir_poll(client, 0, &request), KVASIR_NOT_FOUND);
    assert_int_equal(kvasir_submit(client, KVASIR_CALL_PUT, bundle.items, 50, &options, &request),
                     KVASIR_PENDING);
    struct kvasir_request *done = NULL;
    assert_int_equal(kvasir_poll(client, 5000, &done), KVASIR_OK);
    assert_ptr_equal(done, request);
    assert_ptr_equal(kvasir_request_user_data(done), &mark);
    assert_int_equal(kvasir_request_status(done), KVASIR_OK);
    kvasir_request_free(client, &done);
    assert_null(done);
    check_all(&bundle, 50, KVASIR_OK);
    assert_int_equal(kvasir_poll(client, 1000, &done), KVASIR_NOT_FOUND);
    bundle_free(&bundle);
    end(client, &fake);
}

static void test_client_bounds_requests_in_flight(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_to(&fake);
    struct kvasir_item items[100];
    struct kvasir_request *requests[100];
    uint32_t count = 0;
    enum kvasir_status status = KVASIR_PENDING;
    while (count < 100 && status == KVASIR_PENDING) {
        items[count] = (struct kvasir_item){.key = "k", .key_length_bytes = 1};
        status =
            kvasir_submit(client, KVASIR_CALL_EXISTS, &items[count], 1, NULL, &requests[count]);
        count += status == KVASIR_PENDING ? 1 : 0;
    }
    assert_int_equal(status, KVASIR_AGAIN);
    assert_in_range(count, 8, 99);
    for (uint32_t i = 0; i < count; i++) {
        struct kvasir_request *done = NULL;
        assert_int_equal(kvasir_poll(client, -1, &done), KVASIR_OK);
        kvasir_request_free(client, &done);
    }
    end(client, &fake);
}

static void test_client_cancels_and_goes_on(void **state)
{
    (void)state;
    struct fake fake = {0};
    struct kvasir_client *client = connect_to(&fake);
    struct bundle bundle = bundle_make(20, 5000);
    assert_int_equal(kvasir_put_batch(client, bundle.items, 20, NULL, 0), KVASIR_OK);
    struct kvasir_request *request = NULL;
    assert_int_equal(kvasir_submit(client, KVASIR_CALL_GET, bundle.items, 20, NULL, &request),
                     KVASIR_PENDING);
    kvasir_request_free(client, &request);
    for (uint32_t i = 0; i < 20; i++) {
        assert_true(bundle.items[i].status == KVASIR_CANCELLED ||
                    bundle.items[i].status == KVASIR_CLOSED || bundle.items[i].status == KVASIR_OK);
    }
    memset(bundle.bytes, 0x55, 20 * 5000);
    round_trip(client, "next", 100000);
    for (size_t i = 0; i < (size_t)20 * 5000; i++) {
        assert_int_equal(bundle.bytes[i], 0x55);
    }
    bundle_free(&bundle);
    end(client, &fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_returns_what_was_put),
        cmocka_unit_test(test_client_reads_replies_that_come_byte_by_byte),
        cmocka_unit_test(test_client_tells_absent_and_present),
        cmocka_unit_test(test_client_put_only_if_absent_keeps_the_first),
        cmocka_unit_test(test_client_says_how_long_a_value_is_that_does_not_fit),
        cmocka_unit_test(test_client_refuses_what_the_server_could_never_take),
        cmocka_unit_test(test_client_hands_on_the_servers_refusals),
        cmocka_unit_test(test_client_reads_a_stat_and_passes_over_new_fields),
        cmocka_unit_test(test_client_moves_a_batch_of_ten_thousand),
        cmocka_unit_test(test_client_finds_and_deletes_ten_thousand),
        cmocka_unit_test(test_client_reads_while_it_writes),
        cmocka_unit_test(test_client_scatters_and_gathers_segments),
        cmocka_unit_test(test_client_match_counts_leading_keys_of_one_reactor),
        cmocka_unit_test(test_client_match_merges_several_reactors),
        cmocka_unit_test(test_client_chains_parents),
        cmocka_unit_test(test_client_polls_what_was_submitted),
        cmocka_unit_test(test_client_bounds_requests_in_flight),
        cmocka_unit_test(test_client_cancels_and_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
