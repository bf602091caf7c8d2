/* path – what libkvasir reaches on one of its paths: large values put, got into a warm buffer and
 * looked at in place, one by one and in batches, and the time that small calls take.
 *
 * Every value's contents are coded, and every operation is verified once outside the timed part.
 * One JSON line per operation and size. */

#include "measure.h"

#include <kvasir/client.h>

#include <unistd.h>

#define KEY_BYTES_MAX   64
#define BATCH_BYTES_MAX (64 * MEASURE_MIB)
#define BATCH_ITEMS_MAX 64
#define SMALL_KEYS      1024
#define PATH_BYTES_MIN  (64 << 10) /* from here on the path asked for must serve */
#define CALL_TIMEOUT_MS 30000
#define RATE_SIZES_MIN  4096

struct setup {
    const char *address; /* borrowed, as all texts here */
    const char *peer;
    const char *path; /* "tcp", "unix" or "shm" */
    const char *user, *password;
    uint64_t sizes[MEASURE_SIZES_MAX];
    size_t size_count;
    uint64_t small_sizes[MEASURE_SIZES_MAX];
    size_t small_count;
    uint64_t round_bytes;
    uint64_t set_bytes;
    unsigned rounds;
    unsigned calls; /* of every latency measurement */
};

/* Values of one size: keys, one buffer per item of the largest batch. Single calls take them in turn, as
 * an engine fills block after block of a KV cache that no processor cache holds. */
struct set {
    struct kvasir_client *client; /* borrowed */
    const struct setup *setup;    /* borrowed */
    size_t size_bytes;
    size_t key_count;
    size_t batch_count; /* items in one batch */
    uint8_t *buffers;   /* batch_count × size_bytes */
    struct kvasir_item items[BATCH_ITEMS_MAX];
    char keys[BATCH_ITEMS_MAX][KEY_BYTES_MAX];
};

static void fail(const struct set *set, const char *operation, enum kvasir_status status)
{
    measure_die("%s of %zu bytes over %s: %s (%s)", operation, set->size_bytes, set->setup->path,
                kvasir_status_name(status), kvasir_error(set->client));
}

static void expect_ok(const struct set *set, const char *operation, enum kvasir_status status)
{
    if (status != KVASIR_OK) {
        fail(set, operation, status);
    }
}

static size_t key_write(char *key, const struct set *set, size_t index)
{
    /* Two runs at one server do not meet. */
    return (size_t)snprintf(key, KEY_BYTES_MAX, "path:%d:%zu:%06zu", (int)getpid(), set->size_bytes,
                            index);
}

static uint8_t *buffer_of(const struct set *set, size_t item)
{
    return set->buffers + item * set->size_bytes;
}

static uint8_t *buffer_in_turn(const struct set *set, size_t index)
{
    return buffer_of(set, index % set->batch_count);
}

/* ---- operations: each does one timed call --------------------------------------------------- */

static void call_put(struct set *set, size_t index)
{
    char key[KEY_BYTES_MAX];
    size_t length = key_write(key, set, index);
    expect_ok(set, "put",
              kvasir_put(set->client, key, length, buffer_in_turn(set, index), set->size_bytes,
                         NULL, CALL_TIMEOUT_MS));
}

static void call_get(struct set *set, size_t index)
{
    char key[KEY_BYTES_MAX];
    size_t length = key_write(key, set, index);
    size_t got = 0;
    expect_ok(set, "get",
              kvasir_get(set->client, key, length, buffer_in_turn(set, index), set->size_bytes,
                         &got, CALL_TIMEOUT_MS));
    if (got != set->size_bytes) {
        measure_die("get of %zu bytes gave %zu", set->size_bytes, got);
    }
}

static void call_view(struct set *set, size_t index)
{
    char key[KEY_BYTES_MAX];
    size_t length = key_write(key, set, index);
    struct kvasir_view *view = NULL;
    expect_ok(set, "view", kvasir_get_view(set->client, key, length, &view, CALL_TIMEOUT_MS));
    kvasir_view_release(&view);
}

