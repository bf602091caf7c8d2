/* A million puts of mixed sizes into the store itself, without a server around it and without the bytes
 * of the values: what they would take hours to write does not change where they lie.
 *
 *   fragment_store [--puts N] [--memory BYTES] [--shards N] [--seed N]
 *
 * The phases are those of fragment.c. Prints for each: payload memory that holds live bytes, what moving
 * cost, refused puts, time of a put, and what a last value of 64 MiB evicted. */

#include "bare_store.h"
#include "base/random.h"

#include <getopt.h>

#define SHARDS_MAX     16U
#define LONG_BYTES     (64U << 20)
#define TOP_UP_BYTES   (64U << 10)
#define METADATA_BYTES (256U << 20)

struct phase {
    const char *name;
    uint64_t from_bytes;
    uint64_t to_bytes; /* 0: only from_bytes and other_bytes, at random */
    uint64_t other_bytes;
};

static const struct phase PHASES[] = {
    {.name = "mixed 1k-64m", .from_bytes = 1024, .to_bytes = 64U << 20},
    {.name = "small 1k-64k", .from_bytes = 1024, .to_bytes = 64U << 10},
    {.name = "long 4m-64m", .from_bytes = 4U << 20, .to_bytes = 64U << 20},
    {.name = "middle 64k-4m", .from_bytes = 64U << 10, .to_bytes = 4U << 20},
    {.name = "two models", .from_bytes = 2359296, .other_bytes = 655360},
};

struct bench {
    struct pages *payload;  /* owned */
    struct pages *metadata; /* owned */
    struct shard *shards[SHARDS_MAX];
    uint32_t shard_count;
    struct moment now;
    struct random random;
    uint64_t key_count;
    uint64_t payload_bytes;
};

/* Other shards give pages, as their reactors would be asked to. */
static bool reclaim(struct bench *bench, uint32_t asker, uint64_t length_bytes)
{
    uint32_t given_count = 0;
    uint32_t wanted_count = (uint32_t)(length_bytes / BARE_PAGE_BYTES) + 1;
    for (uint32_t i = 0; i < bench->shard_count; i++) {
        if (i != asker) {
            given_count += shard_reclaim(bench->shards[i], wanted_count, &bench->now);
        }
    }
    return given_count > 0;
}

static bool put(struct bench *bench, uint64_t length_bytes)
{
    char key[32];
    struct op op = {.kind = OP_RESERVE};
    int key_length =
        snprintf(key, sizeof(key), "fragment:%010llu", (unsigned long long)bench->key_count++);
    op.key = slice_of(key, (size_t)key_length);
    op.hash = op_hash(0, 0, op.key);
    op.put.length_bytes = length_bytes;
    uint32_t index = (uint32_t)(op.hash >> 32) % bench->shard_count;
    bench->now.mono_us += 100;
    do {
        shard_execute(bench->shards[index], &op, &bench->now);
    } while (op.status == KVASIR_PENDING ||
             (op.status == KVASIR_AGAIN && reclaim(bench, index, length_bytes)));
    if (op.status != KVASIR_OK) {
        return false;
    }
    op.kind = OP_COMMIT;
    shard_execute(bench->shards[index], &op, &bench->now);
    return op.status == KVASIR_OK;
}

static struct shard_stats stats_of(const struct bench *bench)
{
    struct shard_stats sum = {0};
    for (uint32_t i = 0; i < bench->shard_count; i++) {
        struct shard_stats stats;
        shard_stats(bench->shards[i], &stats);
        sum.key_count += stats.key_count;
        sum.payload_bytes += stats.payload_bytes;
        sum.metadata_bytes += stats.metadata_bytes;
        sum.evicted += stats.evicted;
        sum.evicted_bytes += stats.evicted_bytes;
        sum.moved_bytes += stats.moved_bytes;
        sum.drained_pages += stats.drained_pages;
    }
    return sum;
}

static uint64_t random_length(struct bench *bench, const struct phase *phase)
{
    if (phase->to_bytes == 0) {
        return random_below(&bench->random, 2) == 0 ? phase->from_bytes : phase->other_bytes;
    }
    double low = log((double)phase->from_bytes);
    double high = log((double)phase->to_bytes);
    double part = (double)random_below(&bench->random, 1U << 30) / (double)(1U << 30);
    return (uint64_t)exp(low + (high - low) * part);
}

