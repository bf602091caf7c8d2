/* client_live – libkvasir against a real server that it starts itself: every call on every path, and a
 * server that is stopped, killed and started again under the client. Built against the public headers
 * and the shared library only, as a stranger would. Usage: client_live SERVER DIRECTORY */

#include <kvasir/client.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define REACTORS 2
/* What a loaded machine may take on top of a deadline. */
#define SLACK_MS        2000
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum way {
    WAY_TCP,
    WAY_UNIX,
    WAY_SHM,
    WAY_COUNT
};

static const char *server_path;
static const char *directory;

struct server {
    pid_t pid;
    int port;
    char tcp[64];
    char local[200];
};

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the server ---------------------------------------------------------------------------- */

static int port_is_free(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int free_port = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(fd);
    return free_port;
}

static int find_ports(void)
{
    for (int port = 21110; port < 21190; port += REACTORS + 1) {
        int all = 1;
        for (int i = 0; i <= REACTORS; i++) {
            all = all && port_is_free(port + i);
        }
        if (all) {
            return port;
        }
    }
    fail_msg("no free ports");
    return 0;
}

static void server_launch(struct server *server)
{
    char port[16];
    (void)snprintf(port, sizeof port, "%d", server->port);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        /* Not left behind when a test fails. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        char log[200];
        (void)snprintf(log, sizeof log, "%s/server.log", directory);
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        (void)dup2(fd, 1);
        (void)dup2(fd, 2);
        (void)execl(server_path, server_path, "--port", port, "--unixsocket",
                    server->local + strlen("unix://"), "--reactors", "2", "--maxmemory", "256mb",
                    "--populate", "no", (char *)NULL);
        _exit(127);
    }
}

static struct kvasir_client *connect_by(const struct server *server, enum way way)
{
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = way == WAY_TCP ? server->tcp : server->local;
    options.shm = way == WAY_SHM;
    options.staging_bytes = 8U << 20;
    options.backoff_max_ms = 100;
    char error[256] = "";
    struct kvasir_client *client = NULL;
    /* The server may still be starting. */
    int64_t until_ms = now_ms() + 10000;
    enum kvasir_status status;
    while ((status = kvasir_connect(&options, error, sizeof error, &client)) == KVASIR_CLOSED &&
           now_ms() < until_ms) {
        (void)poll(NULL, 0, 20);
    }
    if (status != KVASIR_OK) {
        fail_msg("%s: %s", kvasir_status_name(status), error);
    }
    struct kvasir_server_info info;
    kvasir_server_info(client, &info);
    assert_int_equal(info.reactor_count, REACTORS);
    assert_int_equal(info.shm, way == WAY_SHM);
    return client;
}

static void server_start(struct server *server)
{
    server->port = find_ports();
    (void)snprintf(server->tcp, sizeof server->tcp, "tcp://127.0.0.1:%d", server->port);
    (void)snprintf(server->local, sizeof server->local, "unix://%s/%d.sock", directory,
                   server->port);
    server_launch(server);
}

static void server_signal(const struct server *server, int number)
{
    assert_int_equal(kill(server->pid, number), 0);
    /* A process of several threads stops a little later than it was told to. */
    int status;
    if (number == SIGSTOP) {
        assert_int_equal(waitpid(server->pid, &status, WUNTRACED), server->pid);
        assert_true(WIFSTOPPED(status));
    }
}

