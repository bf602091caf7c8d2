/* trace – replays a public request trace through libkvasir, as an engine would use the store: for
 * each request MATCH the chain of its blocks, get the hits, put the misses.
 *
 * A line of the trace is a JSON object with timestamp (milliseconds) and hash_ids (the chain; equal
 * ids are equal blocks). A block's contents are coded from its id, and every block that is got is
 * verified; coding and verifying are not timed. Exit status 1 when any call failed or any block was
 * wrong. */

#include "measure.h"

#include <kvasir/client.h>

#include <pthread.h>

#define CLIENTS_MAX     64
#define CHAIN_MAX       4096 /* blocks of one request; longer chains are cut and counted */
#define BATCH_BYTES_MAX (64 * MEASURE_MIB)
#define BATCH_ITEMS_MAX 64
#define KEY_BYTES       40
#define CALL_TIMEOUT_MS 30000
#define PROGRESS_S      5.0

struct setup {
    const char *address, *user, *password; /* borrowed */
    const char *trace;
    const char *prefix; /* of every key */
    bool shm, json;
    uint64_t block_bytes;
    uint64_t request_limit;
    uint32_t pin_ms;
    unsigned clients;
    double speed; /* of the trace's clock; 0: as fast as possible */
};

struct chain {
    double at_s;   /* since the trace's start */
    uint64_t *ids; /* owned */
    size_t id_count;
};

struct trace {
    struct chain *chains; /* owned */
    size_t count;
    size_t capacity;
    size_t cut; /* chains that were longer than CHAIN_MAX */
};

struct totals {
    struct measure_samples match, get, put; /* seconds of each call */
    double get_seconds, put_seconds;
    uint64_t requests, blocks, matched, got, stored, raced, gone, failed, wrong;
};

struct worker {
    const struct setup *setup; /* borrowed until joined, as the trace */
    const struct trace *trace;
    double start;
    unsigned index;
    pthread_t thread;
    struct kvasir_client *client; /* owned */
    struct kvasir_item *items;    /* owned: CHAIN_MAX */
    char (*keys)[KEY_BYTES];      /* owned: CHAIN_MAX */
    uint8_t *buffers;             /* one batch of blocks */
    size_t batch_count;
    struct totals totals;
};

/* ---- the trace ------------------------------------------------------------------------------- */

/* The text after a member's colon, NULL when the line has no such member. */
static const char *find_member(const char *line, const char *name)
{
    const char *found = strstr(line, name);
    found = found != NULL ? strchr(found + strlen(name), ':') : NULL;
    return found != NULL ? found + 1 : NULL;
}

static bool parse_line(const char *line, struct chain *chain, size_t *cut_p)
{
    const char *at = find_member(line, "\"timestamp\"");
    const char *ids = find_member(line, "\"hash_ids\"");
    const char *open = ids != NULL ? strchr(ids, '[') : NULL;
    if (open == NULL) {
        return false;
    }
    size_t count = 1;
    for (const char *text = open; *text != '\0' && *text != ']'; text++) {
        count += *text == ',' ? 1 : 0;
    }
    *cut_p += count > CHAIN_MAX ? 1 : 0;
    count = measure_clamp(count, 1, CHAIN_MAX);
    chain->at_s = at != NULL ? strtod(at, NULL) * 1e-3 : 0;
    chain->ids = malloc(count * sizeof(chain->ids[0]));
    if (chain->ids == NULL) {
        measure_die("no memory for a chain of %zu blocks", count);
    }
    const char *text = open + 1;
    for (chain->id_count = 0; chain->id_count < count; chain->id_count++) {
        char *end = NULL;
        uint64_t id = strtoull(text, &end, 10);
        if (end == text) {
            break;
        }
        chain->ids[chain->id_count] = id;
        text = end + strspn(end, ", ");
    }
    return true;
}

