/* The store's index from empty to ten million keys and back to none, in one shard and without a server
 * around it.
 *
 *   index [--keys N] [--value BYTES] [--seed N] [--table]
 *
 * Work is cut into turns, as a reactor does it: 64 ops, or a tick of the background work, which goes on
 * for a millisecond at most. Prints for each phase the longest turn: its time on the processor, its
 * time by the clock (what else the machine did is in that), and, what no machine changes, the buckets
 * and values that the index moved in it and the values that it stored or freed. */

#include "bare_store.h"
#include "base/random.h"

#include <getopt.h>

#define KEY_BYTES 16U
#define TURN_OPS  64U
/* What a reactor asks of a tick, how long it goes on asking, and how often. */
#define TICK_BUDGET   256U
#define TICK_SECONDS  1e-3
#define TICK_US       10000
#define TTL_MS        86400000
#define METADATA_EACH 176U /* a value and a key, the index's and the pages' rounding */

struct bench {
    struct pages *payload;  /* owned */
    struct pages *metadata; /* owned */
    struct shard *shard;    /* owned */
    struct moment now;
    struct random random;
    uint64_t key_count;
    uint32_t value_bytes;
    bool table;
};

struct phase {
    const char *name;
    uint64_t turns, ops;
    double seconds, cpu_us_max, wall_us_max;
    uint64_t moved_max, values_max;
    /* of the turn under way */
    double cpu_start, wall_start;
    struct shard_stats start;
};

static double cpu_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct shard_stats stats_of(const struct bench *bench)
{
    struct shard_stats stats;
    shard_stats(bench->shard, &stats);
    return stats;
}

static void turn_begin(struct phase *phase, const struct bench *bench)
{
    phase->start = stats_of(bench);
    phase->wall_start = measure_now();
    phase->cpu_start = cpu_now();
}

static void turn_end(struct phase *phase, const struct bench *bench)
{
    double cpu_us = (cpu_now() - phase->cpu_start) * 1e6;
    double seconds = measure_now() - phase->wall_start;
    struct shard_stats end = stats_of(bench);
    uint64_t moved = end.index_moved - phase->start.index_moved;
    uint64_t values = end.value_count > phase->start.value_count
                          ? end.value_count - phase->start.value_count
                          : phase->start.value_count - end.value_count;
    phase->turns++;
    phase->seconds += seconds;
    phase->cpu_us_max = cpu_us > phase->cpu_us_max ? cpu_us : phase->cpu_us_max;
    phase->wall_us_max = seconds * 1e6 > phase->wall_us_max ? seconds * 1e6 : phase->wall_us_max;
    phase->moved_max = moved > phase->moved_max ? moved : phase->moved_max;
    phase->values_max = values > phase->values_max ? values : phase->values_max;
}

/* Keys do not follow each other, as hashes do not. */
static struct op op_of(enum op_kind kind, uint64_t number, uint64_t words[2])
{
    words[0] = measure_word(1, number);
    words[1] = number;
    struct op op = {.kind = (uint8_t)kind, .key = slice_of((uint8_t *)words, KEY_BYTES)};
    op.hash = op_hash(0, 0, op.key);
    return op;
}

static void run_op(struct bench *bench, struct op *op)
{
    do {
        shard_execute(bench->shard, op, &bench->now);
    } while (op->status == KVASIR_PENDING);
    if (op->status != KVASIR_OK) {
        measure_die("an op of kind %u ended with status %d", op->kind, (int)op->status);
    }
}

static void print_phase(const struct phase *phase, const struct bench *bench)
{
    struct shard_stats stats = stats_of(bench);
    double per_key = stats.key_count == 0 ? 0
                                          : (double)stats.metadata_bytes / (double)stats.key_count -
                                                (double)KEY_BYTES;
    double ns = phase->ops == 0 ? 0 : phase->seconds * 1e9 / (double)phase->ops;
    if (bench->table) {
        (void)printf("%-12s %10llu %8.0f %8llu %10.0f %10.0f %8llu %8llu %8.1f %8llu %8.1f\n",
                     phase->name, (unsigned long long)stats.key_count, ns,
                     (unsigned long long)phase->turns, phase->cpu_us_max, phase->wall_us_max,
                     (unsigned long long)phase->moved_max, (unsigned long long)phase->values_max,
                     per_key, (unsigned long long)stats.metadata_pages,
                     (double)stats.index_bytes / (double)MEASURE_MIB);
    } else {
        (void)printf("{\"peer\":\"store\",\"phase\":\"%s\",\"keys\":%llu,\"ops\":%llu,\"ns\":%.1f,"
                     "\"turns\":%llu,\"turn_cpu_us_max\":%.1f,\"turn_us_max\":%.1f,"
                     "\"turn_moved_max\":%llu,\"turn_values_max\":%llu,"
                     "\"metadata_per_value\":%.1f,\"metadata_pages\":%u,\"payload_pages\":%u,"
                     "\"index_bytes\":%llu}\n",
                     phase->name, (unsigned long long)stats.key_count,
                     (unsigned long long)phase->ops, ns, (unsigned long long)phase->turns,
                     phase->cpu_us_max, phase->wall_us_max, (unsigned long long)phase->moved_max,
                     (unsigned long long)phase->values_max, per_key, stats.metadata_pages,
                     stats.payload_pages, (unsigned long long)stats.index_bytes);
    }
    (void)fflush(stdout);
}