static void server_end(struct server *server, int number)
{
    int status;
    server_signal(server, number);
    assert_int_equal(waitpid(server->pid, &status, 0), server->pid);
    if (number == SIGTERM) {
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* ---- payload ------------------------------------------------------------------------------- */

/* Bytes that differ with position and seed, so that a shifted or foreign piece shows. */
static void pattern(uint8_t *bytes, size_t length, uint64_t seed)
{
    uint64_t x = seed * 2654435761U + 12345;
    for (size_t i = 0; i < length; i++) {
        x = x * 6364136223846793005U + 1442695040888963407U;
        bytes[i] = (uint8_t)(x >> 56);
    }
}

/* Small values take the socket even where shared memory is in use. */
#define SHM_GET_BYTES_MIN 8192U
#define SHM_PUT_BYTES_MIN 32768U

static enum kvasir_path expected_path(enum way way, size_t length, size_t shm_bytes_min)
{
    if (way == WAY_SHM && length >= shm_bytes_min) {
        return KVASIR_PATH_SHM;
    }
    return way == WAY_TCP ? KVASIR_PATH_TCP : KVASIR_PATH_UNIX;
}

static void each_way(void (*body)(const struct server *, struct kvasir_client *, enum way))
{
    struct server server;
    server_start(&server);
    for (enum way way = WAY_TCP; way < WAY_COUNT; way++) {
        struct kvasir_client *client = connect_by(&server, way);
        body(&server, client, way);
        kvasir_close(&client);
    }
    server_end(&server, SIGTERM);
}

/* ---- every call on every path -------------------------------------------------------------- */

static void sizes(const struct server *server, struct kvasir_client *client, enum way way)
{
    (void)server;
    static const size_t lengths[] = {0,       1,       4095,    4096,    8191,    8192,
                                     16383,   16384,   65536,   262144,  2097151, 2097152,
                                     2097153, 4500000, 7000000, 20000000};
    const size_t length_max = 20000000;
    uint8_t *sent = malloc(length_max);
    uint8_t *got = malloc(length_max);
    assert_true(sent != NULL && got != NULL);
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        char key[64];
        size_t length = lengths[i];
        size_t got_length = 1;
        (void)snprintf(key, sizeof key, "size:%d:%zu", (int)way, length);
        pattern(sent, length, i + (size_t)way * 100);
        struct kvasir_put_options put = {.checksum = i % 2 == 0};
        assert_int_equal(kvasir_put(client, key, strlen(key), sent, length, &put, 0), KVASIR_OK);
        if (length <= 7000000) {
            assert_int_equal(kvasir_path(client), expected_path(way, length, SHM_PUT_BYTES_MIN));
        }
        memset(got, 0, length);
        assert_int_equal(kvasir_get(client, key, strlen(key), got, length, &got_length, 0),
                         KVASIR_OK);
        assert_int_equal(kvasir_path(client), expected_path(way, length, SHM_GET_BYTES_MIN));
        assert_int_equal(got_length, length);
        assert_true(length == 0 || memcmp(got, sent, length) == 0);
        if (length > 1) {
            assert_int_equal(kvasir_get(client, key, strlen(key), got, length - 1, &got_length, 0),
                             KVASIR_TOO_SMALL);
            assert_int_equal(got_length, length);
        }
        struct kvasir_stat stat;
        assert_int_equal(kvasir_stat(client, key, strlen(key), &stat, 0), KVASIR_OK);
        assert_int_equal(stat.length_bytes, length);
        assert_true(stat.checksum_valid || !put.checksum);
        /* What was leased for the gets is given back by now. */
        assert_int_equal(stat.lease_count, 0);
        assert_int_equal(kvasir_delete(client, key, strlen(key), 0), KVASIR_OK);
    }
    free(sent);
    free(got);
}

static void test_client_live_moves_all_sizes(void **state)
{
    (void)state;
    each_way(sizes);
}

static void options_of_a_put(const struct server *server, struct kvasir_client *client,
                             enum way way)
{
    (void)server;
    static uint8_t bytes[20000];
    char key[32];
    (void)snprintf(key, sizeof key, "option:%d", (int)way);
    size_t n = strlen(key);
    struct kvasir_put_options once = {.only_if_absent = true};
    pattern(bytes, sizeof bytes, 1);
    assert_int_equal(kvasir_put(client, key, n, bytes, sizeof bytes, &once, 0), KVASIR_OK);
    pattern(bytes, sizeof bytes, 2);
    assert_int_equal(kvasir_put(client, key, n, bytes, sizeof bytes, &once, 0), KVASIR_EXISTS);
    uint8_t first[20000];
    pattern(first, sizeof first, 1);
    assert_int_equal(kvasir_get(client, key, n, bytes, sizeof bytes, NULL, 0), KVASIR_OK);
    assert_memory_equal(bytes, first, sizeof first);
    struct kvasir_put_options window = {.value_class = KVASIR_CLASS_WINDOW, .ttl_ms = 60000};
    assert_int_equal(kvasir_put(client, key, n, bytes, sizeof bytes, &window, 0), KVASIR_OK);
    struct kvasir_stat stat;
    assert_int_equal(kvasir_stat(client, key, n, &stat, 0), KVASIR_OK);
    assert_int_equal(stat.value_class, KVASIR_CLASS_WINDOW);
    assert_in_range(stat.ttl_ms, 1, 60000);
    struct kvasir_put_options brief = {.ttl_ms = 50};
    assert_int_equal(kvasir_put(client, key, n, bytes, sizeof bytes, &brief, 0), KVASIR_OK);
    int64_t until_ms = now_ms() + SLACK_MS;
    while (kvasir_exists(client, key, n, 0) == KVASIR_OK && now_ms() < until_ms) {
        (void)poll(NULL, 0, 10);
    }
    assert_int_equal(kvasir_get(client, key, n, bytes, sizeof bytes, NULL, 0), KVASIR_NOT_FOUND);
    struct kvasir_server_info info;
    kvasir_server_info(client, &info);
    assert_true(info.value_bytes_max > 0);
    assert_int_equal(kvasir_put(client, key, n, bytes, info.value_bytes_max + 1, NULL, 0),
                     KVASIR_TOO_LARGE);
}

static void test_client_live_obeys_put_options(void **state)
{
    (void)state;
    each_way(options_of_a_put);
}

/* What was dear to compute is there when what was cheap had to go. */
#define COST_COUNT 9000U
#define COST_BYTES (64U << 10)

static uint32_t count_left(struct kvasir_client *client, const char *kind, uint32_t count)
{
    uint32_t left = 0;
    char key[32];
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(key, sizeof key, "%s:%u", kind, i);
        left += kvasir_exists(client, key, strlen(key), 0) == KVASIR_OK ? 1 : 0;
    }
    return left;
}