static void call_exists(struct set *set, size_t index)
{
    char key[KEY_BYTES_MAX];
    size_t length = key_write(key, set, index);
    expect_ok(set, "exists", kvasir_exists(set->client, key, length, CALL_TIMEOUT_MS));
}

static void batch_prepare(struct set *set, size_t index)
{
    for (size_t i = 0; i < set->batch_count; i++) {
        struct kvasir_item *item = &set->items[i];
        memset(item, 0, sizeof(*item));
        item->key = set->keys[i];
        item->key_length_bytes = key_write(set->keys[i], set, (index + i) % set->key_count);
        item->segment.iov_base = buffer_of(set, i);
        item->segment.iov_len = set->size_bytes;
    }
}

static void batch_check(const struct set *set, const char *operation)
{
    for (size_t i = 0; i < set->batch_count; i++) {
        expect_ok(set, operation, set->items[i].status);
    }
}

static void call_put_batch(struct set *set, size_t index)
{
    batch_prepare(set, index);
    expect_ok(set, "put batch",
              kvasir_put_batch(set->client, set->items, set->batch_count, NULL, CALL_TIMEOUT_MS));
    batch_check(set, "put batch");
}

static void call_get_batch(struct set *set, size_t index)
{
    batch_prepare(set, index);
    expect_ok(set, "get batch",
              kvasir_get_batch(set->client, set->items, set->batch_count, CALL_TIMEOUT_MS));
    batch_check(set, "get batch");
}

/* ---- verification ------------------------------------------------------------------------------ */

/* Short values travel within the commands also where memory is shared: the library decides. */
static void verify_path(const struct set *set)
{
    const char *served = kvasir_path_name(kvasir_path(set->client));
    bool may_differ = set->size_bytes < PATH_BYTES_MIN && strcmp(set->setup->path, "shm") == 0;
    if (!may_differ && strcmp(served, set->setup->path) != 0) {
        measure_die("%zu bytes went over %s and not over %s", set->size_bytes, served,
                    set->setup->path);
    }
}

static void verify_view(struct set *set, size_t index)
{
    char key[KEY_BYTES_MAX];
    size_t length = key_write(key, set, index);
    struct kvasir_view *view = NULL;
    expect_ok(set, "view", kvasir_get_view(set->client, key, length, &view, CALL_TIMEOUT_MS));
    uint32_t count = 0;
    const struct iovec *segments = kvasir_view_segments(view, &count);
    size_t from = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!measure_holds(segments[i].iov_base, segments[i].iov_len, index, from)) {
            measure_die("the view of value %zu (%zu bytes) shows other contents from byte %zu on",
                        index, set->size_bytes, from);
        }
        from += segments[i].iov_len;
    }
    if (from != set->size_bytes || kvasir_view_length_bytes(view) != from) {
        measure_die("the view of %zu bytes has %zu", set->size_bytes, from);
    }
    kvasir_view_release(&view);
}

/* Puts every key with contents of its own, singly or in batches, and gets it back the same way. */
static void verify(struct set *set, bool batch)
{
    size_t step = batch ? set->batch_count : 1;
    for (size_t index = 0; index + step <= set->key_count; index += step) {
        for (size_t i = 0; i < step; i++) {
            measure_fill(buffer_in_turn(set, index + i), set->size_bytes, index + i);
        }
        (batch ? call_put_batch : call_put)(set, index);
    }
    for (size_t index = 0; index + step <= set->key_count; index += step) {
        for (size_t i = 0; i < step; i++) {
            memset(buffer_in_turn(set, index + i), 0, set->size_bytes);
        }
        (batch ? call_get_batch : call_get)(set, index);
        for (size_t i = 0; i < step; i++) {
            const uint8_t *got = buffer_in_turn(set, index + i);
            if (!measure_holds(got, set->size_bytes, index + i, 0)) {
                measure_die("value %zu of %zu bytes came back over %s with other contents",
                            index + i, set->size_bytes, set->setup->path);
            }
        }
    }
    verify_path(set);
    if (strcmp(set->setup->path, "shm") == 0) {
        verify_view(set, 0);
        verify_view(set, set->key_count - 1);
    }
}

