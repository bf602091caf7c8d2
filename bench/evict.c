/* evict – hit ratio of the eviction policies over a public request trace, beside the optimum that
 * knows the future. The policies are the store's own; blocks are counted, not stored. A block is a
 * hit only if all before it in its request are. */

#include "measure.h"

#include "store/policy.h"
#include "store/reuse.h"

#include <limits.h>

#define BLOCKS_MAX 4096 /* of one request */
#define SHARDS_MAX 16
#define BLOCK_BITS 20 /* bytes of a block, as a power of two */

struct chain {
    uint32_t *ids; /* owned */
    size_t count;
};

struct trace {
    struct chain *chains; /* owned */
    size_t count, capacity;
    uint32_t id_max;
    uint64_t block_count;
};

struct block {
    struct value value; /* first: a victim is a block */
    bool present;
};

struct replay {
    const struct trace *trace; /* borrowed */
    const struct policy_ops *ops;
    struct policy *policies[SHARDS_MAX]; /* owned */
    uint32_t counts[SHARDS_MAX];
    unsigned shard_count;
    uint32_t room;        /* blocks of one shard */
    struct block *blocks; /* owned; by id */
};

static void trace_add(struct trace *trace, const uint32_t *ids, size_t count)
{
    if (trace->count == trace->capacity) {
        trace->capacity = trace->capacity == 0 ? 1024 : trace->capacity * 2;
        trace->chains = realloc(trace->chains, trace->capacity * sizeof(trace->chains[0]));
        if (trace->chains == NULL) {
            measure_die("no memory for the trace");
        }
    }
    struct chain *chain = &trace->chains[trace->count++];
    chain->count = count;
    chain->ids = malloc((count + 1) * sizeof(ids[0]));
    if (chain->ids == NULL) {
        measure_die("no memory for the trace");
    }
    memcpy(chain->ids, ids, count * sizeof(ids[0]));
    trace->block_count += count;
}

static void trace_parse(struct trace *trace, const char *line)
{
    static uint32_t ids[BLOCKS_MAX];
    const char *at = strstr(line, "\"hash_ids\":");
    at = at == NULL ? NULL : strchr(at, '[');
    if (at == NULL) {
        measure_die("a line of the trace has no hash_ids");
    }
    size_t count = 0;
    at++;
    while (count < BLOCKS_MAX) {
        char *end;
        unsigned long id = strtoul(at, &end, 10);
        if (end == at) {
            break;
        }
        if (id > (1UL << 24)) {
            measure_die("id %lu: at most 16777216 blocks are known", id);
        }
        ids[count++] = (uint32_t)id;
        trace->id_max = id > trace->id_max ? (uint32_t)id : trace->id_max;
        at = *end == ',' ? end + 1 : end;
    }
    trace_add(trace, ids, count);
}

static void trace_read(struct trace *trace, const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        measure_die("cannot open %s", path);
    }
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        trace_parse(trace, line);
    }
    free(line);
    (void)fclose(file);
    if (trace->block_count == 0) {
        measure_die("%s holds no blocks", path);
    }
}

static uint64_t block_hash(uint64_t id)
{
    uint64_t x = (id + 1) * 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    return x ^ (x >> 27) ^ (x << 31);
}

static void replay_put(struct replay *replay, struct block *block, uint64_t parent_hash)
{
    unsigned shard = (unsigned)(block->value.hash >> 40) % replay->shard_count;
    struct policy *policy = replay->policies[shard];
    if (block->present) {
        replay->ops->touch(policy, &block->value);
        return;
    }
    if (replay->counts[shard] == replay->room) {
        struct value *victim = replay->ops->victim(policy);
        if (victim == NULL) {
            measure_die("%s names no victim", replay->ops->name);
        }
        replay->ops->remove(policy, victim);
        ((struct block *)(void *)victim)->present = false;
        victim->policy_bits = 0; /* whatever comes next under this key is another value */
        replay->counts[shard]--;
    }
    block->value.parent_hash = parent_hash;
    block->value.flags = parent_hash != 0 ? VALUE_FLAG_PARENT : 0;
    replay->ops->insert(policy, &block->value);
    block->present = true;
    replay->counts[shard]++;
}