static void test_client_live_keeps_what_is_dear(void **state)
{
    (void)state;
    struct server server;
    server_start(&server);
    uint8_t *bytes = calloc(1, COST_BYTES);
    struct kvasir_client *client = connect_by(&server, WAY_SHM);
    const struct kvasir_put_options costs[] = {{.cost = 1}, {.cost = 100000}};
    const uint32_t dear_count = COST_COUNT / 9;
    char key[32];
    for (uint32_t i = 0; i < COST_COUNT; i++) {
        bool dear = i % 9 == 0;
        (void)snprintf(key, sizeof key, "%s:%u", dear ? "dear" : "cheap", dear ? i / 9 : i);
        assert_int_equal(
            kvasir_put(client, key, strlen(key), bytes, COST_BYTES, &costs[dear ? 1 : 0], 0),
            KVASIR_OK);
    }
    /* The first few came before it was known what is dear. */
    assert_true(count_left(client, "dear", dear_count) > dear_count * 9 / 10);
    assert_true(count_left(client, "cheap", COST_COUNT) < COST_COUNT / 2);
    kvasir_close(&client);
    free(bytes);
    server_end(&server, SIGTERM);
}

#define BATCH_COUNT 300U
#define BATCH_BYTES 50000U

static void batches(const struct server *server, struct kvasir_client *client, enum way way)
{
    (void)server;
    struct kvasir_item *items = calloc(BATCH_COUNT, sizeof *items);
    char(*keys)[32] = calloc(BATCH_COUNT, sizeof *keys);
    uint8_t *bytes = malloc((size_t)BATCH_COUNT * BATCH_BYTES);
    uint8_t *got = malloc((size_t)BATCH_COUNT * BATCH_BYTES);
    assert_true(items != NULL && keys != NULL && bytes != NULL && got != NULL);
    pattern(bytes, (size_t)BATCH_COUNT * BATCH_BYTES, 77 + (uint64_t)way);
    for (uint32_t i = 0; i < BATCH_COUNT; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "batch:%d:%u", (int)way, i);
        items[i].key = keys[i];
        items[i].key_length_bytes = strlen(keys[i]);
        items[i].segment.iov_base = bytes + (size_t)i * BATCH_BYTES;
        items[i].segment.iov_len = BATCH_BYTES;
    }
    struct kvasir_put_options chain = {.chain = true, .checksum = true};
    assert_int_equal(kvasir_put_batch(client, items, BATCH_COUNT, &chain, 20000), KVASIR_OK);
    for (uint32_t i = 0; i < BATCH_COUNT; i++) {
        assert_int_equal(items[i].status, KVASIR_OK);
        assert_int_equal(items[i].path, expected_path(way, BATCH_BYTES, SHM_PUT_BYTES_MIN));
        items[i].segment.iov_base = got + (size_t)i * BATCH_BYTES;
    }
    size_t found = 0;
    assert_int_equal(kvasir_match(client, items, BATCH_COUNT, 1000, &found, 0), KVASIR_OK);
    assert_int_equal(found, BATCH_COUNT);
    assert_int_equal(kvasir_get_batch(client, items, BATCH_COUNT, 20000), KVASIR_OK);
    for (uint32_t i = 0; i < BATCH_COUNT; i++) {
        assert_int_equal(items[i].status, KVASIR_OK);
        assert_int_equal(items[i].length_bytes, BATCH_BYTES);
    }
    assert_memory_equal(got, bytes, (size_t)BATCH_COUNT * BATCH_BYTES);
    assert_int_equal(kvasir_delete(client, keys[123], strlen(keys[123]), 0), KVASIR_OK);
    assert_int_equal(kvasir_match(client, items, BATCH_COUNT, 0, &found, 0), KVASIR_OK);
    assert_int_equal(found, 123);
    assert_int_equal(kvasir_exists_batch(client, items, BATCH_COUNT, 0), KVASIR_OK);
    assert_int_equal(items[123].status, KVASIR_NOT_FOUND);
    assert_int_equal(items[124].status, KVASIR_OK);
    struct kvasir_stat stats[BATCH_COUNT];
    assert_int_equal(kvasir_stat_batch(client, items, BATCH_COUNT, stats, 0), KVASIR_OK);
    assert_int_equal(items[123].status, KVASIR_NOT_FOUND);
    assert_int_equal(stats[124].length_bytes, BATCH_BYTES);
    assert_int_equal(kvasir_delete_batch(client, items, BATCH_COUNT, 0), KVASIR_OK);
    assert_int_equal(items[123].status, KVASIR_NOT_FOUND);
    assert_int_equal(items[0].status, KVASIR_OK);
    free(items);
    free(keys);
    free(bytes);
    free(got);
}

