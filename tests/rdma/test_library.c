/* test_library – libkvasir against the server over RDMA: registered buffers go that way without the
 * caller's doing, in one round trip, and by the socket when the way is lost in the midst of a call. */

#include "server_client.h"

#include <kvasir/client.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MIB         ((size_t)1 << 20)
#define ARENA_BYTES (80 * MIB)
#define BATCH       256U
#define BLOCK_BYTES ((size_t)8 << 10)
/* Emulated machines are slow; nobody waits in vain but a failing test. */
#define CALL_MS   100000
#define RAIL      "rxe2"
#define TRIES_MAX 400

struct world {
    struct server server;
    struct kvasir_client *client;
    uint8_t *arena; /* registered */
};

static int set_up_with(void **state, enum kvasir_rdma_mode mode, const char *devices,
                       const char *const *server_options)
{
    struct world *world = calloc(1, sizeof(*world));
    struct kvasir_options options;
    char error[256] = "";
    assert_non_null(world);
    *state = world;
    server_start(&world->server, server_options);
    kvasir_options_init(&options);
    options.address = "tcp://127.0.0.1:7400";
    options.timeout_ms = CALL_MS;
    options.connect_timeout_ms = CALL_MS;
    options.shm = false;
    options.rdma_module = pair_text("KVASIR_RDMA_MODULE");
    options.rdma_device = devices;
    options.rdma_mode = mode;
    if (kvasir_connect(&options, error, sizeof(error), &world->client) != KVASIR_OK) {
        fail_msg("%s", error);
    }
    world->arena = aligned_alloc(4096, ARENA_BYTES);
    assert_non_null(world->arena);
    memset(world->arena, PAIR_UNTOUCHED, ARENA_BYTES);
    if (kvasir_register(world->client, world->arena, ARENA_BYTES) != KVASIR_OK) {
        fail_msg("%s", kvasir_error(world->client));
    }
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, KVASIR_RDMA_SERVER, pair_text("VM_DEVICE2"), NULL);
}

static int set_up_driven(void **state)
{
    return set_up_with(state, KVASIR_RDMA_CLIENT, pair_text("VM_DEVICE2"), NULL);
}

/* Both sides have the same two devices, each of which reaches itself. */
static int set_up_rails(void **state)
{
    char devices[128];
    const char *const options[] = {"--rdma-device", devices, NULL};
    (void)snprintf(devices, sizeof(devices), "%s," RAIL, pair_text("VM_DEVICE"));
    assert_int_equal(pair_run_program("/usr/sbin/vm_rail", "add", RAIL), 0);
    return set_up_with(state, KVASIR_RDMA_SERVER, devices, options);
}

static int tear_down(void **state)
{
    struct world *world = *state;
    kvasir_close(&world->client);
    server_stop(&world->server);
    free(world->arena);
    free(world);
    return 0;
}

static int tear_down_rails(void **state)
{
    int result = tear_down(state);
    assert_int_equal(pair_run_program("/usr/sbin/vm_rail", "del", RAIL), 0);
    return result;
}

static uint64_t round_trips(const struct world *world)
{
    struct kvasir_counters counters;
    kvasir_counters(world->client, &counters);
    return counters.round_trips;
}

static void put(struct world *world, const char *key, size_t length_bytes)
{
    if (kvasir_put(world->client, key, strlen(key), world->arena, length_bytes, NULL, 0) !=
        KVASIR_OK) {
        fail_msg("%s", kvasir_error(world->client));
    }
}

static void check_value_by(struct world *world, const char *key, size_t length_bytes, uint32_t seed,
                           enum kvasir_path path)
{
    size_t got_bytes = 0;
    pair_fill(world->arena, length_bytes, seed);
    put(world, key, length_bytes);
    assert_int_equal(kvasir_path(world->client), path);
    memset(world->arena, PAIR_UNTOUCHED, length_bytes + 64);
    assert_int_equal(
        kvasir_get(world->client, key, strlen(key), world->arena, length_bytes + 64, &got_bytes, 0),
        KVASIR_OK);
    assert_int_equal(kvasir_path(world->client), path);
    assert_int_equal(got_bytes, length_bytes);
    assert_true(pair_holds(world->arena, length_bytes, seed));
    assert_true(pair_untouched(world->arena + length_bytes, 64));
}