static void trace_read(struct trace *trace, const struct setup *setup)
{
    FILE *file = fopen(setup->trace, "r");
    if (file == NULL) {
        measure_die("cannot read %s: %s", setup->trace, strerror(errno));
    }
    char *line = NULL;
    size_t capacity = 0;
    while (trace->count < setup->request_limit && getline(&line, &capacity, file) >= 0) {
        if (line[strspn(line, " \t\r\n")] == '\0') {
            continue;
        }
        if (trace->count == trace->capacity) {
            trace->capacity = trace->capacity > 0 ? 2 * trace->capacity : 1024;
            trace->chains = realloc(trace->chains, trace->capacity * sizeof(trace->chains[0]));
            if (trace->chains == NULL) {
                measure_die("no memory for %zu requests", trace->capacity);
            }
        }
        if (!parse_line(line, &trace->chains[trace->count], &trace->cut)) {
            measure_die("%s: line %zu has no hash_ids", setup->trace, trace->count + 1);
        }
        trace->count++;
    }
    free(line);
    (void)fclose(file);
    if (trace->count == 0) {
        measure_die("%s holds no request", setup->trace);
    }
}

static void trace_free(struct trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        free(trace->chains[i].ids);
    }
    free(trace->chains);
}

/* ---- one request -------------------------------------------------------------------------------- */

static void report_failure(struct worker *worker, const char *call, enum kvasir_status status)
{
    if (worker->totals.failed++ < 5) {
        (void)fprintf(stderr, "trace: client %u: %s: %s (%s)\n", worker->index, call,
                      kvasir_status_name(status), kvasir_error(worker->client));
    }
}

static void prepare_items(struct worker *worker, const struct chain *chain)
{
    for (size_t i = 0; i < chain->id_count; i++) {
        struct kvasir_item *item = &worker->items[i];
        memset(item, 0, sizeof(*item));
        int length = snprintf(worker->keys[i], KEY_BYTES, "%.15s%llu", worker->setup->prefix,
                              (unsigned long long)chain->ids[i]);
        item->key = worker->keys[i];
        item->key_length_bytes = (size_t)length;
        item->segment.iov_base =
            worker->buffers + (i % worker->batch_count) * (size_t)worker->setup->block_bytes;
        item->segment.iov_len = (size_t)worker->setup->block_bytes;
    }
}

static size_t match_chain(struct worker *worker, const struct chain *chain)
{
    size_t matched = 0;
    double start = measure_now();
    enum kvasir_status status = kvasir_match(worker->client, worker->items, chain->id_count,
                                             worker->setup->pin_ms, &matched, CALL_TIMEOUT_MS);
    measure_add(&worker->totals.match, measure_now() - start);
    if (status != KVASIR_OK) {
        report_failure(worker, "match", status);
        return 0;
    }
    return matched;
}

static void check_block(struct worker *worker, const struct kvasir_item *item, uint64_t id)
{
    size_t block_bytes = (size_t)worker->setup->block_bytes;
    if (item->status == KVASIR_NOT_FOUND) {
        worker->totals.gone++; /* evicted since it was matched */
    } else if (item->status != KVASIR_OK) {
        report_failure(worker, "get of a block", item->status);
    } else if (item->length_bytes != block_bytes ||
               !measure_holds(item->segment.iov_base, block_bytes, id, 0)) {
        worker->totals.wrong++;
        (void)fprintf(stderr, "trace: block %llu came back with other contents\n",
                      (unsigned long long)id);
    } else {
        worker->totals.got++;
    }
}

static void get_blocks(struct worker *worker, const struct chain *chain, size_t from, size_t count)
{
    struct kvasir_item *items = worker->items + from;
    double start = measure_now();
    enum kvasir_status status = kvasir_get_batch(worker->client, items, count, CALL_TIMEOUT_MS);
    double took = measure_now() - start;
    measure_add(&worker->totals.get, took);
    worker->totals.get_seconds += took;
    if (status != KVASIR_OK) {
        report_failure(worker, "get", status);
    }
    for (size_t i = 0; i < count; i++) {
        check_block(worker, &items[i], chain->ids[from + i]);
    }
}