static void test_client_live_moves_batches(void **state)
{
    (void)state;
    each_way(batches);
}

static void views(const struct server *server, struct kvasir_client *client, enum way way)
{
    (void)server;
    const size_t length = 5000000;
    uint8_t *bytes = malloc(length);
    assert_non_null(bytes);
    pattern(bytes, length, 5);
    assert_int_equal(kvasir_put(client, "view", 4, bytes, length, NULL, 0), KVASIR_OK);
    struct kvasir_view *view = NULL;
    enum kvasir_status status = kvasir_get_view(client, "view", 4, &view, 0);
    if (way != WAY_SHM) {
        assert_int_equal(status, KVASIR_UNSUPPORTED);
        free(bytes);
        return;
    }
    assert_int_equal(status, KVASIR_OK);
    struct kvasir_stat stat;
    assert_int_equal(kvasir_stat(client, "view", 4, &stat, 0), KVASIR_OK);
    assert_int_equal(stat.lease_count, 1);
    /* Overwriting and deleting leave what is being read alone. */
    assert_int_equal(kvasir_put(client, "view", 4, "other", 5, NULL, 0), KVASIR_OK);
    assert_int_equal(kvasir_delete(client, "view", 4, 0), KVASIR_OK);
    uint32_t count = 0;
    const struct iovec *segments = kvasir_view_segments(view, &count);
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_memory_equal(segments[i].iov_base, bytes + at, segments[i].iov_len);
        at += segments[i].iov_len;
    }
    assert_int_equal(at, length);
    assert_true(kvasir_view_deadline_us(view) > now_ms() * 1000);
    kvasir_view_release(&view);
    free(bytes);
}

static void test_client_live_shows_views(void **state)
{
    (void)state;
    each_way(views);
}

/* ---- a server in trouble ------------------------------------------------------------------- */

static enum kvasir_status timed_get(struct kvasir_client *client, uint32_t timeout_ms,
                                    int64_t *took_ms_p)
{
    static uint8_t buffer[100000];
    int64_t before_ms = now_ms();
    enum kvasir_status status = kvasir_get(client, "k", 1, buffer, sizeof buffer, NULL, timeout_ms);
    *took_ms_p = now_ms() - before_ms;
    return status;
}

static void wait_until_served(struct kvasir_client *client, enum kvasir_status expected)
{
    int64_t took_ms;
    int64_t until_ms = now_ms() + 10000;
    enum kvasir_status status;
    do {
        status = timed_get(client, 1000, &took_ms);
        (void)poll(NULL, 0, 10);
    } while (status != expected && now_ms() < until_ms);
    assert_int_equal(status, expected);
}