static void check_value(struct world *world, const char *key, size_t length_bytes, uint32_t seed)
{
    check_value_by(world, key, length_bytes, seed, KVASIR_PATH_RDMA);
}

static void test_library_registered_buffers_go_by_rdma(void **state)
{
    static const size_t SIZES[] = {4096, 65537, 3 * MIB + 1, 64 * MIB};
    struct world *world = *state;
    struct kvasir_counters counters;
    uint64_t bytes = 0;
    uint64_t before;
    check_value(world, "first", 4096, 0);
    before = round_trips(world);
    for (uint32_t i = 0; i < sizeof(SIZES) / sizeof(SIZES[0]); i++) {
        check_value(world, "k", SIZES[i], i);
        bytes += 2 * SIZES[i];
    }
    assert_int_equal(round_trips(world) - before, 8);
    kvasir_counters(world->client, &counters);
    assert_int_equal(counters.rdma_bytes, bytes + 2 * 4096);
    assert_int_equal(counters.tcp_bytes, 0);
    assert_int_equal(counters.path_fallbacks, 0);
}

static void test_library_drives_registered_buffers(void **state)
{
    static const size_t SIZES[] = {4096, 65537, 3 * MIB + 1, 64 * MIB};
    struct world *world = *state;
    struct kvasir_counters counters;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sizeof(SIZES) / sizeof(SIZES[0]); i++) {
        check_value_by(world, "k", SIZES[i], i, KVASIR_PATH_RDMA_CLIENT);
        bytes += 2 * SIZES[i];
    }
    kvasir_counters(world->client, &counters);
    assert_int_equal(counters.rdma_client_bytes, bytes);
    assert_int_equal(counters.rdma_bytes + counters.tcp_bytes + counters.path_fallbacks, 0);
    assert_int_equal(server_info("rdma_in_bytes") + server_info("rdma_out_bytes"), 0);
}

static void check_batch(struct world *world, enum kvasir_path path)
{
    static struct kvasir_item items[BATCH];
    static char keys[BATCH][16];
    pair_fill(world->arena, BATCH * BLOCK_BYTES, 4);
    for (size_t i = 0; i < BATCH; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "b%zu", i);
        items[i] = (struct kvasir_item){
            .key = keys[i],
            .key_length_bytes = strlen(keys[i]),
            .segment = {.iov_base = world->arena + i * BLOCK_BYTES, .iov_len = BLOCK_BYTES}};
    }
    assert_int_equal(kvasir_put_batch(world->client, items, BATCH, NULL, 0), KVASIR_OK);
    memset(world->arena, PAIR_UNTOUCHED, BATCH * BLOCK_BYTES);
    assert_int_equal(kvasir_get_batch(world->client, items, BATCH, 0), KVASIR_OK);
    for (size_t i = 0; i < BATCH; i++) {
        assert_int_equal(items[i].status, KVASIR_OK);
        assert_int_equal(items[i].path, path);
    }
    assert_true(pair_holds(world->arena, BATCH * BLOCK_BYTES, 4));
    /* One for each reactor. */
    assert_int_equal(server_info("rdma_clients"), 2);
}

static void test_library_batch_of_256_goes_by_rdma(void **state)
{
    check_batch(*state, KVASIR_PATH_RDMA);
}

static void test_library_drives_a_batch_of_256(void **state)
{
    check_batch(*state, KVASIR_PATH_RDMA_CLIENT);
}

static void test_library_other_buffers_go_by_the_socket(void **state)
{
    struct world *world = *state;
    uint8_t own[8192];
    size_t got_bytes = 0;
    pair_fill(world->arena, sizeof(own), 6);
    put(world, "k", sizeof(own));
    assert_int_equal(kvasir_get(world->client, "k", 1, own, sizeof(own), &got_bytes, 0), KVASIR_OK);
    assert_int_equal(kvasir_path(world->client), KVASIR_PATH_TCP);
    assert_true(pair_holds(own, sizeof(own), 6));
}