static void run_phase(struct bench *bench, const struct phase *phase, uint64_t put_count)
{
    struct measure_samples times = {0};
    struct shard_stats begin = stats_of(bench);
    uint64_t written_bytes = 0;
    uint64_t failed_count = 0;
    for (uint64_t i = 0; i < put_count; i++) {
        uint64_t length_bytes = random_length(bench, phase);
        double start = measure_now();
        failed_count += !put(bench, length_bytes);
        measure_add(&times, measure_now() - start);
        written_bytes += length_bytes;
    }
    /* Until the last eviction's rest is used up. */
    struct shard_stats full;
    struct shard_stats end = stats_of(bench);
    do {
        full = end;
        failed_count += !put(bench, TOP_UP_BYTES);
        end = stats_of(bench);
    } while (full.evicted == end.evicted);
    bool fits = put(bench, LONG_BYTES);
    struct shard_stats after = stats_of(bench);
    (void)printf(
        "{\"peer\":\"store x%u\",\"phase\":\"%s\",\"puts\":%llu,\"written_gib\":%.1f,"
        "\"live_share\":%.4f,\"failed\":%llu,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.0f,"
        "\"moved_share\":%.4f,\"long_fits\":%s,\"long_mib\":%.1f,\"long_evicted_mib\":%.1f,\"values\":%llu,"
        "\"metadata_per_value\":%.1f}\n",
        bench->shard_count, phase->name, (unsigned long long)put_count,
        (double)written_bytes / (double)MEASURE_MIB / 1024,
        (double)full.payload_bytes / (double)bench->payload_bytes, (unsigned long long)failed_count,
        measure_quantile(&times, 0.5) * 1e6, measure_quantile(&times, 0.99) * 1e6,
        measure_quantile(&times, 1) * 1e6,
        (double)(end.moved_bytes - begin.moved_bytes) / (double)written_bytes,
        fits ? "true" : "false", (double)LONG_BYTES / (double)MEASURE_MIB,
        (double)(after.evicted_bytes - end.evicted_bytes) / (double)MEASURE_MIB,
        (unsigned long long)end.key_count,
        (double)end.metadata_bytes / (double)end.key_count - sizeof("fragment:0123456789") + 1);
    (void)fflush(stdout);
    free(times.values);
}

static void make_store(struct bench *bench, uint64_t memory_bytes)
{
    bench->payload_bytes = memory_bytes;
    bench->payload = bare_payload(memory_bytes);
    bench->metadata = bare_metadata(METADATA_BYTES);
    bench->now = bare_moment();
    for (uint32_t i = 0; i < bench->shard_count; i++) {
        bench->shards[i] = bare_shard(bench->payload, bench->metadata, i, bench->shard_count);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"puts", required_argument, NULL, 'p'},
        {"memory", required_argument, NULL, 'm'},
        {"shards", required_argument, NULL, 's'},
        {"seed", required_argument, NULL, 'r'},
        {NULL, 0, NULL, 0},
    };
    static struct bench bench = {.shard_count = 1};
    uint64_t put_count = 1000000;
    uint64_t memory_bytes = UINT64_C(1) << 30;
    uint64_t seed = 1;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'p') {
            put_count = measure_parse_number("--puts", optarg);
        } else if (option == 'm') {
            memory_bytes =
                measure_parse_number("--memory", optarg) / BARE_PAGE_BYTES * BARE_PAGE_BYTES;
        } else if (option == 's') {
            bench.shard_count = (uint32_t)measure_parse_number("--shards", optarg);
        } else if (option == 'r') {
            seed = measure_parse_number("--seed", optarg);
        } else {
            measure_die("see the top of fragment_store.c for the options");
        }
    }
    if (memory_bytes < 2 * LONG_BYTES || bench.shard_count == 0 || bench.shard_count > SHARDS_MAX ||
        put_count < ARRAY_COUNT(PHASES)) {
        measure_die("--memory is at least 128m, --shards 1 to 16, --puts at least 5");
    }
    random_init(&bench.random, seed);
    make_store(&bench, memory_bytes);
    for (size_t i = 0; i < ARRAY_COUNT(PHASES); i++) {
        run_phase(&bench, &PHASES[i], put_count / ARRAY_COUNT(PHASES));
    }
    return 0;
}