static void test_client_live_stopped_server_is_a_timeout(void **state)
{
    (void)state;
    static uint8_t value[100000];
    for (enum way way = WAY_TCP; way < WAY_COUNT; way++) {
        struct server server;
        server_start(&server);
        struct kvasir_client *client = connect_by(&server, way);
        assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_OK);
        server_signal(&server, SIGSTOP);
        int64_t took_ms = 0;
        assert_int_equal(timed_get(client, 300, &took_ms), KVASIR_TIMEOUT);
        assert_in_range(took_ms, 299, 300 + SLACK_MS);
        assert_int_equal(timed_get(client, 5000, &took_ms), KVASIR_CLOSED);
        assert_true(took_ms < SLACK_MS);
        server_signal(&server, SIGCONT);
        wait_until_served(client, KVASIR_OK);
        kvasir_close(&client);
        server_end(&server, SIGTERM);
    }
}

static void test_client_live_killed_server_is_closed_and_found_again(void **state)
{
    (void)state;
    static uint8_t value[100000];
    for (enum way way = WAY_TCP; way < WAY_COUNT; way++) {
        struct server server;
        server_start(&server);
        struct kvasir_client *client = connect_by(&server, way);
        assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_OK);
        server_end(&server, SIGKILL);
        int64_t took_ms = 0;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(timed_get(client, 5000, &took_ms), KVASIR_CLOSED);
            assert_true(took_ms < SLACK_MS);
        }
        server_launch(&server);
        wait_until_served(client, KVASIR_NOT_FOUND);
        assert_int_equal(kvasir_put(client, "k", 1, value, sizeof value, NULL, 0), KVASIR_OK);
        assert_int_equal(kvasir_path(client), expected_path(way, sizeof value, SHM_PUT_BYTES_MIN));
        kvasir_close(&client);
        server_end(&server, SIGTERM);
    }
}

/* Killed in the middle of a large batch: every item is answered or carries the reason. */
static void test_client_live_kill_in_mid_batch(void **state)
{
    (void)state;
    const uint32_t count = 400;
    const size_t length = 300000;
    uint8_t *bytes = calloc(1, length);
    struct kvasir_item *items = calloc(count, sizeof *items);
    char(*keys)[32] = calloc(count, sizeof *keys);
    assert_true(bytes != NULL && items != NULL && keys != NULL);
    for (enum way way = WAY_TCP; way < WAY_COUNT; way++) {
        struct server server;
        server_start(&server);
        struct kvasir_client *client = connect_by(&server, way);
        for (uint32_t i = 0; i < count; i++) {
            (void)snprintf(keys[i], sizeof keys[i], "mid:%u", i);
            items[i].key = keys[i];
            items[i].key_length_bytes = strlen(keys[i]);
            items[i].segment = (struct iovec){.iov_base = bytes, .iov_len = length};
        }
        struct kvasir_request *request = NULL;
        assert_int_equal(kvasir_submit(client, KVASIR_CALL_PUT, items, count, NULL, &request),
                         KVASIR_PENDING);
        server_end(&server, SIGKILL);
        int64_t before_ms = now_ms();
        assert_int_equal(kvasir_poll(client, -1, &request), KVASIR_OK);
        assert_true(now_ms() - before_ms < 5000 + SLACK_MS);
        assert_int_equal(kvasir_request_status(request), KVASIR_CLOSED);
        for (uint32_t i = 0; i < count; i++) {
            if (items[i].status != KVASIR_OK && items[i].status != KVASIR_CLOSED) {
                fail_msg("way %d item %u: %s, %s", (int)way, i, kvasir_status_name(items[i].status),
                         kvasir_error(client));
            }
        }
        kvasir_request_free(client, &request);
        kvasir_close(&client);
    }
    free(bytes);
    free(items);
    free(keys);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fprintf(stderr, "usage: client_live SERVER DIRECTORY\n");
        return 2;
    }
    server_path = argv[1];
    directory = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_live_moves_all_sizes),
        cmocka_unit_test(test_client_live_obeys_put_options),
        cmocka_unit_test(test_client_live_keeps_what_is_dear),
        cmocka_unit_test(test_client_live_moves_batches),
        cmocka_unit_test(test_client_live_shows_views),
        cmocka_unit_test(test_client_live_stopped_server_is_a_timeout),
        cmocka_unit_test(test_client_live_killed_server_is_closed_and_found_again),
        cmocka_unit_test(test_client_live_kill_in_mid_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