/* What was found is read before the rest is put, as an engine does. */
static uint64_t replay_chain(struct replay *replay, const struct chain *chain)
{
    size_t matched = 0;
    while (matched < chain->count && replay->blocks[chain->ids[matched]].present) {
        matched++;
    }
    uint64_t parent_hash = 0;
    for (size_t i = 0; i < chain->count; i++) {
        struct block *block = &replay->blocks[chain->ids[i]];
        replay_put(replay, block, parent_hash);
        parent_hash = block->value.hash;
    }
    return matched;
}

static double replay_run(const struct trace *trace, const struct policy_ops *ops, uint32_t capacity,
                         unsigned shard_count)
{
    struct replay replay = {
        .trace = trace, .ops = ops, .shard_count = shard_count, .room = capacity / shard_count};
    replay.blocks = calloc((size_t)trace->id_max + 1, sizeof(replay.blocks[0]));
    if (replay.blocks == NULL) {
        measure_die("no memory for %u blocks", trace->id_max);
    }
    for (uint32_t i = 0; i <= trace->id_max; i++) {
        replay.blocks[i].value.hash = block_hash(i);
        replay.blocks[i].value.length_bytes = 1 << BLOCK_BITS;
    }
    struct reuse *reuse = reuse_create(shard_count, (uint64_t)capacity << BLOCK_BITS);
    for (unsigned i = 0; i < shard_count; i++) {
        replay.policies[i] = reuse == NULL ? NULL : ops->create(reuse, i);
        if (replay.policies[i] == NULL) {
            measure_die("no memory for the policy");
        }
    }
    uint64_t hits = 0;
    for (size_t i = 0; i < trace->count; i++) {
        hits += replay_chain(&replay, &trace->chains[i]);
    }
    for (unsigned i = 0; i < shard_count; i++) {
        ops->destroy(&replay.policies[i]);
    }
    reuse_destroy(&reuse);
    free(replay.blocks);
    return (double)hits / (double)trace->block_count;
}

/* ---- the optimum: of what is needed again, that which is needed last goes; tails before heads ---- */

struct future {
    uint64_t *next;  /* by id: (request that needs it next) * BLOCKS_MAX + place; 0: not kept */
    uint32_t *heap;  /* ids, the latest need at the top */
    uint32_t *place; /* of an id in the heap */
    uint32_t count;
};

static void future_set(struct future *future, uint32_t at, uint32_t id)
{
    future->heap[at] = id;
    future->place[id] = at;
}