/* ---- measurements -------------------------------------------------------------------------------- */

typedef void call_fn(struct set *set, size_t index);

static void time_rate(struct set *set, const char *operation, call_fn *call, size_t step)
{
    struct measure_samples rates = {0};
    size_t call_bytes = step * set->size_bytes;
    size_t calls = measure_clamp(set->setup->round_bytes / measure_clamp(call_bytes, 1, SIZE_MAX),
                                 1, SIZE_MAX);
    for (unsigned round = 0; round < set->setup->rounds; round++) {
        double start = measure_now();
        for (size_t i = 0; i < calls; i++) {
            call(set, i * step % set->key_count);
        }
        measure_add(&rates, (double)(calls * call_bytes) / (measure_now() - start));
    }
    measure_print_rate(set->setup->peer, set->setup->path, operation, set->size_bytes, &rates);
    free(rates.values);
}

static void time_latency(struct set *set, const char *operation, call_fn *call)
{
    struct measure_samples times = {0};
    for (unsigned i = 0; i < set->setup->calls; i++) {
        double start = measure_now();
        call(set, i % set->key_count);
        measure_add(&times, measure_now() - start);
    }
    measure_print_latency(set->setup->peer, set->setup->path, operation, set->size_bytes, &times);
    free(times.values);
}

static void set_init(struct set *set, struct kvasir_client *client, const struct setup *setup,
                     size_t size_bytes)
{
    memset(set, 0, sizeof(*set));
    set->client = client;
    set->setup = setup;
    set->size_bytes = size_bytes;
    set->key_count = measure_clamp(setup->set_bytes / size_bytes, 2, SMALL_KEYS);
    set->batch_count = measure_clamp(BATCH_BYTES_MAX / size_bytes, 1,
                                     measure_clamp(set->key_count, 1, BATCH_ITEMS_MAX));
    set->buffers = measure_arena(set->batch_count * size_bytes);
}

/* Takes the values out of the store again, so that the next size meets an empty one. */
static void set_fini(struct set *set)
{
    for (size_t index = 0; index < set->key_count; index++) {
        char key[KEY_BYTES_MAX];
        size_t length = key_write(key, set, index);
        expect_ok(set, "delete", kvasir_delete(set->client, key, length, CALL_TIMEOUT_MS));
    }
    (void)munmap(set->buffers, set->batch_count * set->size_bytes);
}

static void run(struct kvasir_client *client, const struct setup *setup)
{
    bool shm = strcmp(setup->path, "shm") == 0;
    struct set *set = malloc(sizeof(*set));
    if (set == NULL) {
        measure_die("no memory");
    }
    for (size_t i = 0; i < setup->size_count; i++) {
        set_init(set, client, setup, (size_t)setup->sizes[i]);
        verify(set, true);
        verify(set, false);
        time_rate(set, "put", call_put, 1);
        time_rate(set, "get", call_get, 1);
        time_rate(set, "put_batch", call_put_batch, set->batch_count);
        time_rate(set, "get_batch", call_get_batch, set->batch_count);
        if (shm) {
            time_latency(set, "view", call_view);
        }
        set_fini(set);
    }
    for (size_t i = 0; i < setup->small_count; i++) {
        set_init(set, client, setup, (size_t)setup->small_sizes[i]);
        verify(set, false);
        time_latency(set, "put", call_put);
        time_latency(set, "get", call_get);
        time_latency(set, "exists", call_exists);
        set_fini(set);
    }
    free(set);
}

/* ---- main ------------------------------------------------------------------------------------------ */