static void put_blocks(struct worker *worker, const struct chain *chain, size_t from, size_t count)
{
    struct kvasir_item *items = worker->items + from;
    struct kvasir_put_options options = {.only_if_absent = true, .chain = true};
    if (from > 0) {
        options.parent = items[-1].key;
        options.parent_length_bytes = items[-1].key_length_bytes;
    }
    for (size_t i = 0; i < count; i++) {
        measure_fill(items[i].segment.iov_base, items[i].segment.iov_len, chain->ids[from + i]);
    }
    double start = measure_now();
    enum kvasir_status status =
        kvasir_put_batch(worker->client, items, count, &options, CALL_TIMEOUT_MS);
    double took = measure_now() - start;
    measure_add(&worker->totals.put, took);
    worker->totals.put_seconds += took;
    if (status != KVASIR_OK) {
        report_failure(worker, "put", status);
    }
    for (size_t i = 0; i < count; i++) {
        if (items[i].status == KVASIR_OK) {
            worker->totals.stored++;
        } else if (items[i].status == KVASIR_EXISTS) {
            worker->totals.raced++; /* another client, or a hole in the chain */
        } else {
            report_failure(worker, "put of a block", items[i].status);
        }
    }
}

static void replay_request(struct worker *worker, const struct chain *chain)
{
    prepare_items(worker, chain);
    size_t matched = chain->id_count > 0 ? match_chain(worker, chain) : 0;
    for (size_t from = 0; from < chain->id_count;) {
        bool hit = from < matched;
        size_t left = (hit ? matched : chain->id_count) - from;
        size_t room = worker->batch_count - from % worker->batch_count;
        size_t count = left < room ? left : room;
        (hit ? get_blocks : put_blocks)(worker, chain, from, count);
        from += count;
    }
    worker->totals.requests++;
    worker->totals.blocks += chain->id_count;
    worker->totals.matched += matched;
}

/* ---- clients ---------------------------------------------------------------------------------------- */

static void wait_for(double moment)
{
    double left = moment - measure_now();
    if (left > 0) {
        struct timespec rest = {.tv_sec = (time_t)left,
                                .tv_nsec = (long)((left - floor(left)) * 1e9)};
        (void)nanosleep(&rest, NULL);
    }
}

static void show_progress(const struct worker *worker, size_t done, double *shown_p)
{
    double now = measure_now();
    if (now - *shown_p < PROGRESS_S) {
        return;
    }
    *shown_p = now;
    const struct totals *totals = &worker->totals;
    (void)fprintf(stderr, "trace: %zu of %zu requests in %.0f s, %.1f %% of blocks were hits\n",
                  done, worker->trace->count, now - worker->start,
                  100.0 * (double)totals->matched / (double)(totals->blocks + 1));
}

static void *worker_run(void *argument)
{
    struct worker *worker = argument;
    const struct setup *setup = worker->setup;
    double shown = worker->start;
    for (size_t i = worker->index; i < worker->trace->count; i += setup->clients) {
        if (setup->speed > 0) {
            wait_for(worker->start + worker->trace->chains[i].at_s / setup->speed);
        }
        replay_request(worker, &worker->trace->chains[i]);
        if (worker->index == 0) {
            show_progress(worker, i + 1, &shown);
        }
    }
    return NULL;
}

static void worker_init(struct worker *worker, const struct setup *setup, const struct trace *trace,
                        unsigned index)
{
    memset(worker, 0, sizeof(*worker));
    worker->setup = setup;
    worker->trace = trace;
    worker->index = index;
    worker->batch_count = measure_clamp(BATCH_BYTES_MAX / setup->block_bytes, 1, BATCH_ITEMS_MAX);
    worker->buffers = measure_arena(worker->batch_count * (size_t)setup->block_bytes);
    worker->items = calloc(CHAIN_MAX, sizeof(worker->items[0]));
    worker->keys = calloc(CHAIN_MAX, sizeof(worker->keys[0]));
    if (worker->items == NULL || worker->keys == NULL) {
        measure_die("no memory for a client");
    }
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = setup->address;
    options.user = setup->user;
    options.password = setup->password;
    options.name = "bench-trace";
    options.shm = setup->shm;
    char error[256] = "";
    if (kvasir_connect(&options, error, sizeof(error), &worker->client) != KVASIR_OK) {
        measure_die("cannot connect to %s: %s", setup->address, error);
    }
}