static void future_sift(struct future *future, uint32_t at)
{
    uint32_t id = future->heap[at];
    while (at > 0 && future->next[future->heap[(at - 1) / 2]] < future->next[id]) {
        future_set(future, at, future->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (uint32_t child; (child = 2 * at + 1) < future->count; at = child) {
        if (child + 1 < future->count &&
            future->next[future->heap[child + 1]] > future->next[future->heap[child]]) {
            child++;
        }
        if (future->next[future->heap[child]] <= future->next[id]) {
            break;
        }
        future_set(future, at, future->heap[child]);
    }
    future_set(future, at, id);
}

static void future_drop(struct future *future, uint32_t id)
{
    uint32_t at = future->place[id];
    future->next[id] = 0;
    uint32_t last = future->heap[--future->count];
    if (last != id) {
        future_set(future, at, last);
        future_sift(future, at);
    }
}

static void future_keep(struct future *future, uint32_t id, uint64_t next)
{
    future->next[id] = next;
    future_set(future, future->count, id);
    future_sift(future, future->count++);
}

static double optimum_run(const struct trace *trace, uint32_t capacity, uint64_t *const *needs)
{
    size_t id_count = (size_t)trace->id_max + 1;
    struct future future = {.next = calloc(id_count, sizeof(uint64_t)),
                            .heap = calloc(id_count, sizeof(uint32_t)),
                            .place = calloc(id_count, sizeof(uint32_t))};
    if (future.next == NULL || future.heap == NULL || future.place == NULL) {
        measure_die("no memory for the optimum");
    }
    uint64_t hits = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const struct chain *chain = &trace->chains[i];
        size_t matched = 0;
        while (matched < chain->count && future.next[chain->ids[matched]] != 0) {
            matched++;
        }
        hits += matched;
        for (size_t j = 0; j < chain->count; j++) {
            uint32_t id = chain->ids[j];
            if (future.next[id] != 0) {
                future_drop(&future, id);
            }
            if (needs[i][j] != 0) {
                future_keep(&future, id, needs[i][j]);
            }
        }
        while (future.count > capacity) {
            future_drop(&future, future.heap[0]);
        }
    }
    free(future.next);
    free(future.heap);
    free(future.place);
    return (double)hits / (double)trace->block_count;
}

static uint64_t **needs_make(const struct trace *trace)
{
    uint64_t **needs = calloc(trace->count, sizeof(needs[0]));
    uint64_t *next = calloc((size_t)trace->id_max + 1, sizeof(next[0]));
    for (size_t i = trace->count; needs != NULL && next != NULL && i-- > 0;) {
        const struct chain *chain = &trace->chains[i];
        needs[i] = calloc(chain->count + 1, sizeof(needs[i][0]));
        if (needs[i] == NULL) {
            measure_die("no memory for the optimum");
        }
        for (size_t j = 0; j < chain->count; j++) {
            needs[i][j] = next[chain->ids[j]];
            next[chain->ids[j]] = (uint64_t)i * BLOCKS_MAX + j;
        }
    }
    free(next);
    return needs;
}

/* ---- the table ---- */

static void print_policy(const struct trace *trace, const struct policy_ops *ops,
                         const uint32_t *capacities, const double *best, unsigned shard_count)
{
    (void)printf("%-14s %6u", ops->name, shard_count);
    for (unsigned i = 0; capacities[i] != 0; i++) {
        double ratio = replay_run(trace, ops, capacities[i], shard_count);
        (void)printf("  %.4f %3.0f%%", ratio, best[i] > 0 ? 100 * ratio / best[i] : 0);
    }
    (void)printf("\n");
}

int main(int argc, char **argv)
{
    static const uint32_t capacities[] = {1000, 3000, 10000, 30000, 50000, 0};
    double best[5] = {0};
    if (argc != 2 || argv[1][0] == '-') {
        measure_die("evict TRACE.jsonl\n  hit ratio of each policy, and its share of the optimum");
    }
    struct trace trace = {0};
    trace_read(&trace, argv[1]);
    uint64_t **needs = needs_make(&trace);
    if (needs == NULL) {
        measure_die("no memory for the optimum");
    }
    (void)printf("%zu requests, %llu blocks\n%-14s %6s", trace.count,
                 (unsigned long long)trace.block_count, "policy", "shards");
    for (unsigned i = 0; capacities[i] != 0; i++) {
        best[i] = optimum_run(&trace, capacities[i], needs);
        (void)printf("  %11u", capacities[i]);
    }
    (void)printf("\n%-14s %6s", "optimum", "");
    for (unsigned i = 0; capacities[i] != 0; i++) {
        (void)printf("  %.4f 100%%", best[i]);
    }
    (void)printf("\n");
    for (unsigned i = 0; policy_at(i) != NULL; i++) {
        if (!policy_at(i)->by_expiry) { /* nothing here expires */
            print_policy(&trace, policy_at(i), capacities, best, 1);
            print_policy(&trace, policy_at(i), capacities, best, SHARDS_MAX);
        }
    }
    for (size_t i = 0; i < trace.count; i++) {
        free(needs[i]);
        free(trace.chains[i].ids);
    }
    free((void *)needs);
    free(trace.chains);
    return 0;
}
