/* The whole server with each fault point failing in its turn: allocations, pages, tables, descriptors.
 * A script of requests is run once with nothing failing, and its answers and what they left are kept.
 * Then, with the n-th point failing, the first answer that is another one is an error or the connection's
 * end (nothing is evicted for it here), what is stored is as it was before, and when all is over nothing has leaked. */

#include "../world/fault_memory.h"
#include "../world/world.h"
#include "base/crc64.h"
#include "base/fault.h"
#include "base/log.h"
#include "server/server.h"

#include <event2/event.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STEPS_MAX 128U
/* So long an answer may take. */
#define TICKS_MAX     500U
#define HEARD_BYTES   (1U << 20)
#define REQUEST_BYTES (1U << 20)

/* What the answer may be when nothing fails. */
enum answer {
    ANSWER_SAME = ' ',  /* the same in each run */
    ANSWER_LOOSE = '~', /* begins alike: numbers and times are in it */
    ANSWER_MANY = '+',  /* the same; it is of several commands, each of which fails by itself */
};

struct step {
    uint32_t client;
    enum answer answer;
    const char *words;
};

/* The client's number, what its answer may be, and the request: @N is N times x, and ^ a blank. */
static const char *const STRINGS[] = {
    "0 SET a 1",
    "0 SET b @300000",
    "1 GET b",
    "0 APPEND a @5000",
    "1 SETRANGE b 299000 @70000",
    "0+MSET a 1 b 2 c 3 d @70000 e 5",
    "1 MGET a b c d e f",
    "0 MSETNX f 6 g @9000",
    "1 MSETNX f 6 h 7",
    "0 INCR a",
    "0 INCRBYFLOAT a 0.5",
    "1 SET c @20000 GET",
    "0 COPY d h",
    "1 RENAME h i",
    "0 BITOP XOR j d i",
    "0 SETBIT k 70000 1",
    "1 BITFIELD k SET u8 8 200 INCRBY i16 32 7",
    "1 LCS a b",
    "0 DUMP a",
    "0 MOVE e 1",
    "0 EXPIRE f 1000",
    "1 GETEX f PERSIST",
    "0 GETDEL f",
    "1 DEL a b c",
    "0 EXISTS a d g i",
    "0~KEYS *",
    "1~SCAN 0 COUNT 100",
    "1 SWAPDB 0 1",
    "0 UNLINK d g i j k e",
    "0 FLUSHALL",
    NULL,
};

static const char *const BLOCKS[] = {
    "0 KV.SET m:0 @100000 NX TTL 600000",
    "1 KV.SET m:1 @100000 NX PARENT m:0 PIN SOFT 1000",
    "1 KV.SET m:1 @100000 NX PARENT m:0",
    "0 KV.MATCH PIN 5000 m:0 m:1 m:2",
    "1 KV.MATCH POLICY EACH m:0 m:1 m:2",
    "0 KV.GET m:1",
    "0~KV.LEASE 10000 m:0 m:1",
    "1~KV.RESERVE m:2 3000000 NX",
    "0 KV.PIN m:1 HARD 1000",
    "1 KV.UNPIN m:1",
    "0~KV.STAT m:0",
    "0~KV.HELLO",
    "1 CONFIG SET events-backlog 65536",
    "1~KV.EVENTS SUBSCRIBE",
    "0 SET m:3 1",
    "0 DEL m:0 m:3",
    "0~KV.EVENTS SINCE 0",
    "1 KV.EVENTS UNSUBSCRIBE",
    "0 CONFIG SET tenants t^prefix^t:;^u^prefix^u:",
    "0 SET t:1 1",
    "0 CONFIG SET maxmemory-policy allkeys-lfu",
    "0 CONFIG SET tenants ^",
    "0~INFO everything",
    "0 FLUSHALL",
    NULL,
};

static const char *const CHANNELS[] = {
    "0 HELLO 3",
    "0+SUBSCRIBE c1 c2",
    "0+PSUBSCRIBE c* k*",
    "1 SUBSCRIBE @300",
    "1 UNSUBSCRIBE",
    "1 PUBLISH c1 @30000",
    "1 PUBLISH none @30",
    "1 CONFIG SET notify-keyspace-events KEA",
    "0 PSUBSCRIBE __key*",
    "1 SET a 1",
    "1 DEL a",
    "1 PUBSUB CHANNELS",
    "1 PUBSUB NUMSUB c1 c2",
    "1 PUBSUB NUMPAT",
    "0 PUNSUBSCRIBE",
    "0 UNSUBSCRIBE",
    "0 CLIENT TRACKING ON",
    "1~MONITOR",
    "0~SET a @200",
    NULL,
};