static void test_library_short_values_go_by_the_socket(void **state)
{
    struct world *world = *state;
    size_t got_bytes = 0;
    pair_fill(world->arena, 100, 6);
    put(world, "k", 100);
    assert_int_equal(kvasir_path(world->client), KVASIR_PATH_TCP);
    memset(world->arena, PAIR_UNTOUCHED, 200);
    assert_int_equal(kvasir_get(world->client, "k", 1, world->arena, 200, &got_bytes, 0),
                     KVASIR_OK);
    assert_int_equal(got_bytes, 100);
    assert_true(pair_holds(world->arena, 100, 6));
    assert_true(pair_untouched(world->arena + 100, 100));
}

/* Four values of 16 MiB are read, and the network of one side is lost in the midst of it: all come within
 * the call. Returns how many of them came by the socket. */
static unsigned lose(struct world *world, const char *program, const char *verb, const char *link)
{
    static struct kvasir_item items[4];
    static const char *const KEYS[] = {"d0", "d1", "d2", "d3"};
    struct kvasir_request *request = NULL;
    unsigned tcp_count = 0;
    pair_fill(world->arena, 16 * MIB, 13);
    for (size_t i = 0; i < 4; i++) {
        put(world, KEYS[i], 16 * MIB);
        items[i] = (struct kvasir_item){
            .key = KEYS[i],
            .key_length_bytes = 2,
            .segment = {.iov_base = world->arena + i * 16 * MIB, .iov_len = 16 * MIB}};
    }
    memset(world->arena, PAIR_UNTOUCHED, 64 * MIB);
    struct kvasir_submit_options options = {.timeout_ms = CALL_MS};
    assert_int_equal(kvasir_submit(world->client, KVASIR_CALL_GET, items, 4, &options, &request),
                     KVASIR_PENDING);
    struct kvasir_request *done = NULL;
    assert_int_equal(kvasir_poll(world->client, 0, &done), KVASIR_AGAIN);
    assert_int_equal(pair_run_program(program, verb, link), 0);

    assert_int_equal(kvasir_poll(world->client, CALL_MS, &done), KVASIR_OK);
    assert_int_equal(kvasir_request_status(done), KVASIR_OK);
    kvasir_request_free(world->client, &done);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(items[i].status, KVASIR_OK);
        assert_true(pair_holds(world->arena + i * 16 * MIB, 16 * MIB, 13));
        tcp_count += items[i].path == KVASIR_PATH_TCP;
    }
    server_wait("rdma_lent_bytes", 0);
    server_wait("leases", 0);
    return tcp_count;
}

static void check_loss(struct world *world, const char *program, const char *verb, const char *link)
{
    struct kvasir_counters counters;
    assert_true(lose(world, program, verb, link) > 0);
    kvasir_counters(world->client, &counters);
    assert_true(counters.path_fallbacks > 0);
}

/* And comes back to the link when that does. */
static void check_return(struct world *world, const char *link, enum kvasir_path path)
{
    assert_int_equal(pair_run_program("/usr/sbin/vm_link", "up", link), 0);
    for (int i = 0; i < TRIES_MAX && kvasir_path(world->client) != path; i++) {
        (void)poll(NULL, 0, 100);
        put(world, "k", 4096);
    }
    check_value_by(world, "k", MIB, 14, path);
}

static void test_library_goes_on_by_the_socket_when_the_link_goes_down(void **state)
{
    check_loss(*state, "/usr/sbin/vm_link", "down", "vm1");
    check_return(*state, "vm1", KVASIR_PATH_RDMA);
}

static void test_library_goes_on_when_the_servers_port_goes_down(void **state)
{
    char said[128];
    check_loss(*state, "/usr/sbin/vm_link", "down", "vm0");
    (void)snprintf(said, sizeof(said), "RDMA device %s: the port is down", pair_text("VM_DEVICE"));
    assert_true(server_logged(said));
    check_return(*state, "vm0", KVASIR_PATH_RDMA);
}

static void test_library_drives_on_when_the_servers_port_goes_down(void **state)
{
    check_loss(*state, "/usr/sbin/vm_link", "down", "vm0");
    check_return(*state, "vm0", KVASIR_PATH_RDMA_CLIENT);
}