static void worker_fini(struct worker *worker)
{
    kvasir_close(&worker->client);
    free(worker->items);
    free(worker->keys);
    free(worker->totals.match.values);
    free(worker->totals.get.values);
    free(worker->totals.put.values);
}

/* ---- results -------------------------------------------------------------------------------------------- */

static void add_samples(struct measure_samples *to, const struct measure_samples *from)
{
    for (size_t i = 0; i < from->count; i++) {
        measure_add(to, from->values[i]);
    }
}

static void add_totals(struct totals *to, const struct totals *from)
{
    add_samples(&to->match, &from->match);
    add_samples(&to->get, &from->get);
    add_samples(&to->put, &from->put);
    to->get_seconds += from->get_seconds;
    to->put_seconds += from->put_seconds;
    to->requests += from->requests;
    to->blocks += from->blocks;
    to->matched += from->matched;
    to->got += from->got;
    to->stored += from->stored;
    to->raced += from->raced;
    to->gone += from->gone;
    to->failed += from->failed;
    to->wrong += from->wrong;
}

static double rate(const struct setup *setup, uint64_t blocks, double seconds)
{
    return seconds > 0 ? (double)(blocks * setup->block_bytes) / seconds * 1e-9 : 0;
}

/* One fact: a member of the JSON line, or a line of its own for people. */
static void print_fact(const struct setup *setup, const char *name, double value, int decimals)
{
    if (setup->json) {
        (void)printf(",\"%s\":%.*f", name, decimals, value);
    } else {
        (void)printf("  %-14s %.*f\n", name, decimals, value);
    }
}

static void print_call(const struct setup *setup, const char *call, struct measure_samples *times)
{
    double p50 = measure_quantile(times, 0.5) * 1e6;
    double p99 = measure_quantile(times, 0.99) * 1e6;
    if (setup->json) {
        (void)printf(",\"%s_calls\":%zu,\"%s_p50_us\":%.1f,\"%s_p99_us\":%.1f", call, times->count,
                     call, p50, call, p99);
    } else {
        (void)printf("  %-6s %8zu calls   p50 %9.1f us   p99 %9.1f us\n", call, times->count, p50,
                     p99);
    }
}

/* GB/s of a kind is payload over the time spent in its calls, summed over clients; the whole counts
 * the wall clock with coding and verifying in it. */
static void print_results(const struct setup *setup, struct totals *totals, const char *path,
                          double wall)
{
    double ratio = totals->blocks > 0 ? (double)totals->matched / (double)totals->blocks : 0;
    (void)printf(setup->json ? "{\"bench\":\"trace\",\"path\":\"%s\"" : "trace over %s\n", path);
    print_fact(setup, "requests", (double)totals->requests, 0);
    print_fact(setup, "clients", (double)setup->clients, 0);
    print_fact(setup, "block_bytes", (double)setup->block_bytes, 0);
    print_fact(setup, "blocks", (double)totals->blocks, 0);
    print_fact(setup, "hit_ratio", ratio, 4);
    print_fact(setup, "got", (double)totals->got, 0);
    print_fact(setup, "stored", (double)totals->stored, 0);
    print_fact(setup, "already_there", (double)totals->raced, 0);
    print_fact(setup, "gone", (double)totals->gone, 0);
    print_fact(setup, "errors", (double)totals->failed, 0);
    print_fact(setup, "wrong", (double)totals->wrong, 0);
    print_fact(setup, "seconds", wall, 3);
    print_fact(setup, "get_gbps", rate(setup, totals->got, totals->get_seconds / setup->clients),
               3);
    print_fact(setup, "put_gbps", rate(setup, totals->stored, totals->put_seconds / setup->clients),
               3);
    print_fact(setup, "whole_gbps", rate(setup, totals->got + totals->stored, wall), 3);
    print_call(setup, "match", &totals->match);
    print_call(setup, "get", &totals->get);
    print_call(setup, "put", &totals->put);
    (void)printf(setup->json ? "}\n" : "");
}

/* ---- main ---------------------------------------------------------------------------------------------------- */