static const char *const TRANSACTIONS[] = {
    "0 WATCH a b",    "0 MULTI",
    "0 SET a @40000", "0 SET b 2",
    "0 INCR b",       "0 MGET a b",
    "0+EXEC",         "1 WATCH a",
    "0 SET a 2",      "1 MULTI",
    "1 SET a 3",      "1 EXEC",
    "1 MULTI",        "1 SET c @5000",
    "1 DISCARD",      "0 MULTI",
    "0 NOSUCH",       "0+EXEC",
    "0 MULTI",        "0 ACL SETUSER x on nopass ~* &* +@all",
    "0 PUBLISH c 1",  "0 CONFIG SET slowlog-max-len 50",
    "0+EXEC",         NULL,
};

static const char *const ADMINISTRATION[] = {
    "0 CONFIG SET slowlog-log-slower-than 0 latency-monitor-threshold 1",
    "0 ACL SETUSER u on >secret ~u:* %R~r:* &c* +@all -@dangerous (+get ~x:*)",
    "0 ACL SETUSER u resetkeys ~v:* -set +config|get",
    "1 ACL DRYRUN u GET v:1",
    "1 AUTH u wrong",
    "1 AUTH u secret",
    "1 SET z 1",
    "0~ACL LOG",
    "0~ACL GETUSER u",
    "0 ACL CAT read",
    "0~ACL GENPASS",
    "0 ACL DELUSER u",
    "1 PING",
    "0 CLIENT SETNAME here",
    "0 CLIENT SETINFO LIB-NAME x",
    "0~CLIENT LIST",
    "0~CLIENT LIST ID 1 2 3",
    "0~CLIENT INFO",
    "0 CLIENT KILL ID 99",
    "0 CLIENT NO-EVICT ON",
    "0~SLOWLOG GET",
    "0 SLOWLOG RESET",
    "0~LATENCY HISTORY command",
    "0~LATENCY HISTOGRAM",
    "0~INFO commandstats",
    "0~MEMORY STATS",
    "0~MEMORY DOCTOR",
    "0 COMMAND COUNT",
    "0 COMMAND DOCS GET SET",
    "0 COMMAND GETKEYS MSET a 1 b 2",
    "0~CONFIG GET *",
    "0 CONFIG RESETSTAT",
    "0 OBJECT HELP",
    "0~DEBUG HELP",
    NULL,
};

/* What a client heard in one step. */
struct heard {
    uint8_t bytes[HEARD_BYTES];
    size_t length_bytes;
};

/* What a run without failures said and left after each step. */
struct record {
    struct slice heard[WORLD_CLIENTS]; /* owned */
    uint64_t digest;
};

struct run {
    struct world world;
    struct heard heard[WORLD_CLIENTS];
    uint8_t request[REQUEST_BYTES];
    struct record records[STEPS_MAX];
    bool differs;
    uint32_t after;
    uint64_t errors, ends; /* how runs came to differ */
    uint64_t wrong_count;
};

static void on_heard(void *argument, const struct world_client *client, const uint8_t *bytes,
                     size_t length_bytes)
{
    struct run *run = argument;
    struct heard *heard = &run->heard[client - run->world.clients];
    assert_true(heard->length_bytes + length_bytes <= HEARD_BYTES);
    memcpy(heard->bytes + heard->length_bytes, bytes, length_bytes);
    heard->length_bytes += length_bytes;
}

static void forget_heard(struct run *run)
{
    for (uint32_t i = 0; i < WORLD_CLIENTS; i++) {
        run->heard[i].length_bytes = 0;
    }
}

static size_t encode_count(uint8_t *out, char kind, size_t count)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%c%zu\r\n", kind, count);
    memcpy(out, text, (size_t)length);
    return (size_t)length;
}

/* The request in Redis's protocol. */
static size_t encode(uint8_t *out, const char *words)
{
    char text[512];
    size_t word_count = 1;
    (void)snprintf(text, sizeof(text), "%s", words);
    for (const char *c = text; *c != '\0'; c++) {
        word_count += *c == ' ';
    }
    size_t at = encode_count(out, '*', word_count);
    for (char *rest = text, *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        size_t length = word[0] == '@' ? strtoul(word + 1, NULL, 10) : strlen(word);
        assert_true(at + length + 64 < REQUEST_BYTES);
        at += encode_count(out + at, '$', length);
        for (size_t i = 0; i < length; i++) {
            uint8_t plain = word[0] == '@' ? 'x' : (uint8_t)word[i];
            out[at++] = plain == '^' ? ' ' : plain;
        }
        memcpy(out + at, "\r\n", 2);
        at += 2;
    }
    return at;
}