static void test_library_call_ends_when_the_server_is_killed(void **state)
{
    struct world *world = *state;
    struct kvasir_item item = {.key = "k",
                               .key_length_bytes = 1,
                               .segment = {.iov_base = world->arena, .iov_len = 64 * MIB}};
    struct kvasir_request *request = NULL;
    struct kvasir_request *done = NULL;
    struct kvasir_submit_options options = {.timeout_ms = CALL_MS};
    assert_int_equal(kvasir_submit(world->client, KVASIR_CALL_PUT, &item, 1, &options, &request),
                     KVASIR_PENDING);
    assert_int_equal(kvasir_poll(world->client, 100, &done), KVASIR_AGAIN);
    server_kill(&world->server);
    assert_int_equal(kvasir_poll(world->client, CALL_MS, &done), KVASIR_OK);
    assert_int_equal(item.status, KVASIR_CLOSED);
    kvasir_request_free(world->client, &done);

    server_start(&world->server, NULL);
    enum kvasir_status status = KVASIR_CLOSED;
    for (int i = 0; i < TRIES_MAX && status != KVASIR_OK; i++) {
        (void)poll(NULL, 0, 100);
        status = kvasir_put(world->client, "k", 1, world->arena, 4096, NULL, 0);
    }
    check_value(world, "k", MIB, 15);
}

/* Packets that a device has sent. */
static uint64_t sent_count(const char *device)
{
    char path[128];
    char text[32];
    (void)snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/sent_pkts",
                   device);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    (void)fclose(file);
    return strtoull(text, NULL, 10);
}

static void test_library_spreads_a_value_over_two_rails(void **state)
{
    struct world *world = *state;
    const char *const devices[] = {pair_text("VM_DEVICE"), RAIL};
    uint64_t before[2];
    struct kvasir_counters counters;
    check_value(world, "first", 4096, 0);
    server_wait("rdma_links_opened", 4); /* each reactor has one on each */
    for (int i = 0; i < 2; i++) {
        before[i] = sent_count(devices[i]);
    }
    check_value(world, "k", 16 * MIB, 1);
    for (int i = 0; i < 2; i++) {
        /* Half of it was put and got back, in packets of 4096 bytes at most. */
        assert_true(sent_count(devices[i]) - before[i] >= 2 * 8 * MIB / 4096);
    }
    kvasir_counters(world->client, &counters);
    assert_int_equal(counters.path_fallbacks, 0);
}

/* The older kernel may have moved everything before the link is down; from then on it does not serve. */
static void test_library_goes_on_by_the_other_rail(void **state)
{
    struct world *world = *state;
    uint64_t before;
    check_value(world, "first", 4096, 0);
    server_wait("rdma_links_opened", 4);
    assert_int_equal(lose(world, "/usr/sbin/vm_link", "down", "vm2"), 0);
    for (int i = 0; i < TRIES_MAX && !server_logged("RDMA device " RAIL ": the port is down");
         i++) {
        (void)poll(NULL, 0, 100);
    }
    before = sent_count(pair_text("VM_DEVICE"));
    check_value(world, "k", 16 * MIB, 2);
    assert_true(sent_count(pair_text("VM_DEVICE")) - before >= 2 * 16 * MIB / 4096);
    assert_int_equal(pair_run_program("/usr/sbin/vm_link", "up", "vm2"), 0);
}

#define ON_WORLD(name)  cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define ON_DRIVEN(name) cmocka_unit_test_setup_teardown(name, set_up_driven, tear_down)
#define ON_RAILS(name)  cmocka_unit_test_setup_teardown(name, set_up_rails, tear_down_rails)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_WORLD(test_library_registered_buffers_go_by_rdma),
        ON_WORLD(test_library_batch_of_256_goes_by_rdma),
        ON_DRIVEN(test_library_drives_registered_buffers),
        ON_DRIVEN(test_library_drives_a_batch_of_256),
        ON_WORLD(test_library_short_values_go_by_the_socket),
        ON_DRIVEN(test_library_short_values_go_by_the_socket),
        ON_WORLD(test_library_other_buffers_go_by_the_socket),
        ON_WORLD(test_library_goes_on_by_the_socket_when_the_link_goes_down),
        ON_WORLD(test_library_goes_on_when_the_servers_port_goes_down),
        ON_DRIVEN(test_library_drives_on_when_the_servers_port_goes_down),
        ON_WORLD(test_library_call_ends_when_the_server_is_killed),
        ON_RAILS(test_library_spreads_a_value_over_two_rails),
        ON_RAILS(test_library_goes_on_by_the_other_rail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