static const char USAGE[] =
    "path --address tcp://HOST:PORT|unix:///SOCKET --path tcp|unix|shm\n"
    "  --peer NAME        name in the output (kvasir)\n"
    "  --user NAME --password TEXT\n"
    "  --sizes A,B        sizes of large values, for rates (64k,1m,4m,16m); none: 0\n"
    "  --small A,B        sizes of small values, for latency (64,4k,64k); none: 0\n"
    "  --round-bytes N    payload per round (256m)\n"
    "  --set-bytes N      all values of one size together (64m); at least two values\n"
    "  --rounds N         the median of so many is printed (5)\n"
    "  --calls N          calls per latency measurement (5000)\n";

static size_t parse_sizes(const char *option, const char *value,
                          uint64_t numbers[MEASURE_SIZES_MAX])
{
    size_t count = measure_parse_list(option, value, numbers);
    return count == 1 && numbers[0] == 0 ? 0 : count;
}

static void parse_value(struct setup *setup, const char *option, const char *value)
{
    if (strcmp(option, "--address") == 0) {
        setup->address = value;
    } else if (strcmp(option, "--path") == 0) {
        setup->path = value;
    } else if (strcmp(option, "--peer") == 0) {
        setup->peer = value;
    } else if (strcmp(option, "--user") == 0) {
        setup->user = value;
    } else if (strcmp(option, "--password") == 0) {
        setup->password = value;
    } else if (strcmp(option, "--sizes") == 0) {
        setup->size_count = parse_sizes(option, value, setup->sizes);
    } else if (strcmp(option, "--small") == 0) {
        setup->small_count = parse_sizes(option, value, setup->small_sizes);
    } else if (strcmp(option, "--round-bytes") == 0) {
        setup->round_bytes = measure_parse_number(option, value);
    } else if (strcmp(option, "--set-bytes") == 0) {
        setup->set_bytes = measure_parse_number(option, value);
    } else if (strcmp(option, "--rounds") == 0) {
        setup->rounds = (unsigned)measure_parse_number(option, value);
    } else if (strcmp(option, "--calls") == 0) {
        setup->calls = (unsigned)measure_parse_number(option, value);
    } else {
        measure_die("unknown option %s\n%s", option, USAGE);
    }
}

static void parse(struct setup *setup, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) {
            measure_die("%s takes a value\n%s", argv[i], USAGE);
        }
        parse_value(setup, argv[i], argv[i + 1]);
    }
    if (setup->address == NULL || setup->path == NULL) {
        measure_die("%s", USAGE);
    }
    for (size_t i = 0; i < setup->size_count; i++) {
        if (setup->sizes[i] < RATE_SIZES_MIN) {
            measure_die("--sizes takes sizes of %d and more; smaller ones belong to --small",
                        RATE_SIZES_MIN);
        }
    }
    for (size_t i = 0; i < setup->small_count; i++) {
        if (setup->small_sizes[i] == 0) {
            measure_die("--small takes sizes of 1 and more");
        }
    }
    if (setup->rounds == 0 || setup->rounds > MEASURE_ROUNDS_MAX || setup->calls == 0) {
        measure_die("--rounds takes 1 to %d, --calls 1 and more", MEASURE_ROUNDS_MAX);
    }
}

int main(int argc, char **argv)
{
    struct setup setup = {
        .peer = "kvasir",
        .sizes = {64 << 10, MEASURE_MIB, 4 * MEASURE_MIB, 16 * MEASURE_MIB},
        .size_count = 4,
        .small_sizes = {64, 4096, 64 << 10},
        .small_count = 3,
        .round_bytes = 256 * MEASURE_MIB,
        .set_bytes = 64 * MEASURE_MIB,
        .rounds = 5,
        .calls = 5000,
    };
    parse(&setup, argc, argv);
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = setup.address;
    options.user = setup.user;
    options.password = setup.password;
    options.name = "bench-path";
    options.shm = strcmp(setup.path, "shm") == 0;
    struct kvasir_client *client = NULL;
    char error[256] = "";
    enum kvasir_status status = kvasir_connect(&options, error, sizeof(error), &client);
    if (status != KVASIR_OK) {
        measure_die("cannot connect to %s: %s", setup.address, error);
    }
    run(client, &setup);
    kvasir_close(&client);
    return 0;
}