/* Where there is no buffer the server's timer tries again. */
static void ask(struct run *run, uint32_t index, const char *words)
{
    struct world_client *client = &run->world.clients[index];
    size_t length_bytes = encode(run->request, words);
    size_t sent_bytes = world_send(&run->world, client, run->request, length_bytes);
    world_run(&run->world);
    for (unsigned i = 0;
         i < TICKS_MAX && run->heard[index].length_bytes == 0 && world_has(&run->world, client);
         i++) {
        world_wait(&run->world);
        sent_bytes +=
            world_send(&run->world, client, run->request + sent_bytes, length_bytes - sent_bytes);
        world_run(&run->world);
    }
}

/* What the server holds, as the last client is told, without anything failing. */
static uint64_t digest(struct run *run)
{
    static const char *const questions[] = {
        "DBSIZE",          "MGET a b c d e f g h i j k t:1 m:0 m:1 m:2 m:3",
        "ACL LIST",        "PUBSUB CHANNELS",
        "PUBSUB NUMPAT",   "CONFIG GET slowlog-*",
        "CONFIG GET ten*", "CONFIG GET maxmemory-policy",
        "CONFIG GET ev*",  "CONFIG GET notify*",
    };
    struct heard *heard = &run->heard[WORLD_CLIENTS - 1];
    uint64_t sum = 0;
    run->world.is_spared = true;
    for (size_t i = 0; i < ARRAY_COUNT(questions); i++) {
        heard->length_bytes = 0;
        ask(run, WORLD_CLIENTS - 1, questions[i]);
        assert_true(heard->length_bytes > 0 && heard->bytes[0] != '-');
        sum = crc64_add(sum, slice_of(heard->bytes, heard->length_bytes));
    }
    run->world.is_spared = false;
    return sum;
}

/* ---- with one point failing ------------------------------------------------------------------ */

static bool is_same(const struct record *record, const struct heard *heard, uint32_t client,
                    enum answer answer)
{
    struct slice expected = record->heard[client];
    if (answer != ANSWER_LOOSE) {
        return slice_equal(expected, slice_of(heard->bytes, heard->length_bytes));
    }
    return (expected.length_bytes > 0) == (heard->length_bytes > 0) &&
           (heard->length_bytes == 0 || expected.data[0] == heard->bytes[0]);
}

static bool holds_error(const struct heard *heard)
{
    return heard->length_bytes > 0 &&
           (heard->bytes[0] == '-' || memmem(heard->bytes, heard->length_bytes, "\n-", 2) != NULL);
}

/* As much of an answer as is worth printing. */
static int shown_bytes(size_t length_bytes)
{
    return length_bytes < 200 ? (int)length_bytes : 200;
}

static void complain(struct run *run, const struct step *step, uint32_t client,
                     const struct record *record, const char *what)
{
    const struct heard *heard = &run->heard[client];
    struct slice expected = record->heard[client];
    run->wrong_count++;
    (void)printf(
        "%s, point %u (%s), at \"%s\": client %u heard %zu \"%.*s\" and not %zu \"%.*s\"\n", what,
        run->after, fault_failed(), step->words, client, heard->length_bytes,
        shown_bytes(heard->length_bytes), (const char *)heard->bytes, expected.length_bytes,
        shown_bytes(expected.length_bytes), (const char *)expected.data);
}

/* The first answer that is another one: it says so, and nothing was changed. */
static void compare(struct run *run, const struct step *step, size_t index)
{
    const struct record *record = &run->records[index + 1];
    bool has_ended = false;
    uint32_t client = 0;
    for (uint32_t i = 0; i < WORLD_CLIENTS - 1; i++) {
        if (is_same(record, &run->heard[i], i, step->answer)) {
            continue;
        }
        run->differs = true;
        client = i;
        if (!world_has(&run->world, &run->world.clients[i])) {
            has_ended = true;
        } else if (i == step->client && !holds_error(&run->heard[i])) {
            complain(run, step, i, record, "no error");
        }
    }
    if (!run->differs) {
        return;
    }
    run->ends += has_ended;
    run->errors += !has_ended;
    if (!has_ended && step->answer != ANSWER_MANY && digest(run) != run->records[index].digest) {
        complain(run, step, client, record, "half done");
    }
}

static void keep(struct run *run, size_t index)
{
    struct record *record = &run->records[index];
    for (uint32_t i = 0; i < WORLD_CLIENTS; i++) {
        size_t length_bytes = run->heard[i].length_bytes;
        uint8_t *copy = malloc(length_bytes + 1);
        assert_non_null(copy);
        memcpy(copy, run->heard[i].bytes, length_bytes);
        record->heard[i] = slice_of(copy, length_bytes);
    }
    record->digest = digest(run);
}

static void forget_records(struct run *run)
{
    for (size_t i = 0; i < STEPS_MAX; i++) {
        for (uint32_t client = 0; client < WORLD_CLIENTS; client++) {
            free((void *)(uintptr_t)run->records[i].heard[client].data);
        }
        run->records[i] = (struct record){0};
    }
}