static const char USAGE[] =
    "trace --address tcp://HOST:PORT|unix:///SOCKET [options] TRACE.jsonl\n"
    "  --block-bytes N    bytes of a block (256k)\n"
    "  --requests N       stop after so many (all)\n"
    "  --clients N        threads with a client each, taking requests in turn (1)\n"
    "  --speed X          keep the trace's time, X times as fast (as fast as possible)\n"
    "  --pin MS           what was matched may not be evicted so long (0)\n"
    "  --prefix TEXT      before every key, 15 bytes at most (trace:)\n"
    "  --user NAME --password TEXT\n"
    "  --no-shm           do not use shared memory\n"
    "  --json             one JSON line\n";

static void parse_value(struct setup *setup, const char *option, const char *value)
{
    if (strcmp(option, "--address") == 0) {
        setup->address = value;
    } else if (strcmp(option, "--block-bytes") == 0) {
        setup->block_bytes = measure_parse_number(option, value);
    } else if (strcmp(option, "--requests") == 0) {
        setup->request_limit = measure_parse_number(option, value);
    } else if (strcmp(option, "--clients") == 0) {
        setup->clients = (unsigned)measure_parse_number(option, value);
    } else if (strcmp(option, "--speed") == 0) {
        setup->speed = strtod(value, NULL);
    } else if (strcmp(option, "--pin") == 0) {
        setup->pin_ms = (uint32_t)measure_parse_number(option, value);
    } else if (strcmp(option, "--prefix") == 0) {
        setup->prefix = value;
    } else if (strcmp(option, "--user") == 0) {
        setup->user = value;
    } else if (strcmp(option, "--password") == 0) {
        setup->password = value;
    } else {
        measure_die("unknown option %s\n%s", option, USAGE);
    }
}

static void parse(struct setup *setup, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-shm") == 0) {
            setup->shm = false;
        } else if (strcmp(argv[i], "--json") == 0) {
            setup->json = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            (void)fputs(USAGE, stdout);
            exit(0);
        } else if (argv[i][0] != '-') {
            setup->trace = argv[i];
        } else if (i + 1 == argc) {
            measure_die("%s takes a value\n%s", argv[i], USAGE);
        } else {
            parse_value(setup, argv[i], argv[i + 1]);
            i++;
        }
    }
    if (setup->address == NULL || setup->trace == NULL) {
        measure_die("%s", USAGE);
    }
    if (setup->clients == 0 || setup->clients > CLIENTS_MAX || setup->block_bytes == 0 ||
        setup->block_bytes > 1024 * MEASURE_MIB || setup->request_limit == 0) {
        measure_die("--clients takes 1 to %d, --block-bytes 1 to 1g, --requests 1 and more",
                    CLIENTS_MAX);
    }
}

int main(int argc, char **argv)
{
    struct setup setup = {.prefix = "trace:",
                          .shm = true,
                          .block_bytes = 256 << 10,
                          .request_limit = UINT64_MAX,
                          .clients = 1};
    parse(&setup, argc, argv);
    struct trace trace = {0};
    trace_read(&trace, &setup);
    struct worker *workers = calloc(setup.clients, sizeof(workers[0]));
    if (workers == NULL) {
        measure_die("no memory for %u clients", setup.clients);
    }
    for (unsigned i = 0; i < setup.clients; i++) {
        worker_init(&workers[i], &setup, &trace, i);
    }
    double start = measure_now();
    for (unsigned i = 0; i < setup.clients; i++) {
        workers[i].start = start;
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0) {
            measure_die("cannot start client %u", i);
        }
    }
    struct totals totals = {0};
    const char *path = "none";
    for (unsigned i = 0; i < setup.clients; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        path = i == 0 ? kvasir_path_name(kvasir_path(workers[i].client)) : path;
        add_totals(&totals, &workers[i].totals);
    }
    double wall = measure_now() - start;
    for (unsigned i = 0; i < setup.clients; i++) {
        worker_fini(&workers[i]);
    }
    if (trace.cut > 0) {
        (void)fprintf(stderr, "trace: %zu chains were cut to %d blocks\n", trace.cut, CHAIN_MAX);
    }
    print_results(&setup, &totals, path, wall);
    free(workers);
    trace_free(&trace);
    return totals.failed + totals.wrong > 0 ? 1 : 0;
}