/* ---- phases ------------------------------------------------------------------------------------ */

static void run_ops(struct bench *bench, const char *name, enum op_kind kind, uint64_t op_count)
{
    static uint8_t bytes[4096];
    struct phase phase = {.name = name, .ops = op_count};
    for (uint64_t i = 0; i < op_count; i++) {
        uint64_t words[2];
        uint64_t number = kind == OP_GET ? random_below(&bench->random, bench->key_count) : i;
        struct op op = op_of(kind, number, words);
        if (kind == OP_SET) {
            op.payload = slice_of(bytes, bench->value_bytes);
            op.put.expires_at_ms = bench->now.wall_ms + TTL_MS;
        }
        if (i % TURN_OPS == 0) {
            turn_begin(&phase, bench);
        }
        run_op(bench, &op);
        if (kind == OP_GET) {
            shard_unpin(bench->shard, &op.value);
        }
        if (i % TURN_OPS == TURN_OPS - 1 || i + 1 == op_count) {
            turn_end(&phase, bench);
        }
    }
    print_phase(&phase, bench);
}

/* Ticks until nothing is left and the index is small again. ops: the values that were there. */
static void run_ticks(struct bench *bench, const char *name)
{
    struct phase phase = {.name = name, .ops = stats_of(bench).value_count};
    struct shard_stats stats;
    bool more;
    do {
        bench->now.mono_us += TICK_US;
        bench->now.wall_ms += TICK_US / 1000;
        turn_begin(&phase, bench);
        do {
            more = shard_tick(bench->shard, &bench->now, TICK_BUDGET);
        } while (more && measure_now() - phase.wall_start < TICK_SECONDS);
        turn_end(&phase, bench);
        stats = stats_of(bench);
        if (phase.turns > 10 * phase.ops + 1000) {
            measure_die("%s: %llu values are still there", name,
                        (unsigned long long)stats.value_count);
        }
    } while (more || stats.value_count > 0);
    print_phase(&phase, bench);
}

static void run_flush(struct bench *bench)
{
    struct phase phase = {.name = "flush"};
    turn_begin(&phase, bench);
    shard_flush(bench->shard, SHARD_DATABASE_ALL);
    turn_end(&phase, bench);
    print_phase(&phase, bench);
}

/* ---- the store --------------------------------------------------------------------------------- */

/* With a few pages to spare. */
static uint64_t whole_pages(uint64_t size_bytes)
{
    return (size_bytes / BARE_PAGE_BYTES + 8) * BARE_PAGE_BYTES;
}

static void make_store(struct bench *bench)
{
    uint64_t payload_each =
        (bench->value_bytes / BARE_PAYLOAD_UNIT_BYTES + 1) * BARE_PAYLOAD_UNIT_BYTES * 9 / 8;
    bench->payload = bare_payload(whole_pages(bench->key_count * payload_each));
    bench->metadata = bare_metadata(whole_pages(bench->key_count * METADATA_EACH));
    bench->now = bare_moment();
    bench->shard = bare_shard(bench->payload, bench->metadata, 0, 1);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"keys", required_argument, NULL, 'k'},
        {"value", required_argument, NULL, 'v'},
        {"seed", required_argument, NULL, 'r'},
        {"table", no_argument, NULL, 't'},
        {NULL, 0, NULL, 0},
    };
    static struct bench bench = {.key_count = 10000000, .value_bytes = 32};
    uint64_t seed = 1;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'k') {
            bench.key_count = measure_parse_number("--keys", optarg);
        } else if (option == 'v') {
            bench.value_bytes = (uint32_t)measure_parse_number("--value", optarg);
        } else if (option == 'r') {
            seed = measure_parse_number("--seed", optarg);
        } else if (option == 't') {
            bench.table = true;
        } else {
            measure_die("see the top of index.c for the options");
        }
    }
    if (bench.key_count == 0 || bench.value_bytes > 4096) {
        measure_die("--keys is at least 1, --value at most 4k");
    }
    random_init(&bench.random, seed);
    make_store(&bench);
    if (bench.table) {
        (void)printf("phase              keys       ns    turns     cpu us    wall us    moved   "
                     "values  B/value    pages  index MiB\n");
    }
    run_ops(&bench, "put", OP_SET, bench.key_count);
    run_ops(&bench, "get", OP_GET, bench.key_count / 4);
    bench.now.wall_ms += TTL_MS;
    run_ticks(&bench, "expire");
    run_ops(&bench, "put again", OP_SET, bench.key_count);
    run_flush(&bench);
    run_ticks(&bench, "flush ticks");
    run_ops(&bench, "put again", OP_SET, bench.key_count);
    run_ops(&bench, "remove", OP_REMOVE, bench.key_count);
    run_ticks(&bench, "rest");
    return 0;
}