/* A connection that was ended comes again: what it was in the middle of is gone. */
static void come_again(struct run *run)
{
    for (uint32_t i = 0; i < WORLD_CLIENTS; i++) {
        struct world_client *client = &run->world.clients[i];
        if (!world_has(&run->world, client) && !world_open_client(&run->world, client)) {
            assert_non_null(fault_failed());
            run->world.is_spared = true;
            assert_true(world_open_client(&run->world, client));
            run->world.is_spared = false;
        }
    }
}

/* after 0: nothing fails, and what is heard is kept. False: it did not come to a failure. */
static bool run_script(struct run *run, const char *const *script, uint32_t after)
{
    int64_t block_count = fault_memory_block_count();
    uint32_t descriptor_count = fault_memory_descriptor_count();
    run->differs = false;
    run->after = after;
    run->world = (struct world){.heard = on_heard, .argument = run};
    world_open(&run->world, "noeviction");
    fault_disarm_all();
    fault_hold(true);
    if (after > 0) {
        fault_arm_any(after, 1);
    } else {
        keep(run, 0);
    }
    for (size_t i = 0; script[i] != NULL; i++) {
        const struct step step = {.client = (uint32_t)(script[i][0] - '0'),
                                  .answer = (enum answer)script[i][1],
                                  .words = script[i] + 2};
        forget_heard(run);
        ask(run, step.client, step.words);
        if (after == 0) {
            assert_true(i + 1 < STEPS_MAX);
            keep(run, i + 1);
        } else if (!run->differs) {
            compare(run, &step, i);
        }
        come_again(run);
    }
    bool has_failed = fault_failed() != NULL;
    (void)digest(run); /* it serves as ever */
    world_close(&run->world);
    fault_disarm_all();
    if (after > 0) {
        assert_int_equal(fault_memory_block_count(), block_count);
    }
    assert_int_equal(fault_memory_descriptor_count(), descriptor_count);
    return has_failed;
}

static void run_with_each_point_failing(const char *const *script, const char *name)
{
    struct run *run = calloc(1, sizeof(*run));
    uint32_t after = 1;
    fault_disarm_all();
    assert_non_null(run);
    (void)run_script(run, script, 0);
    while (run_script(run, script, after)) {
        after++;
    }
    (void)printf("%s: %u points failed: %" PRIu64 " errors, %" PRIu64 " connections ended\n", name,
                 after - 1, run->errors, run->ends);
    forget_records(run);
    assert_int_equal(run->wrong_count, 0);
    free(run);
}

static void test_server_fault_strings(void **state)
{
    (void)state;
    run_with_each_point_failing(STRINGS, "strings");
}

static void test_server_fault_blocks(void **state)
{
    (void)state;
    run_with_each_point_failing(BLOCKS, "blocks");
}

static void test_server_fault_channels(void **state)
{
    (void)state;
    run_with_each_point_failing(CHANNELS, "channels");
}

static void test_server_fault_transactions(void **state)
{
    (void)state;
    run_with_each_point_failing(TRANSACTIONS, "transactions");
}

static void test_server_fault_administration(void **state)
{
    (void)state;
    run_with_each_point_failing(ADMINISTRATION, "administration");
}

/* Without memory or descriptors at its start the server says why, and leaves nothing. */
static void test_server_fault_start(void **state)
{
    (void)state;
    uint32_t descriptor_count = fault_memory_descriptor_count();
    bool has_failed = true;
    uint32_t refused_count = 0;
    fault_disarm_all();
    for (uint32_t after = 1; has_failed; after++) {
        int64_t block_count = fault_memory_block_count();
        struct server *server = NULL;
        fault_arm_any(after, 1);
        enum kvasir_status status = world_make_server("prefix", &server);
        has_failed = fault_failed() != NULL;
        fault_disarm_all();
        assert_int_equal(status == KVASIR_OK, server != NULL);
        refused_count += server == NULL;
        server_destroy(&server);
        assert_int_equal(fault_memory_block_count(), block_count);
        assert_int_equal(fault_memory_descriptor_count(), descriptor_count);
    }
    assert_true(refused_count > 20);
}

/* libevent's memory fails and counts as the server's own does. */
static int setup(void **state)
{
    (void)state;
    event_set_mem_functions(malloc, realloc, free);
    (void)signal(SIGTERM, SIG_IGN);
    log_set_level(LOG_ERROR);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server_fault_start),
        cmocka_unit_test(test_server_fault_strings),
        cmocka_unit_test(test_server_fault_blocks),
        cmocka_unit_test(test_server_fault_channels),
        cmocka_unit_test(test_server_fault_transactions),
        cmocka_unit_test(test_server_fault_administration),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
